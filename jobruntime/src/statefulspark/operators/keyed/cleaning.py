"""Cleaning up expired entries in key groups that get no rows: a little at the end of each batch, all of them in turn.

An access to a state pays for looking at some entries (`Ttl.cleanup_incrementally`). Those of the key group at hand are
looked at on the spot; the rest is owed to the other key groups of the partition. The state server reaches these as well: the
key group that it works on is whichever was named last.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pyspark import TaskContext

from statefulspark.contract.placement import Placement
from statefulspark.operators.keyed import packing
from statefulspark.state import expiry, functions, keygroups, store

LOT = 1000
"""A key group is loaded for as many entries as it has, or for this many."""
_PARTITIONS = "spark.sql.shuffle.partitions"
_ROUNDS: dict[tuple[str, str, int, int], expiry.CleanupRound] = {}
"""Of this Python worker, by operator, state, partition, and number of partitions."""


class PartitionLog(store.ChunkLog, Protocol):
    """A view into the engine's state, at one key group at a time."""

    def enter(self, standing: int) -> None:
        """Make the key group current that something stands for."""

    def leave(self) -> None:
        """Have no current key group."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The state of one partition, and how its key groups are named there.

    Attributes:
        log: Where it is.
        cache: Where tables of earlier batches may be.
        placement: What stands for a key group.
        key_type: Types of the key columns.
    """

    log: PartitionLog
    cache: store.GroupCache
    placement: Placement
    key_type: str


def walk(context: functions.KeyedContext, uid: str, placement: Placement, *, group: int, groups: int) -> None:
    """Have the cleaners of a context go round the key groups of this task's partition, from where they were.

    Args:
        context: Just opened.
        uid: The operator.
        placement: How its key groups are spread over partitions.
        group: One that the partition has.
        groups: How many there are in all.
    """
    task = TaskContext.get()
    # Spark hands the session's settings to tasks as the batch has them: with the number that the query began with. The
    # number of the task is no help, since it counts all branches of the query.
    partitions = int((task.getLocalProperty(_PARTITIONS) if task is not None else None) or 1)
    neighbours = neighbours_of(group, partitions, placement, groups=groups)
    for name, cleaner in context.cleaners.items():
        cleaner.round = _ROUNDS.setdefault((uid, name, neighbours[0], partitions), expiry.CleanupRound(neighbours))


def neighbours_of(group: int, partitions: int, placement: Placement, *, groups: int) -> list[int]:
    """Return the key groups that are in the same partition as one of them."""
    if placement is Placement.EVEN:
        return list(range(group % partitions, groups, partitions))
    partition_of = _hashed(partitions, groups)
    return [number for number, partition in enumerate(partition_of) if partition == partition_of[group]]


@functools.cache
def _hashed(partitions: int, groups: int) -> tuple[int, ...]:
    """Return the partition of each key group whose number stands for it."""
    return tuple(keygroups.spark_hash((number,), ("int",)) % partitions for number in range(groups))


def clean(context: functions.KeyedContext, partition: Partition, *, new_id: Callable[[], str]) -> None:
    """Look at the entries that accesses of this batch, or of batches before, have paid for.

    Cost: a question to the state server for each key group, and loading those that are not in memory; a key group is loaded
    only when as many entries are owed as it has, or a lot. Nothing where accesses were few.

    Args:
        context: At the end of its batch.
        partition: Where the key groups are.
        new_id: Makes ids of versions.
    """
    for cleaner in context.cleaners.values():
        visited: set[int] = set()
        while (group := cleaner.round.next_due()) is not None:
            if group in visited:
                cleaner.round.pending_entries = 0  # more than all entries there are
                break
            visited.add(group)
            partition.log.enter(packing.of_group(group, partition.placement))
            if not _clean_group(context, cleaner, partition, group, new_id):
                break
    partition.log.leave()


def _clean_group(
    context: functions.KeyedContext,
    cleaner: expiry.Cleaner,
    partition: Partition,
    group: int,
    new_id: Callable[[], str],
) -> bool:
    """Clean up in a key group; return whether there was enough owed for it."""
    head = partition.log.head()
    if head is None:
        cleaner.round.finish(group)
        cleaner.round.pending_entries -= 1
        return True
    if cleaner.round.pending_entries < min(head.count, LOT):
        return False
    loaded = store.load(partition.log, partition.cache, group)
    context.bind(loaded.tables, group)
    cleaner.clean_pending(context.now_ms)
    store.commit(
        partition.log,
        partition.cache,
        loaded,
        new_id=new_id,
        before_full=context.drop_expired,
        key_type=partition.key_type,
    )
    return True
