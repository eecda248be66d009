"""Going back to the revision that ran before, while the new one is not stable yet.

A revision that was rolled back is not tried again until the spec changes. Output that it has committed stays where it is and
is named; the revision before goes on after it. How, is in `going_back`.
"""

from __future__ import annotations

from statefulspark.contract.faults import Fault

from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.api.status import (
    DriverIntent,
    Phase,
    RevisionOutcome,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.api.upgrade import RollbackPolicy
from statefulspark_operator.lifecycle import fault, going_back, history, steps
from statefulspark_operator.lifecycle.decision import AT_ONCE, LATER, Decision, Reason
from statefulspark_operator.lifecycle.ends import DriverEnd, EndKind
from statefulspark_operator.lifecycle.rules import failure
from statefulspark_operator.lifecycle.situation import DriverPod, Situation


def _failed(situation: Situation) -> tuple[UpgradeStatus, DriverIntent] | None:
    """Return the upgrade whose trial has failed, and its last driver; None if none has."""
    upgrade, driver = situation.status.upgrade, situation.intent
    if upgrade is None or driver is None or not steps.trial_has_failed(upgrade):
        return None
    if driver.revision != upgrade.to_revision or upgrade.to_revision != situation.desired_revision:
        return None
    return upgrade, driver


def roll_back(situation: Situation) -> Decision | None:
    """Has a new revision failed before it was stable, and may the operator go back by itself?"""
    failed = _failed(situation)
    if (
        failed is None
        or situation.spec is None
        or situation.spec.upgrade.rollback_policy is not RollbackPolicy.AUTOMATIC
    ):
        return None
    upgrade, driver = failed
    message = (
        f"{_verdict(upgrade, driver)} Revision {upgrade.from_revision} starts again from the newest state. "
        f"{_committed(situation, upgrade)} {_again(situation.spec)}"
    )
    ended = {"state": UpgradeState.ROLLED_BACK, "reason": driver.end_reason or "DriverFailed", "message": message}
    rolled_back = upgrade.model_copy(update=ended)
    revisions = history.add_upgrade(situation.status, rolled_back, RevisionOutcome.ROLLED_BACK, now=situation.now)
    restarts = situation.status.restarts.model_copy(update={"consecutive": 0, "charged": 0, "next_attempt_at": None})
    changes = {"upgrade": rolled_back, "history": revisions, "restarts": restarts, "stalled": None}
    restore = going_back.intent(situation, driver, None)
    status = situation.status.model_copy(update=changes | {"restore": restore})
    return Decision(Reason.ROLLED_BACK, message, Phase.RESTARTING, status, (), AT_ONCE)


def give_up(situation: Situation, pod: DriverPod) -> Decision | None:
    """Can the container of a new revision never start, or was its image not pulled in the time that a standby has?

    Its process ends never, because it does not begin, and the revision before has stopped already.
    """
    upgrade, driver, spec = situation.status.upgrade, situation.intent, situation.spec
    if upgrade is None or driver is None or spec is None or pod.waiting is None:
        return None
    if not steps.is_on_trial(upgrade, driver) or upgrade.from_revision in ("", upgrade.to_revision):
        return None
    is_overdue = situation.now - driver.decided_at > spec.upgrade.standby_timeout and upgrade.state in steps.STARTED
    if fault.of_wait(pod.waiting) is not Fault.REVISION and not (is_overdue and fault.is_of_image(pod.waiting)):
        return None
    message = f"{pod.name} cannot start ({pod.waiting.reason}): {pod.waiting.message or 'no message'}"
    return failure.record_end(situation, DriverEnd(EndKind.REFUSED, pod.waiting.reason, message, None))


def go_to_savepoint(situation: Situation) -> Decision | None:
    """Does the newest state not fit the revision before, and is there the savepoint of its stop?"""
    refused = going_back.refused(situation.status)
    if refused is None or situation.is_outdated:
        return None
    upgrade, driver = refused
    if upgrade.savepoint is None or driver.restore is None or driver.restore.snapshot is not None:
        return None
    does_not_fit = f"The newest state does not fit revision {upgrade.from_revision}: {_why(driver)}"
    message = f"{does_not_fit} It goes back to {upgrade.savepoint}, unless that repeats output."
    status = situation.status.model_copy(
        update={
            "upgrade": upgrade.model_copy(update={"message": f"{upgrade.message or ''} {does_not_fit}".strip()}),
            "restore": going_back.intent(situation, driver, upgrade.savepoint),
        }
    )
    return Decision(Reason.ROLLBACK_TO_SAVEPOINT, message, Phase.RESTARTING, status, (), AT_ONCE)


def ask_for_decision(situation: Situation) -> Decision | None:
    """Can the revision before go on from no state without losing some of it or repeating output?"""
    refused = going_back.refused(situation.status)
    if refused is None or situation.is_outdated:
        return None
    upgrade, driver = refused
    why = f"{_why(driver)} {_committed(situation, upgrade)}"
    message = f"Revision {upgrade.from_revision} cannot continue from the newest state, and "
    others = "Or apply a version of the job that fits the newest state."
    if upgrade.savepoint is None:
        message += (
            f"no savepoint was taken before revision {upgrade.to_revision}: {why} "
            f"Restore an older snapshot by name (restore.source). {others}"
        )
    else:
        message += (
            f"the operator does not go back to the savepoint before revision {upgrade.to_revision} on its own: {why} To go "
            "back to it anyway, which repeats that output in sinks that cannot withdraw it: "
            f"{going_back.command(situation, upgrade.savepoint)}. {others} {upgrade.message or ''}"
        )
    again = going_back.intent(situation, driver, None)
    stalled = situation.stalled(Reason.ROLLBACK_NEEDS_DECISION.word, message)
    status = situation.status.model_copy(update={"stalled": stalled, "restore": again})
    return Decision(Reason.ROLLBACK_NEEDS_DECISION, message, Phase.STALLED, status, (), LATER)


def _again(spec: StatefulSparkJobSpec) -> str:
    source = spec.job.source
    is_of_map = source is not None and source.config_map is not None
    return (
        "Change the spec, or the code in its ConfigMap, to try again." if is_of_map else "Change the spec to try again."
    )


def _why(driver: DriverIntent) -> str:
    return f"{driver.end_reason}: {driver.end_message or 'it gave no reason.'}"


def stall_for_rollback(situation: Situation) -> Decision | None:
    """Has a new revision failed before it was stable, and does the spec leave the rollback to a person?"""
    failed = _failed(situation)
    if failed is None or situation.spec is None or situation.spec.upgrade.rollback_policy is not RollbackPolicy.MANUAL:
        return None
    upgrade, driver = failed
    job = situation.job
    message = (
        f"{_verdict(upgrade, driver)} {_committed(situation, upgrade)} To go back to revision {upgrade.from_revision} on "
        f"the newest state: kubectl -n {job.namespace} patch ssj {job.name} --type merge -p "
        '\'{"spec":{"upgrade":{"rollbackPolicy":"Automatic"}}}\'. Any other change of the spec tries again.'
    )
    stalled = situation.stalled(Reason.ROLLBACK_NEEDED.word, message)
    if situation.status.stalled is not None and situation.status.stalled.reason == stalled.reason:
        return None
    status = situation.status.model_copy(update={"stalled": stalled})
    return Decision(Reason.ROLLBACK_NEEDED, message, Phase.STALLED, status, (), LATER)


def _verdict(upgrade: UpgradeStatus, driver: DriverIntent) -> str:
    completed = steps.trial_of(upgrade).checkpoints
    after = "after 1 checkpoint" if completed == 1 else f"after {completed} checkpoints"
    when = after if completed else "before its first checkpoint"
    return f"Revision {upgrade.to_revision} failed {when}: {driver.end_message or 'it gave no reason.'}"


def _committed(situation: Situation, upgrade: UpgradeStatus) -> str:
    """Name the batches that the failed revision has committed after the savepoint."""
    savepoint = situation.status.last_savepoint
    is_it = savepoint is not None and savepoint.location == upgrade.savepoint
    before = savepoint.batches if savepoint is not None and is_it else {}
    ahead = [
        (query, batch)
        for query, batch in sorted(steps.trial_of(upgrade).committed.items())
        if batch > before.get(query, -1)
    ]
    if not ahead:
        return f"The operator saw revision {upgrade.to_revision} commit no batch."
    named = ", ".join(
        f"{query} {before[query] + 1} to {batch}" if query in before else f"{query} up to {batch}"
        for query, batch in ahead
    )
    return f"Revision {upgrade.to_revision} committed these batches, whose output stays: {named}."
