"""A state is deleted from all key groups once in a run of a query, and again wherever that may not have been committed."""

from __future__ import annotations

import itertools

import pytest
from keyedstate import MemoryLog, new_ids
from statefulspark.operators.transform import deleting
from statefulspark.state import cache, context, store

_RUNS = (f"run-{number}" for number in itertools.count())
GROUPS = range(3)


class Partition:
    """Key groups of one partition; each has the states `gone` and `kept`, and batches may fail."""

    def __init__(self) -> None:
        self.logs = {group: MemoryLog() for group in GROUPS}
        self._cache, self._ids = cache.LruCache().for_operator("test"), new_ids()
        self.looked_at: list[int] = []
        for group in GROUPS:
            self.write(group)

    def write(self, group: int) -> None:
        opened = context.BatchContext("test", 0)
        states = [opened.value_state(name, int) for name in ("gone", "kept")]
        loaded = self.load(group)
        opened.bind(loaded.tables)
        opened.enter("key")
        for state in states:
            state.update(1)
        self.commit(loaded)

    def load(self, group: int) -> store.KeyGroup:
        self.looked_at.append(group)
        return store.load(self.logs[group], self._cache, group)

    def commit(self, loaded: store.KeyGroup) -> None:
        loaded.commit(new_id=self._ids)

    def batch(self, run: deleting.TaskRun | None, *, used: tuple[int, ...] = ()) -> list[int]:
        """Run a batch in which some groups have rows, and return which were looked at."""
        self.looked_at.clear()
        states = deleting.StateDeletion("test", frozenset({"gone"}), run)
        for group in used:
            states.clean(group, self.load, self.commit)
        states.clean_others(GROUPS, self.load, self.commit)
        return sorted(self.looked_at)

    @property
    def names(self) -> set[str]:
        """States that are stored, in any group."""
        loaded = (store.load(log, cache.LruCache().for_operator("fresh"), group) for group, log in self.logs.items())
        return {name for group in loaded for name in group.tables.metas}


def test_every_key_group_is_rid_of_a_state_whether_or_not_it_is_used() -> None:
    partition = Partition()
    assert partition.batch(deleting.TaskRun(next(_RUNS), 0, 5), used=(1,)) == [0, 1, 2]
    assert partition.names == {"kept"}


@pytest.mark.parametrize(
    ("batches", "looks"),
    [
        pytest.param((5, 6, 7), (True, False, False), id="once in a run"),
        pytest.param((5, 5, 6), (True, True, False), id="again when the batch is run again"),
    ],
)
def test_key_groups_are_looked_at_until_a_batch_that_did_is_committed(
    batches: tuple[int, ...], looks: tuple[bool, ...]
) -> None:
    partition, query = Partition(), next(_RUNS)
    found = tuple(bool(partition.batch(deleting.TaskRun(query, 0, batch), used=(1,))) for batch in batches)
    assert found == looks


def test_another_run_partition_or_task_without_a_run_looks_again() -> None:
    partition, query = Partition(), next(_RUNS)
    others = [deleting.TaskRun(next(_RUNS), 0, 7), deleting.TaskRun(query, 1, 7), None, None]
    assert [bool(partition.batch(run)) for run in (deleting.TaskRun(query, 0, 5), *others)] == [True] * 5


def test_where_nothing_is_deleted_nothing_is_looked_at() -> None:
    partition = Partition()
    states = deleting.StateDeletion("test", frozenset(), None)
    states.clean_others(GROUPS, partition.load, partition.commit)
    assert not states.is_due
    assert partition.names == {"gone", "kept"}
