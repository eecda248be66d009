"""The end of a driver: requested, harmless, to be retried, or not to be retried.

This module only records the end; the rules for starting decide what follows. A driver whose pod does not exist any more
counts as ended; so does one on a node that does not answer, because its epoch is fenced on storage and not by Kubernetes.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta

from statefulspark_operator.api.spec import Restart
from statefulspark_operator.api.status import (
    DriverIntent,
    DriverState,
    OperationKind,
    OperationPhase,
    OperationStatus,
    Phase,
    RestartStatus,
    RestoreIntent,
    StatefulSparkJobStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.lifecycle import backoff, ends, going_back, steps
from statefulspark_operator.lifecycle.decision import AT_ONCE, Decision, Reason
from statefulspark_operator.lifecycle.ends import DriverEnd, EndKind
from statefulspark_operator.lifecycle.situation import DriverSilent, Situation
from statefulspark_operator.lifecycle.storage_facts import StorageFacts

SILENT_AFTER = timedelta(seconds=10)
"""Time after which a standby takes over from a driver that is being deleted and does not answer."""


def find_end(situation: Situation) -> DriverEnd | None:
    """Return how the recorded driver ended; None while it may still run, or if its end is recorded."""
    driver, pod = situation.intent, situation.pod
    if driver is None or driver.state is DriverState.ENDED:
        return None
    if pod is not None and pod.is_lost(situation.now):
        return DriverEnd(EndKind.DISRUPTED, "NodeLost", f"The node of pod {pod.name} does not answer any more.")
    if pod is not None and not pod.is_over and _is_out_of_reach(situation, driver):
        return DriverEnd(
            EndKind.DISRUPTED, "NodeLost", f"Pod {pod.name} is being deleted and does not answer any more."
        )
    if pod is not None:
        return ends.of_pod(pod) if pod.is_over else None
    claimed = isinstance(situation.storage, StorageFacts) and situation.storage.newest_epoch >= driver.epoch
    if driver.state is DriverState.CREATING and not claimed:
        return None
    if driver.ending_since is not None:
        return DriverEnd(EndKind.DRAINED, "DriverDeleted", f"Pod {driver.pod} was deleted and has ended.")
    return DriverEnd(EndKind.DISRUPTED, "DriverGone", f"Pod {driver.pod} does not exist any more.")


def _is_out_of_reach(situation: Situation, driver: DriverIntent) -> bool:
    """Tell whether a standby takes over from a driver that is being deleted and has not answered for a while.

    Without a standby the operator waits for the pod's deadline. With one it need not: its epoch fences the old driver.
    """
    if driver.ending_since is None or not isinstance(situation.driver, DriverSilent):
        return False
    return situation.usable_standby is not None and situation.now - driver.ending_since > SILENT_AFTER


def account_for_end(situation: Situation) -> Decision | None:
    """Has the driver ended, and is its end not recorded yet?"""
    end = find_end(situation)
    return record_end(situation, end) if end is not None else None


def record_end(situation: Situation, end: DriverEnd) -> Decision | None:
    """Return the decision that records the end of the current driver, and what it means for the next start.

    Args:
        situation: The job.
        end: How its driver ended.
    """
    driver = situation.intent
    if driver is None:
        return None
    end = _with_last_resort(situation, end)
    operation = _settle_operation(situation, end)
    status = situation.status.model_copy(
        update={
            "driver": _ended(situation, driver, end),
            "operation": operation,
            "upgrade": _on_trial(situation, end, _settle_upgrade(situation)),
            "restore": _restore_after(situation, end, operation),
            "fallback": None,
            "restore_skipped": None,
            "queries": (),
        }
    )
    if end.kind is EndKind.REFUSED and steps.may_go_back(status.upgrade, situation.spec):
        return _count_failure(situation, status, end)
    if going_back.refused(status) is not None:
        return Decision(Reason.DRIVER_REFUSED, end.message, Phase.RESTARTING, status, (), AT_ONCE)
    if end.kind is EndKind.REFUSED and situation.is_outdated:
        return _count_failure(situation, status, end)  # It says nothing about the revision that the spec requests now.
    if end.kind is EndKind.REFUSED:
        return _refuse(situation, status, end)
    if end.kind in (EndKind.STOPPED, EndKind.DRAINED, EndKind.FINISHED) or _was_requested(situation):
        reason = end.kind.value if isinstance(end.kind.value, Reason) else Reason.DRIVER_STOPPED
        return Decision(reason, end.message, _phase_after(situation, end), status, (), AT_ONCE)
    return _count_failure(situation, status, end)


def _with_last_resort(situation: Situation, end: DriverEnd) -> DriverEnd:
    """Add how a person goes back further, if the state of a failed revision may be why the one before it fails."""
    resort = going_back.last_resort(situation)
    if not resort or end.kind not in (EndKind.FAILED, EndKind.REFUSED) or going_back.is_refusal(end.code, end.reason):
        return end
    return dataclasses.replace(end, message=f"{end.message} {resort}")


def _ended(situation: Situation, driver: DriverIntent, end: DriverEnd) -> DriverIntent:
    return driver.model_copy(
        update={
            "state": DriverState.ENDED,
            "ended_at": situation.now,
            "end_reason": end.reason,
            "end_message": end.message,
            "exit_code": end.code,
        }
    )


def _was_requested(situation: Situation) -> bool:
    """Tell whether the operator requested this driver's end, so that the end is no failure in any case."""
    status, driver = situation.status, situation.intent
    operation, upgrade = status.operation, status.upgrade
    if upgrade is not None and upgrade.state is UpgradeState.STOPPING:
        return True
    return (
        operation is not None
        and driver is not None
        and operation.kind is OperationKind.STOP
        and operation.epoch == driver.epoch
    )


def _settle_operation(situation: Situation, end: DriverEnd) -> OperationStatus | None:
    """Fail an operation that the ended driver cannot complete any more."""
    operation = situation.status.operation
    if operation is None or operation.state is not OperationPhase.REQUESTED:
        return operation
    message = f"The driver ended before it was complete: {end.message}"
    return operation.model_copy(
        update={"state": OperationPhase.FAILED, "finished_at": situation.now, "message": message}
    )


def _settle_upgrade(situation: Situation) -> UpgradeStatus | None:
    upgrade = situation.status.upgrade
    if upgrade is None or upgrade.state not in steps.STOP_REQUESTED | {UpgradeState.STOPPING}:
        return upgrade
    return upgrade.model_copy(update={"state": UpgradeState.STOPPING, "stopped_at": situation.now})


def _on_trial(situation: Situation, end: DriverEnd, upgrade: UpgradeStatus | None) -> UpgradeStatus | None:
    """Count the end of a revision that is not stable yet, and record what it has committed."""
    driver = situation.intent
    if upgrade is None or driver is None or not steps.is_on_trial(upgrade, driver) or _was_requested(situation):
        return upgrade
    if end.kind not in (EndKind.FAILED, EndKind.REFUSED):
        return upgrade
    policy = situation.spec.restart if situation.spec else Restart()
    is_last = end.kind is EndKind.REFUSED or _is_beyond(policy, situation.status.restarts.consecutive + 1)
    failures = steps.TRIAL_BUDGET if is_last else steps.trial_of(upgrade).failures + 1
    batches = {query.uid: query.batch for query in situation.status.queries if query.batch >= 0}
    return steps.record_trial(upgrade, failures=failures, committed=steps.trial_of(upgrade).committed | batches)


def _restore_after(situation: Situation, end: DriverEnd, operation: OperationStatus | None) -> RestoreIntent | None:
    """Choose the snapshot of the next start: the savepoint of a stop, otherwise the one that was chosen before.

    That a savepoint is complete does not prove that its driver has stopped: the answer of its last request may be lost, and
    then the driver goes on. Only the next driver can tell, since nobody commits any more once it has its epoch.
    """
    if operation is None or operation.kind is not OperationKind.STOP:
        return situation.status.restore
    if end.kind is not EndKind.STOPPED and not _is_completed(situation, operation):
        return situation.status.restore
    if operation.location is None or not operation.location.startswith("s3://"):
        return situation.status.restore
    return RestoreIntent(id=operation.id, snapshot=operation.location, after_stop=True)


def _is_completed(situation: Situation, operation: OperationStatus) -> bool:
    """Tell whether the savepoint of the driver's stop is complete, whatever then ended its process."""
    driver = situation.intent
    is_its_own = driver is not None and operation.epoch == driver.epoch
    return is_its_own and operation.state is OperationPhase.COMPLETED


def _phase_after(situation: Situation, end: DriverEnd) -> Phase:
    if end.kind is EndKind.FINISHED:
        return Phase.STOPPED
    if situation.spec is not None and situation.spec.suspend:
        return Phase.SUSPENDING
    return Phase.UPGRADING if situation.is_outdated else Phase.RESTARTING


def _refuse(situation: Situation, status: StatefulSparkJobStatus, end: DriverEnd) -> Decision:
    stalled = situation.stalled(end.reason, end.message)
    restarts = _with_failure(situation.status.restarts, situation, end)
    status = status.model_copy(update={"stalled": stalled, "restarts": restarts})
    return Decision(Reason.DRIVER_REFUSED, end.message, Phase.STALLED, status, (), AT_ONCE)


def _with_failure(restarts: RestartStatus, situation: Situation, end: DriverEnd) -> RestartStatus:
    return restarts.model_copy(
        update={"last_reason": end.reason, "last_message": end.message, "last_failure_at": situation.now}
    )


def _count_failure(situation: Situation, status: StatefulSparkJobStatus, end: DriverEnd) -> Decision:
    """Count a failure and set the time of the next attempt, or stop retrying."""
    policy = situation.spec.restart if situation.spec else Restart()
    before = situation.status.restarts
    consecutive = before.consecutive + 1
    wait = backoff.delay(
        consecutive, initial=policy.initial_backoff, longest=policy.max_backoff, seed=situation.job.uid
    )
    if consecutive == 1 and (end.kind is EndKind.DISRUPTED or situation.usable_standby is not None):
        wait = timedelta(0)
    counted = _with_failure(before, situation, end).model_copy(
        update={
            "count": before.count + 1,
            "consecutive": consecutive,
            "next_attempt_at": situation.now + wait,
        }
    )
    status = status.model_copy(update={"restarts": counted})
    is_retried = situation.is_outdated or steps.may_go_back(status.upgrade, situation.spec)
    if _is_beyond(policy, consecutive) and not is_retried:
        return _stall(situation, status, end)
    return Decision(Reason.DRIVER_FAILED, end.message, Phase.RESTARTING, status, (), AT_ONCE)


def _is_beyond(policy: Restart, consecutive: int) -> bool:
    return policy.max_failures is not None and consecutive > policy.max_failures


def _stall(situation: Situation, status: StatefulSparkJobStatus, end: DriverEnd) -> Decision:
    message = (
        f"The driver failed {status.restarts.consecutive} times without completing a checkpoint. The latest failure: "
        f"{end.message} Change the spec, for example restartNonce, to try again."
    )
    stalled = situation.stalled(Reason.BUDGET_EXHAUSTED.word, message)
    status = status.model_copy(update={"stalled": stalled})
    return Decision(Reason.BUDGET_EXHAUSTED, message, Phase.STALLED, status, (), AT_ONCE)
