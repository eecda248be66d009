"""What happens when the resource is deleted: stop, keep or delete the state, let go.

It always ends, also when the driver, its node or storage is gone: every wait here has a deadline. Stopping is a normal
pod deletion, on which the driver completes a checkpoint.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from statefulspark.contract.manifest import Trigger

from statefulspark_operator.api.spec import DeletionPolicy
from statefulspark_operator.api.status import OperationKind, OperationPhase, OperationStatus, Phase
from statefulspark_operator.lifecycle import actions
from statefulspark_operator.lifecycle.decision import AT_ONCE, SOON, Decision
from statefulspark_operator.lifecycle.reason import Reason
from statefulspark_operator.lifecycle.situation import (
    DriverPod,
    OperationAbsent,
    Situation,
    StorageFacts,
    StorageUnreadable,
)

PURGE_DEADLINE = timedelta(minutes=5)
"""Deleting the state is tried for this long after the driver is gone or should be; then the resource goes without it."""


def delete(situation: Situation) -> Decision | None:
    """Is the resource being deleted?"""
    deleted_at = situation.job.deletion_requested_at
    if deleted_at is None:
        return None
    if not situation.job.has_finalizer:
        return _decide(situation, Reason.DELETED, "Nothing is left to do.")
    if situation.live_pods:
        return _savepoint_first(situation, deleted_at) or _stop(situation)
    if _policy(situation) is DeletionPolicy.DELETE:
        return _purge(situation, deleted_at) or _release(situation, Reason.DELETION_FINISHED, "The state is deleted.")
    return _release(situation, Reason.DELETION_FINISHED, "The state is kept on storage.")


def _policy(situation: Situation) -> DeletionPolicy:
    return situation.spec.deletion_policy if situation.spec else DeletionPolicy.RETAIN


def _decide(situation: Situation, reason: Reason, message: str, *acts: actions.Action) -> Decision:
    return Decision(reason, message, Phase.DELETING, situation.status, acts, SOON)


def _release(situation: Situation, reason: Reason, message: str) -> Decision:
    return _decide(situation, reason, message, actions.RemoveFinalizer())


def _savepoint_first(situation: Situation, deleted_at: datetime) -> Decision | None:
    """Ask the running driver for a savepoint, as long as the time for it is not up."""
    spec, pod, driver = situation.spec, situation.live_pod, situation.intent
    if spec is None or pod is None or driver is None or spec.deletion_policy is not DeletionPolicy.SAVEPOINT:
        return None
    if situation.now - deleted_at > spec.savepoint.timeout or pod.deletion_deadline is not None:
        return None
    request_id = f"{situation.job.uid}-deletion-{driver.epoch}"
    operation = situation.status.operation
    if operation is None or operation.id != request_id:
        return _ask(situation, request_id, driver.epoch) if pod.is_ready else None
    if operation.state is OperationPhase.FAILED:
        return None
    repeat = isinstance(situation.operation, OperationAbsent) and operation.state is OperationPhase.REQUESTED
    again = (_stop_request(situation, request_id, driver.epoch),) if repeat else ()
    return _decide(situation, Reason.DELETION_SAVEPOINT, "Waiting for the last savepoint.", *again)


def _ask(situation: Situation, request_id: str, epoch: int) -> Decision:
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
    """Delete one live pod per pass; those already told to go are waited for until they end or count as lost."""
    untold = next((pod for pod in situation.live_pods if pod.deletion_deadline is None), None)
    message = f"Stopping {_names(situation.live_pods)}."
    if untold is None:
        return _decide(situation, Reason.DELETION_STOPPING, message)
    return _decide(situation, Reason.DELETION_STOPPING, message, actions.DeleteDriver(untold.name, untold.uid))


def _names(pods: tuple[DriverPod, ...]) -> str:
    return ", ".join(pod.name for pod in pods)


def _purge(situation: Situation, deleted_at: datetime) -> Decision | None:
    """Delete the state until storage is seen empty, or the time is up."""
    storage = situation.storage
    if isinstance(storage, StorageFacts) and storage.is_empty:
        return None
    if situation.now - deleted_at > PURGE_DEADLINE + _grace(situation):
        why = storage.message if isinstance(storage, StorageUnreadable) else "Something keeps writing to it."
        return _release(situation, Reason.DELETION_STATE_KEPT, f"The state is left on storage: {why}")
    if isinstance(storage, StorageUnreadable) and not storage.may_pass:
        return _release(situation, Reason.DELETION_STATE_KEPT, f"The state is left on storage: {storage.message}")
    if not isinstance(storage, StorageFacts):
        return _decide(situation, Reason.DELETION_WAITING, storage.message if storage else "Looking at storage.")
    purge = _decide(situation, Reason.DELETION_PURGING, "Deleting the state.", actions.PurgeStorage())
    return Decision(purge.reason, purge.message, purge.phase, purge.status, purge.actions, AT_ONCE)


def _grace(situation: Situation) -> timedelta:
    return situation.spec.savepoint.timeout if situation.spec else timedelta(0)
