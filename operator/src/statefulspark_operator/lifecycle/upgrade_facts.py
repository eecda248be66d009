"""The progress of an upgrade and of its standby, from what was observed, and when each step was reached. Pure."""

from __future__ import annotations

from datetime import timedelta

from statefulspark.contract.api import JobState, JobStatus
from statefulspark.contract.faults import Fault

from statefulspark_operator.api.status import (
    DriverState,
    OperationKind,
    OperationPhase,
    StandbyState,
    StandbyStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.lifecycle import backoff, ends, fault, steps
from statefulspark_operator.lifecycle.decision import Reason
from statefulspark_operator.lifecycle.situation import (
    HARMLESS_WAITS,
    DriverPod,
    DriverSilent,
    PodPhase,
    Situation,
)

IDLE_AFTER = timedelta(minutes=1)
"""A driver that has committed nothing for so long, before it is asked to stop or after its first checkpoint, waits for
input, and its wait is no pause."""


def current_upgrade(situation: Situation, upgrade: UpgradeStatus, *, has_checkpoint: bool) -> UpgradeStatus:
    """Return the upgrade with the steps that have been reached.

    Args:
        situation: The job, with its operation and snapshots up to date.
        upgrade: The upgrade as recorded.
        has_checkpoint: Whether the driver of the current epoch has completed a checkpoint.
    """
    upgrade = _taken_back(situation, upgrade)
    if upgrade.state is UpgradeState.STABLE:
        return _measured(situation, upgrade)
    if upgrade.state in steps.OVER and upgrade.state is not UpgradeState.FIRST_CHECKPOINT:
        return upgrade
    operation, driver, answer = situation.status.operation, situation.status.driver, situation.driver_status
    if upgrade.state in steps.STOP_REQUESTED and operation is not None and operation.kind is OperationKind.STOP:
        is_saved = operation.state is OperationPhase.COMPLETED and operation.requested_at >= upgrade.requested_at
        saved = {
            "state": UpgradeState.STOPPING,
            "savepoint_completed_at": operation.finished_at,
            "savepoint": operation.location,
            "message": None,
        }
        upgrade = upgrade.model_copy(update=saved) if is_saved else upgrade
    is_started = upgrade.state in steps.STARTED and upgrade.started_at is None
    runs = driver is not None and driver.revision == upgrade.to_revision
    if is_started and runs and answer is not None and answer.state is JobState.RUNNING:
        upgrade = upgrade.model_copy(update={"started_at": situation.now})
    upgrade = _measured(situation, upgrade)
    if not has_checkpoint or driver is None or driver.state is not DriverState.CREATED:
        return upgrade
    if not steps.is_on_trial(upgrade, driver):
        return upgrade
    upgrade = _counted(situation, upgrade)
    if situation.spec is None or steps.trial_of(upgrade).checkpoints < situation.spec.upgrade.stable_after_checkpoints:
        return upgrade
    return upgrade.model_copy(update={"state": UpgradeState.STABLE})


def _taken_back(situation: Situation, upgrade: UpgradeStatus) -> UpgradeStatus:
    """End an upgrade whose spec was changed back, so that the same spec is tried again if it is applied once more.

    A spec that cannot be carried out now, for example because its code is missing, was not changed back.
    """
    driver, operation = situation.status.driver, situation.status.operation
    is_withheld = situation.withheld is not None and situation.queued is None
    if driver is None or is_withheld or situation.rejection is not None:
        return upgrade
    # The old driver goes on only if it was not asked to stop, or its savepoint failed.
    has_failed = operation is not None and operation.state is OperationPhase.FAILED
    if upgrade.state not in steps.PREPARING | steps.WITHHELD and not (
        upgrade.state in steps.STOP_REQUESTED and has_failed
    ):
        return upgrade
    if driver.revision != situation.desired_revision or driver.revision == upgrade.to_revision:
        return upgrade
    message = f"The spec was changed back to revision {driver.revision}."
    if situation.queued is not None:
        message = f"The spec was changed to revision {situation.withheld}, which waits for its turn."
    return upgrade.model_copy(update={"state": UpgradeState.ABORTED, "message": message})


def _measured(situation: Situation, upgrade: UpgradeStatus) -> UpgradeStatus:
    """Note the last batch of the old revision and the first of the new one, and with both how long there was no output."""
    answer = situation.driver_status
    commits = [query.last_commit_at for query in answer.queries if query.last_commit_at] if answer is not None else []
    driver, committed_at = situation.status.driver, max(commits, default=None)
    if driver is None or committed_at is None:
        return upgrade
    if driver.revision == upgrade.from_revision and upgrade.state in steps.STOP_REQUESTED | {UpgradeState.STOPPING}:
        return upgrade.model_copy(update={"last_commit_at": committed_at})
    if driver.revision != upgrade.to_revision or upgrade.first_commit_at is not None:
        return upgrade
    if upgrade.state in steps.CARRIED_OUT:  # The first checkpoint may be seen before the first commit.
        if upgrade.first_checkpoint_at is None or committed_at - upgrade.first_checkpoint_at > IDLE_AFTER:
            return upgrade
    elif upgrade.state not in steps.STARTED:
        return upgrade
    # Output ended with the last batch, but not before the stop if the old revision waited for input.
    operation = situation.status.operation
    is_of_upgrade = operation is not None and operation.requested_at >= upgrade.requested_at
    asked_at = operation.requested_at if operation is not None and is_of_upgrade else upgrade.stopped_at
    last = upgrade.last_commit_at
    since = asked_at if last is None or (asked_at is not None and asked_at - last > IDLE_AFTER) else last
    pause = max(timedelta(0), committed_at - since) if since is not None else None
    return upgrade.model_copy(update={"first_commit_at": committed_at, "pause": pause})


def _counted(situation: Situation, upgrade: UpgradeStatus) -> UpgradeStatus:
    """Count the checkpoints of the new revision over all its drivers; one that completed ends a row of failures."""
    driver_status = situation.driver_status
    by_driver = max(1, driver_status.checkpoints.completed if driver_status is not None else 1)
    so_far = steps.trial_of(upgrade)
    upgrade = steps.record_trial(
        upgrade, checkpoints=max(so_far.checkpoints, so_far.checkpoints_before + by_driver), failures=0
    )
    if upgrade.state is UpgradeState.FIRST_CHECKPOINT:
        return upgrade
    return upgrade.model_copy(update={"state": UpgradeState.FIRST_CHECKPOINT, "first_checkpoint_at": situation.now})


RETRY_INITIAL = timedelta(seconds=10)
RETRY_LONGEST = timedelta(minutes=5)

_KILLED, _OUT_OF_MEMORY = 137, "OOMKilled"
"""The exit code of SIGKILL, which a kubelet, a node or a person may send, and the reason that says it was for memory."""


def current_standby(situation: Situation) -> StandbyStatus | None:
    """Return the record of the standby with what its pod and its process say.

    Args:
        situation: The job, with the status as recorded.
    """
    record, pod = situation.status.standby, situation.standby_pod
    if record is None or record.state is StandbyState.ENDED:
        return record
    if pod is None:
        is_refused = record.state is StandbyState.REFUSED and not is_of_the_running_revision(situation, record)
        if record.uid is None or is_refused:
            return record
        return ended(situation, record, "StandbyGone", f"Pod {record.pod} no longer exists.", Fault.SURROUNDINGS)
    record = record.model_copy(update={"uid": pod.uid})
    return _by_its_pod(situation, record, pod) or _by_its_answer(situation, record, pod)


def _by_its_pod(situation: Situation, record: StandbyStatus, pod: DriverPod) -> StandbyStatus | None:
    """Return the record of a standby whose pod has ended or cannot start; None if its process may run."""
    if pod.is_over or pod.is_lost(situation.now):
        end = ends.driver_end(pod)
        whose = fault.of_end(end)
        if whose is not Fault.REVISION or is_of_the_running_revision(situation, record):
            return ended(situation, record, end.reason, end.message, whose)
        if end.code == _KILLED and end.reason != _OUT_OF_MEMORY and record.failures + 1 < steps.TRIAL_BUDGET:
            return ended(situation, record, end.reason, end.message, whose)
        return reached(situation, record, StandbyState.REFUSED, reason=end.reason, message=end.message, whose=whose)
    if pod.waiting is not None and pod.waiting.reason not in HARMLESS_WAITS:
        message = f"{pod.name} cannot start ({pod.waiting.reason}): {pod.waiting.message or 'no message'}"
        whose = fault.of_wait(pod.waiting)
        state = StandbyState.REFUSED if whose is Fault.REVISION else record.state
        return reached(situation, record, state, reason=pod.waiting.reason, message=message, whose=whose)
    if pod.unschedulable is not None:
        message = f"{pod.name} cannot be scheduled: {pod.unschedulable}"
        reason = Reason.UNSCHEDULABLE.word
        return reached(situation, record, record.state, reason=reason, message=message, whose=Fault.SURROUNDINGS)
    return None


def _by_its_answer(situation: Situation, record: StandbyStatus, pod: DriverPod) -> StandbyStatus:
    """Return the record of a standby with what its process says."""
    answer = situation.standby
    if isinstance(answer, JobStatus) and answer.standby is not None:
        state = StandbyState(answer.standby.state.value)
        reason, message = answer.standby.reason, answer.standby.message
        if state is not StandbyState.REFUSED:
            # A standby that warms may say what it is waiting for, for example storage that does not answer.
            whose = Fault.SURROUNDINGS if reason is not None else None
            return _renewed(situation, reached(situation, record, state, reason=reason, message=message, whose=whose))
        reason, message = reason or "StandbyRefused", message or "It gave no reason."
        return reached(situation, record, state, reason=reason, message=message, whose=Fault.REVISION)
    if isinstance(answer, DriverSilent) and answer.is_untrusted:
        reason, message = Reason.DRIVER_NOT_TRUSTED.word, f"{pod.name}: {answer.message}."
        state, whose = StandbyState.WARMING, Fault.SURROUNDINGS
        return reached(situation, record, state, reason=reason, message=message, whose=whose)
    if record.state is not StandbyState.CREATING:
        return record
    is_running = pod.phase is PodPhase.RUNNING
    return reached(situation, record, StandbyState.WARMING if is_running else StandbyState.CREATING)


def _renewed(situation: Situation, record: StandbyStatus) -> StandbyStatus:
    """End a standby whose surroundings have kept it from getting ready for long: the next one has the Secrets of today."""
    timeout = situation.spec.upgrade.standby_timeout if situation.spec is not None else None
    if record.state is not StandbyState.WARMING or record.reason is None or timeout is None:
        return record
    if situation.now - record.since <= timeout:
        return record
    return ended(situation, record, record.reason, record.message or "It gave no reason.", Fault.SURROUNDINGS)


def is_of_the_running_revision(situation: Situation, record: StandbyStatus) -> bool:
    """Tell whether it is of the revision that runs, so that its end says nothing about a new one."""
    return situation.intent is None or situation.intent.revision == record.revision


def reached(
    situation: Situation,
    record: StandbyStatus,
    state: StandbyState,
    *,
    reason: str | None = None,
    message: str | None = None,
    whose: Fault | None = None,
) -> StandbyStatus:
    """Return a standby's record in a state, with the time since when it is in it."""
    if (record.state, record.reason, record.message, record.fault) == (state, reason, message, whose):
        return record
    changes: dict[str, object] = {"state": state, "reason": reason, "message": message, "fault": whose}
    if record.state is not state:
        changes["since"] = situation.now
    if state is StandbyState.READY:
        changes["failures"] = 0
    return record.model_copy(update=changes)


def ended(situation: Situation, record: StandbyStatus, reason: str, message: str, whose: Fault) -> StandbyStatus:
    """Return a standby's record after its end; the next one is created after a delay that grows with each end."""
    failures = record.failures + 1
    wait = backoff.delay(failures, initial=RETRY_INITIAL, longest=RETRY_LONGEST, seed=situation.job.uid)
    record = reached(situation, record, StandbyState.ENDED, reason=reason, message=message, whose=whose)
    return record.model_copy(update={"failures": failures, "retry_at": situation.now + wait})
