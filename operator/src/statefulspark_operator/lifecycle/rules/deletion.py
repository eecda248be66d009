"""Deletion of the resource: stop the driver, keep or delete the state, remove the finalizer.

It always ends, also if the driver, its node or storage is lost: every wait here has a deadline. The stop is a normal pod
deletion, on which the driver completes a checkpoint. State of another owner is never deleted (`retention/ownership.py`).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from statefulspark.contract.manifest import Trigger

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
        return _take_savepoint(situation, deleted_at) or _stop(situation)
    orphans = preconditions.orphan_removal(situation)
    if orphans is not None:
        return _decide(situation, Reason.DELETION_STOPPING, preconditions.describe_removal(orphans), orphans)
    if _policy(situation) is DeletionPolicy.DELETE:
        return _purge(situation, deleted_at) or _release(situation, Reason.DELETION_FINISHED, "The state is deleted.")
    return _release(situation, Reason.DELETION_FINISHED, "The state is kept on storage.")


def _policy(situation: Situation) -> DeletionPolicy:
    return situation.spec.deletion_policy if situation.spec else DeletionPolicy.RETAIN


def _decide(situation: Situation, reason: Reason, message: str, *acts: actions.Action) -> Decision:
    return Decision(reason, message, Phase.DELETING, situation.status, acts, SOON)


def _release(situation: Situation, reason: Reason, message: str) -> Decision:
    return _decide(situation, reason, message, actions.RemoveFinalizer())


def _take_savepoint(situation: Situation, deleted_at: datetime) -> Decision | None:
    """Request a savepoint from the running driver, unless its timeout has passed."""
    spec, pod, driver = situation.spec, situation.live_pod, situation.intent
    if spec is None or pod is None or driver is None or spec.deletion_policy is not DeletionPolicy.SAVEPOINT:
        return None
    if situation.now - deleted_at > spec.savepoint.timeout or pod.deletion_deadline is not None:
        return None
    request_id = f"{situation.job.uid}-deletion-{driver.epoch}"
    operation = situation.status.operation
    if operation is None or operation.id != request_id:
        return _request(situation, request_id, driver.epoch) if pod.is_ready else None
    if operation.state is OperationPhase.FAILED or is_exit_overdue(operation, situation.now):
        return None
    repeat = isinstance(situation.operation, OperationAbsent) and operation.state is OperationPhase.REQUESTED
    again = (_stop_request(situation, request_id, driver.epoch),) if repeat else ()
    return _decide(situation, Reason.DELETION_SAVEPOINT, "Waiting for the last savepoint.", *again)


def _request(situation: Situation, request_id: str, epoch: int) -> Decision:
    operation = OperationStatus(
        id=request_id,
        kind=OperationKind.STOP,
        trigger="deletion",
        generation=situation.job.generation,
        epoch=epoch,
        requested_at=situation.now,
        state=OperationPhase.REQUESTED,
    )
    status = situation.status.model_copy(update={"operation": operation})
    act = _stop_request(situation, request_id, epoch)
    message = "Taking a last savepoint."
    return Decision(Reason.DELETION_SAVEPOINT, message, Phase.DELETING, status, (act,), SOON)


def _stop_request(situation: Situation, request_id: str, epoch: int) -> actions.RequestStop:
    location = situation.spec.savepoint.location if situation.spec else None
    return actions.RequestStop(request_id, epoch, Trigger.STOP, location)


def _stop(situation: Situation) -> Decision:
    """Delete one live pod per pass, and wait until deleted pods have ended or count as lost."""
    pod = next((pod for pod in situation.live_pods if pod.deletion_deadline is None), None)
    message = f"Stopping {', '.join(pod.name for pod in situation.live_pods)}."
    if pod is None:
        return _decide(situation, Reason.DELETION_STOPPING, message)
    return _decide(situation, Reason.DELETION_STOPPING, message, actions.DeleteDriver(pod.name, pod.uid))


def _purge(situation: Situation, deleted_at: datetime) -> Decision | None:
    """Delete the state until storage is empty, or the deadline has passed."""
    storage = situation.storage
    if isinstance(storage, StorageFacts) and storage.is_empty:
        return None
    if isinstance(storage, StorageFacts) and storage.standing is not None and not storage.may_be_purged:
        return _release(
            situation, Reason.DELETION_STATE_KEPT, f"The state stays on storage: {storage.standing.sentence}"
        )
    if situation.now - deleted_at > PURGE_DEADLINE + _grace(situation):
        why = storage.message if isinstance(storage, StorageUnreadable) else "Another process keeps writing to it."
        return _release(situation, Reason.DELETION_STATE_KEPT, f"The state stays on storage: {why}")
    if isinstance(storage, StorageUnreadable) and not storage.may_pass:
        return _release(situation, Reason.DELETION_STATE_KEPT, f"The state stays on storage: {storage.message}")
    if not isinstance(storage, StorageFacts):
        return _decide(situation, Reason.DELETION_WAITING, storage.message if storage else "Reading storage.")
    return _decide(situation, Reason.DELETION_PURGING, "Deleting the state.", actions.PurgeStorage())


def _grace(situation: Situation) -> timedelta:
    return situation.spec.savepoint.timeout if situation.spec else timedelta(0)
