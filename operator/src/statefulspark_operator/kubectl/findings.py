"""What keeps a job from being ready, since when, and what to do about it. Pure.

The operator's own sentences are shown as they are. What this adds is what only an observer sees (nobody looks at the
resource, a pod that waits), and the next step for a person.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from statefulspark.contract.base import UtcDatetime
from statefulspark.contract.exit_codes import ExitCode

from statefulspark_operator.api.base import ApiModel
from statefulspark_operator.api.conditions import Condition, ConditionStatus, ConditionType
from statefulspark_operator.api.spec import DeletionPolicy
from statefulspark_operator.api.status import Phase
from statefulspark_operator.cluster import judgements
from statefulspark_operator.kubectl.view import View
from statefulspark_operator.lifecycle.decision import Reason
from statefulspark_operator.lifecycle.situation import HARMLESS_WAITS, DriverPod

LOGS = "kubectl statefulspark logs {name} -n {namespace}"
_ROLLBACK = "kubectl statefulspark rollback {name} -n {namespace}"
_WAIT = "Nothing: the operator completes this step."
_CORRECT = "Correct the job, and apply it with its new image. To see the driver's log: " + LOGS
_WITHHELD = f"Apply a corrected version, or make the spec what runs now: {_ROLLBACK}"
_STORAGE = "Check the storage, spec.storage and its Secret; the operator tries again by itself."
_RETRY = f"Correct what the message names, then change spec.restartNonce to try again. To see the driver's log: {LOGS}"
_DESCRIBE = "kubectl -n {namespace} describe pod -l statefulspark.io/job={name}"

ADVICE: Mapping[Reason, str | None] = {
    Reason.CODE_IGNORED: "If the ConfigMap's code is to run, take the checksum out with the command of the message.",
    Reason.FINALIZERS_SET: _WAIT,
    Reason.DELETED: None,
    Reason.DELETION_SAVEPOINT: _WAIT,
    Reason.DELETION_STOPPING: _WAIT,
    Reason.DELETION_PURGING: _WAIT,
    Reason.DELETION_WAITING: _STORAGE,
    Reason.DELETION_FINISHED: None,
    Reason.DELETION_STATE_KEPT: None,
    Reason.SPEC_REJECTED: "Correct the field that the message names.",
    Reason.STRAY_DRIVER: _WAIT,
    Reason.DRIVER_STOPPED: _WAIT,
    Reason.DRIVER_DRAINED: _WAIT,
    Reason.DRIVER_FINISHED: None,
    Reason.DRIVER_FAILED: f"It is started again by itself. If it fails again: {LOGS} --previous",
    Reason.DRIVER_REFUSED: _CORRECT,
    Reason.BUDGET_EXHAUSTED: _RETRY,
    Reason.SUPERSEDED: _WAIT,
    Reason.OPERATION_REPEATED: _WAIT,
    Reason.OPERATION_IN_PROGRESS: _WAIT,
    Reason.OPERATION_TIMED_OUT: f"Look at what the driver does: {LOGS}. It may take spec.upgrade.savepointTimeout.",
    Reason.STOPPING: _WAIT,
    Reason.STOP_ENFORCED: _WAIT,
    Reason.SUSPENDING: _WAIT,
    Reason.SUSPENDED: "kubectl statefulspark resume {name} -n {namespace}",
    Reason.UPGRADE_REQUESTED: _WAIT,
    Reason.UPGRADE_RETRY_LATER: f"It is tried again by itself. To keep the version that runs: {_ROLLBACK}",
    Reason.UPGRADE_FROM_CHECKPOINT: _WAIT,
    Reason.UPGRADE_ABORTED: f"Change spec.restartNonce to try the new version again, or keep the one that runs: {_ROLLBACK}",
    Reason.UPGRADE_PREPARING: f"Nothing: the old version runs until the new one is ready. To cancel the change: {_ROLLBACK}",
    Reason.UPGRADE_READY: _WAIT,
    Reason.UPGRADE_WAITS: "Remove what the message names; the operator tries again by itself.",
    Reason.UPGRADE_QUEUED: "Nothing: the old version runs until other jobs have been upgraded.",
    Reason.UPGRADE_HALTED: f"Correct the job that the message names, or keep the version that runs: {_ROLLBACK}",
    Reason.UPGRADE_BLOCKED: _WITHHELD,
    Reason.UPGRADE_HANDED_OVER: _WAIT,
    Reason.STANDBY_CREATED: None,
    Reason.STANDBY_REMOVED: None,
    Reason.STANDBY_LOST: _WAIT,
    Reason.ACTIVATION_REPEATED: _WAIT,
    Reason.ACTIVATION_REFUSED: _WAIT,
    Reason.ROLLED_BACK: _WITHHELD,
    Reason.ROLLBACK_NEEDED: f"Go back to the version before: {_ROLLBACK}. Any other change of the spec tries again.",
    Reason.ROLLBACK_TO_SAVEPOINT: _WAIT,
    Reason.ROLLBACK_NEEDS_DECISION: "Decide whether output may come twice, with the command in the message; or apply a "
    "corrected version.",
    Reason.STALLED: _RETRY,
    Reason.FINISHED: "Change spec.restartNonce to run it again.",
    Reason.BACKING_OFF: f"It is started again by itself. Why the last one ended: {LOGS} --previous",
    Reason.STORAGE_UNREADABLE: _STORAGE,
    Reason.SAVEPOINT_AWAITED: "Look at it: kubectl get ssp -o wide; or name another one in spec.restore.source.",
    Reason.SAVEPOINT_MISSING: "Name a snapshot that is there in spec.restore.source, or put that one back.",
    Reason.START_QUEUED: "Nothing: the job starts when its turn comes.",
    Reason.STARTING: _WAIT,
    Reason.RESUMING_START: _WAIT,
    Reason.EXECUTORS_REMOVED: _WAIT,
    Reason.EXECUTORS_MISSING: f"See why their pods do not run: {_DESCRIBE},statefulspark.io/role=executor",
    Reason.DRIVER_ENDING: _WAIT,
    Reason.IMAGE_UNAVAILABLE: "Check spec.image and spec.imagePullSecrets; the node tries again by itself.",
    Reason.CONTAINER_WAITING: f"Correct what the message names (a Secret, a volume, a command): {_DESCRIBE}",
    Reason.UNSCHEDULABLE: "Make room on a node, or ask for less in spec.driver.resources.",
    Reason.DRIVER_NOT_TRUSTED: "Correct the Secret that the message names; the operator reads it again by itself.",
    Reason.DRIVER_STARTING: f"Nothing: a start may take minutes. What it does now: {LOGS} -f",
    Reason.STALL_ENDED: f"It is started again by itself. What held it up: {LOGS} --previous",
    Reason.SAVEPOINT_REQUESTED: None,
    Reason.RUNNING: None,
}
"""The next step for each reason of the operator; None where there is nothing to do."""
_OTHER_ADVICE: Mapping[str, str] = {
    "SpecInvalid": "Correct the field that the message names.",
    "NameTooLong": "Create the job under a shorter name; restore.source may name a savepoint of this one.",
    "SettingRefused": "Remove that setting from spec.sparkConf.",
    "CodeMissing": "Put the code where spec.job.source names it, or correct spec.job; the job then goes on.",
    "CodeChecksumMismatch": "Correct the checksum in spec.job.source if the code is the right one.",
    "CodeTooLarge": "Put what the job depends on into the image, and only its own modules into the code.",
    "CodeArchiveInvalid": "Make the zip again, as the message says.",
    "CodeLost": "Put the code back that the message names, or change spec.job.",
    "RestoreSkipped": "Nothing, if the job is to go on; change spec.restore.nonce to apply the restore again.",
    "StateKeptAside": "Nothing, unless that state is needed: restore the snapshot that the message names.",
    "FellBack": "Nothing: input since that state is processed again. What is damaged: statefulspark doctor",
    "BatchRunning": f"Look at what the batch does: {LOGS}. After spec.health.restartAfter the driver is restarted.",
    "DriverSilent": f"Look at the driver: {LOGS}. After spec.health.restartAfter it is restarted by itself.",
    "ManifestRejected": "Correct the part of the spec that the API server refuses, for example spec.driver.podTemplate.",
    "ApiServerRefused": "Ask who may admit the request that the message names.",
    **{refusal.reason: f"{refusal.advice[0].upper()}{refusal.advice[1:]}." for refusal in judgements.REFUSALS},
    "ApiServerUnavailable": _WAIT,
    "StateUnknown": "Make the storage readable, or restore what is missing there; nothing was changed.",
    "SnapshotNotFound": "Name a snapshot that is there in spec.restore.source.",
    "NonRestoredState": "Give the operator its uid back, or add it to spec.restore.dropState.",
    "StateOwnedByAnother": "If that resource is gone, set spec.storage.ownership as the message says; else name another "
    "folder in spec.storage.uri.",
    "SinkAhead": "Read what the message says about output; spec.restore.repeatOutputOf accepts that it is there twice.",
    "SinkOfAnotherJob": "If it continues that job, name the sink in spec.restore.repeatOutputOf; else give it its own uid.",
    "SinkTaken": "Read what the message says about output; spec.restore.repeatOutputOf accepts that it is there twice.",
    "SinkBehind": "Bring back the rows that the sink has lost; spec.restore.loseOutputOf accepts that they stay missing.",
}
_BY_EXIT: Mapping[int, str] = {
    ExitCode.STATE_UNKNOWN: "Put back what the message names, or name a snapshot in spec.restore.source; then change "
    "spec.restartNonce. Look into the storage with: statefulspark doctor",
    ExitCode.SNAPSHOT_NOT_FOUND: "Name a snapshot that is there in spec.restore.source.",
    ExitCode.INCOMPATIBLE_STATE: f"Change the job so that its state fits, or go back: {_ROLLBACK}",
    ExitCode.USAGE: "Correct the setting that the message names.",
    ExitCode.STORAGE_UNAVAILABLE: "Bring back what the message names; then change spec.restartNonce.",
    ExitCode.INPUT_LOST: "Bring the rows back and change spec.restartNonce, or change the job as the message says.",
}
"""The next step for a driver that no restart helps, by its exit code."""
_BY_WORD = {reason.word: advice for reason, advice in ADVICE.items()}
_OPERATOR = (
    "If this lasts longer than a minute, no operator runs or watches this namespace: kubectl get pods -A "
    "-l app.kubernetes.io/name=statefulspark-operator"
)


class Finding(ApiModel):
    """One thing that is not as it should be."""

    reason: str
    """PascalCase word."""
    message: str
    """What it is, in one sentence."""
    since: UtcDatetime | None = None
    """Since when, if that is known."""
    advice: str | None = None
    """What to do; absent if there is nothing to do."""


def find(view: View) -> tuple[Finding, ...]:
    """Return everything that is not as it should be.

    Args:
        view: The job.

    Returns:
        What keeps the job from being ready comes first; empty if all is well. No sentence comes twice.
    """
    kept: dict[str, Finding] = {}
    for finding in (*_about_resource(view), *_about_status(view), *_about_pods(view)):
        if not any(finding.message in message or message in finding.message for message in kept):
            kept[finding.message] = finding
    return tuple(kept.values())


def advice_for(view: View, reason: str) -> str | None:
    """Return the next step for a reason of the operator or of a driver."""
    driver = view.status.driver
    if reason in _BY_WORD:
        advice = _BY_WORD[reason]
    elif reason in _OTHER_ADVICE:
        advice = _OTHER_ADVICE[reason]
    elif view.status.phase is not Phase.STALLED:
        advice = f"What the driver says: {LOGS}"
    else:
        code = driver.exit_code if driver is not None else None
        advice = _BY_EXIT.get(code, _CORRECT) if code is not None else _CORRECT
    return advice.format(name=view.name, namespace=view.namespace) if advice is not None else None


def _about_resource(view: View) -> Iterator[Finding]:
    if view.deleted_at is not None:
        is_said = view.status.phase is Phase.DELETING and view.status.message is not None
        detail = view.status.message if is_said else "The operator has not said how far it is."
        message = f"The job is being deleted: {detail}"
        advice = f"The operator removes its finalizer. {_OPERATOR}"
        if view.spec is not None and view.spec.deletion_policy is DeletionPolicy.SAVEPOINT:
            patch = '{"spec":{"deletionPolicy":"Retain"}}'
            word = f"kubectl -n {view.namespace} patch ssj {view.name} --type merge -p '{patch}'"
            advice = f"{advice} To delete the job without its last savepoint: {word}."
        yield Finding(reason="Deleting", message=message, since=view.deleted_at, advice=advice)
    if view.is_observed:
        return
    seen = view.status.observed_generation
    if seen is None:
        message = f"No operator has looked at this job since it was created at {view.created_at:%H:%M:%S} UTC."
        yield Finding(reason="NotObserved", message=message, since=view.created_at, advice=_OPERATOR)
        return
    message = f"The operator has not seen generation {view.generation} of the spec yet; it has seen generation {seen}."
    yield Finding(reason="NotObserved", message=message, advice=_OPERATOR)


_UNHEALTHY = (
    (ConditionType.STALLED, ConditionStatus.TRUE),
    (ConditionType.UPGRADE_BLOCKED, ConditionStatus.TRUE),
    (ConditionType.STORAGE_REACHABLE, ConditionStatus.FALSE),
    (ConditionType.AVAILABLE, ConditionStatus.FALSE),
    (ConditionType.CHECKPOINT_HEALTHY, ConditionStatus.FALSE),
)


def _about_status(view: View) -> Iterator[Finding]:
    status, ready = view.status, view.status.condition(ConditionType.READY)
    if ready is not None and ready.status is not ConditionStatus.TRUE:
        stalled = status.stalled
        reason = stalled.reason if stalled is not None and stalled.message == ready.message else ready.reason
        since = status.reason_since or ready.last_transition_time
        yield _condition(view, ready, reason).model_copy(update={"since": since})
    for kind, bad in _UNHEALTHY:
        condition = view.status.condition(kind)
        is_at_rest = kind is ConditionType.AVAILABLE and status.phase in (Phase.SUSPENDED, Phase.STOPPED)
        if condition is not None and condition.status is bad and condition.message and not is_at_rest:
            yield _condition(view, condition, condition.reason)
    notes = (
        ("FellBack", status.fallback),
        ("StateKeptAside", status.kept_aside),
        ("RestoreSkipped", status.restore_skipped),
    )
    for reason, note in notes:
        if note is not None:
            yield Finding(reason=reason, message=note, advice=advice_for(view, reason))


def _condition(view: View, condition: Condition, reason: str) -> Finding:
    return Finding(
        reason=reason,
        message=condition.message or f"{condition.type.value} is {condition.status.value}.",
        since=condition.last_transition_time,
        advice=advice_for(view, reason),
    )


def _about_pods(view: View) -> Iterator[Finding]:
    for pod in (pod for pod in (*view.drivers, *view.standbys) if pod.is_live(view.now)):
        if pod.unschedulable is not None:
            message = f"{pod.name} cannot be scheduled: {pod.unschedulable}"
            yield _pod(view, pod, Reason.UNSCHEDULABLE, message)
        if pod.waiting is None:
            continue
        if pod.waiting.reason not in HARMLESS_WAITS:
            reason = Reason.IMAGE_UNAVAILABLE if "Image" in pod.waiting.reason else Reason.CONTAINER_WAITING
            message = f"{pod.name} cannot start ({pod.waiting.reason}): {pod.waiting.message or 'no message'}"
            yield _pod(view, pod, reason, message)
            continue
        # A container that is being created may lack something, for example a volume: the newest warning tells.
        event = next((event for event in view.events if event.is_warning and event.about == pod.name), None)
        if event is not None:
            message = f"{pod.name} waits ({event.reason}): {event.message}"
            yield _pod(view, pod, Reason.CONTAINER_WAITING, message, since=event.at)


def _pod(view: View, pod: DriverPod, reason: Reason, message: str, *, since: datetime | None = None) -> Finding:
    advice = advice_for(view, reason.word)
    return Finding(reason=reason.word, message=message, since=since or pod.created_at, advice=advice)
