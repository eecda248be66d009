"""The end of a driver: requested, harmless, to be retried, or not to be retried.

This module only records the end; the rules for starting decide what follows. A driver whose pod does not exist any more
counts as ended; so does one on a node that does not answer, because its epoch is fenced on storage and not by Kubernetes.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta

from statefulspark.contract.faults import Fault

from statefulspark_operator.api.restore import RestoreSource
from statefulspark_operator.api.spec import Restart
from statefulspark_operator.api.status import (
    DisruptionStatus,
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
from statefulspark_operator.lifecycle import backoff, ends, fault, going_back, steps
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
        return DriverEnd(EndKind.DISRUPTED, "NodeLost", f"The node of pod {pod.name} no longer answers.")
    if pod is not None and pod.is_over:
        return ends.driver_end(pod)
    if pod is not None:
        # Without a standby the operator waits for the pod's deadline. With one it need not: its epoch fences the old driver.
        if driver.ending_since is None or situation.usable_standby is None:
            return None
        if not isinstance(situation.driver, DriverSilent) or situation.now - driver.ending_since <= SILENT_AFTER:
            return None
        message = f"Pod {pod.name} is being deleted and no longer answers."
        return DriverEnd(EndKind.DISRUPTED, "NodeLost", message)
    claimed = isinstance(situation.storage, StorageFacts) and situation.storage.newest_epoch >= driver.epoch
    if driver.state is DriverState.CREATING and not claimed:
        return None
    if driver.ending_since is not None:
        return DriverEnd(EndKind.DRAINED, "DriverDeleted", f"Pod {driver.pod} was deleted and has ended.")
    return DriverEnd(EndKind.DISRUPTED, "DriverGone", f"Pod {driver.pod} no longer exists.")


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
    resort = going_back.last_resort(situation)
    if resort and end.kind in (EndKind.FAILED, EndKind.REFUSED) and not going_back.is_refusal(end.code, end.reason):
        end = dataclasses.replace(end, message=f"{end.message} {resort}")
    disruption = _disruption(situation, end)
    if disruption is not None and driver.ending_cause is not None and driver.ending_cause not in end.message:
        end = dataclasses.replace(
            end, message=f"{end.message} Kubernetes ended its pod: {driver.ending_cause.rstrip('.')}."
        )
    operation, upgrade = situation.status.operation, situation.status.upgrade
    if operation is not None and operation.state is OperationPhase.REQUESTED:
        why = f"The driver ended before the savepoint was complete: {end.message}"
        failed = {"state": OperationPhase.FAILED, "finished_at": situation.now, "message": why}
        operation = operation.model_copy(update=failed)
    if upgrade is not None and upgrade.state in steps.STOP_REQUESTED | {UpgradeState.STOPPING}:
        upgrade = upgrade.model_copy(update={"state": UpgradeState.STOPPING, "stopped_at": situation.now})
    status = situation.status.model_copy(
        update={
            "driver": driver.model_copy(
                update={
                    "state": DriverState.ENDED,
                    "ended_at": situation.now,
                    "end_reason": end.reason,
                    "end_message": end.message,
                    "exit_code": end.code,
                }
            ),
            "operation": operation,
            "upgrade": _on_trial(situation, end, upgrade),
            "restore": _restore_after(situation, end, operation),
            "fallback": None,
            "kept_aside": None,
            "restore_skipped": None,
            "other_spark": None,
            "last_disruption": disruption or situation.status.last_disruption,
            "queries": (),
        }
    )
    return _continue_after(situation, status, end)


def _disruption(situation: Situation, end: DriverEnd) -> DisruptionStatus | None:
    """Return the end of a driver as one by Kubernetes; None if it ended by itself, or because the operator asked it to."""
    driver = situation.intent
    if driver is None or (driver.ending_cause is None and end.kind is not EndKind.DISRUPTED):
        return None
    return DisruptionStatus(epoch=driver.epoch, message=driver.ending_cause or end.message, observed_at=situation.now)


def _continue_after(situation: Situation, status: StatefulSparkJobStatus, end: DriverEnd) -> Decision:
    """Return what an end, which the status has already, means for the next start."""
    if end.kind is EndKind.REFUSED and steps.may_go_back(status.upgrade, situation.spec):
        return _count_failure(situation, status, end)
    if going_back.refused(status) is not None:
        return Decision(Reason.DRIVER_REFUSED, end.message, Phase.RESTARTING, status, (), AT_ONCE)
    if end.kind is EndKind.REFUSED and situation.is_outdated:
        return _count_failure(situation, status, end)  # It says nothing about the revision that the spec requests now.
    if end.kind is EndKind.REFUSED:
        stalled = situation.stalled(end.reason, end.message)
        restarts = _note_failure(situation.status.restarts, situation, end)
        status = status.model_copy(update={"stalled": stalled, "restarts": restarts})
        return Decision(Reason.DRIVER_REFUSED, end.message, Phase.STALLED, status, (), AT_ONCE)
    if end.kind in (EndKind.STOPPED, EndKind.DRAINED, EndKind.FINISHED) or _was_requested(situation):
        reason = end.kind.value if isinstance(end.kind.value, Reason) else Reason.DRIVER_STOPPED
        if end.kind is EndKind.FINISHED:
            phase = Phase.STOPPED
        elif situation.spec is not None and situation.spec.suspend:
            phase = Phase.SUSPENDING
        else:
            phase = Phase.UPGRADING if situation.is_outdated else Phase.RESTARTING
        return Decision(reason, end.message, phase, status, (), AT_ONCE)
    return _count_failure(situation, status, end)


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


def _on_trial(situation: Situation, end: DriverEnd, upgrade: UpgradeStatus | None) -> UpgradeStatus | None:
    """Count the end of a revision that is not stable yet, if it is its own fault, and record what it has committed."""
    driver = situation.intent
    if upgrade is None or driver is None or not steps.is_on_trial(upgrade, driver) or _was_requested(situation):
        return upgrade
    if fault.of_end(end) is not Fault.REVISION:
        return upgrade
    policy = situation.spec.restart if situation.spec else Restart()
    is_last = end.kind is EndKind.REFUSED or _is_beyond(policy, situation.status.restarts.charged + 1)
    failures = steps.TRIAL_BUDGET if is_last else steps.trial_of(upgrade).failures + 1
    batches = {query.uid: query.batch for query in situation.status.queries if query.batch >= 0}
    return steps.record_trial(upgrade, failures=failures, committed=steps.trial_of(upgrade).committed | batches)


def _restore_after(situation: Situation, end: DriverEnd, operation: OperationStatus | None) -> RestoreIntent | None:
    """Choose the snapshot of the next start: the savepoint of a stop, otherwise the one that was chosen before.

    That a savepoint is complete does not prove that its driver has stopped: the answer of its last request may be lost, and
    then the driver goes on. Only the next driver can tell, since nobody commits any more once it has its epoch.
    """
    driver = situation.intent
    if operation is None or driver is None or operation.kind is not OperationKind.STOP:
        return situation.status.restore
    is_complete = operation.epoch == driver.epoch and operation.state is OperationPhase.COMPLETED
    if end.kind is not EndKind.STOPPED and not is_complete:
        return situation.status.restore
    if operation.location is None or not operation.location.startswith("s3://"):
        return situation.status.restore
    return RestoreIntent(id=operation.id, source=RestoreSource(uri=operation.location), after_stop=True)


def _note_failure(restarts: RestartStatus, situation: Situation, end: DriverEnd) -> RestartStatus:
    return restarts.model_copy(
        update={
            "last_reason": end.reason,
            "last_message": end.message,
            "last_failure_at": situation.now,
            "last_fault": fault.of_end(end),
        }
    )


def _count_failure(situation: Situation, status: StatefulSparkJobStatus, end: DriverEnd) -> Decision:
    """Count a failure and set the time of the next attempt, or stop retrying."""
    policy = situation.spec.restart if situation.spec else Restart()
    before = situation.status.restarts
    consecutive = before.consecutive + 1
    charged = before.charged + (fault.of_end(end) is Fault.REVISION)
    wait = backoff.delay(
        consecutive, initial=policy.initial_backoff, longest=policy.max_backoff, seed=situation.job.uid
    )
    if consecutive == 1 and (end.kind is EndKind.DISRUPTED or situation.usable_standby is not None):
        wait = timedelta(0)
    counted = _note_failure(before, situation, end).model_copy(
        update={
            "count": before.count + 1,
            "consecutive": consecutive,
            "charged": charged,
            "next_attempt_at": situation.now + wait,
        }
    )
    status = status.model_copy(update={"restarts": counted})
    is_retried = situation.is_outdated or steps.may_go_back(status.upgrade, situation.spec)
    if _is_beyond(policy, charged) and not is_retried:
        times = "once" if charged == 1 else f"{charged} times"
        message = (
            f"The driver failed {times} without completing a checkpoint. The latest failure: "
            f"{end.message} Change the spec, for example restartNonce, to try again."
        )
        stalled = situation.stalled(Reason.BUDGET_EXHAUSTED.word, message)
        status = status.model_copy(update={"stalled": stalled})
        return Decision(Reason.BUDGET_EXHAUSTED, message, Phase.STALLED, status, (), AT_ONCE)
    return Decision(Reason.DRIVER_FAILED, end.message, Phase.RESTARTING, status, (), AT_ONCE)


def _is_beyond(policy: Restart, charged: int) -> bool:
    return policy.max_failures is not None and charged > policy.max_failures
