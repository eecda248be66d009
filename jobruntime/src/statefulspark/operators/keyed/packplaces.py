"""Where a worker finds the packs that heads of keyed state name: below the checkpoint root of the query whose task it runs.

The options to reach storage come with the operator, as those of sinks do. The root is known only when the query is started,
after its plan was made; so it comes with each task, as a local property that tasks inherit from their query.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from statefulspark import errors, storage
from statefulspark.operators.keyed import cleaning, packedlog
from statefulspark.packs import names, readahead, reading, window
from statefulspark.storage import ObjectStore, StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKS = "spark.statefulspark.keyedState.packs"
"""Setting of the engine: `false` keeps large changes in the state store instead of packs beside it."""
PACK_BYTES = "spark.statefulspark.keyedState.packs.minBytes"
"""Setting of the engine: fewer changed bytes of a partition and batch do not become a pack."""
ROOT_PROPERTY = "statefulspark.checkpointRoot"
"""Local property of a query: Hadoop URI of its checkpoint root."""
EPOCH_PROPERTY = "statefulspark.epoch"
"""Local property of a query: the epoch of its driver."""
PACKED_PROPERTY = "statefulspark.packedOperators"
"""Local property of a query: its operators with packs when it was started, as `uid:partitions` with commas."""
_BATCH_PROPERTY = "streaming.sql.batchId"
_AHEAD = readahead.RangeReader()
_NAMED: set[tuple[str, str, int, int]] = set()
"""Partitions that owe no pack, by root, operator and number of partitions."""


def thresholds(session: SparkSession, options: StorageOptions | None) -> packedlog.Thresholds | None:
    """Return which changes of an operator become packs; None if none do.

    Args:
        session: The job's session.
        options: How to reach the job's storage; None if no job runs the operator.

    Raises:
        SpecRejectedError: `ConfigInvalid`: a setting of the engine cannot be used.
    """
    if options is None or session.conf.get(PACKS, "true") != "true":
        return None
    text = str(session.conf.get(PACK_BYTES, str(packedlog.Thresholds().pack_bytes)))
    if not text.isdecimal() or int(text) < 1:
        raise errors.SpecRejectedError(
            "ConfigInvalid", f"{PACK_BYTES}: it must be a number of bytes, at least 1, such as 8388608 (got {text!r})."
        )
    return packedlog.Thresholds.of(int(text))


def tell_tasks(session: SparkSession, root: str, epoch: int, packed: Iterable[tuple[str, int]] = ()) -> None:
    """Let the query that this thread starts next tell its tasks where it runs.

    Args:
        session: The job's session.
        root: Hadoop URI of the query's checkpoint root.
        epoch: The driver's epoch.
        packed: Operators with packs, each with a number of partitions that wrote some.
    """
    context = session.sparkContext
    context.setLocalProperty(ROOT_PROPERTY, root)
    context.setLocalProperty(EPOCH_PROPERTY, str(epoch))
    context.setLocalProperty(PACKED_PROPERTY, ",".join(f"{uid}:{partitions}" for uid, partitions in sorted(packed)))


def packed_operators(store: ObjectStore, path: str) -> frozenset[tuple[str, int]]:
    """Return the operators of a query that have packs, each with a number of partitions that wrote some. Cost: one listing.

    Args:
        store: The job's.
        path: Folder of the query's checkpoint root.
    """
    prefix = f"{path}/"
    keys = (info.key.removeprefix(prefix) for info in store.list(f"{prefix}{names.FOLDER}"))
    return frozenset((pack[0], pack[1].partitions) for pack in map(names.of_key, keys) if pack is not None)


def is_owed(uid: str, place: Callable[[], packedlog.PackPlace]) -> bool:
    """Tell whether the running task has to write a pack for its name, since the number of partitions has changed.

    Cost: if the query was started with packs of another number, a listing for each batch until none is owed; else nothing.

    Args:
        uid: The operator.
        place: Returns where the task writes.
    """
    own = f"{uid}:{cleaning.partitions_of_task()}"
    packed = (cleaning.task_property(PACKED_PROPERTY) or "").split(",")
    if not any(entry.startswith(f"{uid}:") and entry != own for entry in packed):
        return False
    here = place()
    partition = (here.store.uri, uid, here.partitions, here.partition)
    if partition in _NAMED:
        return False
    listed = (names.of_key(info.key) for info in here.store.list(f"{names.FOLDER}/{uid}"))
    packs = [pack[1] for pack in listed if pack is not None and pack[1].batch < here.batch]
    if window.owes_a_name(packs, partitions=here.partitions, partition=here.partition):
        return True
    _NAMED.add(partition)
    return False


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
    return reading.PackReader(_store(root, options), uid, _AHEAD)


def place_of(uid: str, options: StorageOptions | None, group: int, *, groups: int) -> packedlog.PackPlace:
    """Return where the running task writes a pack.

    Args:
        uid: The operator.
        options: As for `reader_of`.
        group: A key group of the task's partition.
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
        partition=group % partitions,
        batch=_number(_BATCH_PROPERTY),
        epoch=_number(EPOCH_PROPERTY),
        groups=tuple(cleaning.neighbours_of(group, partitions, groups=groups)),
    )


def _number(name: str) -> int:
    text = cleaning.task_property(name)
    if text is None:
        raise errors.InternalError("PacksUnplaced", f"A task that writes keyed state into a pack has no {name!r}.")
    return int(text)


@functools.lru_cache(maxsize=16)
def _store(root: str, options: StorageOptions) -> ObjectStore:
    return storage.open_store(root, options)
