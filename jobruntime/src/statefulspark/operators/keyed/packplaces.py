"""Where a worker finds the packs that heads of keyed state name: below the checkpoint root of the query whose task it runs.

The options to reach storage come with the operator, as those of sinks do. The root is known only when the query is started,
after its plan was made; so it comes with each task, as a local property that tasks inherit from their query.
"""

from __future__ import annotations

import functools

from pyspark import TaskContext

from statefulspark import errors, storage
from statefulspark.packs import reading
from statefulspark.storage import ObjectStore, StorageOptions

ROOT_PROPERTY = "statefulspark.checkpointRoot"
"""Local property of a query: Hadoop URI of its checkpoint root."""


def reader_of(uid: str, options: StorageOptions | None) -> reading.PackReader:
    """Return the reader of an operator's packs for the running task.

    Args:
        uid: The operator.
        options: How to reach the job's storage; None if no job runs the operator.

    Raises:
        InternalError: `PacksUnplaced`: the task does not belong to a query of a job.
    """
    task = TaskContext.get()
    root = task.getLocalProperty(ROOT_PROPERTY) if task is not None else None
    if root is None or options is None:
        raise errors.InternalError(
            "PacksUnplaced",
            f"State of operator {uid!r} is in packs, and the task does not know where its query's checkpoint root is.",
        )
    return reading.PackReader(_store(root, options), uid)


@functools.lru_cache(maxsize=16)
def _store(root: str, options: StorageOptions) -> ObjectStore:
    return storage.open_store(root, options)
