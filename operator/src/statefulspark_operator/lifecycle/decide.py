"""The decision: update the status with the facts, then apply the first rule that matches. Pure, and never raises.

Rules are asked by the state of the job, in an order that is part of the design. A rule reads a situation with an updated
status, and returns a decision, or None if the answer to its question is no. A rule that takes a pod is for a driver that
runs, one that takes a `DriverIntent` for a start that was recorded and has no pod yet.
"""

from __future__ import annotations

import dataclasses

from statefulspark_operator.api.status import Phase
from statefulspark_operator.lifecycle import conditions, history, observed
from statefulspark_operator.lifecycle.actions import Action
from statefulspark_operator.lifecycle.decision import Decision
from statefulspark_operator.lifecycle.rules import (
    deletion,
    failure,
    operation,
    preconditions,
    progress,
    rollback,
    savepoints,
    standby,
    start,
    upgrade,
)
from statefulspark_operator.lifecycle.situation import DriverPod, Situation
from statefulspark_operator.lifecycle.storage_facts import StorageFacts

MESSAGE_LIMIT = 1024
"""Longer messages are cut, because they are read in a terminal; the log has the full text."""


def decide(situation: Situation) -> Decision:
    """Decide what one pass does.

    Args:
        situation: The observed facts.

    Returns:
        The status to record and the actions. The status is complete: facts, intent, phase, message and conditions.
    """
    current = observed.fold(situation)
    decision = deletion.show_awaited(current, _apply_rules(current))
    message = decision.message
    if current.rejection is not None and decision.phase is not Phase.DELETING:
        refused = f"The current spec is not carried out: {current.rejection.message}"
        runs = current.spec is None or decision.phase is Phase.RUNNING
        message = refused if runs else f"{decision.message} {refused}"
    acts: tuple[Action, ...] = decision.actions
    acts = (*acts, *progress.configure_driver(current, decision), *progress.describe_pods(current, decision))
    decision = dataclasses.replace(decision, message=_shorten(decision.message), actions=acts)
    answers = conditions.derive(current, decision)
    changes = {
        "history": history.add_left(current.status, decision.status, now=current.now),
        "phase": decision.phase,
        "message": _shorten(message),
        "observed_generation": current.job.generation,
        "code": current.code,
        "ignored_code": current.ignored_code,
        "update_revision": current.withheld or current.desired_revision,
        "conditions": answers,
        "reason_since": conditions.reason_since(current.status, answers, now=current.now),
    }
    return dataclasses.replace(decision, status=decision.status.model_copy(update=changes))


def _apply_rules(situation: Situation) -> Decision:
    """Return the decision of the first rule that matches."""
    decision = (
        deletion.delete(situation)  # A deleted resource is released, unless its last savepoint has to be waited for.
        or preconditions.hold(situation)  # Nothing is created before its cleanup is ensured.
        or preconditions.remove_stray(situation)  # At most one driver: one of another epoch is removed first.
        or failure.account_for_end(situation)  # An end is recorded before any other rule uses it.
        or preconditions.reject(situation)  # Without a valid spec there is nothing to carry out.
    )
    if decision is not None:
        return decision
    driver, pod = situation.intent, situation.live_pod
    if pod is not None:
        return _running(situation, pod)
    if driver is not None and situation.has_driver:
        return (  # A start was recorded, and its pod does not exist yet.
            preconditions.remove_orphans(situation)
            or standby.remove_unwanted(situation)
            or start.stay_suspended(situation)
            or standby.block(situation)
            or standby.note_ready(situation)
            or start.drop_superseded(situation, driver)
            or start.drop_lost_standby(situation, driver)
            or start.await_turn(situation)
            or start.resume_start(situation, driver)
        )
    return _without_driver(situation)


def _running(situation: Situation, pod: DriverPod) -> Decision:
    """Apply the rules for a driver whose pod runs, or may run."""
    return (
        standby.repeat_activation(situation, pod)  # A standby that was chosen must hear of it.
        or standby.release_driver(situation, pod)  # A standby takes over as soon as the stop is complete.
        or preconditions.remove_orphans(situation)
        or operation.end_stopped_driver(situation, pod)  # A driver that has completed its stop must end.
        or operation.follow(situation, pod)  # A running request is followed to its end.
        or progress.restart_stalled(situation, pod)  # A savepoint or stop has its own timeout.
        or standby.remove_unwanted(situation)  # Before anything that may create another one.
        or operation.suspend(situation, pod)
        or standby.block(situation)  # A revision that cannot start never touches the running one.
        or standby.prepare(situation, pod)
        or standby.note_ready(situation)
        or upgrade.replace_driver(situation, pod)  # The spec requests another revision or another state.
        or rollback.give_up(situation, pod)  # A revision that cannot start is not waited for.
        or progress.await_end(situation, pod)
        or progress.show_waiting(situation, pod)
        or progress.show_unschedulable(situation, pod)
        or progress.show_untrusted(situation, pod)
        or progress.await_start(situation, pod)
        or savepoints.take(situation, pod)  # One at a time: a running request, and every stop, comes before.
        or standby.resume_creation(situation)  # After all that the job itself needs: it may fail for long.
        or standby.await_standby(situation)
        or standby.keep(situation)
        or progress.run(situation)
    )


def _without_driver(situation: Situation) -> Decision:
    """Apply the rules for a job that has had no driver, or whose last one has ended."""
    decision = (
        preconditions.remove_orphans(situation)  # Before the next driver asks for its own.
        or rollback.roll_back(situation)  # A revision that has failed its trial is not started again.
        or rollback.stall_for_rollback(situation)
        or rollback.go_to_savepoint(situation)  # The newest state comes first; it repeats nothing.
        or rollback.ask_for_decision(situation)
        or standby.remove_unwanted(situation)
        or start.stay_suspended(situation)
        or standby.block(situation)
        or standby.note_ready(situation)
        or start.stay_stalled(situation)
        or start.stay_finished(situation)
        or start.back_off(situation)
        or start.await_turn(situation)  # After all that needs no driver; storage is read when its turn has come.
    )
    if decision is not None:
        return decision
    storage = situation.storage
    if not isinstance(storage, StorageFacts):
        return start.await_storage(situation)
    return (
        savepoints.await_named(situation)  # Never from anything else than the spec names.
        or start.refuse_missing_savepoint(situation, storage)
        or start.start(situation, storage)
    )


def _shorten(message: str) -> str:
    return message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…"
