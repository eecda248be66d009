"""A new kind of state is a file and a row: one that no module of the product knows goes all the ways that state goes."""

from __future__ import annotations

import copy
import enum
import pickle
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import statefulspark as ss
from keyedstate import MemoryLog, Worker, new_ids
from rankedstate import RANKED, RankedKind, RankedState
from statefulspark import errors, storage
from statefulspark.canonical import documents, groups, parts, rows
from statefulspark.contract.manifest import Manifest, OperatorEntry, QueryEntry, SnapshotFormat, SnapshotKind, Trigger
from statefulspark.evolution import keyed_states
from statefulspark.state import cache, chunks, evolution, functions, grouptables, heads, kinds, liststate, tables, ttl

META = kinds.StateMeta("best", RANKED, "array<bigint>", has_ttl=False)
TIMED = kinds.StateMeta("best", RANKED, "array<bigint>", has_ttl=True)
NEVER_MERGE = heads.Policy(fan_in=1000, max_size_amplification=1000.0)
MERGE_RUNS = heads.Policy(fan_in=2, max_size_amplification=1000.0)
ALWAYS_FULL = heads.Policy(fan_in=2, max_size_amplification=0.0)
LIFE = ttl.Ttl("5ms")


class Ranks:
    """A function with one ranked state."""

    def __init__(self, descriptor: object = None) -> None:
        self._descriptor = descriptor or RankedState("best", "bigint")

    def declare(self, context: functions.BatchContext) -> None:
        self.state = context.declare(self._descriptor)

    def add(self, **values: object) -> Callable[[functions.BatchContext], None]:
        def work(context: functions.BatchContext) -> None:
            for key, value in values.items():
                context.enter(key)
                self.state.add(value)

        return work

    def clear(self, key: str) -> Callable[[functions.BatchContext], None]:
        def work(context: functions.BatchContext) -> None:
            context.enter(key)
            self.state.clear()

        return work


def _read(log: MemoryLog, descriptor: object = None, *keys: str, **how: object) -> dict[str, list[object]]:
    """Return the elements of keys, as a worker sees them that has nothing in memory."""
    ranks, found = Ranks(descriptor), {}

    def work(context: functions.BatchContext) -> None:
        for key in keys or ("a", "b"):
            context.enter(key)
            found[key] = ranks.state.get()

    Worker(ranks.declare, new_ids()).run(log, work, **how)  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize(
    "policy", [NEVER_MERGE, MERGE_RUNS, ALWAYS_FULL], ids=["deltas alone", "merged deltas", "always in full"]
)
def test_a_new_kind_is_declared_written_merged_and_read_again(policy: heads.Policy) -> None:
    ranks, log = Ranks(), MemoryLog()
    worker = Worker(ranks.declare, new_ids())
    for work in (ranks.add(a=1, b=7), ranks.add(a=3), ranks.clear("b"), ranks.add(a=2)):
        worker.run(log, work, policy=policy)

    assert _read(log) == {"a": [3, 2, 1], "b": []}


def test_a_new_kind_is_read_in_part_from_a_view_on_disk(tmp_path: Path) -> None:
    ranks, log, disk = Ranks(), MemoryLog(), cache.DiskViews(tmp_path)
    worker = Worker(ranks.declare, new_ids(), disk=disk, memory_bytes=0)
    for work in (ranks.add(a=1, b=7), ranks.add(a=3)):
        worker.run(log, work, keys=["a", "b"], policy=NEVER_MERGE)

    found: list[list[object]] = []

    def read(context: functions.BatchContext) -> None:
        context.enter("a")
        found.append(ranks.state.get())

    worker.run(log, read, keys=["a"])

    assert found == [[3, 1]]
    assert disk.used_bytes > 0


def test_elements_of_a_new_kind_expire_when_everything_is_written() -> None:
    timed = RankedState("best", "bigint", LIFE)
    ranks, log = Ranks(timed), MemoryLog()
    worker = Worker(ranks.declare, new_ids())
    worker.run(log, ranks.add(a=1, b=7), now_ms=0)
    worker.run(log, ranks.add(a=3), now_ms=4, policy=NEVER_MERGE)

    worker.run(log, ranks.add(a=2), now_ms=5, policy=ALWAYS_FULL)

    assert log.stored_head is not None
    (stored,) = chunks.decode(log.chunks[log.stored_head.version][1], "it").sections
    assert stored.changes == {"a": [(3, 4), (2, 5)]}
    assert _read(log, timed, now_ms=9) == {"a": [2], "b": []}


def test_elements_of_a_new_kind_are_cleaned_up_on_the_way() -> None:
    timed = RankedState("best", "bigint", ttl.Ttl("5ms", cleanup_incrementally=10))
    ranks, log = Ranks(timed), MemoryLog()
    worker = Worker(ranks.declare, new_ids())
    worker.run(log, ranks.add(a=1, b=7), now_ms=0)

    worker.run(log, ranks.add(c=2), now_ms=5, policy=NEVER_MERGE)

    (change,) = chunks.decode(log.chunks[2][1], "it").sections
    assert change.changes == {"a": tables.DELETED, "b": tables.DELETED, "c": [(2, 5)]}


def test_an_export_leaves_out_what_is_expired_of_a_new_kind() -> None:
    chunk = chunks.Chunk(chunks.ChunkKind.FULL, (chunks.Section(TIMED, {"a": [(3, 9), (1, 0)], "b": [(7, 0)]}),))

    exported = chunks.without_expired(chunk, {"best": 5}, now_ms=10)

    assert exported == chunks.Chunk(chunks.ChunkKind.FULL, (chunks.Section(TIMED, {"a": [(3, 9)]}),))


def test_a_value_of_another_type_than_a_new_kind_declares_is_refused() -> None:
    ranks = Ranks()
    with pytest.raises(
        errors.SpecRejectedError, match=r"'best' was given a value of type str, and is declared as bigint"
    ):
        Worker(ranks.declare, new_ids()).run(MemoryLog(), ranks.add(a="one"))


def test_the_type_of_a_new_kind_evolves() -> None:
    ranks, log = Ranks(), MemoryLog()
    Worker(ranks.declare, new_ids()).run(log, ranks.add(a=1))

    assert [type(found) for found in _read(log, RankedState("best", "double"), "a")["a"]] == [float]
    with pytest.raises(
        errors.SpecRejectedError, match=r"Was \[RankedState<array<double>>\], registered with \[ListState<"
    ):
        Worker(Ranks(liststate.ListStateDescriptor("best", "bigint")).declare, new_ids()).run(log, lambda _: None)


class Medal(enum.Enum):
    """A type of the user's own."""

    BRONZE = 1
    GOLD = 2


def test_a_new_kind_holds_values_of_a_users_own_type() -> None:
    medals = RankedState("best", Medal)
    ranks, log = Ranks(medals), MemoryLog()
    Worker(ranks.declare, new_ids()).run(log, ranks.add(a=Medal.GOLD))

    assert _read(log, medals, "a") == {"a": [Medal.GOLD]}


@pytest.mark.parametrize("meta", [META, TIMED], ids=["plain", "with a time to live"])
def test_a_new_kind_is_exported_as_rows_and_comes_back(meta: kinds.StateMeta) -> None:
    held = {"a": [(3, 9), (1, 8)], "b": [(7, 9)]} if meta.has_ttl else {"a": [3, 1], "b": [7]}
    chunk = chunks.Chunk(chunks.ChunkKind.FULL, (chunks.Section(meta, held),))

    found = [row for _, row in groups.read_rows(chunk)]
    table = rows.make_table(meta, found, 1)
    stored = groups.build({meta: reversed(list(rows.from_table(meta, table, 1, "it")))})

    assert table.column_names == ["key", "rank", "value", *(["renewed_ms"] if meta.has_ttl else [])]
    assert table.column("rank").to_pylist() == [0, 1, 0]
    assert chunks.decode(stored.blob, "it") == chunk


def test_what_is_written_down_of_a_new_kind_leads_to_it() -> None:
    assert keyed_states.meta_of(keyed_states.entry_of(META)) == META
    assert pickle.loads(pickle.dumps(META)).kind is RANKED  # noqa: S301 - our own bytes
    assert copy.deepcopy(evolution.Declaration(META)).meta.kind is RANKED
    assert grouptables.GroupTables().table(META).count == 0


def test_a_name_is_taken_once_and_an_unknown_one_is_told_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="a kind of state named 'RankedState' exists already"):
        RankedKind("RankedState")
    with pytest.raises(
        ValueError, match=r"'HeapState' is not a kind of state that this release knows: .*MapState, RankedState"
    ):
        kinds.named("HeapState", "best")


def test_read_state_shows_a_new_kind(tmp_path: Path) -> None:
    class_of = documents.KeyedState
    store = storage.open_store(f"file://{tmp_path}", storage.StorageOptions(allow_local_files=True))
    path = f"{documents.states_folder('ranks', 'best')}/{documents.part_name(0, 0)}"
    part = parts.write(store, "files/q", path, rows.make_table(META, [("a", 0, 3, 0), ("a", 1, 1, 0)], 1))
    state = class_of(**keyed_states.entry_of(META).model_dump(), files=(part,))
    operator = documents.CanonicalOperator(
        uid="ranks", operator_id=0, name="it", key_types=("string",), max_parallelism=128, states=(state,)
    )
    document = documents.QueryDocument(uid="q", batch_id=2, operators=(operator,))
    store.write(f"files/q/{documents.QUERY_DOCUMENT}", document.to_json().encode())
    store.write("_metadata.json", _manifest().to_json().encode())

    table = ss.read_state(f"file://{tmp_path}", uid="ranks", options=storage.StorageOptions(allow_local_files=True))

    assert isinstance(table, pa.Table)
    assert table.to_pylist() == [{"key": "a", "rank": 0, "value": 3}, {"key": "a", "rank": 1, "value": 1}]


def _manifest() -> Manifest:
    operator = OperatorEntry(uid="ranks", operator_id=0, name="it", partitions=2, max_parallelism=128, key="string")
    query = QueryEntry(uid="q", batch_id=2, path="files/q", files=(), operators=(operator,), offsets=())
    return Manifest(
        kind=SnapshotKind.SAVEPOINT,
        format=SnapshotFormat.CANONICAL,
        id=7,
        namespace="default",
        job="flights",
        trigger=Trigger.MANUAL,
        epoch=3,
        generation=1,
        triggered_at="2026-11-21T12:00:00Z",  # type: ignore[arg-type]  # read from its text
        completed_at="2026-11-21T12:00:00Z",  # type: ignore[arg-type]
        queries=(query,),
    )
