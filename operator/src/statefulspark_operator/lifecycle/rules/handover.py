"""A warm upgrade: the standby of the new revision gets ready before the running driver is asked to stop.

Until then nothing touches the running driver. A revision whose standby refuses, ends, or cannot start is blocked; one whose
standby finds no room is carried out cold. After the stop the standby takes over without waiting for the old pod.
"""

from __future__ import annotations

from statefulspark.contract import durations
from statefulspark.contract.exit_codes import ExitCode

from statefulspark_operator.api.revision_record import RevisionOutcome
from statefulspark_operator.api.standby import StandbyState, StandbyStatus
from statefulspark_operator.api.status import Phase, UpgradeState, UpgradeStatus
from statefulspark_operator.api.upgrade import UpgradeMode
from statefulspark_operator.lifecycle import history, steps
from statefulspark_operator.lifecycle.decision import AT_ONCE, SOON, Decision
from statefulspark_operator.lifecycle.ends import DriverEnd, EndKind
from statefulspark_operator.lifecycle.reason import Reason
from statefulspark_operator.lifecycle.rules import failure
from statefulspark_operator.lifecycle.rules import operation as operations
from statefulspark_operator.lifecycle.rules import standby as standbys
from statefulspark_operator.lifecycle.rules import upgrade as upgrades
from statefulspark_operator.lifecycle.situation import TLS_SECRET_MISSING, Situation

NOT_READY = "StandbyNotReady"


def _prepared(situation: Situation) -> tuple[UpgradeStatus, StandbyStatus] | None:
    """Return the upgrade that waits for its standby, and the standby; None if no upgrade does, or it has none."""
    upgrade, standby = situation.status.upgrade, situation.status.standby
    if upgrade is None or standby is None or upgrade.state not in steps.PREPARING:
        return None
    if not upgrade.to_revision == standby.revision == situation.desired_revision:
        return None
    return upgrade, standby


def release_driver(situation: Situation) -> Decision | None:
    """Has the driver completed its stop, and can the standby take over before its pod is gone?"""
    operation, pod = operations.completed_stop(situation), situation.live_pod
    if operation is None or pod is None:
        return None
    if situation.usable_standby is None or situation.spec is None or situation.spec.suspend:
        return None
    message = f"{pod.name} has stopped with savepoint {operation.location or 'without a location'}."
    end = DriverEnd(EndKind.STOPPED, Reason.UPGRADE_HANDED_OVER.word, message, ExitCode.STOPPED)
    return failure.record_end(situation, end)


def block(situation: Situation) -> Decision | None:
    """Can the standby of the new revision not take over, because of the revision itself?"""
    prepared = _prepared(situation)
    cause = _cause(situation, prepared[1]) if prepared is not None else None
    if prepared is None or cause is None or situation.spec is None:
        return None
    upgrade, (reason, why) = prepared[0], cause
    message = (
        f"Revision {upgrade.to_revision} was refused before it ran ({reason}): {why} Revision {upgrade.from_revision} "
        "keeps running; change the spec to try another one, or restartNonce to try this one again."
    )
    blocked = upgrade.model_copy(update={"state": UpgradeState.BLOCKED, "reason": reason, "message": message})
    revisions = history.with_upgrade(
        situation.status, blocked, RevisionOutcome.BLOCKED, image=situation.spec.image, now=situation.now
    )
    refused = prepared[1].model_copy(update={"state": StandbyState.REFUSED, "reason": reason, "message": why})
    status = situation.status.model_copy(update={"upgrade": blocked, "history": revisions, "standby": refused})
    return Decision(Reason.UPGRADE_BLOCKED, message, _phase(situation), status, (), AT_ONCE)


def _cause(situation: Situation, standby: StandbyStatus) -> tuple[str, str] | None:
    """Return reason and message if the standby will not take over; None if it may."""
    if standby.state is StandbyState.REFUSED:
        return standby.reason or "StandbyRefused", standby.message or "The standby gave no reason."
    if standby.state is not StandbyState.WARMING or not _is_overdue(situation, standby):
        return None
    obstacle = standby.message or "Its log says what it is waiting for."
    return NOT_READY, f"{standby.pod} was not ready within {_timeout(situation)}. {obstacle}"


def _is_overdue(situation: Situation, standby: StandbyStatus) -> bool:
    return situation.spec is not None and situation.now - standby.since > situation.spec.upgrade.standby_timeout


def _timeout(situation: Situation) -> str:
    return durations.format_exact(situation.spec.upgrade.standby_timeout) if situation.spec is not None else ""


def _phase(situation: Situation) -> Phase:
    return Phase.RUNNING if situation.live_pod is not None else Phase.RESTARTING


def fall_back(situation: Situation) -> Decision | None:
    """Is there no standby to be had, for a reason that is no fault of the revision?"""
    prepared = _prepared(situation)
    why = _obstacle(situation, prepared[1]) if prepared is not None else None
    if prepared is None or why is None:
        return None
    message = f"{why} Revision {prepared[0].to_revision} is carried out cold."
    upgrade = prepared[0].model_copy(update={"mode": UpgradeMode.COLD, "message": message})
    status = situation.status.model_copy(update={"upgrade": upgrade})
    return Decision(Reason.UPGRADE_COLD, message, _phase(situation), status, (), AT_ONCE)


def _obstacle(situation: Situation, standby: StandbyStatus) -> str | None:
    if standby.state is not StandbyState.CREATING or not _is_overdue(situation, standby):
        return None
    pod = situation.standby_pod
    if pod is None:
        return f"{standby.pod} could not be created within {_timeout(situation)}."
    if pod.unschedulable is None:
        return None
    return f"{standby.pod} found no node within {_timeout(situation)} ({pod.unschedulable})."


def prepare(situation: Situation) -> Decision | None:
    """Does a warm upgrade lack the standby of its revision?"""
    pod = situation.live_pod
    if pod is None or pod.deletion_deadline is not None or not upgrades.runs_the_job(situation, pod):
        return None
    if not upgrades.awaits_standby(situation) or not standbys.is_due(situation):
        return None
    if standbys.wanted_revision(situation) is None:
        return None  # It would be removed again at once.
    record, acts = standbys.new_standby(situation)
    upgrade = upgrades.begin(situation, UpgradeState.PREPARE)
    status = situation.status.model_copy(update={"standby": record, "standby_count": record.number, "upgrade": upgrade})
    return Decision(Reason.UPGRADE_PREPARING, _preparing(upgrade, record), Phase.RUNNING, status, acts, SOON)


def _preparing(upgrade: UpgradeStatus, standby: StandbyStatus) -> str:
    return (
        f"Revision {upgrade.to_revision} gets ready in {standby.pod} ({standby.state.value}); revision "
        f"{upgrade.from_revision} keeps running."
    )


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
    if prepared is None or situation.live_pod is None:
        return None
    pod, message = situation.standby_pod, _preparing(*prepared)
    if pod is not None and pod.unschedulable is not None:
        message += f" No node has room for it: {pod.unschedulable}"
    elif pod is not None and pod.waiting is not None and pod.waiting.reason == TLS_SECRET_MISSING:
        message += f" {pod.waiting.message}"
    return Decision(Reason.UPGRADE_PREPARING, message, Phase.RUNNING, situation.status, (), SOON)
