"""Deletion of the resource: stop the driver, keep or delete the state, remove the finalizer.

It always ends, also if the driver, its node or storage is lost: every wait here has a deadline. The stop is a normal pod
deletion, on which the driver completes a checkpoint. State of another owner is never deleted (`retention/ownership.py`).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from statefulspark.contract.manifest import Trigger

from statefulspark_operator.api.spark_savepoint import SavepointOrigin
from statefulspark_operator.api.spec import DeletionPolicy
from statefulspark_operator.api.status import OperationKind, OperationPhase, OperationStatus, Phase
from statefulspark_operator.lifecycle import actions
from statefulspark_operator.lifecycle.decision import SOON, Decision, Reason
from statefulspark_operator.lifecycle.rules import preconditions
from statefulspark_operator.lifecycle.rules.operation import is_exit_overdue
from statefulspark_operator.lifecycle.situation import OperationAbsent, Situation
from statefulspark_operator.lifecycle.storage_facts import StorageFacts, StorageUnreadable

PURGE_DEADLINE = timedelta(minutes=5)
"""Deletion of the state is retried for this time after the driver should have ended; then the resource is deleted."""


def delete(situation: Situation) -> Decision | None:
    """Is the resource being deleted?"""
    deleted_at = situation.job.deletion_requested_at
    if deleted_at is None:
        return None
    if not situation.job.has_finalizer:
        return _decide(situation, Reason.DELETED, "Nothing is left to do.")
    standby = next((pod for pod in situation.standbys if pod.deletion_deadline is None), None)
    if standby is not None:
        act = actions.DeleteStandby(standby.name, standby.uid)
        return _decide(situation, Reason.DELETION_STOPPING, f"Removing {standby.name}.", act)
    if situation.live_pods:
        saving = _take_savepoint(situation, deleted_at)
        if saving is not None:
            return saving
        # One pod per pass is deleted; then the operator waits until all have ended or count as lost.
        message = f"Stopping {', '.join(pod.name for pod in situation.live_pods)}."
        pod = next((pod for pod in situation.live_pods if pod.deletion_deadline is None), None)
        acts = (actions.DeleteDriver(pod.name, pod.uid),) if pod is not None else ()
        return _decide(situation, Reason.DELETION_STOPPING, message, *acts)
    orphans = preconditions.orphan_removal(situation)
    if orphans is not None:
        return _decide(situation, Reason.DELETION_STOPPING, preconditions.describe_removal(orphans), orphans)
    if situation.spec is not None and situation.spec.deletion_policy is DeletionPolicy.DELETE:
        return _purge(situation, deleted_at) or _release(situation, Reason.DELETION_FINISHED, "The state is deleted.")
    return _release(situation, Reason.DELETION_FINISHED, "The state is kept on storage.")


def _decide(situation: Situation, reason: Reason, message: str, *acts: actions.Action) -> Decision:
    return Decision(reason, message, Phase.DELETING, situation.status, acts, SOON)


def _release(situation: Situation, reason: Reason, message: str) -> Decision:
    return _decide(situation, reason, message, actions.RemoveFinalizer())


def _take_savepoint(situation: Situation, deleted_at: datetime) -> Decision | None:
    """Request a savepoint from the running driver, unless its timeout has passed."""
    spec, pod, driver = situation.spec, situation.live_pod, situation.intent
    if spec is None or pod is None or driver is None or spec.deletion_policy is not DeletionPolicy.SAVEPOINT:
        return None
    if situation.now - deleted_at > spec.upgrade.savepoint_timeout or pod.deletion_deadline is not None:
        return None
    request_id = f"{situation.job.uid}-deletion-{driver.epoch}"
    act = actions.RequestStop(request_id, driver.epoch, Trigger.STOP, spec.savepoint.location)
    operation = situation.status.operation
    if operation is None or operation.id != request_id:
        if not pod.is_ready:
            return None
        operation = OperationStatus(
            id=request_id,
            kind=OperationKind.STOP,
            origin=SavepointOrigin.DELETION,
            generation=situation.job.generation,
            epoch=driver.epoch,
            requested_at=situation.now,
            state=OperationPhase.REQUESTED,
        )
        status = situation.status.model_copy(update={"operation": operation})
        message = "Taking a last savepoint."
        return Decision(Reason.DELETION_SAVEPOINT, message, Phase.DELETING, status, (act,), SOON)
    if operation.state is OperationPhase.FAILED or is_exit_overdue(operation, situation.now):
        return None
    repeat = isinstance(situation.operation, OperationAbsent) and operation.state is OperationPhase.REQUESTED
    message = "Waiting for the last savepoint."
    return _decide(situation, Reason.DELETION_SAVEPOINT, message, *((act,) if repeat else ()))


def _purge(situation: Situation, deleted_at: datetime) -> Decision | None:
    """Delete the state until storage is empty, or the deadline has passed."""
    storage = situation.storage
    if isinstance(storage, StorageFacts) and storage.is_empty:
        return None
    if isinstance(storage, StorageFacts) and storage.standing is not None and not storage.may_be_purged:
        return _release(
            situation, Reason.DELETION_STATE_KEPT, f"The state stays on storage: {storage.standing.sentence}"
        )
    grace = situation.spec.upgrade.savepoint_timeout if situation.spec else timedelta(0)
    if situation.now - deleted_at > PURGE_DEADLINE + grace:
        why = storage.message if isinstance(storage, StorageUnreadable) else "Another process keeps writing to it."
        return _release(situation, Reason.DELETION_STATE_KEPT, f"The state stays on storage: {why}")
    if isinstance(storage, StorageUnreadable) and not storage.may_pass:
        return _release(situation, Reason.DELETION_STATE_KEPT, f"The state stays on storage: {storage.message}")
    if not isinstance(storage, StorageFacts):
        return _decide(situation, Reason.DELETION_WAITING, storage.message if storage else "Reading storage.")
    return _decide(situation, Reason.DELETION_PURGING, "Deleting the state.", actions.PurgeStorage())
