"""Deletion of states with `deleteIfExists` in `init`: removes them from every key group of a partition in the same batch.

Spark deletes a state as a whole. Here each key group has a part of it, so a partition visits all of its key groups: those
with rows or timers at their first use, and the others at the end of the batch. Deletions are committed with the batch, so
deleted state does not return, even if the call is removed later.

Visiting all key groups means reading them. While the same states are deleted and not declared again, a partition does so
only in the first batch of a run of the query, because no part can have returned since. This takes effect from the next
batch on, because a failed batch runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyspark import TaskContext

from statefulspark.state import store

Load = Callable[[int], store.KeyGroup]
Commit = Callable[[store.KeyGroup], object]


@dataclass(frozen=True, slots=True)
class TaskRun:
    """The position of a task in a query.

    Attributes:
        query: Id of the run of the query.
        partition: Partition of the task.
        batch: Number of the batch.
    """

    query: str
    partition: int
    batch: int


_Scope = tuple[str, int, str, frozenset[str]]
_CLEANED: dict[_Scope, int] = {}
"""The batch in which states were deleted from a partition: by run of the query, partition, operator, and states."""
_REMEMBERED = 256


def current_run() -> TaskRun | None:
    """Return the position of the current task; None if unknown, as in a batch query."""
    task = TaskContext.get()
    properties = (task and task._localProperties) or {}
    query, batch = properties.get("spark.jobGroup.id"), properties.get("streaming.sql.batchId")
    return None if task is None or query is None or batch is None else TaskRun(query, task.partitionId(), int(batch))


class StateDeletion:
    """The states that a processor deletes, in one partition and batch.

    Args:
        uid: The operator.
        names: The states.
        run: Position of the task; None if unknown, or if one of the states is declared again and must be deleted in every
            batch.
    """

    def __init__(self, uid: str, names: frozenset[str], run: TaskRun | None) -> None:
        self._uid, self._names, self._run = uid, names, run
        self._done: set[int] = set()

    @property
    def _scope(self) -> _Scope | None:
        return None if self._run is None else (self._run.query, self._run.partition, self._uid, self._names)

    @property
    def is_due(self) -> bool:
        """Whether key groups may have parts of the states."""
        if not self._names or self._run is None or self._scope is None:
            return bool(self._names)
        return _CLEANED.get(self._scope, self._run.batch) >= self._run.batch

    def clean(self, group: int, load: Load, commit: Commit) -> None:
        """Delete the states from a key group, once."""
        if group not in self._done and self.is_due:
            self._done.add(group)
            loaded = load(group)
            loaded.tables.drop(self._names)
            commit(loaded)

    def clean_others(self, groups: Iterable[int], load: Load, commit: Commit) -> None:
        """Delete the states from all key groups that the batch did not use, and remember the batch."""
        if not self.is_due:
            return
        for group in groups:
            self.clean(group, load, commit)
        if self._run is not None and self._scope is not None:
            while len(_CLEANED) >= _REMEMBERED:
                del _CLEANED[next(iter(_CLEANED))]
            _CLEANED[self._scope] = self._run.batch
