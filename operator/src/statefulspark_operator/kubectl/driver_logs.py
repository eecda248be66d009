"""Choose the pod whose log answers a question: the running driver, the last one that ended, or the standby. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from statefulspark import errors

from statefulspark_operator.kubectl.view import View
from statefulspark_operator.lifecycle.situation import DriverPod


class Whose(Enum):
    """Whose log a person asks for."""

    MATTERS = "the driver that matters"
    PREVIOUS = "the driver that ended last"
    STANDBY = "the standby"


@dataclass(frozen=True, slots=True)
class LogChoice:
    """The pod whose log is shown.

    Attributes:
        pod: Its name.
        why: What it is, in a few words.
    """

    pod: str
    why: str


def choose(view: View, whose: Whose) -> LogChoice:
    """Choose a pod.

    A driver whose container has not started has no log, so the one before it is shown, if its pod is still there.

    Args:
        view: The job.
        whose: Which of its pods.

    Raises:
        SpecRejectedError: `PodNotFound`: there is none; the message says why.
    """
    if whose is Whose.STANDBY:
        if not view.standbys:
            standby = view.status.standby
            detail = (
                f" The last one, {standby.pod}, is {standby.state.value}: {standby.message}"
                if standby and standby.message
                else ""
            )
            raise errors.SpecRejectedError(
                "PodNotFound", f"{view.namespace}/{view.name} has no standby now.{detail}".rstrip()
            )
        return LogChoice(view.standbys[-1].name, "standby")
    live, ended = view.live_driver, view.ended_driver
    has_log = live is not None and live.has_started
    if whose is Whose.MATTERS and live is not None and (has_log or ended is None):
        return LogChoice(live.name, f"driver of epoch {live.epoch}")
    if ended is not None:
        return LogChoice(ended.name, f"driver of epoch {ended.epoch}, which ended{_end(ended)}")
    phase = view.status.phase.value if view.status.phase is not None else "not started"
    what = "of an ended driver" if whose is Whose.PREVIOUS else "of a driver"
    raise errors.SpecRejectedError(
        "PodNotFound",
        f"There is no pod {what} of {view.namespace}/{view.name}, so there is no log; the job is {phase}. "
        "A log is deleted with its pod; the operator keeps the pods of the two drivers that ended last.",
    )


def _end(pod: DriverPod) -> str:
    if pod.exit is None:
        return f" ({pod.status_reason})" if pod.status_reason else ""
    reason = pod.exit.report.reason if pod.exit.report is not None else pod.exit.reason
    return f" with {pod.exit.code} ({reason})" if reason else f" with {pod.exit.code}"
