"""The closure of a batch: exactly the files it needs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.checkpoint import batch_records, closure
from statefulspark.contract.prepared import PreparedRecord
from statefulspark.testing import stores


@pytest.fixture
def store() -> stores.MemoryStore:
    return stores.MemoryStore()


def paths(entry: closure.QueryEntry) -> set[str]:
    return {file.path for file in entry.files}


def state_versions(entry: closure.QueryEntry) -> set[tuple[str, str]]:
    """Return (version, suffix) of the state files."""
    names = [path.rsplit("/", 1)[1] for path in paths(entry) if path.endswith((".zip", ".changelog"))]
    return {(name.split("_")[0], name.rsplit(".", 1)[1]) for name in names}


def test_a_query_without_commits_needs_no_file(store: stores.MemoryStore) -> None:
    query = FakeQuery(store)
    query.plan_batch()

    assert closure.newest_committed_batch(store, query.path) == -1
    assert closure.close_over(store, query.path, -1) == closure.QueryEntry(uid="delays", batch_id=-1, path=query.path)


def test_without_a_state_snapshot_every_changelog_since_the_first_is_needed(store: stores.MemoryStore) -> None:
    query = FakeQuery(store)
    for _ in range(3):
        query.run_batch()

    entry = closure.close_over(store, query.path, 2)

    assert state_versions(entry) == {("1", "changelog"), ("2", "changelog"), ("3", "changelog")}
    assert {"commits/0", "commits/1", "commits/2", "offsets/1", "offsets/2", "metadata"} <= paths(entry)
    assert "offsets/0" not in paths(entry)


def test_from_the_newest_state_snapshot_on_older_files_are_not_needed(store: stores.MemoryStore) -> None:
    query = FakeQuery(store)
    for _ in range(5):
        query.run_batch()
    query.upload_snapshots(1)
    query.upload_snapshots(3)

    entry = closure.close_over(store, query.path, 4)

    assert state_versions(entry) == {("4", "zip"), ("5", "changelog")}
    assert len([path for path in paths(entry) if path.endswith(".sst")]) == 2 * 2
    assert {path for path in paths(entry) if path.startswith("commits/")} == {"commits/3", "commits/4"}


def test_a_snapshot_newer_than_the_batch_is_ignored(store: stores.MemoryStore) -> None:
    query = FakeQuery(store)
    for _ in range(4):
        query.run_batch()
    query.upload_snapshots(3)

    assert ("4", "zip") not in state_versions(closure.close_over(store, query.path, 2))


def test_files_of_attempts_that_did_not_win_are_left_out(store: stores.MemoryStore) -> None:
    query = FakeQuery(store)
    query.run_batch(failed_attempts=2)
    query.run_batch(failed_attempts=1)

    entry = closure.close_over(store, query.path, 1)

    changelogs = [path for path in paths(entry) if path.endswith(".changelog")]
    assert len(changelogs) == 2 * query.partitions
    winners = {unique_id for ids in query.ids.values() for row in ids["0"] for unique_id in row}
    assert {path.rsplit("_", 1)[1].removesuffix(".changelog") for path in changelogs} == winners


def test_each_store_of_a_join_is_closed_over(store: stores.MemoryStore) -> None:
    query = FakeQuery(store, stores=("left-keyToNumValues", "left-keyWithIndexToValue"))
    query.run_batch()
    query.upload_snapshots()

    entry = closure.close_over(store, query.path, 0)

    folders = {path.rsplit("/", 1)[0] for path in paths(entry) if path.endswith(".zip")}
    assert folders == {f"state/0/{part}/{name}" for part in (0, 1) for name in query.stores}


def test_checksum_files_come_along(store: stores.MemoryStore) -> None:
    query = FakeQuery(store)
    query.run_batch()

    found = paths(closure.close_over(store, query.path, 0))

    assert {f"{path}.crc" for path in found if path.endswith(".changelog")} <= found


def test_the_operator_is_named_by_the_uid_in_its_variables(store: stores.MemoryStore) -> None:
    query = FakeQuery(store, operator_uid="carrier-delay")
    query.run_batch()

    (operator,) = closure.close_over(store, query.path, 0).operators

    assert (operator.uid, operator.operator_id, operator.partitions) == ("carrier-delay", 0, 2)


def test_a_missing_changelog_is_an_error_that_names_it(store: stores.MemoryStore) -> None:
    query = FakeQuery(store)
    query.run_batch()
    query.run_batch()
    changelog = f"1_{query.ids[0]['0'][1][0]}.changelog"
    store.delete_many([f"{query.path}/state/0/1/{changelog}"])

    with pytest.raises(errors.SnapshotCorruptError, match="1_") as raised:
        closure.close_over(store, query.path, 1)

    assert raised.value.reason == "ClosureIncomplete"


def test_an_sst_file_that_was_cut_short_is_an_error_that_names_it(store: stores.MemoryStore) -> None:
    query = FakeQuery(store)
    query.run_batch()
    query.upload_snapshots()
    key = next(info.key for info in store.list(query.path) if info.key.endswith(".sst"))
    store.write(key, store.read(key)[:-1])

    with pytest.raises(errors.SnapshotCorruptError, match="has 199 bytes instead of 200"):
        closure.close_over(store, query.path, 0)


@pytest.mark.parametrize("name", ["offsets/1", "offsets/0", "metadata", "commits/0"])
def test_a_missing_log_file_is_an_error_that_names_it(store: stores.MemoryStore, name: str) -> None:
    query = FakeQuery(store)
    query.run_batch()
    query.run_batch()
    store.delete_many([f"{query.path}/{name}"])

    with pytest.raises(errors.SnapshotCorruptError, match=name):
        closure.close_over(store, query.path, 1)


def test_a_batch_that_was_only_planned_cannot_be_closed_over(store: stores.MemoryStore) -> None:
    query = FakeQuery(store)
    query.run_batch()
    query.plan_batch()

    with pytest.raises(errors.SnapshotCorruptError) as raised:
        closure.close_over(store, query.path, 1)

    assert raised.value.reason == "BatchNotCommitted"


@pytest.mark.parametrize("body", [b"", b"v2", b'v2\n{"stateUniq', b"\xff\xfe", b"{}"])
def test_a_damaged_newest_commit_is_said_to_be_damaged_and_not_taken_for_absent(
    store: stores.MemoryStore, body: bytes
) -> None:
    query = FakeQuery(store)
    query.run_batch()
    query.run_batch()
    store.write(f"{query.path}/commits/1", body)

    with pytest.raises(errors.SnapshotCorruptError, match="commits/1"):
        closure.newest_committed_batch(store, query.path)


def test_a_query_without_state_ids_is_refused_with_the_setting_to_change(store: stores.MemoryStore) -> None:
    query = FakeQuery(store)
    query.run_batch()
    store.write(f"{query.path}/commits/0", b'v1\n{"nextBatchWatermarkMs":0}')

    with pytest.raises(errors.SpecRejectedError, match="checkpointFormatVersion=2"):
        closure.close_over(store, query.path, 0)


def test_of_a_file_source_log_the_newest_compact_file_and_what_follows_is_needed(store: stores.MemoryStore) -> None:
    query = FakeQuery(store)
    query.run_batch()
    for name in ("0", "1", "2.compact", "3", "4", "5.compact", "6"):
        store.write(f"{query.path}/sources/0/{name}", b"v1\n{}")
    store.write(f"{query.path}/offsets/0", b'v1\n{}\n{"logOffset":4}')

    entry = closure.close_over(store, query.path, 0)

    assert {path for path in paths(entry) if path.startswith("sources/")} == {
        "sources/0/2.compact",
        "sources/0/3",
        "sources/0/4",
    }


def test_a_closer_that_remembers_finds_the_same_as_a_fresh_one(store: stores.MemoryStore) -> None:
    query = FakeQuery(store)
    closer = closure.ClosureBuilder(store, query.path)
    for number in range(12):
        query.run_batch(failed_attempts=number % 2)
        if number % 4 == 3:
            query.upload_snapshots(number - 1)
        assert closer.close_over(number) == closure.close_over(store, query.path, number)


def test_a_closer_reads_only_what_is_new(store: stores.MemoryStore) -> None:
    query = FakeQuery(store)
    for _ in range(8):
        query.run_batch()
    query.upload_snapshots(5)
    faulty = stores.FaultyStore(store)
    closer = closure.ClosureBuilder(faulty, query.path)
    closer.close_over(7)
    before = len(faulty.operations)
    query.run_batch()

    closer.close_over(8)

    assert [(done.name, done.key.removeprefix(f"{query.path}/")) for done in faulty.operations[before:]] == [
        ("list", query.path),
        ("read", "commits/8"),
        ("read", "offsets/8"),
    ]


@pytest.mark.parametrize("batches", [5, 40])
def test_the_number_of_requests_does_not_grow_with_the_state(store: stores.MemoryStore, batches: int) -> None:
    query = FakeQuery(store)
    for number in range(batches):
        query.run_batch()
        if number % 4 == 0:
            query.upload_snapshots(number, kept_ssts=100)
    faulty = stores.FaultyStore(store)

    closure.close_over(faulty, query.path, batches - 1)

    assert sum(operation.name == "list" for operation in faulty.operations) == 1
    assert len(faulty.operations) <= 12


def a_record(key: str) -> bytes:
    """Return what can be read as the record of that name."""
    name = batch_records.parse_key(key)
    if name is None or name.kind is not batch_records.RecordKind.PREPARED:
        return b"{}"
    return PreparedRecord(
        job="default/flights",
        query_uid="delays",
        uid=name.uid,
        sink="FakeSink",
        generation=1,
        batch_id=name.batch,
        epoch=name.epoch,
        prepared_at=datetime(2026, 1, 1, tzinfo=UTC),
        lineage="9f1c",
    ).sealed()


RECORDS = {
    "prepared/out/00000000-00000001.json",
    "prepared/out/00000001-00000001.json",
    "prepared/out/00000002-00000001.json",
    "prepared/out/00000002-00000002.json",
    "prepared/log/00000001-00000001.json",
    "prepared/out/00000003-00000002.json",
    "operator-state/rules/00000001-00000001.json",
}


@pytest.mark.parametrize(
    ("committed", "prepared"),
    [
        pytest.param(None, [("out", 0, 1), ("log", 1, 1), ("out", 1, 1), ("out", 2, 2)], id="unknown, so all of them"),
        pytest.param({"out": 0}, [("log", 1, 1), ("out", 1, 1), ("out", 2, 2)], id="one sink is known"),
        pytest.param({"out": 2, "log": 2}, [], id="all are committed"),
    ],
)
def test_a_cut_holds_the_transactions_that_may_be_uncommitted(
    store: stores.MemoryStore, committed: dict[str, int] | None, prepared: list[tuple[str, int, int]]
) -> None:
    """A.101: of two attempts at a batch the later driver's; none of a batch after the cut."""
    query = FakeQuery(store)
    for _ in range(4):
        query.run_batch()
    for key in RECORDS:
        store.write(f"{query.path}/{key}", a_record(key))

    entry = closure.ClosureBuilder(store, query.path).close_over(2, committed)

    keys = [f"prepared/{uid}/{batch:08d}-{epoch:08d}.json" for uid, batch, epoch in prepared]
    assert [one.path for one in entry.prepared] == keys
    assert [(one.uid, one.batch_id) for one in entry.prepared] == [(uid, batch) for uid, batch, _ in prepared]
    assert [(one.uid, one.batch_id) for one in entry.operator_states] == [("rules", 1)]
    assert paths(entry) & RECORDS == {*keys, "operator-state/rules/00000001-00000001.json"}


@pytest.mark.parametrize(
    ("lines", "folders"),
    [
        pytest.param(("1", "0", "1"), {0: 1, 1: 0}, id="a stream that is used again, after another"),
        pytest.param(("1", "1", "0"), {0: 1, 1: 0}, id="a stream that is used twice in a row"),
        pytest.param(("1", "1"), {0: 1, 1: 1}, id="two streams at the same position"),
    ],
)
def test_a_stream_that_is_used_twice_has_two_offsets_and_one_log(
    store: stores.MemoryStore, lines: tuple[str, ...], folders: dict[int, int]
) -> None:
    query = FakeQuery(store)
    query.run_batch()
    offsets = "\n".join(["v1", "{}", *(f'{{"logOffset":{line}}}' for line in lines)])
    store.write(f"{query.path}/offsets/0", offsets.encode())
    wanted = {f"sources/{folder}/{number}" for folder, last in folders.items() for number in range(last + 1)}
    for name in {*wanted, *(f"sources/{folder}/{last + 1}" for folder, last in folders.items())}:
        store.write(f"{query.path}/{name}", b"v1")

    entry = closure.close_over(store, query.path, 0)

    assert {path for path in paths(entry) if path.startswith("sources/")} == wanted
