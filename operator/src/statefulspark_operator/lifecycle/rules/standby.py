"""The standby driver: of the running revision, to take over when the driver ends, or of the next one, in a warm upgrade.

A standby owns no epoch and changes nothing, so that creating and deleting it never affects the job. In a warm upgrade it
gets ready before the running driver is asked to stop. A revision whose standby refuses or cannot start by its own fault is
blocked; one whose standby finds no room, no Secret or no storage waits, and says so. After the stop the standby takes over
without waiting for the old pod.
"""

from __future__ import annotations

from datetime import timedelta

from statefulspark import durations
from statefulspark.contract.api import JobState, JobStatus
from statefulspark.contract.api import StandbyState as Preparation
from statefulspark.contract.exit_codes import ExitCode

from statefulspark_operator.api import names
from statefulspark_operator.api.status import (
    DriverState,
    Phase,
    RevisionOutcome,
    StandbyState,
    StandbyStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.lifecycle import actions, history, steps
from statefulspark_operator.lifecycle.decision import AT_ONCE, SOON, STEADY, Decision, Reason
from statefulspark_operator.lifecycle.ends import DriverEnd, EndKind
from statefulspark_operator.lifecycle.rules import failure, start
from statefulspark_operator.lifecycle.rules import operation as operations
from statefulspark_operator.lifecycle.rules import upgrade as upgrades
from statefulspark_operator.lifecycle.situation import DriverPod, Situation

NOT_READY = "StandbyNotReady"
UPGRADE_COLD = "To upgrade without a second driver, set spec.upgrade.strategy to Cold."
_NO_ROOM = frozenset({Reason.UNSCHEDULABLE.word, "QuotaExceeded"})
"""Why there may be no second driver beside the running one."""
SETTLES_WITHIN = timedelta(seconds=60)
"""Time after which a driver without a batch is taken to have nothing to do."""


def wanted_revision(situation: Situation) -> str | None:
    """Return the revision of which a standby may exist; None if there is to be none."""
    spec, driver = situation.spec, situation.intent
    if spec is None or spec.suspend or driver is None or situation.status.stalled is not None:
        return None
    if driver.has_finished:
        return None
    if situation.pending_restore is not None:
        return None
    is_hot = spec.driver.standby and driver.revision == situation.desired_revision
    return situation.desired_revision if is_hot or upgrades.is_warm(situation) else None


def new_standby(situation: Situation) -> tuple[StandbyStatus, tuple[actions.Action, ...]]:
    """Return the record of the next standby of the spec's revision, and the actions that create it.

    Args:
        situation: The job; it has a spec.
    """
    name, before = situation.job.name, situation.status.standby
    numbers = (names.standby_number(name, pod.name) for pod in (*situation.standbys, *situation.pods))
    number = max(situation.status.standby_count, before.number if before is not None else 0, *numbers, 0) + 1
    revision = situation.desired_revision or ""
    record = StandbyStatus(
        number=number,
        pod=names.standby_pod(name, number),
        revision=revision,
        state=StandbyState.CREATING,
        since=situation.now,
        failures=before.failures if before is not None and before.revision == revision else 0,
    )
    return record, _creation(situation, record)


def _creation(situation: Situation, record: StandbyStatus) -> tuple[actions.Action, ...]:
    return (*start.prerequisites(situation, record.revision), actions.CreateStandby(record.pod, record.revision))


def is_due(situation: Situation) -> bool:
    """Tell whether a standby of the spec's revision is to be created now: there is none, and its delay is over."""
    record = situation.status.standby
    if record is None or record.revision != situation.desired_revision:
        return True
    return record.state is StandbyState.ENDED and (record.retry_at is None or situation.now >= record.retry_at)


def repeat_activation(situation: Situation, pod: DriverPod) -> Decision | None:
    """Does the driver's process still stand by?"""
    driver, answer = situation.intent, situation.driver
    if driver is None or pod.deletion_deadline is not None or not isinstance(answer, JobStatus):
        return None
    if answer.state is not JobState.STANDBY or pod.name != driver.pod:
        return None  # A pod that got its epoch from somebody else is not the one that was chosen.
    phase = situation.status.phase or Phase.STARTING
    if answer.standby is not None and answer.standby.state is Preparation.REFUSED:
        message = f"{pod.name} refuses to take over: {answer.standby.message or answer.standby.reason}"
        act: actions.Action = actions.DeleteDriver(pod.name, pod.uid)
        return Decision(Reason.ACTIVATION_REFUSED, message, phase, situation.status, (act,), SOON)
    message = f"Asking {pod.name} to take over as epoch {driver.epoch}."
    act = actions.ActivateStandby(pod.name, pod.uid, driver.epoch, driver.revision, driver.restore)
    return Decision(Reason.ACTIVATION_REPEATED, message, phase, situation.status, (act,), SOON)


def remove_unwanted(situation: Situation) -> Decision | None:
    """Does a standby exist that nobody wants?"""
    revision, record = wanted_revision(situation), situation.status.standby
    standby = record
    if (
        record is not None and record.revision != revision
    ):  # A refused one is kept: it says why the spec is not carried out.
        standby = record if record.state is StandbyState.REFUSED and record.revision == situation.withheld else None
    driver = situation.intent
    kept = {driver.pod} if driver is not None and driver.state is DriverState.CREATING else set()
    kept |= {record.pod} if record is not None and record.revision == revision else set()
    staying = (pod for pod in situation.standbys if pod.deletion_deadline is None)
    unwanted = next((pod for pod in staying if pod.name not in kept), None)
    if unwanted is None and standby == record:
        return None
    status = situation.status.model_copy(update={"standby": standby})
    acts = (actions.DeleteStandby(unwanted.name, unwanted.uid),) if unwanted is not None else ()
    message = (
        f"Removing {unwanted.name}, which is no longer needed." if unwanted is not None else "The job needs no standby."
    )
    phase = situation.status.phase or Phase.PENDING
    return Decision(Reason.STANDBY_REMOVED, message, phase, status, acts, AT_ONCE)


def resume_creation(situation: Situation) -> Decision | None:
    """Was a standby recorded whose pod does not exist?"""
    record = situation.status.standby
    if record is None or record.state is not StandbyState.CREATING or situation.standby_pod is not None:
        return None
    if record.uid is not None or record.revision != wanted_revision(situation):
        return None
    message = f"Creating {record.pod}."
    acts = _creation(situation, record)
    phase = situation.status.phase or Phase.RUNNING
    return Decision(Reason.STANDBY_CREATED, message, phase, situation.status, acts, SOON)


def keep(situation: Situation) -> Decision | None:
    """Does a running job lack the standby that the spec requests?"""
    spec = situation.spec
    if spec is None or not spec.driver.standby or situation.is_outdated or not is_due(situation):
        return None
    answer = situation.driver_status
    is_new = answer is not None and situation.now - answer.started_at <= SETTLES_WITHIN
    if answer is not None and is_new and not all(query.input_rows for query in answer.queries):
        return None  # A second process beside it would slow down its first batches.
    record, acts = new_standby(situation)
    status = situation.status.model_copy(update={"standby": record, "standby_count": record.number})
    message = f"Creating {record.pod}, which takes over when the driver ends."
    return Decision(Reason.STANDBY_CREATED, message, Phase.RUNNING, status, acts, STEADY)


def _prepared(situation: Situation) -> tuple[UpgradeStatus, StandbyStatus] | None:
    """Return the upgrade that waits for its standby, and the standby; None if no upgrade does, or it has none."""
    upgrade, standby = situation.status.upgrade, situation.status.standby
    if upgrade is None or standby is None or upgrade.state not in steps.PREPARING:
        return None
    if not upgrade.to_revision == standby.revision == situation.desired_revision:
        return None
    return upgrade, standby


def release_driver(situation: Situation, pod: DriverPod) -> Decision | None:
    """Has the driver completed its stop, and can the standby take over before its pod is gone?"""
    operation = operations.completed_stop(situation)
    if operation is None or situation.usable_standby is None or situation.spec is None or situation.spec.suspend:
        return None
    message = f"{pod.name} has stopped with savepoint {operation.location or 'without a location'}."
    end = DriverEnd(EndKind.STOPPED, Reason.UPGRADE_HANDED_OVER.word, message, ExitCode.SUCCESS)
    return failure.record_end(situation, end)


def block(situation: Situation) -> Decision | None:
    """Can the standby of the new revision not take over, because of the revision itself?"""
    prepared = _prepared(situation)
    if prepared is None or situation.spec is None:
        return None
    upgrade, standby = prepared
    if standby.state is StandbyState.REFUSED:
        reason, why = standby.reason or "StandbyRefused", standby.message or "The standby gave no reason."
    elif standby.state is StandbyState.WARMING and standby.reason is None and _is_overdue(situation, standby):
        timeout = durations.format_exact(situation.spec.upgrade.standby_timeout)
        why = f"{standby.pod} was not ready within {timeout}. {_step(situation) or 'Its log says what it waits for.'}"
        reason = NOT_READY
    else:
        return None
    message = (
        f"Revision {upgrade.to_revision} was refused before it ran ({reason}): {why} Revision {upgrade.from_revision} "
        "keeps running; change the spec to try another one, or restartNonce to try this one again."
    )
    blocked = upgrade.model_copy(update={"state": UpgradeState.BLOCKED, "reason": reason, "message": message})
    revisions = history.add_upgrade(situation.status, blocked, RevisionOutcome.BLOCKED, now=situation.now)
    refused = standby.model_copy(update={"state": StandbyState.REFUSED, "reason": reason, "message": why})
    status = situation.status.model_copy(update={"upgrade": blocked, "history": revisions, "standby": refused})
    return Decision(Reason.UPGRADE_BLOCKED, message, _phase(situation), status, (), AT_ONCE)


def _is_overdue(situation: Situation, standby: StandbyStatus) -> bool:
    return situation.spec is not None and situation.now - standby.since > situation.spec.upgrade.standby_timeout


def _phase(situation: Situation) -> Phase:
    return Phase.RUNNING if situation.live_pod is not None else Phase.RESTARTING


def prepare(situation: Situation, pod: DriverPod) -> Decision | None:
    """Does a warm upgrade lack the standby of its revision?"""
    if pod.deletion_deadline is not None or not upgrades.runs_the_job(situation, pod):
        return None
    if not upgrades.awaits_standby(situation) or not is_due(situation):
        return None
    if wanted_revision(situation) is None:
        return None  # It would be removed again at once.
    record, acts = new_standby(situation)
    upgrade = upgrades.begin(situation, UpgradeState.PREPARE)
    status = situation.status.model_copy(update={"standby": record, "standby_count": record.number, "upgrade": upgrade})
    return Decision(Reason.UPGRADE_PREPARING, _preparing(upgrade, record, step=None), Phase.RUNNING, status, acts, SOON)


def _step(situation: Situation) -> str | None:
    """Return what a standby does while it gets ready, as a sentence; None if it does not say."""
    answer = situation.standby
    return answer.message if isinstance(answer, JobStatus) else None


def _preparing(upgrade: UpgradeStatus, standby: StandbyStatus, *, step: str | None) -> str:
    """Return how far a standby is; first what holds it up, if anything does, and else last what it does."""
    progress = (
        f"Revision {upgrade.to_revision} is getting ready in {standby.pod} ({standby.state.value}); revision "
        f"{upgrade.from_revision} keeps running."
    )
    if standby.message is None:
        return f"{progress} {step}" if step is not None else progress
    way_out = f" {UPGRADE_COLD}" if standby.reason in _NO_ROOM else ""
    return f"{standby.message.rstrip('.')}. The operator tries again.{way_out} {progress}"


def note_ready(situation: Situation) -> Decision | None:
    """Has the standby of the new revision become ready?"""
    prepared = _prepared(situation)
    if prepared is None or prepared[0].state is not UpgradeState.PREPARE:
        return None
    if prepared[1].state is not StandbyState.READY or situation.usable_standby is None:
        return None
    upgrade = prepared[0].model_copy(update={"state": UpgradeState.READY})
    status = situation.status.model_copy(update={"upgrade": upgrade})
    message = f"{prepared[1].pod} is ready with revision {upgrade.to_revision}."
    return Decision(Reason.UPGRADE_READY, message, _phase(situation), status, (), AT_ONCE)


def await_standby(situation: Situation) -> Decision | None:
    """Does the job run while the standby of the new revision gets ready?"""
    prepared = _prepared(situation)
    if prepared is None:
        return None
    is_held_up = prepared[1].message is not None
    reason = Reason.UPGRADE_WAITS if is_held_up else Reason.UPGRADE_PREPARING
    message = _preparing(*prepared, step=_step(situation))
    return Decision(reason, message, Phase.RUNNING, situation.status, (), STEADY if is_held_up else SOON)
