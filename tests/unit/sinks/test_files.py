"""The files sink alone: what a commit writes, what going back withdraws, and which files nobody will ever need."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from sinkcontexts import OWN, a_sink_context, by_epoch
from sinkcontexts import at as own_at
from sinkdrivers import MemoryFiles
from snapshots import Clock
from statefulspark import errors
from statefulspark.contract.rights import SinkRight
from statefulspark.sinks.base import SinkContext
from statefulspark.sinks.files import commits as files_commits
from statefulspark.sinks.files import orphans as files_orphans
from statefulspark.sinks.standing import Expected, SinkLineage
from statefulspark.storage.port import ObjectInfo, ObjectStore
from statefulspark.testing import stores

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
CONTEXT = a_sink_context(job="default/flights", generation=2, batch_id=5, epoch=3)
UNIQUE = "456789abcdef0123456789ab"


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON)


@pytest.fixture
def folder(clock: Clock) -> stores.MemoryStore:
    """Return a folder that the driver of epoch 1 has claimed."""
    folder = stores.MemoryStore("memory://bucket/out", clock)
    files_commits.claim_folder(folder, at(-1, generation=1, epoch=1))
    return folder


def at(batch: int, *, generation: int = 2, epoch: int = 3) -> SinkContext:
    context = replace(CONTEXT, batch_id=batch, generation=generation, epoch=epoch)
    return by_epoch(context, epoch)


def sink_in(folder: ObjectStore) -> MemoryFiles:
    return MemoryFiles("memory://bucket/out", folder=folder)


def stage(folder: ObjectStore, context: SinkContext, *counts: int) -> bytes:
    """Write parts with so many rows each, and prepare them."""
    sink = sink_in(folder)
    found = (
        sink.write_part(iter([pa.RecordBatch.from_pydict({"n": list(range(count))})]), context) for count in counts
    )
    transaction = sink.prepare(tuple(part for part in found if part is not None), context)
    assert transaction is not None
    return transaction


def commit(folder: ObjectStore, context: SinkContext, *counts: int) -> None:
    sink_in(folder).commit(stage(folder, context, *counts), context)


def stored_commit(batch: int, *parts: files_commits.PartFile, generation: int) -> files_commits.BatchCommit:
    return files_commits.BatchCommit(
        batch_id=batch,
        epoch=3,
        committed_at=NOON,
        files=parts,
        generation=generation,
        sink=CONTEXT.transactional_id,
        lineage=OWN,
    )


def committed(folder: ObjectStore) -> list[tuple[int, int, int]]:
    """Return batch, generation and epoch of every commit file."""
    return [(one.batch_id, one.generation, one.epoch) for one in files_commits.read_commits(folder)]


def rows_shown(folder: ObjectStore) -> dict[int, int]:
    """Return how many rows of each batch a reader finds."""
    return {one.batch_id: sum(file.rows for file in one.files) for one in files_commits.read_commits(folder)}


def test_rows_are_invisible_until_the_commit_which_is_two_requests_and_a_look_at_each_file(
    folder: stores.MemoryStore,
) -> None:
    transaction = stage(folder, at(5), 3, 0, 2)
    before = committed(folder)
    faulty = stores.FaultyStore(folder)

    sink_in(faulty).commit(transaction, at(5))

    (found,) = files_commits.read_commits(folder)
    assert before == []
    assert [operation.name for operation in faulty.operations] == ["read", "info", "info", "create"]
    assert sorted(file.rows for file in found.files) == [2, 3], "a partition without rows has no file"
    tables = [parquet.read_table(io.BytesIO(folder.read(file.path))) for file in found.files]
    assert sorted(table.num_rows for table in tables) == [2, 3]
    assert found.sink == "statefulspark/default/flights/delays/out"


@pytest.mark.parametrize("by", [3, 4], ids=["the driver that wrote them", "its successor"])
def test_files_that_the_folder_has_lost_are_named_and_never_listed(folder: stores.MemoryStore, by: int) -> None:
    transaction = stage(folder, at(5), 3, 2)
    lost = files_commits.PreparedFiles.parse(transaction, "").files[1].path
    folder.delete_many([lost])

    with pytest.raises(errors.StateUnknownError, match=f"{lost} does not exist") as refused:
        sink_in(folder).commit(transaction, by_epoch(at(5), by))

    assert refused.value.reason == "StagedRowsMissing"
    assert "snapshot that is as old as the folder; or start with --restore-lose-output-of" in refused.value.message
    assert committed(folder) == []


def test_somebody_who_takes_the_sink_over_goes_on_without_the_files_that_are_lost(
    folder: stores.MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    transaction = stage(folder, at(5), 3, 2)
    kept, lost = files_commits.PreparedFiles.parse(transaction, "").files
    folder.delete_many([lost.path])
    context = by_epoch(at(5), 4)

    sink_in(folder).commit(transaction, replace(context, descent=replace(context.descent, rights=frozenset(SinkRight))))
    sink_in(folder).commit(transaction, context)  # A restart, without the word.

    assert [one.files for one in files_commits.read_commits(folder)] == [(kept,)]
    assert "rows that the folder of a sink has lost are left out" in caplog.text


def test_a_batch_without_rows_is_committed_too(folder: stores.MemoryStore) -> None:
    commit(folder, at(5))

    assert [(one.batch_id, one.files) for one in files_commits.read_commits(folder)] == [(5, ())]


def test_committing_again_changes_nothing_whoever_does_it(folder: stores.MemoryStore) -> None:
    transaction = stage(folder, at(5), 1)
    sink_in(folder).commit(transaction, at(5))
    before = folder.read(files_commits.commit_key(5))

    sink_in(folder).commit(transaction, at(5))
    sink_in(folder).commit(transaction, by_epoch(at(5), 4))

    assert folder.read(files_commits.commit_key(5)) == before


def test_a_newer_generation_replaces_a_batch_and_an_older_one_never_does(folder: stores.MemoryStore) -> None:
    """A driver that was replaced cannot take back what its successor has made of the batch."""
    late = stage(folder, at(5, generation=1, epoch=2), 1)
    commit(folder, at(5, generation=1, epoch=1), 1)
    commit(folder, at(5, generation=2), 1)

    with pytest.raises(errors.FencedError, match="generation 1 must not commit it any more"):
        sink_in(folder).commit(late, at(5, generation=1, epoch=2))

    assert committed(folder) == [(5, 2, 3)]


def test_a_restored_batch_takes_the_place_of_what_was_made_of_its_number_in_a_future_that_was_left(
    folder: stores.MemoryStore,
) -> None:
    """The job went back, committed the number anew, and then came forward to a cut that has the first one prepared."""
    first = stage(folder, at(5, generation=1), 3)
    commit(folder, at(5), 1)
    third = replace(at(5, generation=3, epoch=5), descent=SinkLineage(OWN, 3))
    sink_in(folder).open(third)

    sink_in(folder).commit(first, replace(third, generation=1))

    assert [(one.batch_id, one.generation, one.files[0].rows) for one in files_commits.read_commits(folder)] == [
        (5, 1, 3)
    ]


@pytest.mark.parametrize(
    ("cut", "generation", "left"),
    [
        pytest.param(5, 1, [0, 1, 2, 3, 4, 5], id="at the end"),
        pytest.param(9, 1, [0, 1, 2, 3, 4, 5], id="after batches that are not committed yet"),
        pytest.param(2, 2, [0, 1, 2], id="back to an older cut, in a new generation"),
        pytest.param(-1, 2, [], id="back to the beginning"),
        pytest.param(2, 1, [0, 1, 2], id="in the generation that committed them: state was put back"),
    ],
)
def test_opening_withdraws_the_future_that_did_not_happen(
    folder: stores.MemoryStore, cut: int, generation: int, left: list[int]
) -> None:
    for batch in range(6):
        commit(folder, at(batch, generation=1), 1)

    sink_in(folder).open(at(cut, generation=generation))

    assert [batch for batch, _, _ in committed(folder)] == left


def test_opening_costs_the_same_however_much_was_committed(folder: stores.MemoryStore) -> None:
    for batch in range(30):
        commit(folder, at(batch, generation=1), 1)
    faulty = stores.FaultyStore(folder)

    sink_in(faulty).open(at(29))

    newest = ["info", "info", "read", "read"]  # The number after it, itself, and twice its content.
    whose, fence, orphans = ["info", "read", *newest, "replace"], ["info", "create"], ["list"]
    assert [operation.name for operation in faulty.operations] == [*whose, *fence, *orphans]

    again = stores.FaultyStore(folder)
    sink_in(again).open(at(29))

    newest = ["info", "info", "info", "read", "read", "read"]  # And the fence.
    whose, fence = ["info", "read", *newest, "replace"], ["info", "info", "info", "read"]
    assert [operation.name for operation in again.operations] == [*whose, *fence, *orphans]


def test_a_folder_belongs_to_one_sink(folder: stores.MemoryStore) -> None:
    other = replace(at(5), uid="other")
    commit(folder, at(6), 1)

    with pytest.raises(
        errors.SpecRejectedError, match="belongs to statefulspark/default/flights/delays/out"
    ) as opening:
        sink_in(folder).open(other)
    with pytest.raises(errors.SpecRejectedError, match="give it its own folder") as committing:
        commit(folder, replace(other, batch_id=6), 1)
    assert opening.value.reason == committing.value.reason == "SinkFolderTaken"


def test_aborting_deletes_the_files_and_again_is_fine(folder: stores.MemoryStore) -> None:
    transaction = stage(folder, at(5), 2, 1)

    sink_in(folder).abort(transaction, at(5))
    sink_in(folder).abort(transaction, at(5))

    assert [info.key for info in folder.list("")] == [files_commits.SINK]


def test_what_was_committed_after_all_is_not_deleted(folder: stores.MemoryStore) -> None:
    transaction = stage(folder, at(5), 2)
    sink_in(folder).commit(transaction, at(5))
    before = folder.list("")

    sink_in(folder).abort(transaction, at(5))

    assert folder.list("") == before


def a_file(batch: int, generation: int = 2, *, age: timedelta = HOUR, root: str = OWN) -> ObjectInfo:
    name = f"{batch:08d}-{generation:08d}-00000003-{files_orphans.root_in_name(root)}{UNIQUE}.parquet"
    return ObjectInfo(f"data/00000000/{name}", 10, "etag", NOON - age)


@pytest.mark.parametrize(
    ("file", "is_orphan"),
    [
        pytest.param(a_file(5), True, id="its batch was committed without it"),
        pytest.param(a_file(5, age=HOUR - timedelta(seconds=1)), False, id="it is young"),
        pytest.param(a_file(6), False, id="its batch is not committed: it may be prepared"),
        pytest.param(a_file(5, 1), False, id="of an older generation: a savepoint of it may name the file"),
        pytest.param(a_file(5, root="other"), False, id="of the same generation of another root, which may name it"),
        pytest.param(a_file(5, 3), False, id="of a newer generation, which will replace the commit"),
        pytest.param(replace(a_file(5), key="data/00000000/notes.txt"), False, id="not ours"),
        pytest.param(a_file(4), False, id="its commit lists it"),
    ],
)
def test_an_orphan_is_a_file_whose_batch_was_committed_without_it(file: ObjectInfo, is_orphan: bool) -> None:
    part = files_commits.PartFile(path=a_file(4).key, rows=1, size_bytes=10)
    commits = {batch: stored_commit(batch, part, generation=2) for batch in (4, 5)}

    assert files_orphans.orphans([file], commits, now=NOON) == ((file.key,) if is_orphan else ())


def test_opening_removes_the_orphans_of_the_latest_batches(folder: stores.MemoryStore, clock: Clock) -> None:
    commit(folder, at(5), 1)
    kept = {info.key for info in folder.list("")}
    stage(folder, at(5, epoch=2), 2)  # An attempt that nobody recorded.
    waiting = stage(folder, at(6), 1)
    prepared = {file.path for file in files_commits.PreparedFiles.parse(waiting, "a test").files}
    clock.now = datetime.now(UTC) + 2 * HOUR  # The sink asks the real clock; objects written from now on are young.
    for info in folder.list(files_orphans.DATA):
        assert info.modified_at == NOON

    sink_in(folder).open(at(6))

    assert {info.key for info in folder.list("")} == kept | prepared | {files_commits.SINK, files_commits.commit_key(7)}


def test_files_of_a_batch_that_may_be_committed_again_are_no_orphans(folder: stores.MemoryStore, clock: Clock) -> None:
    """Another copy of the state has committed the batch, and this one has its own rows under that number."""
    commit(folder, at(5, epoch=2), 1)
    stage(folder, at(5, epoch=1), 2)
    before = {info.key for info in folder.list(files_orphans.DATA)}
    clock.now = datetime.now(UTC) + 2 * HOUR

    sink_in(folder).open(replace(at(6), expected=Expected(written=((5, 1),))))

    assert {info.key for info in folder.list(files_orphans.DATA)} == before


def a_rollback(folder: stores.MemoryStore, *, committed_through: int = 7) -> None:
    """Commit batches in generation 1, then open the folder in generation 2 after batch 4."""
    for batch in range(committed_through + 1):
        commit(folder, at(batch, generation=1), 1)
    sink_in(folder).open(at(4, epoch=4))


@pytest.mark.parametrize("batch", [5, 7, 8], ids=["a withdrawn batch", "the last withdrawn batch", "the next batch"])
def test_a_commit_that_arrives_after_a_rollback_stays_invisible(folder: stores.MemoryStore, batch: int) -> None:
    late = stage(folder, at(batch, generation=1), 3)
    a_rollback(folder)
    request = stored_commit(batch, generation=1)

    with pytest.raises(errors.ObjectExistsError):
        folder.create(files_commits.commit_key(batch), request.to_json().encode())
    for driver in (3, 4):  # The one that was replaced, and one that has its batch and is not.
        with pytest.raises(errors.FencedError):
            sink_in(folder).commit(late, by_epoch(at(batch, generation=1), driver))

    assert [number for number, _, _ in committed(folder)] == [0, 1, 2, 3, 4]


def test_a_restored_batch_of_an_older_generation_takes_the_place_of_what_was_withdrawn(
    folder: stores.MemoryStore,
) -> None:
    """The job went back, and then forward again to a savepoint that had this batch prepared."""
    left = stage(folder, at(6, generation=1), 3)
    a_rollback(folder)
    third = replace(at(6, generation=3, epoch=5), descent=SinkLineage(OWN, 3))
    sink_in(folder).open(third)

    sink_in(folder).commit(left, replace(third, generation=1))

    assert (6, 1) in [(number, generation) for number, generation, _ in committed(folder)]


class Interrupted(stores.MemoryStore):
    """The same folder, in which something else happens right before the first commit file is written."""

    def __init__(self, folder: stores.MemoryStore, meanwhile: Callable[[], None]) -> None:
        super().__init__(folder.uri, folder._clock)
        self._objects = folder._objects
        self.meanwhile = meanwhile

    def create(self, key: str, body: bytes) -> None:
        if key.startswith(files_commits.COMMITS):
            meanwhile, self.meanwhile = self.meanwhile, lambda: None
            meanwhile()
        super().create(key, body)


TWIN = "claim at the other site"


@pytest.mark.parametrize("is_committed", [False, True], ids=["it has opened the folder", "it has committed the batch"])
@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(at(4), claim=TWIN), id="another copy of the state, with the same epoch"),
        pytest.param(replace(at(4, epoch=4), claim=TWIN), id="another copy, with a newer epoch"),
        pytest.param(
            replace(at(4), lineage="other", descent=SinkLineage("other", 2, rights=frozenset(SinkRight))),
            id="the job of another root",
        ),
    ],
)
def test_a_commit_that_meets_another_opener_at_the_last_moment_stays_invisible(
    folder: stores.MemoryStore, other: SinkContext, is_committed: bool
) -> None:
    sink_in(folder).open(at(4))
    transaction = stage(folder, at(5), 3)
    theirs = stage(folder, replace(other, batch_id=5), 2)

    def meanwhile() -> None:
        sink_in(folder).open(replace(other, descent=replace(other.descent, rights=frozenset(SinkRight))))
        if is_committed:
            sink_in(folder).commit(theirs, replace(other, batch_id=5))

    with pytest.raises(errors.FencedError, match=r"writes to .* now|has taken .* over"):
        sink_in(Interrupted(folder, meanwhile)).commit(transaction, at(5))
    sink_in(folder).commit(theirs, replace(other, batch_id=5))

    assert rows_shown(folder) == {5: 2}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(at(4), claim=TWIN), id="another copy of the state"),
        pytest.param(replace(at(4, generation=7, epoch=9), claim=TWIN), id="another copy that went further"),
        pytest.param(replace(at(4), lineage="other", descent=SinkLineage("other", 2)), id="the job of another root"),
    ],
)
def test_a_folder_that_is_taken_back_has_the_batches_of_who_took_it_last(
    folder: stores.MemoryStore, other: SinkContext
) -> None:
    """Each says the word, and commits batches that the other one has committed too."""
    commit(folder, at(5), 3)
    word = replace(other, descent=replace(other.descent, rights=frozenset(SinkRight)))
    sink_in(folder).open(word)
    for batch in range(5, 9):
        commit(folder, replace(word, batch_id=batch), 1)
    epoch = word.epoch + 1
    back = by_epoch(replace(at(6), descent=replace(CONTEXT.descent, generation=2, rights=frozenset(SinkRight))), epoch)

    with pytest.raises((errors.SpecRejectedError, errors.FencedError), match=r"SinkOpenedElsewhere|SinkTaken|Epoch 9"):
        sink_in(folder).open(replace(back, descent=replace(back.descent, rights=frozenset())))
    sink_in(folder).open(back)
    commit(folder, replace(back, batch_id=7, epoch=epoch), 3)

    assert rows_shown(folder) == {5: 1, 6: 1, 7: 3}


def test_a_prepared_batch_takes_the_place_of_one_of_the_root_from_which_the_folder_is_taken_back(
    folder: stores.MemoryStore,
) -> None:
    left = stage(folder, at(6), 3)
    theirs = replace(at(4, epoch=9), lineage="other", descent=SinkLineage("other", 2, rights=frozenset(SinkRight)))
    sink_in(folder).open(theirs)
    for batch in range(5, 8):
        commit(folder, replace(theirs, batch_id=batch), 1)
    back = by_epoch(replace(at(6), descent=replace(CONTEXT.descent, generation=2, rights=frozenset(SinkRight))), 4)

    sink_in(folder).open(back)
    sink_in(folder).commit(left, back)

    assert rows_shown(folder) == {5: 1, 6: 3}


def test_a_loss_that_somebody_accepts_leaves_no_gap_in_the_numbers(folder: stores.MemoryStore) -> None:
    """A reader ends before a gap, since at a replica it is a commit file that is not there yet."""
    for batch in range(3):
        commit(folder, at(batch), 1)
    lost = Expected(own_at(2, 5), own_at(2, 4))
    context = replace(by_epoch(at(6), 4), expected=lost, descent=replace(CONTEXT.descent, rights=frozenset(SinkRight)))

    sink_in(folder).open(context)

    numbers = sorted(info.key for info in folder.list(files_commits.COMMITS))
    assert numbers == [files_commits.commit_key(batch) for batch in range(8)]
    assert [number for number, _, _ in committed(folder)] == [0, 1, 2]


def test_a_loss_that_was_accepted_by_a_start_that_died_leaves_no_gap_either(folder: stores.MemoryStore) -> None:
    """The start owned the folder, and wrote no commit file yet. The next one has no right any more."""
    for batch in range(3):
        commit(folder, at(batch), 1)
    lost = Expected(own_at(2, 5), own_at(2, 4))
    context = replace(by_epoch(at(6), 4), expected=lost, descent=replace(CONTEXT.descent, rights=frozenset(SinkRight)))
    files_commits.claim_folder(folder, context)
    following = replace(by_epoch(at(6), 5), expected=replace(lost, committed=lost.kept_after))

    sink_in(folder).open(following)

    assert files_commits.listed(folder) == tuple(range(8))


def test_what_was_withdrawn_is_committed_anew_and_again_is_fine(folder: stores.MemoryStore) -> None:
    a_rollback(folder)
    transactions = [stage(folder, at(batch, epoch=4), batch) for batch in range(5, 10)]

    for _ in range(2):
        for batch, transaction in enumerate(transactions, start=5):
            sink_in(folder).commit(transaction, at(batch, epoch=4))

    assert committed(folder) == [(batch, 1, 3) for batch in range(5)] + [(batch, 2, 4) for batch in range(5, 10)]


def test_a_second_rollback_fences_the_first(folder: stores.MemoryStore) -> None:
    a_rollback(folder)
    first = [stage(folder, at(batch, epoch=4), 1) for batch in (5, 6)]
    sink_in(folder).commit(first[0], at(5, epoch=4))
    sink_in(folder).open(at(2, generation=3, epoch=5))

    for batch, transaction in enumerate(first, start=5):
        with pytest.raises(errors.FencedError):
            sink_in(folder).commit(transaction, at(batch, epoch=4))
    with pytest.raises(errors.FencedError):
        sink_in(folder).open(at(5, epoch=4))

    assert [number for number, _, _ in committed(folder)] == [0, 1, 2]


def test_nothing_that_a_reader_may_have_seen_is_deleted(folder: stores.MemoryStore) -> None:
    faulty = stores.FaultyStore(folder)
    a_rollback(folder)
    sink_in(faulty).open(at(2, generation=3, epoch=5))
    sink_in(faulty).commit(stage(folder, at(3, generation=3, epoch=5), 1), at(3, generation=3, epoch=5))

    changes = [operation for operation in faulty.operations if operation.name in ("delete", "write")]
    assert not [operation for operation in changes if not operation.key.startswith(files_commits.WITHDRAWN)]


def test_prepared_files_below_a_fence_are_no_orphans(folder: stores.MemoryStore) -> None:
    a_rollback(folder)
    prepared = files_commits.PreparedFiles.parse(stage(folder, at(5, epoch=4), 1), "a test")

    fence = files_commits.read(folder, 5)

    assert fence is not None
    orphans = files_orphans.orphans(folder.list(files_orphans.DATA), {5: fence.body}, now=NOON + 5 * HOUR)
    assert prepared.files[0].path not in orphans


def test_two_drivers_that_open_a_folder_at_once_leave_the_newer_one(folder: stores.MemoryStore) -> None:
    for batch in range(3):
        commit(folder, at(batch, generation=1), 1)

    class Raced(stores.FaultyStore):
        """The successor opens the folder between the look and the act."""

        def create(self, key: str, body: bytes) -> None:
            sink_in(folder).open(at(1, generation=3, epoch=9))
            super().create(key, body)

    with pytest.raises(errors.FencedError):
        sink_in(Raced(folder)).open(at(1, epoch=4))

    assert [number for number, _, _ in committed(folder)] == [0, 1]


def test_a_folder_that_another_job_has_opened_is_that_jobs_whatever_its_lineage() -> None:
    folder = stores.MemoryStore("memory://bucket/out")
    sink_in(folder).open(replace(at(-1), lineage="theirs", descent=SinkLineage("theirs"), job="default/other"))

    with pytest.raises(errors.SpecRejectedError, match="belongs to statefulspark/default/other") as refused:
        sink_in(folder).open(replace(at(-1), lineage="ours", descent=SinkLineage("ours")))
    assert refused.value.reason == "SinkFolderTaken"
