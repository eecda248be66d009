"""The Kubernetes events of a pass, derived from the difference of two statuses.

One event is posted per transition, never per pass. Because statuses are compared, an event is posted exactly when the
transition is recorded. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from statefulspark import durations, errors
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.contract.faults import Fault

from statefulspark_operator.api.conditions import Condition, ConditionStatus, ConditionType
from statefulspark_operator.api.status import (
    DriverState,
    OperationKind,
    OperationPhase,
    Phase,
    StandbyState,
    StatefulSparkJobStatus,
    UpgradeState,
)
from statefulspark_operator.lifecycle import fault, steps
from statefulspark_operator.lifecycle.decision import Reason


@dataclass(frozen=True, slots=True)
class Announcement:
    """One event.

    Attributes:
        reason: PascalCase.
        message: One sentence.
        is_warning: Whether a person should look at it.
        whose: Whose fault it is; None if it is no failure, or nobody can tell.
    """

    reason: str
    message: str
    is_warning: bool = False
    whose: Fault | None = None


def announcements(before: StatefulSparkJobStatus, after: StatefulSparkJobStatus) -> tuple[Announcement, ...]:
    """Return the transitions between two statuses.

    Args:
        before: The status as it was read.
        after: The status as it is recorded now.

    Returns:
        One announcement per transition, in the order in which people expect them; empty if there is none.
    """
    return (
        *_operation(before, after),
        *_drivers(before, after),
        *_standby(before, after),
        *_upgrade(before, after),
        *_job(before, after),
        *_obstacles(before, after),
    )


def _drivers(before: StatefulSparkJobStatus, after: StatefulSparkJobStatus) -> Iterator[Announcement]:
    old, new = before.driver, after.driver
    if new is not None:
        is_other = old is None or old.epoch != new.epoch
        was_ended = old is not None and not is_other and old.state is DriverState.ENDED
        if new.state is DriverState.ENDED and not was_ended and new.end_reason != Reason.SUPERSEDED.word:
            is_planned = new.exit_code == ExitCode.SUCCESS and new.end_reason != Reason.DRIVER_FAILED.word
            warn = not is_planned and new.ending_since is None
            is_failure = after.restarts.last_failure_at == new.ended_at
            whose = after.restarts.last_fault if is_failure else None
            yield Announcement(new.end_reason or "DriverEnded", f"Epoch {new.epoch}: {new.end_message}", warn, whose)
        if new.state is DriverState.CREATING and is_other:
            was_standby = before.standby is not None and before.standby.pod == new.pod
            reason = "StandbyActivated" if was_standby else "DriverStarting"
            yield Announcement(reason, after.message or f"Starting epoch {new.epoch}.")


def _standby(before: StatefulSparkJobStatus, after: StatefulSparkJobStatus) -> Iterator[Announcement]:
    earlier, standby = before.standby, after.standby
    if standby is None:
        return
    same = earlier if earlier is not None and earlier.number == standby.number else None
    is_on_its_way = standby.state in (StandbyState.CREATING, StandbyState.WARMING)
    if is_on_its_way and standby.reason is not None and (same is None or same.reason is None):
        yield Announcement("StandbyWaits", f"{standby.reason}: {standby.message}", is_warning=True, whose=standby.fault)
    if same is not None and same.state is standby.state:
        return
    # A refusal that repeats, for example by a quota, has one event.
    is_again = standby.uid is None and standby.failures > 0
    if standby.state is StandbyState.CREATING and not (is_again and earlier is not None and earlier.uid is None):
        yield Announcement("StandbyCreated", f"Creating {standby.pod} of revision {standby.revision}.")
    if standby.state is StandbyState.READY:
        yield Announcement("StandbyReady", f"{standby.pod} can take over.")
    if standby.state is StandbyState.ENDED:
        message = f"{standby.pod} has ended; the job is not affected: {standby.message}"
        yield Announcement("StandbyEnded", message, is_warning=True, whose=standby.fault)


def _operation(before: StatefulSparkJobStatus, after: StatefulSparkJobStatus) -> Iterator[Announcement]:
    old, new = before.operation, after.operation
    if new is None:
        return
    label = "Savepoint" if new.kind is OperationKind.SAVEPOINT else "Stop with savepoint"
    if old is None or old.id != new.id:
        yield Announcement("SavepointRequested", f"{label} requested ({new.origin.value}, attempt {new.attempt}).")
    if old is not None and old.id == new.id and old.state is new.state:
        return
    if new.state is OperationPhase.COMPLETED:
        took_s = round(((new.finished_at or new.requested_at) - new.requested_at).total_seconds(), 1)
        yield Announcement("SavepointCompleted", f"{label} complete after {took_s} s: {new.location or 'no location'}.")
    if new.state is OperationPhase.FAILED:
        yield Announcement("SavepointFailed", f"{label} failed: {new.message}", is_warning=True)


def _upgrade(before: StatefulSparkJobStatus, after: StatefulSparkJobStatus) -> Iterator[Announcement]:
    old, new = before.upgrade, after.upgrade
    if new is None:
        return
    route = f"from revision {new.from_revision} to {new.to_revision}"
    if old is None or old.requested_at != new.requested_at:
        yield Announcement("UpgradeStarted", f"Upgrade {route}.")
    if old is not None and old.requested_at == new.requested_at and old.state is new.state:
        return
    if new.state in steps.CARRIED_OUT and (old is None or old.state not in steps.CARRIED_OUT):
        pause = (
            "the new revision has committed no batch yet, so the pause is unknown"
            if new.pause is None
            else f"{durations.format_exact(new.pause)} from the last batch of the old revision to the first of the new one"
        )
        yield Announcement("UpgradeCompleted", f"Upgrade {route} complete; {pause}.")
    if new.state is UpgradeState.STABLE:
        yield Announcement("UpgradeStable", f"Revision {new.to_revision} is stable.")
    if new.state is UpgradeState.READY:
        yield Announcement("UpgradeReady", f"The standby of revision {new.to_revision} can take over.")
    if new.state is UpgradeState.BLOCKED:
        yield Announcement(
            "UpgradeBlocked", new.message or f"Upgrade {route} blocked.", is_warning=True, whose=Fault.REVISION
        )
    if new.state is UpgradeState.ROLLED_BACK:
        yield Announcement(
            "RolledBack", new.message or f"Upgrade {route} rolled back.", is_warning=True, whose=Fault.REVISION
        )
    if new.state is UpgradeState.ABORTED:
        yield Announcement("UpgradeAborted", f"Upgrade {route} aborted: {new.message}", is_warning=True)
    if new.state is UpgradeState.STOPPING and new.savepoint is None and new.message is not None:
        yield Announcement("UpgradeWithoutSavepoint", new.message, is_warning=True)


_HINDRANCES = frozenset(
    reason.word
    for reason in (
        Reason.STORAGE_UNREADABLE,
        Reason.SAVEPOINT_AWAITED,
        Reason.IMAGE_UNAVAILABLE,
        Reason.CONTAINER_WAITING,
        Reason.UNSCHEDULABLE,
        Reason.DRIVER_NOT_TRUSTED,
        Reason.UPGRADE_HALTED,
    )
)
"""Reasons of `Ready` for which a driver does not start or a change is not carried out, and which may pass."""
_WAITS = frozenset(reason.word for reason in (Reason.UPGRADE_QUEUED, Reason.START_QUEUED))
"""Reasons of `Ready` for which a job waits for others, and which pass by themselves."""
_OF_UPGRADES = frozenset(reason.word for reason in (Reason.UPGRADE_BLOCKED, Reason.ROLLED_BACK, Reason.UPGRADE_ABORTED))
"""Reasons of `Stalled` that have an event of their own."""


def _obstacles(before: StatefulSparkJobStatus, after: StatefulSparkJobStatus) -> Iterator[Announcement]:
    """Return what a person has to act on, and what keeps a driver from starting; each cause once."""
    stalled, ready = after.condition(ConditionType.STALLED), after.condition(ConditionType.READY)
    if stalled is not None and stalled.status is ConditionStatus.TRUE:
        driver = after.driver
        is_told = driver != before.driver and driver is not None and driver.end_reason == stalled.reason
        if not is_told and stalled.reason not in _OF_UPGRADES and _is_new(before, stalled):
            whose = fault.of_stall(stalled.reason)
            yield Announcement(stalled.reason, f"Stalled: {stalled.message}", is_warning=True, whose=whose)
        return
    if ready is None:
        return
    if ready.reason in _WAITS and _is_new(before, ready):
        yield Announcement(ready.reason, ready.message)
    is_ignored = ready.reason == Reason.CODE_IGNORED.word
    is_other_code = is_ignored and after.ignored_code != before.ignored_code
    if is_other_code or ((is_ignored or ready.reason in _HINDRANCES) and _is_new(before, ready)):
        yield Announcement(ready.reason, ready.message, is_warning=True)


def _is_new(before: StatefulSparkJobStatus, condition: Condition) -> bool:
    """Tell whether a condition had another answer or reason before."""
    recorded = before.condition(condition.type)
    return recorded is None or (recorded.status, recorded.reason) != (condition.status, condition.reason)


def of_refusal(
    before: StatefulSparkJobStatus,
    decided: StatefulSparkJobStatus,
    error: errors.StatefulSparkError,
    *,
    of_standby: bool,
) -> tuple[Announcement, ...]:
    """Return the event about an action that the API server refuses until somebody changes something: one for each cause.

    Args:
        before: The status as it was read.
        decided: The status of the decision.
        error: The refusal.
        of_standby: Whether the action was to create a standby.
    """
    if not isinstance(error, errors.StateUnknownError):
        return ()
    ready = before.condition(ConditionType.READY)
    is_known = ready is not None and ready.reason == error.reason
    if of_standby:
        is_known = decided.standby is not None and decided.standby.failures > 0
    if is_known:
        return ()
    return (Announcement(error.reason, error.message, is_warning=True, whose=fault.of_refusal(error)),)


def _job(before: StatefulSparkJobStatus, after: StatefulSparkJobStatus) -> Iterator[Announcement]:
    executors, earlier = after.executors, before.executors
    if executors is not None:
        is_same_driver = earlier is not None and earlier.driver == executors.driver
        lost = executors.lost - (earlier.lost if earlier is not None and is_same_driver else 0)
        if lost > 0:
            count = "1 executor" if lost == 1 else f"{lost} executors"
            why = executors.message or "no reason is known"
            yield Announcement("ExecutorLost", f"{executors.driver} lost {count}: {why}", is_warning=True)
    # Why a driver that still runs is restarted; one that has ended is announced with its end.
    is_ended = after.driver is None or after.driver.state is DriverState.ENDED
    if after.restarts.count > before.restarts.count and not is_ended:
        reason, message = after.restarts.last_reason, after.restarts.last_message
        yield Announcement(reason or "DriverRestarted", message or "The driver is restarted.", is_warning=True)
    if after.fallback is not None and after.fallback != before.fallback:
        yield Announcement("FellBack", f"Epoch {after.epoch}: {after.fallback}", is_warning=True)
    if after.kept_aside is not None and after.kept_aside != before.kept_aside:
        yield Announcement("StateKeptAside", f"Epoch {after.epoch}: {after.kept_aside}", is_warning=True)
    if after.restore_skipped is not None and after.restore_skipped != before.restore_skipped:
        yield Announcement("RestoreSkipped", f"Epoch {after.epoch}: {after.restore_skipped}", is_warning=True)
    if after.other_spark is not None and after.other_spark != before.other_spark:
        yield Announcement("SparkChanged", f"Epoch {after.epoch}: {after.other_spark}")
    if after.phase is before.phase:
        return
    if after.phase is Phase.RUNNING:
        yield Announcement("Running", f"All queries run, from {after.restored_from or 'empty state'}.")
    if after.phase is Phase.SUSPENDED and before.phase is not None:
        yield Announcement("Suspended", after.message or "Suspended.")
    if after.phase is Phase.DELETING:
        yield Announcement("Deleting", after.message or "Deleting.")
