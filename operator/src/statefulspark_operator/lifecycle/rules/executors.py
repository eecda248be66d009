"""Executors of a driver that is over: removed before the next driver asks for its own."""

from __future__ import annotations

from statefulspark_operator.api.status import Phase
from statefulspark_operator.lifecycle import actions, executors
from statefulspark_operator.lifecycle.decision import AT_ONCE, Decision
from statefulspark_operator.lifecycle.reason import Reason
from statefulspark_operator.lifecycle.situation import Situation


def remove_orphans(situation: Situation) -> Decision | None:
    """Are there executors whose driver is over?"""
    act = removal(situation)
    if act is None:
        return None
    phase = situation.status.phase or Phase.RESTARTING
    return Decision(Reason.EXECUTORS_REMOVED, message_of(act), phase, situation.status, (act,), AT_ONCE)


def removal(situation: Situation) -> actions.DeleteExecutors | None:
    """Return the action that removes executors without a driver; None if there are none."""
    orphans = executors.orphans(situation)
    if not orphans:
        return None
    return actions.DeleteExecutors(tuple(actions.PodReference(pod.name, pod.uid) for pod in orphans))


def message_of(act: actions.DeleteExecutors) -> str:
    """Return what an action removes, as a sentence."""
    named = ", ".join(pod.name for pod in act.pods)
    return f"Removing {named}: {'its driver is' if len(act.pods) == 1 else 'their driver is'} over."
