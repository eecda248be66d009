"""How a driver's process ended: on request, for a reason that a restart cannot change, or otherwise. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from statefulspark.contract.api import JobState, SnapshotSummary
from statefulspark.contract.exit_codes import ExitCode, PlannedEnd

from statefulspark_operator.lifecycle.decision import Reason
from statefulspark_operator.lifecycle.situation import DriverPod, Situation


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


_KIND_BY_CODE: Mapping[int, EndKind] = {
    ExitCode.FENCED: EndKind.FAILED,
    ExitCode.FAILED: EndKind.FAILED,
    ExitCode.STORAGE_UNAVAILABLE: EndKind.FAILED,
    ExitCode.USAGE: EndKind.REFUSED,
    ExitCode.BAD_JOB: EndKind.REFUSED,
    ExitCode.INCOMPATIBLE_STATE: EndKind.REFUSED,
    ExitCode.SNAPSHOT_NOT_FOUND: EndKind.REFUSED,
    ExitCode.STATE_UNKNOWN: EndKind.REFUSED,
    ExitCode.INPUT_LOST: EndKind.REFUSED,
}

_KIND_BY_PLANNED_END: Mapping[str, EndKind] = {
    PlannedEnd.FINISHED: EndKind.FINISHED,
    PlannedEnd.STOPPED: EndKind.STOPPED,
    PlannedEnd.DRAINED: EndKind.DRAINED,
}

_HEALED_BY_A_START = frozenset({"BatchSkipped", "SourceOffsetUnknown"})
"""Reasons of the runtime for an unknown state that the next start determines from what is stored."""


def driver_end(pod: DriverPod) -> DriverEnd:
    """Return how the driver of an ended pod ended."""
    if pod.exit is None:
        reason = pod.status_reason or "DriverFailed"
        detail = pod.status_message or "Kubernetes gives no reason"
        return DriverEnd(EndKind.DISRUPTED, reason, f"Pod {pod.name} was removed ({reason}): {detail}.")
    code, report = pod.exit.code, pod.exit.report
    if report is not None:
        return DriverEnd(_kind(code, report.reason), report.reason, report.message, code)
    if pod.status_reason or pod.disruption is not None:  # It was killed, and had no time to say so.
        reason = pod.status_reason or (pod.disruption or "").partition(":")[0]
        detail = pod.status_message or pod.disruption or "Kubernetes gives no reason"
        return DriverEnd(
            EndKind.DISRUPTED, reason, f"Pod {pod.name} was removed ({reason}): {detail.rstrip('.')}.", code
        )
    if code == ExitCode.SUCCESS:  # The driver did not end it, so nothing says that the input has ended.
        message = "The driver's process ended with exit code 0 and left no report of why."
        return DriverEnd(EndKind.FAILED, Reason.DRIVER_FAILED.word, message, code)
    exit_code = ExitCode(code) if code in ExitCode._value2member_map_ else None
    reason = pod.exit.reason if pod.exit.reason not in ("", "Error", "Completed") else "DriverFailed"
    if exit_code is not None and reason == "DriverFailed":
        reason = "".join(part.capitalize() for part in exit_code.name.split("_"))
    detail = f": {pod.exit.message}" if pod.exit.message else ""
    return DriverEnd(_kind(code, reason), reason, f"The driver ended with {ExitCode.describe(code)}{detail}.", code)


def _kind(code: int, reason: str) -> EndKind:
    if code == ExitCode.SUCCESS:
        return _KIND_BY_PLANNED_END.get(reason, EndKind.FAILED)
    if reason in _HEALED_BY_A_START:
        return EndKind.FAILED
    return _KIND_BY_CODE.get(code, EndKind.FAILED)


def stopped_with(situation: Situation) -> SnapshotSummary | None:
    """Return the savepoint that the live driver says it has stopped with; None if it has not, or with a checkpoint.

    Such a driver commits nothing more, however long its process goes on. All snapshots of a job are numbered in one row, and
    the last one is that of the stop.
    """
    answer = situation.driver_status
    if answer is None or situation.live_pod is None or answer.state is not JobState.STOPPED:
        return None
    savepoint, checkpoint = answer.last_savepoint, answer.last_checkpoint
    return savepoint if savepoint is not None and (checkpoint is None or checkpoint.id < savepoint.id) else None
