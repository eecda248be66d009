"""Deletion of the resource: take the last savepoint, or stop the driver and delete the state, as `deletionPolicy` says.

A resource with `Retain` has no finalizer, and Kubernetes stops its pods, each of which completes a checkpoint. One with
`Delete` always ends: every wait has a deadline. One with `Savepoint` stays until its savepoint is complete, and until then
the job is looked after like any other; a person ends that with `Retain`. A job that has finished takes none. In a namespace
that is being deleted nothing can start, so the state is kept and the resource is let go. State of another owner is never
deleted (`retention/ownership.py`).
"""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta

from statefulspark.contract import layout

from statefulspark_operator.api import names
from statefulspark_operator.api.spark_savepoint import SavepointOrigin
from statefulspark_operator.api.spec import DeletionPolicy
from statefulspark_operator.api.status import OperationKind, OperationPhase, Phase
from statefulspark_operator.lifecycle import actions, backoff
from statefulspark_operator.lifecycle.decision import SOON, Decision, Reason
from statefulspark_operator.lifecycle.rules import operation as operations
from statefulspark_operator.lifecycle.rules import preconditions
from statefulspark_operator.lifecycle.rules.upgrade import RETRY_INITIAL, RETRY_LONGEST
from statefulspark_operator.lifecycle.situation import Situation
from statefulspark_operator.lifecycle.storage_facts import StorageFacts, StorageUnreadable

PURGE_DEADLINE = timedelta(minutes=5)
"""Deletion of the state is retried for this time after the driver should have ended; then the resource is deleted."""


def delete(situation: Situation) -> Decision | None:
    """Is the resource being deleted, and is its last savepoint complete or not asked for?"""
    deleted_at = situation.job.deletion_requested_at
    if deleted_at is None:
        return None
    if awaits_savepoint(situation):
        return _request_savepoint(situation)
    return _stop(situation) or _purge(situation, deleted_at) or _release(situation)


def awaits_savepoint(situation: Situation) -> bool:
    """Tell whether a deleted resource stays until its last savepoint is complete."""
    job, spec, status = situation.job, situation.spec, situation.status
    if job.deletion_requested_at is None or job.is_in_ending_namespace or names.TAKE_SAVEPOINT not in job.finalizers:
        return False
    if spec is None or spec.deletion_policy is not DeletionPolicy.SAVEPOINT or _has_saved(situation):
        return False
    if status.driver is not None and status.driver.has_finished:
        return False  # Nobody is left to take it, and the last checkpoint has all that a savepoint would have.
    pod = situation.live_pod
    return status.last_checkpoint is not None or status.last_savepoint is not None or (pod is not None and pod.is_ready)


def _has_saved(situation: Situation) -> bool:
    """Tell whether the driver that ran last has stopped with a savepoint."""
    stop = operations.completed_stop(situation)
    return stop is not None and stop.location is not None


def show_awaited(situation: Situation, decision: Decision) -> Decision:
    """Return a decision with what a deleted job that waits for its last savepoint waits for, and what ends that."""
    if not awaits_savepoint(situation):
        return decision
    operation, failure = decision.status.operation, ""
    is_failed = operation is not None and operation.state is OperationPhase.FAILED
    if operation is not None and is_failed and (operation.message or "") not in decision.message:
        failure = f" The last attempt failed: {operation.message}"
    message = (
        "The resource stays until its last savepoint is complete; to delete it without one, set deletionPolicy to Retain."
        f"{failure} Now: {decision.message}"
    )
    return dataclasses.replace(decision, message=message, phase=Phase.DELETING)


def _request_savepoint(situation: Situation) -> Decision | None:
    """Ask a driver that is ready for the last savepoint, and again after a failure; None while there is nobody to ask."""
    pod, operation = situation.live_pod, situation.status.operation
    if pod is None or pod.deletion_deadline is not None or not pod.is_ready:
        return None
    if operation is not None and operation.epoch == pod.epoch and operation.state is OperationPhase.REQUESTED:
        return None
    attempt, stop = 1, operations.stop_operation(situation)
    if stop is not None and stop.origin is SavepointOrigin.DELETION:
        wait = backoff.delay(stop.attempt, initial=RETRY_INITIAL, longest=RETRY_LONGEST, seed=situation.job.uid)
        if situation.now < operations.stopped_at(stop) + wait:
            return None
        attempt = stop.attempt + 1
    operation = operations.new_operation(
        situation, kind=OperationKind.STOP, origin=SavepointOrigin.DELETION, epoch=pod.epoch, attempt=attempt
    )
    status = situation.status.model_copy(update={"operation": operation})
    act = operations.request_for(situation, operation)
    return Decision(Reason.DELETION_SAVEPOINT, "Taking the last savepoint.", Phase.DELETING, status, (act,), SOON)


def _decide(situation: Situation, reason: Reason, message: str, *acts: actions.Action) -> Decision:
    return Decision(reason, message, Phase.DELETING, situation.status, acts, SOON)


def _stop(situation: Situation) -> Decision | None:
    """Stop the standby, the drivers and the executors, one pod per pass; then wait until all have ended or count as lost."""
    standby = next((pod for pod in situation.standbys if pod.deletion_deadline is None), None)
    if standby is not None:
        act = actions.DeleteStandby(standby.name, standby.uid)
        return _decide(situation, Reason.DELETION_STOPPING, f"Removing {standby.name}.", act)
    if situation.live_pods:
        stop = operations.completed_stop(situation)
        leaving = stop.epoch if stop is not None and not operations.is_exit_overdue(stop, situation.now) else None
        message = f"Stopping {', '.join(pod.name for pod in situation.live_pods)}."
        staying = (pod for pod in situation.live_pods if pod.deletion_deadline is None and pod.epoch != leaving)
        pod = next(staying, None)
        acts = (actions.DeleteDriver(pod.name, pod.uid),) if pod is not None else ()
        return _decide(situation, Reason.DELETION_STOPPING, message, *acts)
    orphans = preconditions.orphan_removal(situation)
    if orphans is not None:
        return _decide(situation, Reason.DELETION_STOPPING, preconditions.describe_removal(orphans), orphans)
    return None


def _release(situation: Situation) -> Decision:
    """Let the resource go; Kubernetes deletes it."""
    job, spec, acts = situation.job, situation.spec, _releasing(situation)
    if not acts:
        return _decide(situation, Reason.DELETED, "Nothing is left to do.")
    if spec is not None and spec.deletion_policy is DeletionPolicy.DELETE:
        return _decide(situation, Reason.DELETION_FINISHED, "The state is deleted.", *acts)
    if spec is not None and job.is_in_ending_namespace and not _has_saved(situation):
        folder = f"{spec.storage.uri.rstrip('/')}/{layout.job_prefix(job.namespace, job.name)}"
        message = f"The namespace is being deleted, so no last savepoint was taken. The state stays in {folder}."
        return _decide(situation, Reason.DELETION_STATE_KEPT, message, *acts)
    return _decide(situation, Reason.DELETION_FINISHED, "The state is kept on storage.", *acts)


def _releasing(situation: Situation) -> tuple[actions.Action, ...]:
    return (actions.SetFinalizers(()),) if situation.job.finalizers else ()


def _purge(situation: Situation, deleted_at: datetime) -> Decision | None:
    """Delete the state until storage is empty, or the deadline has passed; None if there is nothing to delete."""
    spec, storage = situation.spec, situation.storage
    if spec is None or spec.deletion_policy is not DeletionPolicy.DELETE or not situation.job.finalizers:
        return None
    if isinstance(storage, StorageFacts) and storage.is_empty:
        return None
    why = None
    if isinstance(storage, StorageFacts) and storage.standing is not None and not storage.may_be_purged:
        why = storage.standing.sentence
    elif isinstance(storage, StorageUnreadable) and (situation.job.is_in_ending_namespace or not storage.may_pass):
        why = storage.message
    elif situation.now - deleted_at > PURGE_DEADLINE + spec.upgrade.savepoint_timeout:
        why = storage.message if isinstance(storage, StorageUnreadable) else "Another process keeps writing to it."
    if why is not None:
        message = f"The state stays on storage: {why}"
        return _decide(situation, Reason.DELETION_STATE_KEPT, message, *_releasing(situation))
    if not isinstance(storage, StorageFacts):
        return _decide(situation, Reason.DELETION_WAITING, storage.message if storage else "Reading storage.")
    return _decide(situation, Reason.DELETION_PURGING, "Deleting the state.", actions.PurgeStorage())
