"""Incremental cleanup of expired entries in key groups without rows: some at the end of each batch, all of them in turn.

Each access to a state checks some entries (`cleanup_incrementally` of a `Ttl`). Entries of the current key group are
checked at once; the rest is pending for the other key groups of the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from pyspark import TaskContext

from statefulspark.state import cache, functions, store, ttl

LOAD_THRESHOLD = 1000
"""A key group is loaded when the number of pending entries reaches its size or this number."""
PARTITIONS_PROPERTY = "statefulspark.partitions"
"""Set by the driver: the number that Spark has fixed for the query. A function of `foreachBatch` may change the settings of
its batch, but not this."""
_PARTITIONS = "spark.sql.shuffle.partitions"
_STATE_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions"
"""Set by Spark for a query whose offset log has another number than its session."""
_DEFAULT_PARTITIONS = 200
"""Spark's, in a session that has set none."""
_ROUNDS: dict[tuple[str, str, int, int], ttl.CleanupRound] = {}
"""Rounds of this Python worker by operator, state, partition, and number of partitions."""


class PartitionLog(store.ChunkLog, Protocol):
    """A view of Spark's state, one key group at a time."""

    def enter(self, group: int) -> None:
        """Make a key group the current one."""

    def read_heads(self, groups: Iterable[int]) -> None:
        """Read the heads of key groups that will be used, in one go."""

    def finish(self) -> object:
        """End the batch, before Spark commits the partition."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The state of one partition.

    Attributes:
        log: Its chunks.
        cache: May have tables of earlier batches.
        key_type: Types of the key columns.
    """

    log: PartitionLog
    cache: cache.OperatorCache
    key_type: str


def assign_rounds(context: functions.BatchContext, uid: str, *, group: int, groups: int) -> None:
    """Set the rounds of the cleaners of a context to the key groups of this task's partition; started rounds continue.

    Args:
        context: The opened context.
        uid: The operator.
        group: A key group of the partition.
        groups: Total number of key groups.
    """
    partitions = partitions_of_task()
    neighbours = neighbours_of(group, partitions, groups=groups)
    for name, cleaner in context.cleaners.items():
        cleaner.round = _ROUNDS.setdefault((uid, name, neighbours[0], partitions), ttl.CleanupRound(neighbours))


def partitions_of_task() -> int:
    """Return the number of partitions of the query whose task runs.

    A driver tells it. Without one, Spark passes the session settings of the batch to tasks, with the number of partitions at
    the start of the query, or the one that its state has kept; without any setting it is Spark's default. The task number
    cannot be used, because it counts all branches of the query.
    """
    settings = (PARTITIONS_PROPERTY, _STATE_PARTITIONS, _PARTITIONS)
    return int(next(filter(None, map(task_property, settings)), _DEFAULT_PARTITIONS))


def task_property(name: str) -> str | None:
    """Return a local property of the running task; None if it has none, or no task runs."""
    task = TaskContext.get()
    return task.getLocalProperty(name) if task is not None else None


def neighbours_of(group: int, partitions: int, *, groups: int) -> list[int]:
    """Return the key groups that are in the same partition as `group`, in ascending order."""
    return list(range(group % partitions, groups, partitions))


def clean(context: functions.BatchContext, partition: Partition, *, new_id: Callable[[], str]) -> None:
    """Check the pending entries of this batch and earlier ones.

    Cost: a request to the state server for each key group, and loading those that are not in memory; a key group is loaded
    only when the number of pending entries reaches its size or LOAD_THRESHOLD. With few accesses it does nothing.

    Args:
        context: The context at the end of its batch.
        partition: The partition of the key groups.
        new_id: Returns a new version id.
    """
    for cleaner in context.cleaners.values():
        visited: set[int] = set()
        while (group := cleaner.round.next_due()) is not None:
            if group in visited:
                cleaner.round.pending_entries = 0  # more pending entries than all groups have
                break
            visited.add(group)
            partition.log.enter(group)
            head = partition.log.head()
            if head is None:
                cleaner.round.finish(group)
                cleaner.round.pending_entries -= 1
                continue
            if cleaner.round.pending_entries < min(head.count, LOAD_THRESHOLD):
                break
            loaded = store.load(partition.log, partition.cache, group)
            context.bind(loaded.tables, group)
            cleaner.clean_pending(context.now_ms)
            loaded.commit(new_id=new_id, cutoffs_ms=context.cutoffs_ms, key_type=partition.key_type)
