"""States that `init` deletes with `deleteIfExists`: removed from every key group of a partition, in the batch that asks.

Spark deletes a state as a whole. Here each key group has its part of it, so a partition looks at all of its key groups: at
those with rows or timers when they are first used, and at the others at the end of the batch. All is committed with the
batch, so what was deleted does not come back, whether or not the call is left in.

Looking at all key groups takes reading them. As long as the same states are deleted and not declared anew, a partition does
so in the first batch of a query's run only: none can have come back since. What is remembered for that counts from the
batch after on, since a batch that fails is run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyspark import TaskContext

from statefulspark.state import store

Load = Callable[[int], store.LoadedGroup]
Commit = Callable[[store.LoadedGroup], object]


@dataclass(frozen=True, slots=True)
class Run:
    """Where in a query a task is.

    Attributes:
        query: Id of the run of the query.
        partition: The task's.
        batch: Number of the batch.
    """

    query: str
    partition: int
    batch: int


_Scope = tuple[str, int, str, frozenset[str]]
_CLEANED: dict[_Scope, int] = {}
"""The batch in which a partition was rid of states: by run of the query, partition, operator, and the states."""
_REMEMBERED = 256


def current_run() -> Run | None:
    """Return where the running task is; None where Spark does not tell, as in a query that is not a stream."""
    task = TaskContext.get()
    properties = (task and task._localProperties) or {}
    query, batch = properties.get("spark.jobGroup.id"), properties.get("streaming.sql.batchId")
    return None if task is None or query is None or batch is None else Run(query, task.partitionId(), int(batch))


class Deleting:
    """The states that a processor deletes, in one partition and batch.

    Args:
        uid: The operator.
        names: The states.
        run: Where the task is; None where that is not known, or where one of the states is declared anew, so that there is
            something to delete in every batch.
    """

    def __init__(self, uid: str, names: frozenset[str], run: Run | None) -> None:
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
        """Delete the states from all key groups that the batch did not use, and remember that it was done."""
        if not self.is_due:
            return
        for group in groups:
            self.clean(group, load, commit)
        if self._run is not None and self._scope is not None:
            while len(_CLEANED) >= _REMEMBERED:
                del _CLEANED[next(iter(_CLEANED))]
            _CLEANED[self._scope] = self._run.batch
