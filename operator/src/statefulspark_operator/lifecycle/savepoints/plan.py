"""What is to be done about the savepoint objects of a job: the other modules of this room, put together. Pure.

A pass reconciles the objects before it decides about the job, from the job's record of its operation. So the record may be
replaced afterwards, and an operator that ends in between does the same again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from statefulspark.contract import layout

from statefulspark_operator.api.spark_savepoint import (
    AUTOMATIC,
    SavepointDeletionPolicy,
    SavepointOrigin,
    SavepointPhase,
    SparkSavepointSpec,
    SparkSavepointStatus,
    scheduled_name,
)
from statefulspark_operator.api.spec import DeletionPolicy, SavepointForm, Storage
from statefulspark_operator.api.status import OperationPhase, OperationStatus
from statefulspark_operator.lifecycle.savepoints import naming, objects, progress, retention, timetable
from statefulspark_operator.lifecycle.savepoints.objects import SavepointObject
from statefulspark_operator.lifecycle.savepoints.retention import KeptSavepoint
from statefulspark_operator.lifecycle.situation import Job, Situation
from statefulspark_operator.lifecycle.storage_facts import StorageFacts


@dataclass(frozen=True, slots=True)
class Mark:
    """Put the job's label on an object, and the finalizer if it needs that; take it off if it does not.

    Attributes:
        savepoint: The object.
    """

    savepoint: SavepointObject


@dataclass(frozen=True, slots=True)
class Release:
    """Take the finalizer off a deleted object.

    Attributes:
        savepoint: The object.
    """

    savepoint: SavepointObject


@dataclass(frozen=True, slots=True)
class Dispose:
    """Delete the files of a deleted object's savepoint, and then release the object.

    Attributes:
        savepoint: The object.
        location: Folder of the savepoint.
    """

    savepoint: SavepointObject
    location: str


@dataclass(frozen=True, slots=True)
class Adopt:
    """Look at a savepoint on storage, and write into the object's status what was found.

    Attributes:
        savepoint: The object.
        location: Folder of the savepoint.
    """

    savepoint: SavepointObject
    location: str


@dataclass(frozen=True, slots=True)
class Find:
    """Look on storage for completed savepoints that carry the names of objects, and adopt what there is.

    Attributes:
        savepoints: The objects.
    """

    savepoints: tuple[SavepointObject, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """Write an object's status.

    Attributes:
        savepoint: The object.
        status: The new status.
    """

    savepoint: SavepointObject
    status: SparkSavepointStatus


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object; one that exists is not changed.

    Attributes:
        name: Its name.
        origin: What it is made for.
        spec: Its spec.
    """

    name: str
    origin: SavepointOrigin
    spec: SparkSavepointSpec


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object; what becomes of its files, its deletionPolicy says.

    Attributes:
        savepoint: The object.
        why: The reason in a few words.
    """

    savepoint: SavepointObject
    why: str


@dataclass(frozen=True, slots=True)
class Prune:
    """Delete an object that the operator made by itself, with its files.

    Attributes:
        savepoint: The object.
        why: The reason in a few words.
    """

    savepoint: SavepointObject
    why: str


Change = Mark | Release | Dispose | Adopt | Find | Note | Create | Delete | Prune


def changes_of_job(situation: Situation) -> tuple[Change, ...]:
    """Return what is to be done about the objects of a job; nothing if it is all done.

    Args:
        situation: The job, with its status updated by all facts.
    """
    own = situation.own_savepoints
    changes: list[Change] = []
    in_use = _used_folders(situation)
    for savepoint in own:
        change = _settle(situation, savepoint)
        if change is None and savepoint.is_deleted:
            change = _part_with(savepoint, situation.savepoints, is_in_use=savepoint.folder in in_use)
        changes += [change] if change is not None else []
    unsearched = tuple(savepoint for savepoint in own if _may_exist(situation, savepoint))
    changes += [Find(unsearched)] if unsearched else []
    changes += _made_by_operations(situation)
    due = timetable.due(situation)
    if due is not None:
        spec = SparkSavepointSpec(job_name=situation.job.name)
        changes.append(Create(scheduled_name(situation.job.name, due), SavepointOrigin.SCHEDULED, spec))
    return (*changes, *_dropped(situation))


def has_ended(situation: Situation, savepoint: SavepointObject) -> bool:
    """Tell whether an object is over, or the job's record says so and it is only not written into the object yet."""
    return savepoint.is_over or isinstance(_event(situation, savepoint), progress.Finished | progress.Refused)


def changes_without_job(own: Iterable[SavepointObject], others: Iterable[SavepointObject]) -> tuple[Change, ...]:
    """Return what is to be done about the objects of a job that does not exist.

    Args:
        own: The objects that name it.
        others: All objects in the namespace.
    """
    everything = tuple(others)
    changes: list[Change | None] = []
    for savepoint in own:
        status = savepoint.status
        if status.phase is SavepointPhase.IN_PROGRESS:
            why = f"Job {savepoint.spec.job_name} was deleted before the savepoint was complete."
            changes.append(_noted(savepoint, progress.after(status, progress.Refused(why))))
        elif savepoint.is_deleted:
            changes.append(_part_with(savepoint, everything))
        elif not savepoint.is_marked:
            changes.append(Mark(savepoint))
        elif savepoint.is_over:
            changes.append(_noted(savepoint, status))
        elif (search := _search_without_job(savepoint)) is not None:
            changes.append(search)
        else:
            message = f"Waits for job {savepoint.spec.job_name}, which does not exist in the namespace."
            changes.append(_noted(savepoint, status.model_copy(update={"message": message, "joined": None})))
    return tuple(change for change in changes if change is not None)


def _search_without_job(savepoint: SavepointObject) -> Change | None:
    """Return how an object adopts what is at its own storage, if its files stay (see `_settle`)."""
    is_kept = savepoint.spec.deletion_policy is SavepointDeletionPolicy.RETAIN
    if savepoint.spec.storage is None or not is_kept:
        return None
    if savepoint.source_uri is not None:
        return Adopt(savepoint, objects.folder_of(savepoint.source_uri) or "")
    return Find((savepoint,)) if savepoint.is_unsearched else None


def _may_exist(situation: Situation, savepoint: SavepointObject) -> bool:
    return situation.spec is not None and savepoint.is_unsearched


def _settle(situation: Situation, savepoint: SavepointObject) -> Change | None:
    """Return the next step of an object that is not over."""
    if not savepoint.is_deleted and not savepoint.is_marked:
        return Mark(savepoint)
    if savepoint.is_over:
        return None if savepoint.is_deleted else _noted(savepoint, savepoint.status)
    if _may_exist(situation, savepoint):
        return None
    if savepoint.source_uri is not None:
        if savepoint.is_deleted:
            return None
        # Whoever may create an object, and nothing else, could delete by it whatever the job's credentials reach, since its
        # owner reference decides when it goes. So one outside the job's folder is adopted only if its files stay.
        folder, spec = objects.folder_of(savepoint.source_uri) or "", situation.spec
        is_kept = savepoint.spec.deletion_policy is SavepointDeletionPolicy.RETAIN
        if is_kept or (spec is not None and folder.startswith(_root(situation.job, spec.storage))):
            return Adopt(savepoint, folder)
        if spec is None:  # The object's own storage says nothing of where the job's folder is.
            message = f"Waits for a valid spec of job {savepoint.spec.job_name}."
            return _noted(savepoint, savepoint.status.model_copy(update={"message": message}))
        why = (
            f"{folder} is not in the folder of {savepoint.spec.job_name}, so it is adopted with deletionPolicy Retain only; "
            "delete its files with `statefulspark savepoint dispose`."
        )
        return _noted(savepoint, progress.after(savepoint.status, progress.Refused(why)))
    status = progress.after(savepoint.status, _event(situation, savepoint))
    if status.phase is SavepointPhase.PENDING:
        operation, phase = situation.status.operation, situation.status.phase
        is_busy = operation is not None and operation.state is OperationPhase.REQUESTED
        if status.joined is not None:
            message = f"Shares the savepoint of {status.joined}, which is being taken."
        elif operation is not None and is_busy and _is_alive(situation, operation):
            message = f"Waits for the savepoint that is being taken (request {operation.id})."
        else:
            again = " The operator asks for it again." if savepoint.status.attempt > 0 else ""
            state = phase.value if phase else "not started"
            message = f"Waits for the driver of {situation.job.name}, which is {state}.{again}"
        status = status.model_copy(update={"message": message})
    elif status.phase is SavepointPhase.COMPLETED:  # Its files can be deleted after the job.
        storage = situation.spec.storage.connection if situation.spec is not None else None
        status = status.model_copy(update={"storage": storage, "joined": savepoint.status.joined})
    return _noted(savepoint, status)


def _root(job: Job, storage: Storage) -> str:
    """Return the job's folder, with a slash at the end."""
    return f"{storage.uri.rstrip('/')}/{layout.job_prefix(job.namespace, job.name)}/"


def _noted(savepoint: SavepointObject, status: SparkSavepointStatus) -> Note | None:
    """Return the change to a status, if it is one; who asked, and for which spec it holds, is in every status."""
    named = status.model_copy(update={"origin": savepoint.origin, "observed_generation": savepoint.generation})
    return Note(savepoint, named) if named != savepoint.status else None


def _event(situation: Situation, savepoint: SavepointObject) -> progress.SavepointEvent:
    """Return what the job's record says about an object."""
    operation = situation.status.operation
    names = operation.savepoints or () if operation is not None else ()
    if operation is None or savepoint.name not in names:
        return progress.DriverGone()
    match operation.state:
        case OperationPhase.COMPLETED:
            latest = situation.status.last_savepoint
            if operation.location is None:
                return progress.Refused("The driver completed the savepoint without reporting its location.")
            size_bytes = latest.size_bytes if latest is not None and latest.location == operation.location else None
            return progress.Finished(operation.location, size_bytes, operation.finished_at or situation.now)
        case _ if not _is_alive(situation, operation):
            return progress.DriverGone()
        case OperationPhase.FAILED:
            return progress.Refused(operation.message or "The driver gave no reason.")
        case OperationPhase.REQUESTED:
            first = names[0]
            return progress.Asked(operation.id) if savepoint.name == first else progress.Joined(first)


def _is_alive(situation: Situation, operation: OperationStatus) -> bool:
    return situation.live_pod is not None and situation.live_pod.epoch == operation.epoch


def _part_with(
    savepoint: SavepointObject, everything: Iterable[SavepointObject], *, is_in_use: bool = False
) -> Change | None:
    if not savepoint.has_finalizer:
        return None
    deleted = naming.Deleted(
        savepoint.spec.deletion_policy, savepoint.status.phase, savepoint.status.location, is_in_use=is_in_use
    )
    # Two that are disposed of together share no savepoint that anybody else wants.
    holders = [
        other.folder
        for other in everything
        if other.uid != savepoint.uid
        and not (other.is_deleted and other.spec.deletion_policy is SavepointDeletionPolicy.DELETE)
    ]
    match naming.part_with(deleted, holders):
        case naming.Farewell.WAIT:
            return None
        case naming.Farewell.RELEASE:
            return Release(savepoint)
        case naming.Farewell.DISPOSE:
            return Dispose(savepoint, savepoint.folder or "")


def _used_folders(situation: Situation) -> frozenset[str | None]:
    """Return the folders that a start or an upgrade of this job may still go back to."""
    status = situation.status
    restores = (status.restore, status.driver.restore if status.driver is not None else None)
    used = [restore.snapshot for restore in restores if restore is not None]
    if status.upgrade is not None:
        used.append(status.upgrade.savepoint)
    if isinstance(situation.named_restore, naming.Resolved):
        used.append(situation.named_restore.source.snapshot)
    return frozenset(objects.folder_of(location) for location in used if location is not None)


def _made_by_operations(situation: Situation) -> tuple[Change, ...]:
    """Make an object for a savepoint that no object asked for: of an upgrade, a suspension, the deletion."""
    operation = situation.status.operation
    if operation is None or operation.state is not OperationPhase.COMPLETED or operation.location is None:
        return ()
    folder = objects.folder_of(operation.location)
    if operation.savepoints or any(savepoint.folder == folder for savepoint in situation.savepoints):
        return ()
    number = layout.parse_number((folder or "").rpartition("/")[2].partition("-")[0])
    name = f"{situation.job.name}-{operation.origin.value.lower()}-{number if number is not None else operation.epoch}"
    if any(savepoint.name == name for savepoint in situation.savepoints):
        name = f"{name}-{situation.job.uid[:8]}"  # Of an earlier job of that name, say, whose state was elsewhere.
    spec = SparkSavepointSpec.model_validate({"jobName": situation.job.name, "source": {"uri": folder}})
    return (Create(name, operation.origin, spec),)


def _dropped(situation: Situation) -> tuple[Change, ...]:
    """Delete those objects whose files go with the job's folder; of a job that stays, those that retention does not keep."""
    spec = situation.spec
    if spec is None:
        return ()
    if situation.job.deletion_requested_at is not None:
        storage = situation.storage
        if spec.deletion_policy is not DeletionPolicy.DELETE or not isinstance(storage, StorageFacts):
            return ()
        if not storage.is_empty and not storage.may_be_purged:
            return ()
        root = _root(situation.job, spec.storage)
        return tuple(
            Delete(savepoint, "its files go with the folder of the job")
            for savepoint in situation.own_savepoints
            if not savepoint.is_deleted and (savepoint.folder or "").startswith(root)
        )
    by_name = {savepoint.name: savepoint for savepoint in situation.own_savepoints if not savepoint.is_deleted}
    history = (objects.folder_of(record.snapshot) for record in situation.status.history)
    named = _used_folders(situation) | frozenset(history)
    # Whoever may create an object could label it as the operator does: pruning deletes what is the job's, and no more.
    location = spec.savepoint.location
    folders = (_root(situation.job, spec.storage), *((f"{location.rstrip('/')}/",) if location is not None else ()))
    kept = [
        KeptSavepoint(
            savepoint.name,
            savepoint.origin,
            savepoint.status.completed_at,
            savepoint.status.size_bytes or 0,
            is_good=savepoint.status.phase is SavepointPhase.COMPLETED,
            is_named=savepoint.folder in named,
            is_reachable=(savepoint.folder or "").startswith(folders),
        )
        for savepoint in by_name.values()
        if savepoint.status.completed_at is not None
    ]
    limits = spec.savepoint.retention
    pruned = retention.prune(kept, limits, now=situation.now)
    return (
        *(Prune(by_name[beyond.name], beyond.why) for beyond in pruned),
        *_failed_beyond(limits.count, by_name.values()),
    )


def _failed_beyond(count: int, oldest_first: Iterable[SavepointObject]) -> tuple[Delete, ...]:
    """Delete the oldest of those that the operator has made in vain: a schedule makes them without end."""
    failed = [
        savepoint
        for savepoint in oldest_first
        if savepoint.origin in AUTOMATIC and savepoint.status.phase is SavepointPhase.FAILED
    ]
    return tuple(Delete(savepoint, f"it has failed, and so have {count} later ones") for savepoint in failed[:-count])


@dataclass(frozen=True, slots=True)
class Request:
    """A savepoint object of a job that waits for a driver, or has one, as far as its turn depends on it.

    Attributes:
        name: Its name.
        phase: Its phase.
        requested_at: When it was created.
        location: Folder that it asks for; None for the job's own.
        form: Form that it asks for.
        joined: Name of the object that it has joined.
    """

    name: str
    phase: SavepointPhase
    requested_at: datetime
    location: str | None = None
    form: SavepointForm = SavepointForm.NATIVE
    joined: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """What is to be done now.

    Attributes:
        start: Name of the object whose savepoint is requested from the driver; None if none may be.
        joins: Names of the objects whose savepoint that is, too.
    """

    start: str | None = None
    joins: tuple[str, ...] = ()


def choose(requests: Sequence[Request]) -> Turn:
    """Choose the savepoint that is requested now: the oldest, and with it what asks for the same.

    Args:
        requests: The objects of one job, in any order.
    """
    if any(request.phase is SavepointPhase.IN_PROGRESS for request in requests):
        return Turn()
    waiting = [request for request in requests if request.phase is SavepointPhase.PENDING and request.joined is None]
    if not waiting:
        return Turn()
    first, *others = sorted(waiting, key=lambda request: (request.requested_at, request.name))
    equal = [request for request in others if (request.location, request.form) == (first.location, first.form)]
    return Turn(first.name, tuple(request.name for request in equal))
