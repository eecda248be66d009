"""Every kind of file that a snapshot needs, damaged in every way: what verification says, and what a start does.

A start never goes on from damaged state, never starts empty, and says what it fell back from; what it starts from instead
verifies completely. (docs/recovery.md, "Damage"; in Flink, A.136, a job starts empty when nothing is
completed, which here needs proof.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import SimpleNamespace

import etags
import pytest
from packwriting import a_name, put
from restores import a_restore
from snapshots import Job
from snapshotwriters import a_writer, an_order
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.checkpoint import catalog, checksums, verify
from statefulspark.contract import config, layout
from statefulspark.contract.manifest import Manifest
from statefulspark.contract.notes import DamageNote
from statefulspark.driver.running import queries
from statefulspark.recovery import damage
from statefulspark.recovery.plan import ReadyState, StartMode
from statefulspark.storage.port import MOST_BYTES, ObjectStore
from statefulspark.testing import stores

pytestmark = pytest.mark.slow

KINDS = {
    "query metadata": r"/metadata$",
    "offsets of the batch": r"/offsets/5$",
    "offsets of the batch before": r"/offsets/4$",
    "commit": r"/commits/5$",
    "commit that older files are found by": r"/commits/4$",
    "log of a file source": r"/sources/0/5$",
    "compacted log of a file source": r"/sources/0/4\.compact$",
    "operator metadata": r"/_metadata/v2/0$",
    "state schema": r"/_stateSchema/",
    "state snapshot": r"/state/0/0/5_[^/]*\.zip$",
    "SST file": r"/SSTs/00000[45]-[^/]*\.sst$",
    "checksum of an SST file": r"/SSTs/00000[45]-[^/]*\.sst\.crc$",
    "changelog": r"/6_[^/]*\.changelog$",
    "pack": r"/packs/mean/2-0/0+5-[^/]*\.pack$",
    "checksum of a state snapshot": r"/state/0/0/5_[^/]*\.zip\.crc$",
    "checksum of a changelog": r"/6_[^/]*\.changelog\.crc$",
}
DAMAGES = ("missing", "cut off", "empty", "a bit flipped", "swapped for another", "an older version")
PROBLEMS = {
    "missing": {verify.ProblemKind.MISSING},
    "cut off": {verify.ProblemKind.SIZE_DIFFERS},
    "empty": {verify.ProblemKind.SIZE_DIFFERS},
    "a bit flipped": {verify.ProblemKind.CHECKSUM_DIFFERS},
    "swapped for another": {verify.ProblemKind.CHECKSUM_DIFFERS},
    "an older version": {verify.ProblemKind.CHECKSUM_DIFFERS, verify.ProblemKind.SIZE_DIFFERS},
}
SHARED = frozenset({"query metadata", "operator metadata", "state schema"})
"""Files that every snapshot of a generation shares, so that no older one of it can be used either."""


@dataclass
class World:
    """A job with a checkpoint at batch 3 and one at batch 5; the newer builds on an uploaded state snapshot."""

    job: Job
    query: FakeQuery
    newest: Manifest

    def key_of(self, kind: str) -> str:
        """Return the one file of a kind that the newest checkpoint needs."""
        entry = self.newest.queries[0]
        keys = [f"{entry.path}/{file.path}" for file in entry.files]
        return next(key for key in keys if re.search(KINDS[kind], f"/{key.removeprefix(entry.path)}"))

    def spoil(self, key: str, how: str) -> None:
        """Damage a file."""
        body = self.job.store.read(key)
        if how == "missing":
            self.job.store.delete_many([key])
        else:
            self.job.store.write(key, _spoilt(body, how))


def _spoilt(body: bytes, how: str) -> bytes:
    middle = len(body) // 2
    return {
        "cut off": body[:-1],
        "empty": b"",
        "a bit flipped": body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :],
        "swapped for another": bytes(reversed(body)),
        "an older version": body.replace(b"1", b"0") + b"0",
    }[how]


@pytest.fixture
def world() -> World:
    return _built_on(Job())


@pytest.fixture(params=etags.LIVES.values(), ids=etags.LIVES)
def any_world(request: pytest.FixtureRequest) -> World:
    """The same, on stores with all sorts of etags."""
    changing = etags.Changing(*request.param)
    job = Job()
    world = _built_on(job.on(etags.Untold(stores.MemoryStore(job.bucket.uri, job.clock, changing))))
    changing.change()
    return world


def _built_on(job: Job) -> World:
    query = FakeQuery(job.store, job.boot().generation)
    for number in range(6):
        query.plan_batch()
        name = "4.compact" if number == 4 else str(number)
        job.store.write(f"{query.path}/sources/0/{name}", f'v1\n{{"path":"{number}"}}'.encode())
        job.store.write(f"{query.path}/offsets/{number}", f'v1\n{{"at":{number}1}}\n{{"logOffset":{number}}}'.encode())
        put(job.store, query.path, a_name(number, tail=max(0, number - 1)))
        ids = {"0": query.attempt(number)}
        query.finish_batch(number, ids)
        if number == 3:
            query.upload_snapshots(1)
            job.checkpoint(query)
    query.upload_snapshots(4)
    return World(job, query, job.checkpoint(query))


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_verification_names_the_file_and_what_is_wrong(any_world: World, kind: str, how: str) -> None:
    key = any_world.key_of(kind)
    any_world.spoil(key, how)

    report = verify.verify(any_world.job.store, any_world.newest)

    assert [problem.path for problem in report.problems] == [key]
    assert report.problems[0].kind in PROBLEMS[how]
    assert key in report.sentence


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - SHARED))
def test_a_start_falls_back_to_the_snapshot_before_and_says_so(world: World, kind: str, how: str) -> None:
    key = world.key_of(kind)
    world.spoil(key, how)

    plan = world.job.boot()

    assert (plan.mode, plan.generation, plan.restored_from) == (StartMode.COPY, 2, "checkpoint 1")
    assert dict(plan.start_batches) == {"delays": 3}
    assert key in (plan.fallback or "")
    assert "Started from checkpoint 1 instead." in (plan.fallback or "")
    assert verify.verify_queries(world.job.store, plan.queries, deep=True).ok


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - SHARED))
def test_newer_batches_of_another_query_do_not_hide_the_damage(world: World, kind: str, how: str) -> None:
    """Only the queries that had committed something since the checkpoint were looked at."""
    FakeQuery(world.job.store, world.query.generation, "others").run_batch()
    key = world.key_of(kind)
    world.spoil(key, how)

    plan = world.job.boot()

    assert (plan.mode, plan.restored_from) == (StartMode.COPY, "checkpoint 1")
    assert key in (plan.fallback or "")


def test_the_checkpoints_before_a_start_stay_until_each_query_has_loaded_its_state(world: World) -> None:
    """Spark loads state with a query's first batch; the other query's checkpoints had pushed the sound ones out by then."""
    others = FakeQuery(world.job.store, world.query.generation, "others")
    others.run_batch()
    writer = a_writer(
        world.job,
        world.query,
        restored=world.job.boot().queries,
        locations=tuple(queries.CheckpointLocation(one.uid, one.path, "root") for one in (world.query, others)),
        settings=config.CheckpointConfig(retention=config.RetentionConfig(count=2)),
        announcer=SimpleNamespace(snapshot_covers=lambda *_: None),
    )

    def checkpoint(number: int) -> tuple[int, ...]:
        batches = {world.query.uid: world.query.batch, others.uid: others.batch}
        writer.complete(an_order(number), batches)
        writer.prune()
        return tuple(ref.id for ref in sorted(catalog.list_snapshots(world.job.store), key=lambda ref: ref.id))

    waiting = []
    for number in (4, 5, 6):
        others.run_batch()
        waiting.append(checkpoint(number))
    world.query.run_batch()

    assert waiting == [(1, 2, 3, 4), (1, 2, 4, 5), (1, 2, 5, 6)]
    assert (checkpoint(7), checkpoint(8)) == ((2, 6, 7), (7, 8))


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("kind", sorted(SHARED))
def test_a_start_with_nothing_sound_to_fall_back_to_is_refused(world: World, kind: str, how: str) -> None:
    key = world.key_of(kind)
    world.spoil(key, how)
    before = world.job.store.list("generations")

    with pytest.raises(errors.SnapshotCorruptError, match=re.escape(key)) as raised:
        world.job.boot()

    assert raised.value.reason == "NoCheckpointVerifies"
    assert world.job.store.list("generations") == before


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_manifest_is_told_and_its_batch_completed_under_the_next_number(world: World, how: str) -> None:
    world.spoil(layout.checkpoint_manifest(2), how)

    plan = world.job.boot()

    if how == "missing":  # then it was never completed
        assert (plan.restored_from, plan.fallback) == ("checkpoint 2", None)
    else:
        assert (plan.restored_from, dict(plan.start_batches)) == ("checkpoint 3", {"delays": 5})
        assert "checkpoints/00000002" in (plan.fallback or "")
    assert verify.verify_queries(world.job.store, plan.queries, deep=True).ok


@pytest.mark.parametrize("how", ["cut off", "empty", "swapped for another"])
def test_a_damaged_record_of_the_generation_in_use_is_left_for_a_new_generation(world: World, how: str) -> None:
    world.query.run_batch()
    world.spoil(layout.generation_record(1), how)

    plan = world.job.boot()
    again = world.job.boot()

    assert (plan.mode, plan.generation, dict(plan.start_batches)) == (StartMode.COPY, 2, {"delays": 6})
    assert "generations/00000001/generation.json" in (plan.fallback or "")
    assert (again.mode, again.generation) == (StartMode.CONTINUE, 2)


def test_a_damaged_record_leaves_open_whether_a_restore_was_done_so_a_person_decides(world: World) -> None:
    world.spoil(layout.generation_record(1), "empty")

    with pytest.raises(errors.StateUnknownError, match="no restore") as raised:
        world.job.boot(a_restore(snapshot="checkpoint:1"))

    assert raised.value.reason == "RestoreUnknown"
    assert world.job.boot().generation == 2


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_epoch_is_no_way_in_for_an_older_driver(world: World, how: str) -> None:
    world.job.boot()
    world.spoil(layout.epoch(1), how)

    world.job.boot()

    assert world.job.epoch == 3


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_savepoint_with_a_damaged_file_is_refused_by_name(world: World, kind: str, how: str) -> None:
    place = world.job.savepoint(world.query, location="memory://bucket/backups")
    key = world.key_of(kind).replace(f"{world.query.path}/", f"{place.folder}/files/delays/")
    copy = World(world.job.on(world.job.bucket.child("")), world.query, world.newest)
    copy.job.store = place.store
    copy.spoil(key, how)

    with pytest.raises(errors.SnapshotCorruptError, match=re.escape(key)) as raised:
        world.job.boot(a_restore(snapshot=place.uri))

    assert raised.value.reason == "SnapshotBroken"
    assert world.job.boot().restored_from == "checkpoint 2"


def a_note(world: World, plan: ReadyState, epoch: int) -> DamageNote:
    """Say what a driver says whose query could not load its state."""
    batch = plan.start_batches["delays"]
    now = world.job.clock.now
    return DamageNote(generation=plan.generation, epoch=epoch, query="delays", batch_id=batch, said="bad", noted_at=now)


def test_damage_that_only_spark_sees_is_tried_once_more_and_then_left_behind(world: World) -> None:
    store = world.job.store
    first = world.job.boot()
    damage.write(store, a_note(world, first, world.job.epoch))
    second = world.job.boot()
    damage.write(store, a_note(world, second, world.job.epoch))

    third = world.job.boot()

    assert (first.restored_from, second.restored_from, third.restored_from) == (
        "checkpoint 2",
        "checkpoint 2",
        "checkpoint 1",
    )
    assert (third.mode, third.generation) == (StartMode.COPY, 2)
    assert "could not load the state of query 'delays' at batch 5 in 2 starts: bad" in (third.fallback or "")


def test_a_noted_snapshot_is_read_completely_so_that_rot_below_an_unchanged_etag_is_found(world: World) -> None:
    """A disk that rots does not change what the server says about the file."""
    key = world.key_of("changelog")
    world.job.store = RottenStore(world.job.store, {key: _spoilt(world.job.store.read(key), "a bit flipped")})
    unnoticed = world.job.boot()
    damage.write(world.job.store, a_note(world, unnoticed, world.job.epoch))

    plan = world.job.boot()

    assert (unnoticed.restored_from, plan.restored_from) == ("checkpoint 2", "checkpoint 1")
    assert key in (plan.fallback or "")


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - SHARED))
def test_a_noted_snapshot_is_read_completely_on_every_store(any_world: World, kind: str) -> None:
    """What nothing vouches for is no damage; what something vouches for is found."""
    job = any_world.job
    damage.write(job.store, a_note(any_world, job.boot(), job.epoch))
    sound = job.plan()
    key = any_world.key_of(kind)
    job.store = RottenStore(job.store, {key: _spoilt(job.store.read(key), "a bit flipped")})

    damaged = job.plan()

    assert (sound.mode, sound.restored_from, sound.fallback) == (StartMode.CONTINUE, "checkpoint 2", None)
    assert damaged.restored_from == "checkpoint 1"
    assert checksums.family(key) in (damaged.fallback or "")


@pytest.mark.parametrize("has_newer_batches", [False, True])
def test_a_pack_of_the_newest_checkpoint_that_rots_below_an_unchanged_etag_is_found_by_the_start(
    world: World, has_newer_batches: bool
) -> None:
    """Nobody reads it whole later, and checkpoints that name it would push out the one that does not."""
    if has_newer_batches:
        world.query.run_batch()
    key = world.key_of("pack")
    world.job.store = RottenStore(world.job.store, {key: _spoilt(world.job.store.read(key), "a bit flipped")})

    plan = world.job.boot()

    assert (plan.mode, plan.restored_from) == (StartMode.COPY, "checkpoint 1")
    assert key in (plan.fallback or "")


def test_a_pack_that_an_older_checkpoint_names_is_left_for_whoever_reads_it(world: World) -> None:
    """Going back would not help."""
    world.query.run_batch()
    world.job.checkpoint(world.query)
    key = world.key_of("pack")
    world.job.store = RottenStore(world.job.store, {key: _spoilt(world.job.store.read(key), "a bit flipped")})

    assert world.job.boot().restored_from == "checkpoint 3"


def test_a_rotten_file_is_not_copied_with_an_older_snapshot_that_shares_it(world: World) -> None:
    """Each snapshot with the file cost two starts that failed."""
    world.query.run_batch()
    third = world.job.checkpoint(world.query)
    key = world.key_of("changelog")
    world.job.store = RottenStore(world.job.store, {key: _spoilt(world.job.store.read(key), "a bit flipped")})
    damage.write(world.job.store, a_note(world, world.job.boot(), world.job.epoch))

    plan = world.job.boot()

    assert (third.id, plan.restored_from) == (3, "checkpoint 1")


class RottenStore(stores.FaultyStore):
    """A store that gives other bytes for some objects than it tells about."""

    def __init__(self, wrapped: ObjectStore, rotten: dict[str, bytes]) -> None:
        super().__init__(wrapped)
        self._rotten = rotten

    def read(self, key: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        return self._rotten.get(key) or super().read(key, most_bytes=most_bytes)


def test_a_snapshot_whose_copy_could_not_be_loaded_is_not_copied_again(world: World) -> None:
    for _ in range(2):
        damage.write(world.job.store, a_note(world, world.job.boot(), world.job.epoch))
    copied = world.job.boot()
    for _ in range(2):
        damage.write(world.job.store, a_note(world, copied, world.job.epoch))
        copied_again = _boot_or_error(world.job)

    assert copied.restored_from == "checkpoint 1"
    assert isinstance(copied_again, errors.SnapshotCorruptError)
    assert copied_again.reason == "NoCheckpointVerifies"


def _boot_or_error(job: Job) -> ReadyState | errors.StatefulSparkError:
    try:
        return job.boot()
    except errors.StatefulSparkError as error:
        return error


def test_notes_are_forgotten_once_a_newer_batch_is_covered(world: World) -> None:
    plan = world.job.boot()
    damage.write(world.job.store, a_note(world, plan, world.job.epoch))
    world.query.run_batch()
    world.job.checkpoint(world.query)

    world.job.boot()

    assert world.job.store.list(layout.DAMAGE) == ()


def noted_twice(world: World) -> str:
    """Let two drivers fail to load the newest checkpoint; return a file of it."""
    for _ in range(2):
        plan = world.job.boot()
        damage.write(world.job.store, a_note(world, plan, world.job.epoch))
    return world.key_of("changelog")


def test_a_note_does_not_outlive_the_damage_that_it_tells_of(world: World) -> None:
    """Somebody brought the file back, and the snapshot went on being left behind for as long as the notes were there."""
    key = noted_twice(world)
    world.job.clock.forward(60)
    world.job.store.write(key, world.job.store.read(key))

    plan = world.job.boot()

    assert (plan.mode, plan.restored_from, plan.fallback) == (StartMode.CONTINUE, "checkpoint 2", None)
    assert world.job.store.list(layout.DAMAGE) == ()


def test_batches_after_the_checkpoint_are_tried_again_once_a_file_of_theirs_is_brought_back(world: World) -> None:
    world.query.run_batch()
    for epoch in (1, 2):
        note = DamageNote(
            generation=1, epoch=epoch, query="delays", batch_id=6, said="bad", noted_at=world.job.clock.now
        )
        damage.write(world.job.store, note)
    before = world.job.plan()
    key = next(info.key for info in world.job.store.list(f"{world.query.path}/state/0/0") if "/7_" in info.key)
    world.job.clock.forward(60)
    world.job.store.write(key, world.job.store.read(key))

    after = world.job.plan()

    assert (before.restored_from, before.mode) == ("checkpoint 2", StartMode.COPY)
    assert (after.start_batches, after.mode) == ({"delays": 6}, StartMode.CONTINUE)


def test_notes_that_come_after_a_file_was_brought_back_count(world: World) -> None:
    """It was not the right one, or is damaged again: a start does not try for ever."""
    key = noted_twice(world)
    world.job.clock.forward(60)
    world.job.store.write(key, world.job.store.read(key))
    world.job.clock.forward(60)
    noted_twice(world)

    assert world.job.boot().restored_from == "checkpoint 1"


def test_what_was_copied_is_tried_again_once_a_file_of_it_is_brought_back(world: World) -> None:
    noted_twice(world)
    copied = world.job.boot()
    for epoch in (8, 9):
        damage.write(world.job.store, a_note(world, copied, epoch))
    refused = _boot_or_error(world.job)
    world.job.clock.forward(60)
    key = next(f"{entry.path}/offsets/3" for entry in world.newest.queries)
    world.job.store.write(key, world.job.store.read(key))

    again = world.job.boot()

    assert isinstance(refused, errors.SnapshotCorruptError)
    assert (again.restored_from, again.generation) == ("checkpoint 1", 3)


def test_what_a_start_says_of_a_note_names_it_and_the_way_out(world: World) -> None:
    noted_twice(world)
    uris = [f"{world.job.store.uri}/{info.key}" for info in world.job.store.list(layout.DAMAGE)]

    fallback = world.job.boot().fallback or ""

    assert f"The notes are {', '.join(uris)}. To try again, restore the damaged file from a backup" in fallback


def test_deleted_notes_do_not_count(world: World) -> None:
    noted_twice(world)
    world.job.store.delete_many([info.key for info in world.job.store.list(layout.DAMAGE)])

    assert world.job.boot().restored_from == "checkpoint 2"


def test_a_damaged_note_counts_as_none(world: World) -> None:
    world.job.store.write(layout.damage_note(1, 1), b"{")
    world.job.store.write(layout.damage_note(1, 2), b"{")

    assert world.job.boot().restored_from == "checkpoint 2"


SMALL = (
    "query metadata",
    "offsets of the batch",
    "offsets of the batch before",
    "commit",
    "commit that older files are found by",
    "log of a file source",
    "compacted log of a file source",
    "operator metadata",
    "state schema",
)


@pytest.mark.parametrize("kind", SMALL)
def test_a_small_file_that_changed_below_an_unchanged_etag_is_not_believed(world: World, kind: str) -> None:
    """What a start reads and believes is compared with the content that the manifest knows, at every start."""
    key = world.key_of(kind)
    body = world.job.store.read(key)
    changed = body.replace(b"0", b"1", 1) if b"0" in body else bytes(reversed(body))
    world.job.store = RottenStore(world.job.store, {key: changed})

    report = verify.verify(world.job.store, world.newest)
    said = _boot_or_error(world.job)

    assert [problem.path for problem in report.problems] == [key]
    text = said.message if isinstance(said, errors.StatefulSparkError) else said.fallback or ""
    assert f"checkpoint 2 does not verify: {world.job.store.uri}/{key} is not the file" in text


def test_offsets_changed_in_place_do_not_repeat_rows(world: World) -> None:
    """Also with a committed batch after the checkpoint, which needs the offsets before it."""
    world.query.run_batch()
    key = f"{world.query.path}/offsets/5"
    world.job.store = RottenStore(world.job.store, {key: world.job.store.read(key).replace(b"51", b"41")})

    plan = world.job.boot()

    assert (plan.restored_from, dict(plan.start_batches)) == ("checkpoint 1", {"delays": 3})
    assert key in (plan.fallback or "")


@pytest.mark.parametrize("etag_of", [etags.plain, etags.Encrypted()], ids=["MD5s", "etags of SSE-KMS"])
@pytest.mark.parametrize("name", ["offsets/6", "commits/6"])
def test_logs_that_no_checkpoint_knows_are_compared_with_what_their_writer_told(
    etag_of: etags.EtagOf, name: str
) -> None:
    world = _built_on(Job(etag_of=etag_of))
    world.query.run_batch()
    key = f"{world.query.path}/{name}"
    body = world.job.store.read(key)
    world.job.store = RottenStore(world.job.store, {key: body.replace(b"600", b"500").replace(b'Ms": 0', b'Ms": 7')})

    plan = world.job.boot()

    assert (plan.restored_from, dict(plan.start_batches)) == ("checkpoint 2", {"delays": 5})
    assert key in (plan.fallback or "")


@pytest.mark.parametrize("turned_on_at", range(8))
def test_an_encryption_that_is_turned_on_at_any_time_is_no_damage(turned_on_at: int) -> None:
    """Or one that Spark's files have and the driver's have not: MD5s and others lie side by side."""
    encrypted = etags.Encrypted()
    switch = Job().clock.now + timedelta(seconds=turned_on_at)

    def etag_of(key: str, body: bytes, modified_at: datetime) -> str:
        return (etags.plain if modified_at < switch else encrypted)(key, body, modified_at)

    job = Job(etag_of=etag_of)
    query = FakeQuery(job.store, job.boot().generation)
    for _ in range(3):
        query.run_batch()
        query.upload_snapshots()
        job.clock.forward(1)
    job.checkpoint(query)
    for _ in range(4):
        query.run_batch()
        job.clock.forward(1)
    damage.write(
        job.store, DamageNote(generation=1, epoch=1, query="delays", batch_id=9, said="", noted_at=job.clock.now)
    )

    plan = job.boot()

    assert (plan.mode, plan.fallback, dict(plan.start_batches)) == (StartMode.CONTINUE, None, {"delays": 6})


def test_checksums_of_content_travel_with_savepoints_and_into_new_generations(world: World) -> None:
    """Also of what is rewritten on the way: what arrives is compared with what was written, not with what lies there."""
    place = world.job.savepoint(world.query, location="memory://bucket/backups")
    saved = catalog.read_manifest(place.store, place.folder).queries[0]
    plan = world.job.boot(a_restore(snapshot="checkpoint:2"))
    key = f"{plan.queries[0].path}/offsets/5"
    world.job.store = RottenStore(world.job.store, {key: world.job.store.read(key).replace(b"51", b"41")})

    arrived = verify.verify_queries(world.job.store, plan.queries)

    sums = {file.path: file.crc32 for file in world.newest.queries[0].files if file.crc32}
    assert {file.path: file.crc32 for file in saved.files if file.crc32} == sums
    assert {file.path for file in plan.queries[0].files if file.crc32} == sums.keys()
    assert [problem.path for problem in arrived.problems] == [key]
