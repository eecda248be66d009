"""The conditions of a job, derived from a decision: the same facts as questions and answers for tools. Pure."""

from __future__ import annotations

from datetime import datetime

from statefulspark import errors
from statefulspark.contract.api import JobState

from statefulspark_operator.api import conditions
from statefulspark_operator.api.conditions import Condition, ConditionStatus, ConditionType
from statefulspark_operator.api.status import OperationPhase, Phase, StatefulSparkJobStatus, UpgradeState, UpgradeStatus
from statefulspark_operator.lifecycle import code, executors, health, steps
from statefulspark_operator.lifecycle.decision import Decision, Reason
from statefulspark_operator.lifecycle.situation import Situation
from statefulspark_operator.lifecycle.storage_facts import StorageFacts, StorageUnreadable

Answer = tuple[ConditionStatus, str, str]

YES, NO, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN

_AT_REST = (Phase.SUSPENDED, Phase.STOPPED)
_IN_TRANSITION = (Phase.PENDING, Phase.STARTING, Phase.UPGRADING, Phase.RESTARTING, Phase.SUSPENDING, Phase.DELETING)


def derive(situation: Situation, decision: Decision) -> tuple[Condition, ...]:
    """Return all conditions of the job.

    Args:
        situation: The situation that the decision was made from, with an updated status.
        decision: The decision.

    Returns:
        One condition per type, always all of them and in the same order.
    """
    withheld = _withheld(situation, decision)
    answers: dict[ConditionType, Answer] = {
        ConditionType.READY: _ready(situation, decision),
        ConditionType.RECONCILING: _reconciling(situation, decision),
        ConditionType.STALLED: _stalled(situation, decision),
        ConditionType.AVAILABLE: _available(situation, decision),
        ConditionType.CHECKPOINT_HEALTHY: _checkpoint_healthy(situation, decision),
        ConditionType.STORAGE_REACHABLE: _storage_reachable(situation),
        ConditionType.UPGRADING: _upgrading(decision),
        ConditionType.UPGRADE_BLOCKED: (
            (YES, withheld.reason or _withheld_reason(withheld), withheld.message or "")
            if withheld is not None
            else (NO, "NotBlocked", "")
        ),
    }
    current = tuple(
        conditions.answer(kind, status, reason, message, now=situation.now, generation=situation.job.generation)
        for kind, (status, reason, message) in answers.items()
    )
    return conditions.merge(situation.status.conditions, current)


def after_failure(
    before: StatefulSparkJobStatus,
    status: StatefulSparkJobStatus,
    error: errors.StatefulSparkError,
    *,
    is_final: bool,
    now: datetime,
    generation: int,
) -> tuple[Condition, ...]:
    """Return the conditions of a job after a request to the API server failed.

    Args:
        before: The recorded status.
        status: The status of the decision whose action failed; the recorded one if nothing could be decided.
        error: The failure.
        is_final: Whether only a person can help, so that `Stalled` says the same.
        now: UTC.
        generation: Generation of the resource.
    """
    reason, message = error.reason, error.message
    answers: dict[ConditionType, Answer] = {ConditionType.READY: (NO, reason, message)}
    if is_final:
        answers |= {ConditionType.RECONCILING: (NO, reason, ""), ConditionType.STALLED: (YES, reason, message)}
    merged = {condition.type: condition for condition in status.conditions}
    merged |= {
        kind: conditions.answer(kind, *answer, now=now, generation=generation) for kind, answer in answers.items()
    }
    return conditions.merge(before.conditions, tuple(merged[kind] for kind in conditions.JOB_TYPES if kind in merged))


def reason_since(before: StatefulSparkJobStatus, answers: tuple[Condition, ...], *, now: datetime) -> datetime | None:
    """Return since when `Ready` has its reason; Kubernetes' transition time is that of its answer.

    Args:
        before: The recorded status.
        answers: The new conditions.
        now: UTC.
    """
    ready = next(condition for condition in answers if condition.type is ConditionType.READY)
    recorded = before.condition(ConditionType.READY)
    is_same = recorded is not None and (recorded.status, recorded.reason) == (ready.status, ready.reason)
    return before.reason_since or ready.last_transition_time if is_same else now


def _is_aborted(situation: Situation, decision: Decision) -> bool:
    upgrade = decision.status.upgrade
    if upgrade is None or upgrade.state is not UpgradeState.ABORTED:
        return False
    return upgrade.generation == situation.job.generation and not code.is_of_other_code(situation, upgrade)


def _withheld(situation: Situation, decision: Decision) -> UpgradeStatus | None:
    """Return the upgrade because of which an earlier revision than the spec's runs."""
    return steps.withheld_by(decision.status, situation.withheld or situation.desired_revision or "")


def _is_preparing(decision: Decision) -> bool:
    upgrade = decision.status.upgrade
    return upgrade is not None and upgrade.state in steps.PREPARING


def _reconciling(situation: Situation, decision: Decision) -> Answer:
    gets_ready = situation.rejection is None and decision.phase is not Phase.STALLED and _is_preparing(decision)
    if decision.phase in _IN_TRANSITION or gets_ready:
        return YES, decision.reason.word, decision.message
    if situation.queued is not None:
        return YES, situation.queued.reason.word, situation.queued.message
    return NO, decision.reason.word, ""


def _ready(situation: Situation, decision: Decision) -> Answer:
    withheld = _withheld(situation, decision)
    if withheld is not None or situation.rejection is not None:
        trouble = _present_trouble(situation, decision)
        if trouble is not None:  # UpgradeBlocked and Stalled say what was refused.
            return trouble
    if situation.rejection is not None:
        return NO, situation.rejection.reason, situation.rejection.message
    if withheld is not None:
        return NO, _withheld_reason(withheld), withheld.message or decision.message
    if _is_preparing(decision):
        return NO, decision.reason.word, decision.message
    if _is_aborted(situation, decision) or decision.phase not in (Phase.RUNNING, *_AT_REST):
        return NO, decision.reason.word, decision.message
    hindrance = health.hindrance(situation)
    if hindrance is not None:
        return NO, hindrance.reason, _add_shortage(situation, hindrance.message)
    if executors.is_short(situation):
        return NO, Reason.EXECUTORS_MISSING.word, _add_shortage(situation, "")
    if situation.queued is not None:
        return NO, situation.queued.reason.word, situation.queued.message
    return YES, decision.reason.word, decision.message


def _present_trouble(situation: Situation, decision: Decision) -> Answer | None:
    """Return what keeps the revision that is carried out from running; None if it runs, or is not to run."""
    if situation.spec is not None and decision.phase not in (Phase.RUNNING, *_AT_REST):
        return NO, decision.reason.word, decision.message
    hindrance = health.hindrance(situation)
    return (NO, hindrance.reason, hindrance.message) if hindrance is not None else None


def _add_shortage(situation: Situation, message: str) -> str:
    """Return a message with how many executors are missing and why, if any are."""
    return " ".join(part for part in (message, executors.shortage(situation.status.executors)) if part)


def _stalled(situation: Situation, decision: Decision) -> Answer:
    if situation.rejection is not None:
        return YES, situation.rejection.reason, situation.rejection.message
    if decision.status.stalled is not None and decision.phase is not Phase.SUSPENDED:
        return YES, decision.status.stalled.reason, decision.status.stalled.message
    storage = situation.storage
    if decision.phase is Phase.STALLED and isinstance(storage, StorageUnreadable):
        return YES, storage.reason, storage.message
    withheld = _withheld(situation, decision)
    if withheld is not None:
        return YES, _withheld_reason(withheld), withheld.message or decision.message
    if _is_aborted(situation, decision):
        return YES, decision.reason.word, decision.message
    return NO, "NotStalled", ""


def _available(situation: Situation, decision: Decision) -> Answer:
    """Tell whether input is processed, whatever revision does that.

    A driver that has input and has committed none of it yet does not count. A silence shorter than
    `spec.health.unavailableAfter`, and the seconds in which a standby takes over, do not end what was so before.
    """
    hindrance, first = health.hindrance(situation), health.first_batch(situation)
    if hindrance is not None:
        return NO, hindrance.reason, _add_shortage(situation, hindrance.message)
    answer = situation.driver_status
    is_running = answer is not None and answer.state in (JobState.RUNNING, JobState.STOPPING)
    is_expected = health.obstacle(situation) is not None or health.is_handing_over(situation, decision.status)
    is_expected = is_expected and decision.phase not in _AT_REST
    if (is_running and first is None) or (is_expected and _was_available(situation)):
        return YES, "InputProcessed", _add_shortage(situation, "")
    if decision.phase is Phase.RUNNING:
        return UNKNOWN, "NotRunning", _add_shortage(situation, "No batch of this driver is committed yet.")
    return NO, decision.reason.word, decision.message


def _was_available(situation: Situation) -> bool:
    recorded = situation.status.condition(ConditionType.AVAILABLE)
    return recorded is not None and recorded.status is YES


def _checkpoint_healthy(situation: Situation, decision: Decision) -> Answer:
    driver_status, latest = situation.driver_status, decision.status.last_checkpoint
    failure = driver_status.last_failure if driver_status is not None else None
    if failure is not None and (latest is None or failure.failed_at > latest.completed_at):
        return NO, failure.reason, failure.message
    if latest is None:
        return UNKNOWN, "NoCheckpointYet", "No checkpoint has completed yet."
    if driver_status is None or driver_status.state is not JobState.RUNNING:
        return UNKNOWN, "NotRunning", f"Checkpoint {latest.id} is the latest; no queries run now."
    return YES, "CheckpointCompleted", ""


def _storage_reachable(situation: Situation) -> Answer:
    if isinstance(situation.storage, StorageFacts):
        return YES, "StorageRead", ""
    if isinstance(situation.storage, StorageUnreadable):
        return NO, situation.storage.reason, situation.storage.message
    before = situation.status.condition(ConditionType.STORAGE_REACHABLE)
    if before is None:
        return UNKNOWN, "NotLooked", "Storage has not been read yet."
    return before.status, before.reason, before.message


def _upgrading(decision: Decision) -> Answer:
    upgrade, operation = decision.status.upgrade, decision.status.operation
    if upgrade is None or upgrade.state in steps.OVER:
        return NO, "NoUpgrade" if upgrade is None else f"Upgrade{upgrade.state.value}", ""
    failed = operation is not None and operation.state is OperationPhase.FAILED
    reason = "SavepointFailed" if failed and upgrade.state in steps.STOP_REQUESTED else upgrade.state.value
    message = f"From revision {upgrade.from_revision} to {upgrade.to_revision}. {upgrade.message or ''}".strip()
    return YES, reason, message


def _withheld_reason(upgrade: UpgradeStatus) -> str:
    return Reason.ROLLED_BACK.word if upgrade.state is UpgradeState.ROLLED_BACK else Reason.UPGRADE_BLOCKED.word
