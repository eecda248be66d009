"""The state of the recorded standby, from its pod and its answer.

A standby of a new revision that refuses or fails says something about that revision, and stays refused. A standby that the
cluster removed, and one of the running revision, is replaced after a delay. Pure.
"""

from __future__ import annotations

from datetime import timedelta

from statefulspark.contract.api import JobStatus

from statefulspark_operator.api.standby import StandbyState, StandbyStatus
from statefulspark_operator.lifecycle import backoff, ends, trial
from statefulspark_operator.lifecycle.ends import EndKind
from statefulspark_operator.lifecycle.reason import Reason
from statefulspark_operator.lifecycle.situation import (
    TLS_SECRET_MISSING,
    DriverPod,
    DriverSilent,
    PodPhase,
    Situation,
)

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
    if end.code == _KILLED and end.reason != _OUT_OF_MEMORY and record.failures + 1 < trial.BUDGET:
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
