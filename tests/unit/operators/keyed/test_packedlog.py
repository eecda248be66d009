"""Large changes go into packs: the state is that of dictionaries, whatever attempts are lost or come late."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Never

import pytest
from keyedstate import MemoryLog, Worker, new_ids
from statefulspark import errors
from statefulspark.operators.keyed import packedlog
from statefulspark.packs import names, ranges, reading, window
from statefulspark.packs.sizes import PartitionPacks
from statefulspark.state import functions, heads, store
from statefulspark.storage import ObjectInfo
from statefulspark.testing import stores

_GROUPS = 6
_SMALL = packedlog.Thresholds(chunk_bytes=80, pack_bytes=250)
_IN_PARTS = packedlog.Thresholds(chunk_bytes=80, pack_bytes=250, part_bytes=300)
_ROOT = "generations/00000001/q"
State = dict[object, object]


class Totals:
    """Declares the state, as a function does when it is opened."""

    def __call__(self, context: functions.BatchContext) -> None:
        self.state = context.value_state("total")


class PartitionState:
    """The key groups of a partition in Spark's state store, and its packs on storage."""

    def __init__(self, root: stores.MemoryStore, logs: dict[int, MemoryLog]) -> None:
        self.reader = reading.PackReader(root, "mean")
        self.logs = logs
        self.group = -1

    def attempt(self) -> PartitionState:
        return PartitionState(self.reader.store, {group: log.attempt() for group, log in self.logs.items()})  # type: ignore[arg-type]

    def enter(self, group: int) -> None:
        self.group = group

    def read_heads(self, groups: Iterable[int]) -> None:
        pass

    def head(self) -> heads.GroupHead | None:
        return self.logs[self.group].head()

    def set_head(self, head: heads.GroupHead) -> None:
        self.logs[self.group].set_head(head)

    def chunk(self, version: int) -> tuple[str, bytes] | None:
        return self.logs[self.group].chunk(version)

    def packed_chunk(self, where: ranges.PackRange) -> bytes:
        return self.reader.read(where)

    def put_chunk(self, version: int, unique_id: str, blob: bytes) -> None:
        self.logs[self.group].put_chunk(version, unique_id, blob)

    def remove_chunk(self, version: int) -> None:
        self.logs[self.group].remove_chunk(version)


class Job:
    """A keyed operator on some partitions, whose attempts may be lost, and a dictionary for each key group."""

    def __init__(
        self,
        seed: int,
        partitions: int,
        *,
        root: stores.MemoryStore | None = None,
        thresholds: packedlog.Thresholds = _SMALL,
    ) -> None:
        self.random, self.thresholds = random.Random(seed), thresholds
        self.bucket = root or stores.MemoryStore()
        self.root = self.bucket.child(_ROOT)
        self.ids = new_ids()
        self.batch, self.owes = -1, True
        self.logs = {group: MemoryLog() for group in range(_GROUPS)}
        self.truth: dict[int, State] = {group: {} for group in range(_GROUPS)}
        self.begin(partitions)

    def begin(self, partitions: int) -> None:
        """Go on with a number of partitions, in new workers."""
        self.partitions = partitions
        self.declared = [Totals() for _ in range(partitions)]
        self.packs = [PartitionPacks() for _ in range(partitions)]
        self.workers = [Worker(declared, self.ids) for declared in self.declared]

    def run_batch(self, changes: dict[int, State], *, attempts: int = 1) -> None:
        self.batch += 1
        for partition in range(self.partitions):
            groups = tuple(range(partition, _GROUPS, self.partitions))
            state = PartitionState(self.root, {group: self.logs[group] for group in groups})
            tries = [self._attempt(state, partition, groups, changes) for _ in range(attempts)]
            for group, log in self.random.choice(tries).logs.items():
                self.logs[group] = log
        for group, changed in changes.items():
            self.truth[group] |= changed

    def _attempt(
        self, state: PartitionState, partition: int, groups: tuple[int, ...], changes: dict[int, State]
    ) -> PartitionState:
        attempt = state.attempt()
        log = packedlog.PackedLog(
            attempt, lambda group: self._place(group % self.partitions, groups), self.thresholds, self._is_owed
        )
        declared, worker = self.declared[partition], self.workers[partition]
        for group in groups:
            if group in changes:
                log.enter(group)
                worker.run(log, _setting(declared, changes[group]), group=group)
        log.finish()
        return attempt

    def _is_owed(self, place: Callable[[], packedlog.PackPlace]) -> bool:
        if not self.owes:
            return False
        here = place()
        listed = [name for info in self.root.list(names.FOLDER) if (name := names.of_key(info.key)) is not None]
        packs = [name for _, name in listed if name.batch < here.batch]
        return window.owes_a_name(packs, partitions=here.partitions, partition=here.partition)

    def _place(self, partition: int, groups: tuple[int, ...]) -> packedlog.PackPlace:
        known = self.packs[partition]
        return packedlog.PackPlace(self.root, "mean", self.partitions, partition, self.batch, 1, groups, known)

    def references(self) -> list[str]:
        heads = (log.head() for log in self.logs.values())
        return [run.packed.pack for head in heads if head for run in head.runs if run.packed is not None]

    def checkpoint(self) -> frozenset[str]:
        """Return the packs that a checkpoint names, and delete the others as pruning does."""
        listed = [name for info in self.root.list(names.FOLDER) if (name := names.of_key(info.key)) is not None]
        chosen = window.needed((name for _, name in listed), partitions=self.partitions, batch=self.batch)
        assert window.first_gap(chosen) is None
        unused = [name for _, name in listed if name not in chosen and window.is_unused(name, floor=self.batch)]
        self.root.delete_many([names.key("mean", name.reference) for name in unused])
        return frozenset(name.reference for name in chosen)

    def stored(self) -> dict[int, State]:
        """Return what a new worker finds in each key group."""
        state = PartitionState(self.root, self.logs)
        rows = {}
        for group in range(_GROUPS):
            state.group = group
            loaded = store.load(state, Worker(Totals(), self.ids).cache.for_operator("test", None), group)
            rows[group] = {key: row for table in loaded.tables.tables.values() for key, row in table.rows.items()}
        return rows


def _setting(declared: Totals, changes: State) -> Callable[[functions.BatchContext], None]:
    def work(context: functions.BatchContext) -> None:
        for key, value in changes.items():
            context.enter(key)
            declared.state.update(str(value))

    return work


def changes_of(chosen: random.Random, batch: int, groups: Iterable[int]) -> dict[int, State]:
    """Return some changes, large ones at times."""
    most = chosen.choice((1, 3, 12))
    return {
        group: {f"key {chosen.randrange(30)}": f"{batch} {chosen.random()}" for _ in range(chosen.randint(1, most))}
        for group in groups
        if chosen.random() < 0.6
    }


@pytest.mark.slow
@pytest.mark.parametrize("thresholds", [_SMALL, _IN_PARTS], ids=["one pack", "parts"])
@pytest.mark.parametrize("seed", range(25))
def test_state_in_packs_is_that_of_dictionaries_whatever_becomes_of_attempts(
    seed: int, thresholds: packedlog.Thresholds
) -> None:
    job = Job(seed, partitions=seed % 3 + 1, thresholds=thresholds)
    for batch in range(40):
        job.run_batch(changes_of(job.random, batch, range(_GROUPS)), attempts=job.random.choice((1, 1, 2, 3)))
        if job.random.random() < 0.5:
            assert set(job.references()) <= job.checkpoint()
        if job.random.random() < 0.1:
            job.begin(job.random.randint(1, 3))

    assert job.stored() == job.truth
    assert job.references()


def test_storage_is_about_twice_the_state_however_long_a_job_runs() -> None:
    job = Job(7, partitions=1)
    sizes = []
    for batch in range(150):
        job.run_batch({group: {f"key {batch % 30}": "x" * 100} for group in range(_GROUPS)})
        job.checkpoint()
        sizes.append(sum(info.size_bytes for info in job.root.list(names.FOLDER)))

    assert max(sizes[100:]) < 2 * max(sizes[40:60])
    assert job.stored() == job.truth


@pytest.mark.parametrize("rest", [(), (1,)], ids=["nothing is left", "little is left"])
def test_storage_stays_about_twice_the_state_where_what_is_large_becomes_parts(rest: tuple[int, ...]) -> None:
    job = Job(7, partitions=1, thresholds=_IN_PARTS)
    job.run_batch({group: {"a": "x" * 100} for group in range(_GROUPS)})
    sizes = []
    for batch in range(60):
        large = {f"key {key}": f"{batch} {job.random.random()}" for key in range(30)}
        job.run_batch({0: large} | {group: {"b": "x" * 60} for group in rest})
        job.checkpoint()
        sizes.append(sum(info.size_bytes for info in job.root.list(names.FOLDER)))

    assert max(sizes[40:]) < 2 * max(sizes[10:20])
    assert job.stored() == job.truth


def test_what_takes_too_much_memory_becomes_a_pack_before_the_batch_has_ended() -> None:
    job = Job(1, partitions=1, thresholds=_IN_PARTS)
    job.run_batch({group: {"a": "x" * 100} for group in range(_GROUPS)})

    assert len(job.root.list(names.FOLDER)) == _GROUPS // 2
    assert len(set(job.references())) == _GROUPS // 2
    assert job.stored() == job.truth


@pytest.mark.parametrize(("owes", "kept"), [(True, {2}), (False, {3})])
def test_packs_of_another_number_of_partitions_go_when_each_partition_has_said_what_it_needs(
    owes: bool, kept: set[int]
) -> None:
    job = Job(3, partitions=3)
    job.run_batch({group: {"a": "x" * 200} for group in range(_GROUPS)})
    while job.references():  # Until what is in packs was merged with newer changes.
        job.run_batch({group: {"a": "small"} for group in range(_GROUPS)})
    job.begin(2)
    job.owes = owes
    for batch in range(3):
        job.run_batch({group: {"a": str(batch)} for group in range(_GROUPS)})
        job.checkpoint()

    packs = [name for info in job.root.list(names.FOLDER) if (name := names.of_key(info.key)) is not None]
    assert {name.partitions for _, name in packs} == kept
    assert job.stored() == job.truth


def test_a_partition_without_state_writes_no_pack() -> None:
    state = PartitionState(stores.MemoryStore(), {0: MemoryLog()})
    place = packedlog.PackPlace(state.reader.store, "mean", 1, 0, 3, 1, (0,))
    log = packedlog.PackedLog(state, lambda _: place, _SMALL, lambda _: True)
    log.enter(0)

    assert log.head() is None
    assert log.finish() is None
    assert state.reader.store.list("") == ()


def test_small_changes_stay_in_the_state_store() -> None:
    job = Job(1, partitions=1)
    job.run_batch({0: {"a": "1"}, 1: {"b": "2"}})

    assert job.root.list("") == ()
    assert job.stored() == job.truth


def test_large_chunks_that_are_too_few_for_a_pack_stay_in_the_state_store() -> None:
    job = Job(1, partitions=1)
    job.run_batch({0: {"a": "x" * 80}})

    assert (job.root.list(""), job.references()) == ((), [])
    assert job.stored() == job.truth


class CountingStore(stores.MemoryStore):
    """A store that notes what is listed."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[str] = []

    def child(self, prefix: str) -> CountingStore:
        return self if prefix == _ROOT else super().child(prefix)  # type: ignore[return-value]

    def list(self, prefix: str) -> tuple[ObjectInfo, ...]:
        self.listed.append(prefix)
        return super().list(prefix)


@pytest.mark.parametrize("partitions", [1, 3, 6])
def test_a_batch_lists_the_packs_of_each_partition_once(partitions: int) -> None:
    root = CountingStore()
    job = Job(5, partitions=partitions, root=root)
    job.owes = False
    large = {group: {"a": "x" * 600} for group in range(_GROUPS)}
    job.run_batch(large)
    first, root.listed = root.listed, []
    job.run_batch(large)

    folders = [f"packs/mean/{partitions}-{partition}" for partition in range(partitions)]
    assert first == [folder for folder in folders for _ in range(2)], "what is there, and what was written"
    assert root.listed == folders


def test_after_a_change_of_the_partitions_the_folders_that_heads_name_are_listed_once() -> None:
    root = CountingStore()
    job = Job(5, partitions=2, root=root)
    job.owes = False
    large = {group: {f"key {number}": "x" * 200 for number in range(4)} for group in range(_GROUPS)}
    job.run_batch(large)
    job.begin(1)
    listed = []
    for _ in range(2):
        root.listed = []
        job.run_batch({group: {"key 0": "y" * 300} for group in range(_GROUPS)})
        listed.append(root.listed)

    own, others = "packs/mean/1-0", ["packs/mean/2-0", "packs/mean/2-1"]
    assert listed == [[own, *others, own], [own]]


class ListsNothing(stores.MemoryStore):
    """A store whose listings lag for ever."""

    def list(self, prefix: str) -> tuple[ObjectInfo, ...]:
        return ()

    def child(self, prefix: str) -> stores.MemoryStore:
        return self


def test_a_pack_that_no_listing_shows_is_named_by_nobody() -> None:
    job = Job(1, partitions=1, root=ListsNothing())
    job.run_batch({group: {"a": "x" * 80} for group in range(_GROUPS)})

    assert job.references() == []
    assert job.stored() == job.truth


class Refuses(stores.MemoryStore):
    """A store that takes nothing."""

    def __init__(self, error: errors.StatefulSparkError) -> None:
        super().__init__()
        self.error = error

    def create(self, key: str, body: bytes, *_: object, **__: object) -> Never:
        raise self.error

    def child(self, prefix: str) -> stores.MemoryStore:
        return self


@pytest.mark.parametrize("reason", ["AccessDenied", "CredentialsMissing"])
def test_without_the_right_to_write_large_changes_stay_in_the_state_store(
    reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    job = Job(1, partitions=1, root=Refuses(errors.StateUnknownError(reason, "No.")))
    job.run_batch({group: {"a": "x" * 80} for group in range(_GROUPS)})

    assert job.references() == []
    assert job.stored() == job.truth
    assert [vars(record)["reason"] for record in caplog.records] == [reason]


@pytest.mark.parametrize(
    "error", [errors.TransientError("StorageBusy", "Later."), errors.StateUnknownError("StorageFailed", "Unclear.")]
)
def test_an_attempt_fails_whose_pack_cannot_be_written(error: errors.StatefulSparkError) -> None:
    job = Job(1, partitions=1, root=Refuses(error))
    with pytest.raises(type(error)):
        job.run_batch({group: {"a": "x" * 80} for group in range(_GROUPS)})


def test_a_key_group_that_is_written_twice_in_a_batch_is_in_its_pack_once() -> None:
    state = PartitionState(stores.MemoryStore(), {0: MemoryLog()})
    place = packedlog.PackPlace(state.reader.store, "mean", 1, 0, 3, 1, (0,))
    log = packedlog.PackedLog(state, lambda _: place, packedlog.Thresholds.from_pack_bytes(1))
    declared = Totals()
    worker = Worker(declared, new_ids())
    for value in "ab":
        log.enter(0)
        worker.run(log, _setting(declared, {"key": value}))
    name = log.finish()

    state.group = 0
    head = state.head()
    assert name is not None
    assert head is not None
    assert (head.version, {run.packed and run.packed.pack for run in head.runs}) == (2, {name.reference})
    loaded = store.load(state, Worker(Totals(), new_ids()).cache.for_operator("test", None), 0)
    assert [dict(table.rows) for table in loaded.tables.tables.values()] == [{"key": "b"}]
