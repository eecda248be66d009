"""Cleaning up goes round all key groups of a partition, also those that get no rows (Flink A.31)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from keyedstate import MemoryLog, new_ids
from statefulspark.operators.keyed import cleaning
from statefulspark.packs import ranges
from statefulspark.state import cache, functions, heads, keygroups, store, ttl

HOUR = 3_600_000
GROUPS = 8


class PartitionInMemory:
    """The chunk logs of all key groups of a partition; the one that was entered is current."""

    def __init__(self) -> None:
        self.logs = {group: MemoryLog() for group in range(GROUPS)}
        self.entered: list[int] = []

    @property
    def current(self) -> MemoryLog:
        return self.logs[self.entered[-1]]

    def enter(self, group: int) -> None:
        self.entered.append(group)

    def head(self) -> heads.GroupHead | None:
        return self.current.head()

    def set_head(self, head: heads.GroupHead) -> None:
        self.current.set_head(head)

    def chunk(self, version: int) -> tuple[str, bytes] | None:
        return self.current.chunk(version)

    def packed_chunk(self, where: ranges.PackRange) -> bytes:
        return self.current.packed_chunk(where)

    def put_chunk(self, version: int, unique_id: str, blob: bytes) -> None:
        self.current.put_chunk(version, unique_id, blob)

    def remove_chunk(self, version: int) -> None:
        self.current.remove_chunk(version)


class Task:
    """An operator on one partition: a batch is rows of one key group, then the end of the task."""

    def __init__(self, life: ttl.Ttl) -> None:
        self.log = PartitionInMemory()
        self.cache = cache.LruCache().for_operator("test", None)
        self._life = life
        self._ids: Callable[[], str] = new_ids()
        self.round = ttl.CleanupRound(range(GROUPS))

    def batch(self, group: int, keys: Iterator[object] | range, *, now_ms: int, records: int = 0) -> None:
        context = functions.BatchContext("test", now_ms)
        state = context.value_state("s", ttl=self._life)
        context.opened()
        for cleaner in context.cleaners.values():
            cleaner.round = self.round
        self.log.enter(group)
        loaded = store.load(self.log, self.cache, group)
        context.bind(loaded.tables, group)
        for key in keys:
            context.enter(key)
            state.update("value")
        context.clean(records)
        loaded.commit(new_id=self._ids)
        where = cleaning.Partition(self.log, self.cache, "int")
        cleaning.clean(context, where, new_id=self._ids)

    def left(self) -> dict[int, int]:
        """Return how many keys each key group has, of those that have any."""
        found = {}
        for group, log in self.log.logs.items():
            loaded = store.load(log, cache.LruCache().for_operator("another worker", None), group)
            count = loaded.tables.tables["s"].count if "s" in loaded.tables.tables else 0
            if count:
                found[group] = count
        return found


def a_time_to_live(count: int, *, per_record: bool = True) -> ttl.Ttl:
    return ttl.Ttl("1h", cleanup_in_background=False, cleanup_incrementally=count, cleanup_for_every_record=per_record)


def filled(task: Task, groups: range, keys: int = 12) -> Task:
    for group in groups:
        task.batch(group, range(keys), now_ms=0)
    task.round.pending_entries = 0
    return task


def test_records_of_one_key_clean_up_the_expired_keys_of_all_other_key_groups() -> None:
    task = filled(Task(a_time_to_live(5)), range(1, GROUPS))

    task.batch(0, range(1), now_ms=2 * HOUR, records=40)

    assert task.left() == {0: 1}


def test_no_more_entries_are_looked_at_than_the_records_pay_for() -> None:
    task = filled(Task(a_time_to_live(1)), range(1, GROUPS))

    task.batch(0, range(0), now_ms=2 * HOUR, records=30)

    assert sum(task.left().values()) >= 12 * (GROUPS - 1) - 30


def test_few_records_save_up_for_a_key_group_until_they_can_pay_for_all_of_it() -> None:
    task = filled(Task(a_time_to_live(1)), range(1, 2))
    sizes = []
    for _ in range(20):
        task.batch(0, range(0), now_ms=2 * HOUR, records=1)
        sizes.append(task.left())

    assert {} in sizes
    assert all(one in ({1: 12}, {}) for one in sizes)


def test_a_large_key_group_is_cleaned_up_a_lot_at_a_time() -> None:
    task = filled(Task(a_time_to_live(1)), range(1, 2), keys=3 * cleaning.LOAD_THRESHOLD)

    task.round.finish(0)
    task.batch(0, range(0), now_ms=2 * HOUR, records=cleaning.LOAD_THRESHOLD)

    assert task.left() == {1: 2 * cleaning.LOAD_THRESHOLD}


def test_entries_that_are_alive_stay_and_are_not_looked_at_twice_in_a_batch() -> None:
    task = filled(Task(a_time_to_live(1000)), range(GROUPS))

    before = len(task.log.entered)

    task.batch(0, range(0), now_ms=HOUR // 2, records=1000)

    visits = task.log.entered[before + 1 :]
    assert task.left() == dict.fromkeys(range(GROUPS), 12)
    assert len(set(visits)) == len(visits)


def test_a_key_group_that_was_cleaned_up_goes_on_with_its_rows_in_the_same_batch() -> None:
    task = filled(Task(a_time_to_live(5)), range(3))
    task.batch(0, range(1), now_ms=2 * HOUR, records=40)

    task.batch(1, range(100, 103), now_ms=2 * HOUR)

    assert task.left() == {0: 1, 1: 3}


def test_the_neighbours_of_a_key_group_are_those_of_its_partition() -> None:
    partitions = [cleaning.neighbours_of(group, 3, groups=32) for group in range(32)]

    assert all(group in neighbours for group, neighbours in enumerate(partitions))
    assert sorted(number for one in {tuple(found) for found in partitions} for number in one) == list(range(32))
    in_spark = [keygroups.spark_hash((keygroups.mark(group),), ("int",)) % 3 for group in range(32)]
    assert all(in_spark[number] == in_spark[group] for group, found in enumerate(partitions) for number in found)
