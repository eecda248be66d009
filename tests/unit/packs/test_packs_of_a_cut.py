"""Packs are files of a query: cuts name them, and whoever follows a cut has them."""

from __future__ import annotations

import posixpath

import pytest
from manifests import a_manifest
from packwriting import a_name, put
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.canonical import skeleton
from statefulspark.checkpoint import closure, read_cache, transfer, verify
from statefulspark.checkpoint.verify import ProblemKind
from statefulspark.contract.manifest import FileEntry, OperatorEntry, QueryEntry
from statefulspark.evolution import rewrite
from statefulspark.packs import names, packfile, ranges
from statefulspark.recovery import ahead, copies, head, new_packs
from statefulspark.retention import rules
from statefulspark.testing import stores


@pytest.fixture
def store() -> stores.MemoryStore:
    return stores.MemoryStore()


def packs_of(entry: QueryEntry) -> list[str]:
    return [file.path for file in entry.files if names.of_key(file.path) is not None]


def ran(store: stores.MemoryStore, batches: int = 4) -> FakeQuery:
    query = FakeQuery(store)
    for _ in range(batches):
        query.run_batch()
    return query


def test_a_closure_takes_the_packs_from_the_tail_on_with_their_size_and_etag(store: stores.MemoryStore) -> None:
    query = ran(store)
    put(store, query.path, a_name(0))
    needed = [put(store, query.path, a_name(1)), put(store, query.path, a_name(3, tail=1))]
    put(store, query.path, a_name(4, tail=3))

    entry = closure.close_over(store, query.path, 3)

    assert packs_of(entry) == needed
    info = store.info(f"{query.path}/{needed[0]}")
    assert info is not None
    assert FileEntry(path=needed[0], size_bytes=info.size_bytes, checksum=f"etag:{info.etag}") in entry.files


def test_a_closure_takes_no_file_that_is_being_deleted(store: stores.MemoryStore) -> None:
    query = ran(store)
    late = put(store, query.path, a_name(2, attempt="f" * 16))
    needed = put(store, query.path, a_name(2))
    builder = closure.ClosureBuilder(store, query.path)

    assert packs_of(builder.close_over(3)) == [needed, late]
    assert packs_of(builder.close_over(3, unused={f"{query.path}/{late}"})) == [needed]


def test_a_file_that_is_being_deleted_is_not_looked_up_either(store: stores.MemoryStore) -> None:
    query = ran(store)
    builder = closure.ClosureBuilder(store, query.path)
    changelog = next(file.path for file in builder.close_over(3).files if file.path.endswith(".changelog"))

    with pytest.raises(errors.SnapshotCorruptError):
        builder.close_over(3, unused={f"{query.path}/{changelog}"})


def test_a_closure_leaves_out_packs_of_an_operator_that_the_batch_does_not_have(store: stores.MemoryStore) -> None:
    query = ran(store)
    put(store, query.path, a_name(1), uid="another")

    assert packs_of(closure.close_over(store, query.path, 3)) == []


def test_after_a_change_of_partitions_a_closure_takes_packs_of_both_numbers(store: stores.MemoryStore) -> None:
    query = ran(store)
    before = [put(store, query.path, a_name(batch, partitions=3, partition=2)) for batch in (0, 1)]
    own = put(store, query.path, a_name(3, tail=1))

    assert packs_of(closure.close_over(store, query.path, 3)) == sorted([*before, own])


def test_a_pack_that_names_tell_of_and_that_is_gone_is_no_complete_closure(store: stores.MemoryStore) -> None:
    query = ran(store)
    gone = put(store, query.path, a_name(1))
    put(store, query.path, a_name(3, tail=1))
    store.delete_many([f"{query.path}/{gone}"])

    with pytest.raises(errors.SnapshotCorruptError, match=r"packs/mean/2-0 has no pack of batch 1") as caught:
        closure.close_over(store, query.path, 3)

    assert caught.value.reason == "ClosureIncomplete"


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        pytest.param(lambda body: body, [], id="none"),
        pytest.param(lambda body: body.replace(b"chunk", b"chunK"), [ProblemKind.CHECKSUM_DIFFERS], id="a chunk"),
        pytest.param(lambda body: body[:-4] + b"SSPJ", [ProblemKind.CHECKSUM_DIFFERS], id="the end"),
    ],
)
def test_a_deep_verification_compares_packs_with_themselves(
    store: stores.MemoryStore, damage: object, expected: list[ProblemKind]
) -> None:
    query = ran(store)
    key = f"{query.path}/{put(store, query.path, a_name(1))}"
    entry = closure.close_over(store, query.path, 3)
    store.write(key, damage(store.read(key)))  # type: ignore[operator]

    report = verify.verify(store, a_manifest(queries=[entry]), deep=True)

    assert [problem.kind for problem in report.problems] == expected


def test_a_new_generation_has_the_packs_of_the_cut(store: stores.MemoryStore) -> None:
    query = ran(store)
    path = put(store, query.path, a_name(1))
    entry = closure.close_over(store, query.path, 3)

    (move,) = copies.moves([entry], 2)
    copied = {copy.target for copy in copies.list_copies(transfer.SnapshotLocation(store), [move])}

    assert f"generations/00000002/delays/{path}" in copied


_MEAN = OperatorEntry(uid="mean", operator_id=0, name="tws", partitions=2)
_SUM = OperatorEntry(uid="sum", operator_id=1, name="tws", partitions=2)


def entry_with_packs_of(*uids: str, operators: tuple[OperatorEntry, ...] = (_MEAN, _SUM)) -> QueryEntry:
    files = tuple(FileEntry(path=names.key(uid, a_name(1).reference), size_bytes=1) for uid in uids)
    return QueryEntry(uid="q", batch_id=1, path="generations/00000001/q", files=files, operators=operators)


@pytest.mark.parametrize(
    ("operators", "uids"),
    [
        pytest.param({0: 0, 1: 1}, ["mean", "sum"], id="an unchanged plan"),
        pytest.param({0: 1, 1: 0}, ["mean", "sum"], id="operators change their places"),
        pytest.param({1: 0}, ["sum"], id="an operator is dropped"),
    ],
)
def test_packs_follow_their_operator_by_uid(operators: dict[int, int], uids: list[str]) -> None:
    entry = entry_with_packs_of("mean", "sum")
    copied = rewrite.files_to_copy(entry, rewrite.Rewrite(operators, (), {}))

    assert [(file.path, path) for file, path in copied] == [(names.key(uid, a_name(1).reference),) * 2 for uid in uids]


def test_packs_of_a_cut_that_names_no_operators_are_copied() -> None:
    entry = entry_with_packs_of("mean", operators=())

    assert len(rewrite.files_to_copy(entry, rewrite.Rewrite.identity(entry))) == 1


def test_a_canonical_savepoint_has_no_packs() -> None:
    entry = entry_with_packs_of("mean")

    assert not skeleton.is_copied_unchanged(entry, entry.files[0].path)


def test_a_standby_carries_packs_ahead() -> None:
    job = Job()
    query = job.running(2)
    path = put(job.store, query.path, a_name(1))
    entry = closure.close_over(job.store, query.path, 1)
    standby = ahead.AheadCopier(job.store, standby="b", claim_id="b")

    assert standby.follow(ahead.Cargo((entry,), query.generation, 1, {}), job.clock.now, stops=lambda: False)
    carried = standby.end()

    assert carried is not None
    target = f"generations/{carried.generation:08d}/delays/{path}"
    assert carried.files[target].key == f"{query.path}/{path}"
    assert job.store.info(target) is not None


@pytest.mark.parametrize(
    ("name", "is_retained"),
    [
        pytest.param(a_name(3), False, id="older than the checkpoint"),
        pytest.param(a_name(5), False, id="of the checkpoint's batch, by an attempt that has lost"),
        pytest.param(a_name(6), True, id="of a batch that runs"),
        pytest.param(a_name(3, partitions=7), False, id="of another number of partitions"),
    ],
)
def test_pruning_takes_packs_that_no_checkpoint_names_up_to_its_batch(
    store: stores.MemoryStore, name: names.PackName, *, is_retained: bool
) -> None:
    floor = rules._Floor.build(
        QueryEntry(uid="delays", batch_id=5, path="generations/00000001/delays"),
        {},
        rules.PrunePolicy(),
        frozenset(),
        frozenset(),
    )
    path = put(store, "q", name)
    (info,) = store.list("q")

    assert (floor.reason_to_keep(info, path) is not None) is is_retained
    assert posixpath.basename(path).endswith(names.SUFFIX)


@pytest.mark.parametrize("read_up_to", [new_packs.READ_UP_TO_BYTES, 0], ids=["read whole", "too large to be read"])
@pytest.mark.parametrize("harm", ["none", "cut", "flipped"])
def test_a_start_looks_at_packs_that_no_checkpoint_names(
    store: stores.MemoryStore, monkeypatch: pytest.MonkeyPatch, read_up_to: int, harm: str
) -> None:
    monkeypatch.setattr(new_packs, "READ_UP_TO_BYTES", read_up_to)
    query = ran(store, batches=2)
    base = closure.close_over(store, query.path, 1)
    query.run_batch()
    key = f"{query.path}/{put(store, query.path, a_name(2), body=b'x' * 100)}"
    body = store.read(key)
    store.write(key, {"none": body, "cut": body[:60], "flipped": body.replace(b"x", b"y", 1)}[harm])

    problem = head.inspect(read_cache.ReadCache(store), 1, [base]).problem

    if harm == "none" or (harm == "flipped" and not read_up_to):
        assert problem is None
    else:
        assert problem is not None
        assert key in problem


@pytest.mark.parametrize("is_proven", [False, True], ids=["of the newest checkpoint alone", "of an older one, too"])
def test_a_start_reads_packs_of_the_newest_checkpoint_unless_an_older_one_names_them(
    store: stores.MemoryStore, is_proven: bool
) -> None:
    query = ran(store, batches=1)
    key = f"{query.path}/{put(store, query.path, a_name(0), body=b'x' * 100)}"
    base = closure.close_over(store, query.path, 0)
    query.run_batch()
    store.write(key, store.read(key).replace(b"x", b"y", 1))
    proven = new_packs.keys([base]) if is_proven else frozenset()

    problem = head.inspect(read_cache.ReadCache(store), 1, [base], proven_packs=proven).problem

    assert (problem is None) is is_proven


def test_a_pack_that_goes_while_it_is_looked_at_is_a_problem(store: stores.MemoryStore) -> None:
    query = ran(store, batches=1)
    key = f"{query.path}/{put(store, query.path, a_name(0))}"
    entry = closure.close_over(store, query.path, 0)
    store.delete_many([key])

    assert new_packs.problem(store, [entry]) == f"{store.uri}/{key} does not exist."


def test_a_pack_of_a_later_release_is_no_damage(store: stores.MemoryStore) -> None:
    query = ran(store, batches=1)
    key = f"{query.path}/{put(store, query.path, a_name(0))}"
    entry = closure.close_over(store, query.path, 0)
    body = store.read(key)
    footer = packfile.PackFooter(format_version=2, chunks=()).to_json().encode()
    end = packfile._END.pack(len(footer), ranges.crc32c(footer))
    store.write(key, body[:4] + footer + end + body[:4])

    with pytest.raises(errors.FormatVersionError):
        new_packs.problem(store, [entry])
