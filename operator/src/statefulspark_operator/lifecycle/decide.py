"""The decision: update the status with the facts, then apply the first rule that matches. Pure, and never raises."""

from __future__ import annotations

import dataclasses

from statefulspark_operator.api.status import Phase
from statefulspark_operator.lifecycle import conditions, observed, rules
from statefulspark_operator.lifecycle.decision import Decision
from statefulspark_operator.lifecycle.situation import Situation

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
    return _complete(current, rules.apply(current))


def _complete(situation: Situation, decision: Decision) -> Decision:
    message = _shorten(decision.message)
    if situation.rejection is not None and decision.phase is not Phase.DELETING:
        message = _shorten(f"The current spec is not carried out: {situation.rejection.message}")
    decision = dataclasses.replace(decision, message=_shorten(decision.message))
    status = decision.status.model_copy(
        update={
            "phase": decision.phase,
            "message": message,
            "observed_generation": situation.job.generation,
            "code": situation.code,
            "conditions": conditions.derive(situation, decision),
        }
    )
    return dataclasses.replace(decision, status=status)


def _shorten(message: str) -> str:
    return message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…"
