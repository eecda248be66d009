"""Which folder the name of a savepoint object stands for, and what becomes of the files when an object is deleted. Pure.

Two objects may share one folder, if one joined the other or adopted it: files go with the last of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from statefulspark.contract import layout

from statefulspark_operator.api.restore import RestoreSource
from statefulspark_operator.api.spark_savepoint import SavepointDeletionPolicy, SavepointPhase, SparkSavepointStatus


@dataclass(frozen=True, slots=True)
class Resolved:
    """The snapshot to start from.

    Attributes:
        source: What the start is from; it names no object any more.
    """

    source: RestoreSource


@dataclass(frozen=True, slots=True)
class Unresolved:
    """There is none yet, or there will be none.

    Attributes:
        why: The reason in one sentence, with what to do.
        may_come: Whether waiting can help.
    """

    why: str
    may_come: bool


def resolve(source: RestoreSource, objects: Mapping[str, SparkSavepointStatus]) -> Resolved | Unresolved:
    """Return what a value of `restore.source` stands for.

    Args:
        source: The value.
        objects: Status of the savepoint objects in the namespace, of any job, by name.
    """
    name = source.savepoint_name
    if name is None:
        return Resolved(source)
    status = objects.get(name)
    if status is None:
        listed = ", ".join(sorted(objects)) or "none"
        return Unresolved(f"There is no SparkSavepoint {name!r} in the namespace; there are: {listed}.", may_come=True)
    if status.phase is SavepointPhase.COMPLETED and status.location is not None:
        return Resolved(RestoreSource(uri=status.location))
    if status.phase is SavepointPhase.FAILED:
        why = (status.message or "no reason given").rstrip(".")
        return Unresolved(f"SparkSavepoint {name!r} failed: {why}. Name another one.", may_come=False)
    return Unresolved(f"SparkSavepoint {name!r} is {status.phase.value}; the start waits for it.", may_come=True)


class Farewell(Enum):
    """What is done when an object is deleted."""

    WAIT = "its savepoint is being taken, or a start uses it"
    RELEASE = "the object goes, and the files stay"
    DISPOSE = "the files are deleted, and then the object goes"


@dataclass(frozen=True, slots=True)
class Deleted:
    """A savepoint object that is being deleted.

    Attributes:
        policy: What its spec says about the files.
        phase: Its phase.
        location: Folder of its savepoint.
        is_in_use: Whether a start that is not complete, or an upgrade on trial, goes back to it.
    """

    policy: SavepointDeletionPolicy
    phase: SavepointPhase
    location: str | None
    is_in_use: bool = False


def part_with(deleted: Deleted, others: Sequence[str | None]) -> Farewell:
    """Choose what is done when an object is deleted.

    A savepoint that a driver is taking cannot be called back, so its object waits for the end; nothing is left unnamed.

    Args:
        deleted: The object.
        others: Folders of all other objects, of any job.
    """
    if deleted.phase is SavepointPhase.IN_PROGRESS:
        return Farewell.WAIT
    if deleted.policy is SavepointDeletionPolicy.RETAIN or deleted.location is None:
        return Farewell.RELEASE
    folders = {layout.snapshot_folder(other) for other in others if other is not None}
    if layout.snapshot_folder(deleted.location) in folders:
        return Farewell.RELEASE
    return Farewell.WAIT if deleted.is_in_use else Farewell.DISPOSE
