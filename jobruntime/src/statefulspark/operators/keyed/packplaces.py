"""Where a worker finds the packs that heads of keyed state name: below the checkpoint root of the query whose task it runs.

The options to reach storage come with the operator, as those of sinks do. The root is known only when the query is started,
after its plan was made; so it comes with each task, as a local property that tasks inherit from their query.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from statefulspark import errors, storage
from statefulspark.contract.placement import Placement
from statefulspark.operators.keyed import cleaning, packedlog
from statefulspark.packs import reading
from statefulspark.storage import ObjectStore, StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT_PROPERTY = "statefulspark.checkpointRoot"
"""Local property of a query: Hadoop URI of its checkpoint root."""
EPOCH_PROPERTY = "statefulspark.epoch"
"""Local property of a query: the epoch of its driver."""
_BATCH_PROPERTY = "streaming.sql.batchId"


def tell_tasks(session: SparkSession, root: str, epoch: int) -> None:
    """Let the query that this thread starts next tell its tasks where it runs.

    Args:
        session: The job's session.
        root: Hadoop URI of the query's checkpoint root.
        epoch: The driver's epoch.
    """
    session.sparkContext.setLocalProperty(ROOT_PROPERTY, root)
    session.sparkContext.setLocalProperty(EPOCH_PROPERTY, str(epoch))


def reader_of(uid: str, options: StorageOptions | None) -> reading.PackReader:
    """Return the reader of an operator's packs for the running task.

    Args:
        uid: The operator.
        options: How to reach the job's storage; None if no job runs the operator.

    Raises:
        InternalError: `PacksUnplaced`: the task does not belong to a query of a job.
    """
    root = cleaning.task_property(ROOT_PROPERTY)
    if root is None or options is None:
        raise errors.InternalError(
            "PacksUnplaced",
            f"State of operator {uid!r} is in packs, and the task does not know where its query's checkpoint root is.",
        )
    return reading.PackReader(_store(root, options), uid)


def place_of(
    uid: str, options: StorageOptions | None, group: int, placement: Placement, *, groups: int
) -> packedlog.PackPlace:
    """Return where the running task writes a pack.

    Args:
        uid: The operator.
        options: As for `reader_of`.
        group: A key group of the task's partition.
        placement: How key groups are spread over partitions.
        groups: Number of key groups.

    Raises:
        InternalError: `PacksUnplaced`: the task does not belong to a query of a job.
    """
    reader = reader_of(uid, options)
    partitions = cleaning.partitions_of_task()
    return packedlog.PackPlace(
        store=reader.store,
        uid=uid,
        partitions=partitions,
        partition=cleaning.partition_of(group, partitions, placement, groups=groups),
        batch=_number(_BATCH_PROPERTY),
        epoch=_number(EPOCH_PROPERTY),
        groups=tuple(cleaning.neighbours_of(group, partitions, placement, groups=groups)),
    )


def _number(name: str) -> int:
    text = cleaning.task_property(name)
    if text is None:
        raise errors.InternalError("PacksUnplaced", f"A task that writes keyed state into a pack has no {name!r}.")
    return int(text)


@functools.lru_cache(maxsize=16)
def _store(root: str, options: StorageOptions) -> ObjectStore:
    return storage.open_store(root, options)
