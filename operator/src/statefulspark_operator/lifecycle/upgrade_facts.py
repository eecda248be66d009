"""The progress of an upgrade and of its standby, from what was observed, and when each step was reached. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from statefulspark.contract.api import JobState, JobStatus

from statefulspark_operator.api.standby import StandbyState, StandbyStatus
from statefulspark_operator.api.status import (
    DriverState,
    OperationKind,
    OperationPhase,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.lifecycle import backoff, ends, steps
from statefulspark_operator.lifecycle.decision import Reason
from statefulspark_operator.lifecycle.ends import EndKind
from statefulspark_operator.lifecycle.situation import (
    TLS_SECRET_MISSING,
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
    upgrade = _measured(situation, _started(situation, _saved(situation, upgrade)))
    if not has_checkpoint or not _runs_it(situation, upgrade):
        return upgrade
    return _stable(situation, _counted(situation, upgrade))


def _taken_back(situation: Situation, upgrade: UpgradeStatus) -> UpgradeStatus:
    """End an upgrade whose spec was changed back, so that the same spec is tried again if it is applied once more.

    A spec that cannot be carried out now, for example because its code is missing, was not changed back.
    """
    driver, is_deferred = situation.status.driver, situation.withheld is not None or situation.rejection is not None
    if driver is None or is_deferred or not _may_be_taken_back(situation, upgrade):
        return upgrade
    if driver.revision != situation.desired_revision or driver.revision == upgrade.to_revision:
        return upgrade
    message = f"The spec was changed back to revision {driver.revision}."
    return upgrade.model_copy(update={"state": UpgradeState.ABORTED, "message": message})


def _may_be_taken_back(situation: Situation, upgrade: UpgradeStatus) -> bool:
    """Tell whether the old driver goes on if the spec is changed back: it is not asked to stop, or its savepoint failed."""
    operation = situation.status.operation
    has_failed = operation is not None and operation.state is OperationPhase.FAILED
    return upgrade.state in steps.PREPARING | steps.WITHHELD or (upgrade.state in steps.STOP_REQUESTED and has_failed)


def _saved(situation: Situation, upgrade: UpgradeStatus) -> UpgradeStatus:
    operation = situation.status.operation
    if upgrade.state not in steps.STOP_REQUESTED or operation is None or operation.kind is not OperationKind.STOP:
        return upgrade
    if operation.state is not OperationPhase.COMPLETED or operation.requested_at < upgrade.requested_at:
        return upgrade
    return upgrade.model_copy(
        update={
            "state": UpgradeState.STOPPING,
            "savepoint_completed_at": operation.finished_at,
            "savepoint": operation.location,
            "message": None,
        }
    )


def _started(situation: Situation, upgrade: UpgradeStatus) -> UpgradeStatus:
    driver_status, driver = situation.driver_status, situation.status.driver
    if upgrade.state not in steps.STARTED or upgrade.started_at is not None or driver_status is None or driver is None:
        return upgrade
    if driver_status.state is not JobState.RUNNING or driver.revision != upgrade.to_revision:
        return upgrade
    return upgrade.model_copy(update={"started_at": situation.now})


def _measured(situation: Situation, upgrade: UpgradeStatus) -> UpgradeStatus:
    """Note the last batch of the old revision and the first of the new one, and with both how long there was no output."""
    driver, committed_at = situation.status.driver, _last_commit(situation)
    if driver is None or committed_at is None:
        return upgrade
    if driver.revision == upgrade.from_revision and upgrade.state in steps.STOP_REQUESTED | {UpgradeState.STOPPING}:
        return upgrade.model_copy(update={"last_commit_at": committed_at})
    if driver.revision != upgrade.to_revision or not _is_first(upgrade, committed_at):
        return upgrade
    since = _pause_began(situation, upgrade)
    pause_s = round(max(0.0, (committed_at - since).total_seconds()), 3) if since is not None else None
    return upgrade.model_copy(update={"first_commit_at": committed_at, "pause_seconds": pause_s})


def _is_first(upgrade: UpgradeStatus, committed_at: datetime) -> bool:
    """Tell whether a commit of the new revision ends the pause; its first checkpoint may be seen before it."""
    if upgrade.first_commit_at is not None:
        return False
    if upgrade.state not in {UpgradeState.FIRST_CHECKPOINT, UpgradeState.STABLE}:
        return upgrade.state in steps.STARTED
    return upgrade.first_checkpoint_at is not None and committed_at - upgrade.first_checkpoint_at <= IDLE_AFTER


def _last_commit(situation: Situation) -> datetime | None:
    answer = situation.driver_status
    commits = [query.last_commit_at for query in answer.queries if query.last_commit_at] if answer is not None else []
    return max(commits, default=None)


def _pause_began(situation: Situation, upgrade: UpgradeStatus) -> datetime | None:
    """Return when output ended: with the last batch, but not before the stop if the old revision waited for input."""
    operation = situation.status.operation
    is_of_upgrade = operation is not None and operation.requested_at >= upgrade.requested_at
    asked_at = operation.requested_at if operation is not None and is_of_upgrade else upgrade.stopped_at
    last = upgrade.last_commit_at
    if last is None or asked_at is None:
        return last or asked_at
    return last if asked_at - last <= IDLE_AFTER else asked_at


def _runs_it(situation: Situation, upgrade: UpgradeStatus) -> bool:
    """Tell whether the current driver is one of the new revision."""
    driver = situation.status.driver
    if upgrade.state not in steps.ON_TRIAL or driver is None or driver.revision != upgrade.to_revision:
        return False
    return driver.state is DriverState.CREATED


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


def _stable(situation: Situation, upgrade: UpgradeStatus) -> UpgradeStatus:
    if situation.spec is None or steps.trial_of(upgrade).checkpoints < situation.spec.upgrade.stable_after:
        return upgrade
    return upgrade.model_copy(update={"state": UpgradeState.STABLE})


RETRY_INITIAL = timedelta(seconds=10)
RETRY_LONGEST = timedelta(minutes=5)

_KILLED, _OUT_OF_MEMORY = 137, "OOMKilled"
"""The exit code of SIGKILL, which a kubelet, a node or a person may send, and the reason that says it was for memory."""
_PASSING_WAITS = frozenset({"ContainerCreating", "PodInitializing", "ErrImagePull", TLS_SECRET_MISSING})
"""Reasons that may pass: the first failed pull is repeated before it becomes `ImagePullBackOff`, and a certificate that is
applied together with the job is issued a moment later."""


def current_standby(situation: Situation) -> StandbyStatus | None:
    """Return the record of the standby with what its pod and its process say.

    Args:
        situation: The job, with the status as recorded.
    """
    record, pod = situation.status.standby, situation.standby_pod
    if record is None or record.state is StandbyState.ENDED:
        return record
    if pod is None:
        return _without_pod(situation, record)
    record = record.model_copy(update={"uid": pod.uid})
    if pod.is_over or pod.is_lost(situation.now):
        return _after_end(situation, record, pod)
    if pod.waiting is not None and pod.waiting.reason not in _PASSING_WAITS:
        message = f"{pod.name} cannot start ({pod.waiting.reason}): {pod.waiting.message or 'no message'}"
        return reached(situation, record, StandbyState.REFUSED, reason=pod.waiting.reason, message=message)
    return _as_it_says(situation, record, pod)


def _without_pod(situation: Situation, record: StandbyStatus) -> StandbyStatus:
    """Keep what was never created, and why another revision was refused; everything else has ended."""
    is_refused = record.state is StandbyState.REFUSED and not is_of_the_running_revision(situation, record)
    if record.uid is None or is_refused:
        return record
    return ended(situation, record, "StandbyGone", f"Pod {record.pod} does not exist any more.")


def is_of_the_running_revision(situation: Situation, record: StandbyStatus) -> bool:
    """Tell whether it is of the revision that runs, so that its end says nothing about a new one."""
    return situation.intent is None or situation.intent.revision == record.revision


def _as_it_says(situation: Situation, record: StandbyStatus, pod: DriverPod) -> StandbyStatus:
    answer = situation.standby
    if isinstance(answer, JobStatus) and answer.standby is not None:
        state = StandbyState(answer.standby.state.value)
        if state is not StandbyState.REFUSED:
            # A standby that warms may say what it is waiting for, for example storage that does not answer.
            return reached(situation, record, state, reason=answer.standby.reason, message=answer.standby.message)
        reason, message = answer.standby.reason or "StandbyRefused", answer.standby.message or "It gave no reason."
        return reached(situation, record, state, reason=reason, message=message)
    if isinstance(answer, DriverSilent) and answer.is_untrusted:
        reason, message = Reason.DRIVER_NOT_TRUSTED.word, f"{pod.name}: {answer.message}."
        return reached(situation, record, StandbyState.WARMING, reason=reason, message=message)
    if record.state is StandbyState.CREATING and pod.phase is PodPhase.RUNNING:
        return reached(situation, record, StandbyState.WARMING)
    return record


def _after_end(situation: Situation, record: StandbyStatus, pod: DriverPod) -> StandbyStatus:
    end = ends.of_pod(pod)
    if end.kind in (EndKind.DISRUPTED, EndKind.DRAINED) or is_of_the_running_revision(situation, record):
        return ended(situation, record, end.reason, end.message)
    if end.code == _KILLED and end.reason != _OUT_OF_MEMORY and record.failures + 1 < steps.TRIAL_BUDGET:
        return ended(situation, record, end.reason, end.message)
    return reached(situation, record, StandbyState.REFUSED, reason=end.reason, message=end.message)


def reached(
    situation: Situation,
    record: StandbyStatus,
    state: StandbyState,
    *,
    reason: str | None = None,
    message: str | None = None,
) -> StandbyStatus:
    """Return a standby's record in a state, with the time since when it is in it."""
    if (record.state, record.reason, record.message) == (state, reason, message):
        return record
    changes: dict[str, object] = {"state": state, "reason": reason, "message": message}
    if record.state is not state:
        changes["since"] = situation.now
    if state is StandbyState.READY:
        changes["failures"] = 0
    return record.model_copy(update=changes)


def ended(situation: Situation, record: StandbyStatus, reason: str, message: str) -> StandbyStatus:
    """Return a standby's record after its end; the next one is created after a delay that grows with each end."""
    failures = record.failures + 1
    wait = backoff.delay(failures, initial=RETRY_INITIAL, longest=RETRY_LONGEST, seed=situation.job.uid)
    record = reached(situation, record, StandbyState.ENDED, reason=reason, message=message)
    return record.model_copy(update={"failures": failures, "retry_at": situation.now + wait})
