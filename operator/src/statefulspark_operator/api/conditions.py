"""Conditions of a job's status, in the form that kstatus, Argo CD and `kubectl wait` read.

`Ready`, `Reconciling` and `Stalled` follow kstatus: exactly what a deployment tool waits for. The others answer one
question each. Pure.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from statefulspark.contract.base import UtcDatetime

from statefulspark_operator.api.base import ApiModel


class ConditionType(StrEnum):
    """The question that a condition answers."""

    READY = "Ready"
    """Does the job run as the spec says?"""
    RECONCILING = "Reconciling"
    """Is the operator on its way to what the spec says?"""
    STALLED = "Stalled"
    """Has it stopped trying, until somebody changes something?"""
    CHECKPOINT_HEALTHY = "CheckpointHealthy"
    """Do checkpoints complete?"""
    STORAGE_REACHABLE = "StorageReachable"
    """Did the last look at the storage succeed?"""
    UPGRADING = "Upgrading"
    """Is a change of the spec being carried out?"""


class ConditionStatus(StrEnum):
    """The answer."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """One answer about the job."""

    type: ConditionType
    """The question that is answered."""
    status: ConditionStatus
    """The answer."""
    reason: str
    """The class of cause, one word in PascalCase."""
    message: str = ""
    """The cause in one sentence, with what to do."""
    last_transition_time: UtcDatetime
    """When the answer last changed."""
    observed_generation: int | None = None
    """Generation of the resource that the answer is about."""


def merge(previous: tuple[Condition, ...], current: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Keep the transition time of every condition whose answer is the same as before.

    Args:
        previous: Conditions of the status so far.
        current: The new ones, with the present as their transition time.

    Returns:
        The current conditions in their order; conditions that are no longer reported are dropped.
    """
    before = {condition.type: condition for condition in previous}
    return tuple(_keep_time(before.get(condition.type), condition) for condition in current)


def _keep_time(before: Condition | None, condition: Condition) -> Condition:
    if before is None or before.status is not condition.status:
        return condition
    return condition.model_copy(update={"last_transition_time": before.last_transition_time})


def answer(
    kind: ConditionType, status: ConditionStatus, reason: str, message: str, *, now: datetime, generation: int
) -> Condition:
    """Make a condition.

    Args:
        kind: The question.
        status: The answer.
        reason: PascalCase.
        message: One sentence.
        now: Its transition time, unless `merge` finds that nothing changed.
        generation: Generation of the resource.
    """
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=now,
        observed_generation=generation,
    )
