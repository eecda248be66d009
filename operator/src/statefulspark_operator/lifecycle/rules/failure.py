"""The end of a driver: requested, harmless, to be retried, or not to be retried.

This module only records the end; the rules for starting decide what follows. A driver whose pod does not exist any more
counts as ended; so does one on a node that does not answer, because its epoch is fenced on storage and not by Kubernetes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from statefulspark.contract.exit_codes import ExitCode

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
    StallStatus,
    StatefulSparkJobStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.lifecycle import backoff
from statefulspark_operator.lifecycle.decision import AT_ONCE, Decision
from statefulspark_operator.lifecycle.reason import Reason
from statefulspark_operator.lifecycle.situation import DriverPod, Situation, StorageFacts


class EndKind(Enum):
    """The kind of an end, which determines what follows."""

    STOPPED = Reason.DRIVER_STOPPED
    """It stopped as requested."""
    DRAINED = Reason.DRIVER_DRAINED
    """Kubernetes stopped its pod, and it completed a checkpoint. Start again at once."""
    FINISHED = Reason.DRIVER_FINISHED
    """All queries ended; nothing is left to do."""
    REFUSED = Reason.DRIVER_REFUSED
    """An unchanged restart would fail again."""
    DISRUPTED = "disrupted"
    """The cluster removed it: the first restart in a row does not wait."""
    FAILED = Reason.DRIVER_FAILED
    """It failed on its own."""


@dataclass(frozen=True, slots=True)
class DriverEnd:
    """How a driver ended.

    Attributes:
        kind: The kind of the end.
        reason: PascalCase, for events and conditions.
        message: One sentence.
        code: Exit code, if known.
    """

    kind: EndKind
    reason: str
    message: str
    code: int | None = None


_KIND_BY_CODE = {
    ExitCode.FINISHED: EndKind.FINISHED,
    ExitCode.STOPPED: EndKind.STOPPED,
    ExitCode.DRAINED: EndKind.DRAINED,
    ExitCode.FENCED: EndKind.FAILED,
    ExitCode.FAILED: EndKind.FAILED,
    ExitCode.STORAGE_UNAVAILABLE: EndKind.FAILED,
    ExitCode.USAGE: EndKind.REFUSED,
    ExitCode.BAD_JOB: EndKind.REFUSED,
    ExitCode.INCOMPATIBLE_STATE: EndKind.REFUSED,
    ExitCode.SNAPSHOT_NOT_FOUND: EndKind.REFUSED,
    ExitCode.STATE_UNKNOWN: EndKind.REFUSED,
}


def _end_of_pod(pod: DriverPod) -> DriverEnd:
    """Return how the driver of an ended pod ended."""
    if pod.exit is None:
        reason = pod.status_reason or "DriverFailed"
        detail = pod.status_message or "Kubernetes gives no reason"
        return DriverEnd(EndKind.DISRUPTED, reason, f"Pod {pod.name} was removed ({reason}): {detail}.")
    code, report = pod.exit.code, pod.exit.report
    exit_code = ExitCode(code) if code in ExitCode._value2member_map_ else None
    kind = _KIND_BY_CODE[exit_code] if exit_code is not None else EndKind.FAILED
    if report is not None:
        return DriverEnd(kind, report.reason, report.message, code)
    reason = pod.exit.reason if pod.exit.reason not in ("", "Error", "Completed") else "DriverFailed"
    if exit_code is not None and reason == "DriverFailed":
        reason = "".join(part.capitalize() for part in exit_code.name.split("_"))
    detail = f": {pod.exit.message}" if pod.exit.message else ""
    return DriverEnd(kind, reason, f"The driver ended with {ExitCode.describe(code)}{detail}.", code)


def find_end(situation: Situation) -> DriverEnd | None:
    """Return how the recorded driver ended; None while it may still run, or if its end is recorded."""
    driver, pod = situation.intent, situation.pod
    if driver is None or driver.state is DriverState.ENDED:
        return None
    if pod is not None and pod.is_lost(situation.now):
        return DriverEnd(EndKind.DISRUPTED, "NodeLost", f"The node of pod {pod.name} does not answer any more.")
    if pod is not None:
        return _end_of_pod(pod) if pod.is_over else None
    claimed = isinstance(situation.storage, StorageFacts) and situation.storage.newest_epoch >= driver.epoch
    if driver.state is DriverState.CREATING and not claimed:
        return None
    if driver.ending_since is not None:
        return DriverEnd(EndKind.DRAINED, "DriverDeleted", f"Pod {driver.pod} was deleted and has ended.")
    return DriverEnd(EndKind.DISRUPTED, "DriverGone", f"Pod {driver.pod} does not exist any more.")


def account_for_end(situation: Situation) -> Decision | None:
    """Has the driver ended, and is its end not recorded yet?"""
    end, driver = find_end(situation), situation.intent
    if end is None or driver is None:
        return None
    operation = _settle_operation(situation, end)
    status = situation.status.model_copy(
        update={
            "driver": _ended(situation, driver, end),
            "operation": operation,
            "upgrade": _settle_upgrade(situation),
            "restore": _restore_after(situation, end, operation),
            "queries": (),
        }
    )
    if end.kind is EndKind.REFUSED:
        return _refuse(situation, status, end)
    if end.kind in (EndKind.STOPPED, EndKind.DRAINED, EndKind.FINISHED) or _was_requested(situation):
        reason = end.kind.value if isinstance(end.kind.value, Reason) else Reason.DRIVER_STOPPED
        return Decision(reason, end.message, _phase_after(situation, end), status, (), AT_ONCE)
    return _count_failure(situation, status, end)


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
    if upgrade is None or upgrade.state not in (UpgradeState.SAVEPOINT, UpgradeState.STOPPING):
        return upgrade
    return upgrade.model_copy(update={"state": UpgradeState.STOPPING, "stopped_at": situation.now})


def _restore_after(situation: Situation, end: DriverEnd, operation: OperationStatus | None) -> RestoreIntent | None:
    """Choose the snapshot of the next start: the savepoint of a stop, otherwise the one that was chosen before."""
    if end.kind is not EndKind.STOPPED or operation is None or operation.kind is not OperationKind.STOP:
        return situation.status.restore
    if operation.location is None or not operation.location.startswith("s3://"):
        return situation.status.restore
    return RestoreIntent(id=operation.id, snapshot=operation.location)


def _phase_after(situation: Situation, end: DriverEnd) -> Phase:
    if end.kind is EndKind.FINISHED:
        return Phase.STOPPED
    if situation.spec is not None and situation.spec.suspend:
        return Phase.SUSPENDED
    return Phase.UPGRADING if situation.is_outdated else Phase.RESTARTING


def _refuse(situation: Situation, status: StatefulSparkJobStatus, end: DriverEnd) -> Decision:
    stalled = StallStatus(generation=situation.job.generation, reason=end.reason, message=end.message)
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
    if end.kind is EndKind.DISRUPTED and consecutive == 1:
        wait = timedelta(0)
    counted = _with_failure(before, situation, end).model_copy(
        update={
            "count": before.count + 1,
            "consecutive": consecutive,
            "next_attempt_at": situation.now + wait,
        }
    )
    status = status.model_copy(update={"restarts": counted})
    if consecutive > policy.max_failures:
        return _stall(situation, status, end)
    return Decision(Reason.DRIVER_FAILED, end.message, Phase.RESTARTING, status, (), AT_ONCE)


def _stall(situation: Situation, status: StatefulSparkJobStatus, end: DriverEnd) -> Decision:
    message = (
        f"The driver failed {status.restarts.consecutive} times without completing a checkpoint. The latest failure: "
        f"{end.message} Change the spec, for example restartNonce, to try again."
    )
    stalled = StallStatus(generation=situation.job.generation, reason=Reason.BUDGET_EXHAUSTED.word, message=message)
    status = status.model_copy(update={"stalled": stalled})
    return Decision(Reason.BUDGET_EXHAUSTED, message, Phase.STALLED, status, (), AT_ONCE)
