"""Reads the savepoint objects of a namespace, and carries out what the rules say about those of a job.

An object that cannot be written never holds up its job: the failure is logged, and the next pass tries again.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from statefulspark import errors
from statefulspark.contract.manifest import SnapshotFormat

from statefulspark_operator.api import base, names
from statefulspark_operator.api.spark_savepoint import (
    SavepointDeletionPolicy,
    SavepointOrigin,
    SavepointPhase,
    SparkSavepointSpec,
    SparkSavepointStatus,
)
from statefulspark_operator.api.spec import Storage
from statefulspark_operator.api.status import SnapshotStatus
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.gateway import EventNote, JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.cluster.storage_reader import NoSavepoint, Sought, StorageTarget
from statefulspark_operator.engine import access, observe
from statefulspark_operator.engine.memory import ParsedSavepoints
from statefulspark_operator.engine.ports import Ports
from statefulspark_operator.lifecycle import observed
from statefulspark_operator.lifecycle.decision import AT_ONCE, LATER, SOON
from statefulspark_operator.lifecycle.savepoints import plan, progress
from statefulspark_operator.lifecycle.savepoints.objects import SavepointObject
from statefulspark_operator.lifecycle.situation import Situation
from statefulspark_operator.lifecycle.storage_facts import StorageUnreadable

_LOG = logging.getLogger("statefulspark.savepoints")
_Slow = plan.Adopt | plan.Find | plan.Dispose
"""What asks storage."""


async def list_objects(ports: Ports, namespace: str) -> tuple[SavepointObject, ...] | None:
    """Return the savepoint objects of a namespace; None if they cannot be read, and nothing is done about them.

    A cluster without their CRD does not know them, and an operator whose role does not have them may not list them.
    """
    if ports.listings.is_current(namespace, ports.now()):
        is_listed = ports.listings.is_known(namespace)
    else:
        is_listed = await ports.listings.single_flight.join(namespace, lambda: _list(ports, namespace))
    if not is_listed:
        return None
    # Only what has changed is parsed.
    changes, before = ports.cache.changes(resources.SAVEPOINT, namespace), ports.listings.parsed.get(namespace)
    if before is not None and before.changes == changes:
        return before.everything
    by_uid: dict[str, tuple[str, SavepointObject | None]] = {}
    by_job: dict[str, list[SavepointObject]] = {}
    for copy in ports.cache.entries(resources.SAVEPOINT, namespace):
        parsed = before.by_uid.get(copy.uid) if before is not None else None
        if parsed is None or parsed[0] != copy.version:
            parsed = (copy.version, _parse(copy.read()))
        by_uid[copy.uid] = parsed
        if parsed[1] is not None:
            by_job.setdefault(parsed[1].spec.job_name, []).append(parsed[1])
    everything = tuple(savepoint for _, savepoint in by_uid.values() if savepoint is not None)
    ports.listings.parsed[namespace] = ParsedSavepoints(changes, by_uid, everything, by_job)
    return everything


def list_own(ports: Ports, namespace: str, job: str) -> tuple[SavepointObject, ...]:
    """Return the objects of a job, as `read` has returned them last."""
    parsed = ports.listings.parsed.get(namespace)
    return tuple(parsed.by_job.get(job, ())) if parsed is not None else ()


def add_objects(ports: Ports, situation: Situation, savepoints: tuple[SavepointObject, ...] | None) -> Situation:
    """Return a situation with the objects as `list_objects` has returned them."""
    if savepoints is None:
        return situation
    named_here = list_own(ports, situation.job.namespace, situation.job.name) if savepoints else ()
    return dataclasses.replace(situation, savepoints=savepoints, named_here=named_here)


async def _list(ports: Ports, namespace: str) -> bool:
    """List the objects; tell whether that was possible and the cluster knows them."""
    now, kind = ports.now(), resources.SAVEPOINT
    before = ports.cache.entries(kind, namespace)
    try:
        listed = await ports.gateway.list_all(kind, namespace)
    except errors.StatefulSparkError as error:
        _LOG.warning("savepoints not listed", extra={"namespace": namespace, "error": error.message})
        return False
    ports.listings.keep(namespace, now=now, is_known=listed is not None)
    ports.cache.replace(listed or (), before)
    return listed is not None


def _parse(resource: Resource) -> SavepointObject | None:
    """Return an object; None if a later release has made it so that it cannot be read."""
    metadata = resources.section(resource, "metadata")
    made_for = resources.text(metadata, "labels", names.LABEL_ORIGIN)
    created_at = resources.time(metadata, "creationTimestamp")
    try:
        spec = SparkSavepointSpec.model_validate(resources.section(resource, "spec"))
        status = SparkSavepointStatus.model_validate(resources.section(resource, "status"))
        origin = SavepointOrigin(made_for) if made_for else None
    except ValueError as error:
        _LOG.warning(
            "savepoint not readable", extra={"savepoint": resources.text(metadata, "name"), "error": str(error)}
        )
        return None
    if created_at is None:
        return None
    return SavepointObject(
        name=resources.text(metadata, "name"),
        uid=resources.text(metadata, "uid"),
        spec=spec,
        created_at=created_at,
        status=status,
        resource_version=resources.text(metadata, "resourceVersion"),
        has_finalizer=names.DELETE_FILES in observe.finalizers(resource),
        other_finalizers=tuple(name for name in observe.finalizers(resource) if name != names.DELETE_FILES),
        has_labels=all(
            resources.text(metadata, "labels", label) == value
            for label, value in names.savepoint_labels(spec.job_name).items()
        ),
        is_deleted=bool(resources.text(metadata, "deletionTimestamp")),
        made_for=origin,
        generation=resources.number(metadata, "generation"),
    )


@dataclass(frozen=True, slots=True)
class _Job:
    """The job whose objects are reconciled.

    Attributes:
        key: Its namespace and name.
        uid: Its identity; None if it does not exist.
        storage: The connection of its spec; None if it does not exist.
    """

    key: JobKey
    uid: str | None = None
    storage: Storage | None = None


async def reconcile(ports: Ports, key: JobKey, situation: Situation) -> timedelta | None:
    """Carry out what is to be done about the objects of a job.

    Args:
        ports: The ports.
        key: The job.
        situation: The job, as it was observed.

    Returns:
        The delay until they are looked at again, since the operator's own writes wake nobody; None if there was nothing.
    """
    planned, after = await _carry_out_plan(ports, key, situation)
    if any(isinstance(change, plan.Create) for change in planned):
        # What was made is completed in the same pass: after the next one the job may be gone.
        made = await list_objects(ports, key.namespace) or ()
        await _carry_out_plan(ports, key, add_objects(ports, situation, made))
    return after


async def _carry_out_plan(
    ports: Ports, key: JobKey, situation: Situation
) -> tuple[tuple[plan.Change, ...], timedelta | None]:
    planned = plan.changes_of_job(observed.fold(situation))
    if any(isinstance(change, plan.Dispose | plan.Delete | plan.Prune) for change in planned):
        # Files may belong to an object that the cache does not have yet, so deleting is decided from what there is now.
        situation = add_objects(ports, situation, await _read_live(ports, key.namespace))
        planned = plan.changes_of_job(observed.fold(situation))
    job = _Job(key, situation.job.uid, situation.spec.storage.connection if situation.spec is not None else None)
    written = [await _carry_out(ports, job, change) for change in _take_turns(ports, key, planned)]
    return planned, (AT_ONCE if any(written) else SOON) if planned else None


def _take_turns(ports: Ports, key: JobKey, planned: tuple[plan.Change, ...]) -> tuple[plan.Change, ...]:
    """Return the changes of this pass: all that need no storage, and of the others one, of each object in turn.

    Each may take as long as a store lets it, and a job may have any number of objects.
    """
    turns, owner = ports.listings.turns, (key.namespace, key.name)
    slow = sorted((change for change in planned if isinstance(change, _Slow)), key=_turn)
    if not slow:
        turns.pop(owner, None)
        return planned
    after = turns.get(owner, "")
    chosen = next((change for change in slow if _turn(change) > after), slow[0])
    turns[owner] = _turn(chosen)
    return tuple(change for change in planned if change is chosen or change not in slow)


def _turn(change: plan.Adopt | plan.Find | plan.Dispose) -> str:
    return change.savepoints[0].uid if isinstance(change, plan.Find) else change.savepoint.uid


async def _read_live(ports: Ports, namespace: str) -> tuple[SavepointObject, ...]:
    """Return the objects as they are now; none if they cannot be read, so that nothing is done about them."""
    ports.listings.forget(namespace)
    return await list_objects(ports, namespace) or ()


async def reconcile_without_job(
    ports: Ports, key: JobKey, savepoints: tuple[SavepointObject, ...] | None
) -> timedelta | None:
    """Carry out what is to be done about the objects of a job that does not exist.

    Returns:
        The delay until they are looked at again; None if an event will wake them.
    """
    own = tuple(savepoint for savepoint in savepoints or () if savepoint.spec.job_name == key.name)
    planned = plan.changes_without_job(own, savepoints or ())
    if any(isinstance(change, plan.Dispose | plan.Delete) for change in planned):
        savepoints = await _read_live(ports, key.namespace)
        own = tuple(savepoint for savepoint in savepoints if savepoint.spec.job_name == key.name)
        planned = plan.changes_without_job(own, savepoints)
    for change in _take_turns(ports, key, planned):
        await _carry_out(ports, _Job(key), change)
    return LATER if planned or any(savepoint.is_deleted for savepoint in own) else None


async def _carry_out(ports: Ports, job: _Job, change: plan.Change) -> bool:
    """Carry out a change; tell whether the next step can follow at once, because it does not depend on storage."""
    try:
        ports.require_leadership()
        await _perform(ports, job, change)
    except errors.PreconditionFailedError as error:
        ports.listings.forget(job.key.namespace)
        _LOG.debug("savepoint changed during the pass", extra={"job": str(job.key), "error": error.message})
    except errors.StatefulSparkError as error:
        ports.listings.forget(job.key.namespace)
        _LOG.warning(
            "savepoint not reconciled",
            extra={
                "job": str(job.key),
                "change": type(change).__name__,
                "reason": error.reason,
                "error": error.message,
            },
        )
    else:
        return not isinstance(change, _Slow)
    return False


async def _perform(ports: Ports, job: _Job, change: plan.Change) -> None:
    match change:
        case plan.Mark():
            savepoint = change.savepoint
            held = (names.DELETE_FILES,) if savepoint.needs_finalizer else ()
            marks: Resource = {"labels": dict(names.savepoint_labels(savepoint.spec.job_name))}
            await _patch(ports, job, savepoint, {"metadata": {**_finalizers(savepoint, *held), **marks}})
        case plan.Release():
            await _patch(ports, job, change.savepoint, {"metadata": _finalizers(change.savepoint)})
        case plan.Note():
            await _write(ports, job, change.savepoint, change.status)
        case plan.Adopt():
            await _adopt(ports, job, change)
        case plan.Find():
            await _find(ports, job, change.savepoints)
        case plan.Dispose():
            await _dispose(ports, job, change)
        case plan.Create():
            await _create(ports, job, change)
        case plan.Delete() | plan.Prune():
            savepoint, namespace = change.savepoint, job.key.namespace
            if isinstance(change, plan.Prune) and savepoint.spec.deletion_policy is SavepointDeletionPolicy.RETAIN:
                # That policy is for people who delete the object; an operator that ends here prunes it again.
                policy: Resource = {"deletionPolicy": SavepointDeletionPolicy.DELETE.value}
                await _patch(
                    ports, job, savepoint, {"metadata": _finalizers(savepoint, names.DELETE_FILES), "spec": policy}
                )
            if await ports.gateway.delete(resources.SAVEPOINT, namespace, savepoint.name, uid=savepoint.uid):
                note = EventNote("SavepointPruned", f"{savepoint.name}: {change.why}.")
                await _tell(ports, job, savepoint, note)
        case _:
            assert_never(change)


async def _create(ports: Ports, job: _Job, change: plan.Create) -> None:
    spec: Resource = json.loads(change.spec.to_json())
    labels: Resource = {**names.savepoint_labels(job.key.name), names.LABEL_ORIGIN: change.origin.value}
    is_new = await ports.gateway.create(
        {
            "apiVersion": base.API_VERSION,
            "kind": base.SAVEPOINT_KIND,
            "metadata": {"name": change.name, "namespace": job.key.namespace, "labels": labels},
            "spec": spec,
        }
    )
    if not is_new:
        raise errors.PreconditionFailedError("Conflict", f"There is a SparkSavepoint {change.name} already.")


def _finalizers(savepoint: SavepointObject, *own: str) -> Resource:
    """Return metadata with finalizers of ours beside those of others."""
    return {"finalizers": [*savepoint.other_finalizers, *own]}


async def _patch(ports: Ports, job: _Job, savepoint: SavepointObject, patch: Resource) -> None:
    key, version = JobKey(job.key.namespace, savepoint.name), savepoint.resource_version
    await ports.gateway.patch(key, patch, resource_version=version, kind=resources.SAVEPOINT)


async def _write(ports: Ports, job: _Job, savepoint: SavepointObject, status: SparkSavepointStatus) -> None:
    answers = progress.derive_conditions(
        status, savepoint.status.conditions, now=ports.now(), generation=savepoint.generation
    )
    status = status.model_copy(update={"conditions": answers, "observed_generation": savepoint.generation})
    patch = resources.merge_patch(json.loads(savepoint.status.to_json()), json.loads(status.to_json()))
    if not patch:
        return
    key, version = JobKey(job.key.namespace, savepoint.name), savepoint.resource_version
    await ports.gateway.patch_status(key, patch, resource_version=version, kind=resources.SAVEPOINT)
    if status.phase is SavepointPhase.FAILED and savepoint.status.phase is not SavepointPhase.FAILED:
        note = EventNote("SavepointFailed", f"{savepoint.name}: {status.message}", is_warning=True)
        await _tell(ports, job, savepoint, note)


async def _adopt(ports: Ports, job: _Job, change: plan.Adopt) -> None:
    """Look at a savepoint on storage; what cannot be read now is looked at again."""
    savepoint, storage = change.savepoint, job.storage or change.savepoint.spec.storage
    if storage is None:
        return
    target = await access.connection(ports, job.key, storage, owner_id=job.uid)
    if isinstance(target, StorageTarget):
        snapshot = await ports.storage.find_savepoint(target, change.location)
    else:
        snapshot = target
    status = savepoint.status.model_copy(update={"origin": savepoint.origin, "storage": storage})
    match snapshot:
        case SnapshotStatus():
            finished = progress.Finished(change.location, snapshot.size_bytes, snapshot.completed_at)
            status = progress.after(status, finished)
        case NoSavepoint():
            status = progress.after(status, progress.Refused(snapshot.why))
        case StorageUnreadable():
            status = status.model_copy(
                update={"message": f"The operator cannot read the savepoint: {snapshot.message}"}
            )
        case _:
            assert_never(snapshot)
    await _write(ports, job, savepoint, status)


async def _find(ports: Ports, job: _Job, savepoints: tuple[SavepointObject, ...]) -> None:
    """Look for savepoints that carry the names of objects; what cannot be read now is looked at again."""
    storage = job.storage or savepoints[0].spec.storage
    if storage is None:
        return
    target = await access.connection(ports, job.key, storage, owner_id=job.uid)
    named: Mapping[str, SnapshotStatus] | StorageUnreadable
    if isinstance(target, StorageTarget):
        sought = [
            Sought(asking.name, SnapshotFormat[asking.spec.format.name], asking.spec.location) for asking in savepoints
        ]
        named = await ports.storage.find_named(target, tuple(sought))
    else:
        named = target
    for savepoint in savepoints:
        status = savepoint.status.model_copy(update={"origin": savepoint.origin})
        if isinstance(named, StorageUnreadable):
            message = f"The operator cannot look for a savepoint of this name: {named.message}"
            status = status.model_copy(update={"message": message})
        else:
            status = status.model_copy(update={"searched": True, "message": None})
            snapshot = named.get(savepoint.name)
            if snapshot is not None and snapshot.location is not None:
                finished = progress.Finished(snapshot.location, snapshot.size_bytes, snapshot.completed_at)
                status = progress.after(status.model_copy(update={"storage": storage}), finished)
        await _write(ports, job, savepoint, status)


async def _dispose(ports: Ports, job: _Job, change: plan.Dispose) -> None:
    """Delete the files, and then let the object go; until they are deleted its status says why."""
    savepoint = change.savepoint
    storage = job.storage or savepoint.spec.storage or savepoint.status.storage
    if storage is None:
        await _patch(ports, job, savepoint, {"metadata": _finalizers(savepoint)})
        return
    target = await access.connection(ports, job.key, storage, owner_id=job.uid)
    try:
        if isinstance(target, StorageUnreadable):
            raise errors.TransientError(target.reason, target.message)
        await ports.storage.dispose(target, change.location)
    except errors.StatefulSparkError as error:
        if await ports.gateway.is_ending(job.key.namespace):  # Neither its Secret nor a person is coming.
            await _patch(ports, job, savepoint, {"metadata": _finalizers(savepoint)})
            why = f"{savepoint.name}: the files stay in {change.location}, as its namespace is deleted: {error.message}"
            await _tell(ports, job, savepoint, EventNote("SavepointFilesKept", why, is_warning=True))
            return
        message = (
            f"The operator cannot delete the files: {error.message} To delete the object without them, set "
            "deletionPolicy to Retain."
        )
        await _write(ports, job, savepoint, savepoint.status.model_copy(update={"message": message}))
        raise
    await _patch(ports, job, savepoint, {"metadata": _finalizers(savepoint)})
    size_bytes = savepoint.status.size_bytes or 0
    ports.freed.disposed += size_bytes  # Not earlier: what is repeated until the object goes is counted once.
    note = EventNote("SavepointDisposed", f"{savepoint.name}: deleted {size_bytes:,} bytes.")
    await _tell(ports, job, savepoint, note)


async def _tell(ports: Ports, job: _Job, savepoint: SavepointObject, note: EventNote) -> None:
    """Tell an event about the job; about the object itself if there is no job any more."""
    _LOG.info("savepoint reconciled", extra={"job": str(job.key), "reason": note.reason, "detail": note.message})
    if job.uid is not None:
        await ports.gateway.post_event(job.key, job.uid, note)
        return
    key = JobKey(job.key.namespace, savepoint.name)
    await ports.gateway.post_event(key, savepoint.uid, note, kind=resources.SAVEPOINT)
