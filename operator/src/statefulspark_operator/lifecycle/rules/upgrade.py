"""A change of the spec while a driver runs: savepoint, stop, and then, by the rules for starting, the new revision.

The old driver is stopped only after its savepoint is complete, unless the user's policy says otherwise or it was not
running the job. A fallback uses the newest committed batch, never an empty state.
"""

from __future__ import annotations

from datetime import timedelta

from statefulspark.contract.api import JobState

from statefulspark_operator.api.spark_savepoint import SavepointOrigin
from statefulspark_operator.api.status import (
    OperationKind,
    OperationPhase,
    OperationStatus,
    Phase,
    StandbyState,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.api.upgrade import SavepointFailurePolicy, StateSource, UpgradeStrategy
from statefulspark_operator.lifecycle import backoff, code, going_back, steps
from statefulspark_operator.lifecycle.decision import QUICK, SOON, STEADY, Decision, Reason
from statefulspark_operator.lifecycle.rules import operation as operations
from statefulspark_operator.lifecycle.situation import DriverPod, Situation

RETRY_INITIAL = timedelta(seconds=10)
RETRY_LONGEST = timedelta(minutes=5)


def is_aborted(situation: Situation) -> bool:
    """Tell whether this change was aborted, so that the operator waits for another change of the spec."""
    upgrade = situation.status.upgrade
    if upgrade is None or upgrade.state is not UpgradeState.ABORTED:
        return False
    return upgrade.generation == situation.job.generation and not code.is_of_other_code(situation, upgrade)


def is_warm(situation: Situation) -> bool:
    """Tell whether a change of the spec is to be carried out with a standby.

    A requested restore is not, and neither is empty state: the standby compares the job with the newest state.
    """
    spec, driver = situation.spec, situation.intent
    if spec is None or driver is None or driver.revision == situation.desired_revision:
        return False
    if spec.upgrade.strategy is not UpgradeStrategy.WARM or spec.upgrade.state_from is StateSource.EMPTY:
        return False
    return situation.pending_restore is None and not is_aborted(situation)


def _is_of_this_change(situation: Situation, upgrade: UpgradeStatus | None) -> bool:
    return upgrade is not None and upgrade.to_revision == situation.desired_revision and upgrade.state not in steps.OVER


def awaits_standby(situation: Situation) -> bool:
    """Tell whether the driver keeps running because the standby of a warm upgrade cannot take over yet."""
    upgrade, standby = situation.status.upgrade, situation.status.standby
    if not is_warm(situation):
        return False
    if upgrade is None or not _is_of_this_change(situation, upgrade) or upgrade.state is UpgradeState.PREPARE:
        return True
    is_ready = standby is not None and standby.state is StandbyState.READY and situation.usable_standby is not None
    return upgrade.state is UpgradeState.READY and not is_ready


def replace_driver(situation: Situation, pod: DriverPod) -> Decision | None:
    """Does the driver run another revision or state than the spec requests?"""
    if not situation.is_outdated or is_aborted(situation):
        return None
    if pod.deletion_deadline is not None:
        message = f"Waiting for {pod.name} to end."
        return Decision(Reason.STOPPING, message, Phase.UPGRADING, situation.status, (), SOON)
    if not runs_the_job(situation, pod):
        return _stop_without_savepoint(situation, pod, "The driver was not running the job yet.")
    if awaits_standby(situation):
        return None
    if situation.spec is not None and situation.spec.upgrade.state_from is not StateSource.SAVEPOINT:
        why = f"spec.upgrade.stateFrom is {situation.spec.upgrade.state_from}."
        return _stop_without_savepoint(situation, pod, why)
    stop = operations.stop_operation(situation)
    if stop is None or stop.state is not OperationPhase.FAILED or stop.generation != situation.job.generation:
        return _request(situation, pod, attempt=1)
    upgrade = situation.status.upgrade
    if upgrade is not None and code.is_of_other_code(situation, upgrade):
        return _request(situation, pod, attempt=stop.attempt + 1)
    return _after_failure(situation, pod, stop)


def runs_the_job(situation: Situation, pod: DriverPod) -> bool:
    """Tell whether the driver may have progress that needs a savepoint; a silent driver is assumed to run the job."""
    if not pod.has_started:
        return False
    return situation.driver_status is None or situation.driver_status.state is not JobState.STARTING


def begin(situation: Situation, state: UpgradeState) -> UpgradeStatus:
    """Return the record of this upgrade; a new one if it has not begun.

    Args:
        situation: The job, whose driver is outdated.
        state: The state of the upgrade.
    """
    upgrade = situation.status.upgrade
    target = situation.desired_revision or ""
    is_same_upgrade = (
        upgrade is not None
        and upgrade.to_revision == target
        and upgrade.state in steps.PREPARING | steps.STOP_REQUESTED | {UpgradeState.STOPPING}
    )
    if upgrade is not None and is_same_upgrade:
        return upgrade.model_copy(update={"state": state, "generation": situation.job.generation})
    return new_upgrade(situation, target, state)


def new_upgrade(situation: Situation, target: str, state: UpgradeState) -> UpgradeStatus:
    """Return the record of an upgrade that begins.

    One that begins while the one before has completed no checkpoint goes back further, if it fails: to the revision that
    ran before both, from the savepoint of its stop, from which this one starts, too.

    Args:
        situation: The job.
        target: The requested revision.
        state: The state of the upgrade.
    """
    before, driver = situation.status.upgrade, situation.intent
    upgrade = UpgradeStatus(
        from_revision=driver.revision if driver else "",
        to_revision=target,
        generation=situation.job.generation,
        state=state,
        requested_at=situation.now,
        image=situation.spec.image if situation.spec is not None else "",
    )
    if before is None or before.from_revision == target:
        return upgrade
    if before.state in steps.STARTED:
        is_proven = steps.trial_of(before).checkpoints > 0
    else:
        is_proven = going_back.under_way(situation.status, before.from_revision) is None
    if is_proven:
        return upgrade
    return upgrade.model_copy(update={"from_revision": before.from_revision, "savepoint": before.savepoint})


def _request(situation: Situation, pod: DriverPod, *, attempt: int) -> Decision:
    operation = operations.new_operation(
        situation, kind=OperationKind.STOP, origin=SavepointOrigin.UPGRADE, epoch=pod.epoch, attempt=attempt
    )
    has_standby = situation.usable_standby is not None
    upgrade = begin(situation, UpgradeState.SAVEPOINT_PRE_COPY if has_standby else UpgradeState.SAVEPOINT)
    status = situation.status.model_copy(update={"operation": operation, "upgrade": upgrade})
    message = f"Taking a savepoint of revision {upgrade.from_revision} to start revision {upgrade.to_revision} from it."
    act = operations.request_for(situation, operation)
    after = QUICK if has_standby else SOON
    return Decision(Reason.UPGRADE_REQUESTED, message, Phase.UPGRADING, status, (act,), after)


def _stop_without_savepoint(
    situation: Situation, pod: DriverPod, why: str, stop: OperationStatus | None = None
) -> Decision:
    """Delete the driver; with a stop that has failed, as quickly as that allows."""
    upgrade = begin(situation, UpgradeState.STOPPING).model_copy(update={"message": why})
    status = situation.status.model_copy(update={"upgrade": upgrade})
    checkpoint = situation.status.last_checkpoint
    if situation.spec is not None and situation.spec.upgrade.state_from is StateSource.EMPTY:
        source = "starts with empty state"
    elif checkpoint is None:
        source = "continues from the newest committed batch, if there is one"
    else:
        age_s = round((situation.now - checkpoint.completed_at).total_seconds())
        source = f"continues from checkpoint {checkpoint.id} or newer, completed {age_s} s ago"
    message = f"{why} Revision {upgrade.to_revision} {source}."
    act = operations.delete_after(situation, stop, pod)
    return Decision(Reason.UPGRADE_FROM_CHECKPOINT, message, Phase.UPGRADING, status, (act,), SOON)


def _after_failure(situation: Situation, pod: DriverPod, stop: OperationStatus) -> Decision:
    """Apply the user's policy to a failed savepoint."""
    policy = situation.spec.upgrade.on_savepoint_failure if situation.spec else SavepointFailurePolicy.WAIT
    why = f"The savepoint failed: {stop.message or 'no reason given.'}"
    if policy is SavepointFailurePolicy.USE_LATEST_CHECKPOINT:
        return _stop_without_savepoint(situation, pod, why, stop)
    if policy is SavepointFailurePolicy.ABORT:
        upgrade = begin(situation, UpgradeState.ABORTED).model_copy(update={"message": why})
        status = situation.status.model_copy(update={"upgrade": upgrade})
        message = f"{why} Revision {upgrade.from_revision} keeps running until the spec changes again."
        return Decision(Reason.UPGRADE_ABORTED, message, Phase.RUNNING, status, (), STEADY)
    held_up = operations.held_up(situation, stop)
    if held_up is not None:
        return _stop_without_savepoint(situation, pod, f"{why} {held_up.message}", stop)
    wait = backoff.delay(stop.attempt, initial=RETRY_INITIAL, longest=RETRY_LONGEST, seed=situation.job.uid)
    due_at = (stop.finished_at or stop.requested_at) + wait
    if situation.now >= due_at:
        return _request(situation, pod, attempt=stop.attempt + 1)
    message = f"{why} The old revision keeps running; the next attempt is at {due_at:%H:%M:%S} UTC."
    has_standby = situation.usable_standby is not None
    upgrade = begin(situation, UpgradeState.SAVEPOINT_PRE_COPY if has_standby else UpgradeState.SAVEPOINT)
    status = situation.status.model_copy(update={"upgrade": upgrade})
    return Decision(
        Reason.UPGRADE_RETRY_LATER, message, Phase.UPGRADING, status, (), min(STEADY, due_at - situation.now)
    )
