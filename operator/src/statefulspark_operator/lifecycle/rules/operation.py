"""Savepoints and stops of a running driver. One is followed to its end before anything else is started.

A missing answer is no failure: a driver that does not answer is asked again until the timeout. A request that did not
arrive is sent again with the same id, which starts nothing twice.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from statefulspark import durations
from statefulspark.contract.api import JobState
from statefulspark.contract.manifest import SnapshotFormat, Trigger

from statefulspark_operator.api.spark_savepoint import SavepointOrigin
from statefulspark_operator.api.status import OperationKind, OperationPhase, OperationStatus, Phase
from statefulspark_operator.lifecycle import actions, ends, health, steps
from statefulspark_operator.lifecycle.decision import AT_ONCE, QUICK, SOON, Decision, Reason
from statefulspark_operator.lifecycle.situation import DriverPod, OperationAbsent, Situation

EXIT_GRACE = timedelta(seconds=30)
"""Time after which the pod of a driver that has completed its stop is deleted."""


def new_operation(
    situation: Situation,
    *,
    kind: OperationKind,
    origin: SavepointOrigin,
    epoch: int,
    attempt: int = 1,
    asked_by: str | None = None,
) -> OperationStatus:
    """Return the record of an operation that is about to be requested.

    The epoch is part of the id: a driver that was restarted from a checkpoint must not answer with the savepoint of its
    predecessor.

    Args:
        situation: The job.
        kind: Savepoint, or stop with savepoint.
        origin: Why it is requested.
        epoch: Epoch of the driver that is asked.
        attempt: Number of this attempt for the same reason.
        asked_by: Identity of the savepoint object that asks for it; None if none does.
    """
    reason = f"object-{asked_by}" if asked_by is not None else origin.value.lower()
    return OperationStatus(
        id=f"{situation.job.uid}-{reason}-{situation.job.generation}-{epoch}-{attempt}",
        kind=kind,
        origin=origin,
        attempt=attempt,
        generation=situation.job.generation,
        epoch=epoch,
        requested_at=situation.now,
        state=OperationPhase.REQUESTED,
    )


def ids(operation: OperationStatus) -> tuple[str, ...]:
    """Return the requests of which one may have been carried out.

    A stop that was given up goes on, also if it was asked for again.
    """
    if operation.kind is not OperationKind.STOP:
        return (operation.id,)
    stem = operation.id.removesuffix(str(operation.attempt))
    return tuple(f"{stem}{attempt}" for attempt in range(1, operation.attempt + 1))


def request_for(situation: Situation, operation: OperationStatus) -> actions.RequestStop | actions.RequestSavepoint:
    """Return the action that asks the driver for a recorded operation."""
    location = situation.spec.savepoint.location if situation.spec else None
    asked_for = (operation.savepoints or ())[:1]
    asked_by = next((asking for asking in situation.own_savepoints if asking.name in asked_for), None)
    if asked_by is not None:
        return actions.RequestSavepoint(
            operation.id,
            operation.epoch,
            asked_by.spec.location or location,
            SnapshotFormat[asked_by.spec.format.name],
            asked_by.name,
        )
    if operation.kind is OperationKind.SAVEPOINT:
        return actions.RequestSavepoint(operation.id, operation.epoch, location, SnapshotFormat.NATIVE)
    trigger = Trigger.UPGRADE if operation.origin is SavepointOrigin.UPGRADE else Trigger.STOP
    return actions.RequestStop(operation.id, operation.epoch, trigger, location)


def stop_operation(situation: Situation) -> OperationStatus | None:
    """Return the stop that was requested from the current driver, if any."""
    operation, driver = situation.status.operation, situation.intent
    if operation is None or driver is None or operation.kind is not OperationKind.STOP:
        return None
    return operation if operation.epoch == driver.epoch else None


def completed_stop(situation: Situation) -> OperationStatus | None:
    """Return the stop of the current driver whose savepoint is complete, if any."""
    operation = stop_operation(situation)
    return operation if operation is not None and operation.state is OperationPhase.COMPLETED else None


def stopped_at(operation: OperationStatus) -> datetime:
    """Return when a completed stop was complete."""
    return operation.finished_at or operation.requested_at


def is_exit_overdue(operation: OperationStatus, now: datetime) -> bool:
    """Tell whether the process of a driver that has completed its stop was waited for long enough."""
    return operation.state is OperationPhase.COMPLETED and now - stopped_at(operation) > EXIT_GRACE


def held_up(situation: Situation, stop: OperationStatus) -> health.Obstacle | None:
    """Return what kept the driver from its stop for the whole time of the savepoint, so that another one would fail, too."""
    cause, spec = health.obstacle(situation), situation.spec
    if cause is None or spec is None or cause.since > stop.requested_at:
        return None
    return cause if health.has_lasted(situation, cause, spec.upgrade.savepoint_timeout) else None


def delete_after(situation: Situation, stop: OperationStatus | None, pod: DriverPod) -> actions.DeleteDriver:
    """Return the deletion of a driver, whose stop has failed, if there was one."""
    grace_s = health.HUNG_GRACE_S if stop is not None and held_up(situation, stop) is not None else None
    return actions.DeleteDriver(pod.name, pod.uid, grace_s)


def _phase(operation: OperationStatus, situation: Situation) -> Phase:
    if operation.kind is OperationKind.SAVEPOINT:
        return Phase.RUNNING
    return Phase.SUSPENDING if situation.spec is not None and situation.spec.suspend else Phase.UPGRADING


def end_stopped_driver(situation: Situation, pod: DriverPod) -> Decision | None:
    """Has the driver stopped, and does its process still run?"""
    operation, unasked = completed_stop(situation), ends.stopped_with(situation)
    if operation is not None:
        phase, location = _phase(operation, situation), operation.location
        ended_at: datetime = stopped_at(operation)
    elif unasked is not None:  # Another request has taken the place of its stop, or a person has stopped it.
        phase, location, ended_at = Phase.RESTARTING, unasked.location, unasked.completed_at
    else:
        return None
    if situation.now - ended_at <= EXIT_GRACE or pod.deletion_deadline is not None:
        savepoint = f"Savepoint {location}" if location else "The savepoint"
        message = f"{savepoint} is complete; waiting for {pod.name} to end."
        return Decision(Reason.STOPPING, message, phase, situation.status, (), SOON)
    message = f"Deleting {pod.name}, which did not end after its savepoint."
    act = actions.DeleteDriver(pod.name, pod.uid)
    return Decision(Reason.STOP_ENFORCED, message, phase, situation.status, (act,), SOON)


def follow(situation: Situation, pod: DriverPod) -> Decision | None:
    """Is an operation of the driver running?"""
    operation = situation.status.operation
    if operation is None or situation.spec is None:
        return None
    if operation.state is not OperationPhase.REQUESTED or operation.epoch != pod.epoch:
        return None
    timeout = situation.spec.upgrade.savepoint_timeout
    if situation.now - operation.requested_at > timeout:
        return _fail(situation, operation, f"The driver did not complete it within {durations.format_exact(timeout)}.")
    phase = _phase(operation, situation)
    if not isinstance(situation.operation, OperationAbsent):
        message = f"Waiting for the savepoint (request {operation.id})."
        after = QUICK if situation.usable_standby is not None else SOON
        return Decision(Reason.OPERATION_IN_PROGRESS, message, phase, situation.status, (), after)
    if situation.driver_status is not None and situation.driver_status.state is JobState.STARTING:
        return _fail(situation, operation, "The driver is still starting.")
    upgrade = situation.status.upgrade
    is_upgrade = operation.kind is OperationKind.STOP and upgrade is not None and upgrade.state in steps.STOP_REQUESTED
    if is_upgrade and upgrade is not None and upgrade.to_revision != situation.desired_revision:
        return _fail(situation, operation, "The spec changed before the driver received the request.")
    act = request_for(situation, operation)
    message = "The driver does not know the request; sending it again."
    return Decision(Reason.OPERATION_REPEATED, message, phase, situation.status, (act,), SOON)


def _fail(situation: Situation, operation: OperationStatus, why: str) -> Decision:
    failed = operation.model_copy(update={"state": OperationPhase.FAILED, "finished_at": situation.now, "message": why})
    upgrade = situation.status.upgrade
    if upgrade is not None and upgrade.state in steps.STOP_REQUESTED:
        upgrade = upgrade.model_copy(update={"message": why})
    status = situation.status.model_copy(update={"operation": failed, "upgrade": upgrade})
    message = f"The savepoint failed: {why}"
    return Decision(Reason.OPERATION_TIMED_OUT, message, _phase(operation, situation), status, (), AT_ONCE)


def suspend(situation: Situation, pod: DriverPod) -> Decision | None:
    """Should the driver not run?

    It stops with a savepoint, or if that fails, with the checkpoint of a drain. A stop that has begun is completed; if
    `suspend` is set to false before its end, the job starts again afterwards.
    """
    if situation.spec is None or not situation.spec.suspend:
        return None
    if pod.deletion_deadline is not None:
        return _suspending(situation, f"Waiting for {pod.name} to end.")
    starting = situation.driver_status is not None and situation.driver_status.state is JobState.STARTING
    stop = stop_operation(situation)
    failed = stop is not None and stop.state is OperationPhase.FAILED and stop.generation == situation.job.generation
    if not pod.has_started or starting or failed:
        deletion = delete_after(situation, stop if failed else None, pod)
        return _suspending(situation, f"Stopping {pod.name}.", deletion)
    operation = new_operation(situation, kind=OperationKind.STOP, origin=SavepointOrigin.STOP, epoch=pod.epoch)
    status = situation.status.model_copy(update={"operation": operation})
    act = request_for(situation, operation)
    return Decision(Reason.SUSPENDING, "Stopping the job with a savepoint.", Phase.SUSPENDING, status, (act,), SOON)


def _suspending(situation: Situation, message: str, *acts: actions.Action) -> Decision:
    return Decision(Reason.SUSPENDING, message, Phase.SUSPENDING, situation.status, acts, SOON)
