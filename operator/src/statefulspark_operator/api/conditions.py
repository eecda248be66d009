"""Conditions of a status, in the form that kstatus, Argo CD and `kubectl wait` use.

`Ready`, `Reconciling` and `Stalled` follow kstatus, which deployment tools wait for. Each of the others answers one
question. Pure.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator
from statefulspark.contract.base import UtcDatetime

from statefulspark_operator.api.base import ApiModel

LONGEST_MESSAGE = 1024
"""Letters of a condition's message; what a driver or a server has said may be longer."""


class ConditionType(StrEnum):
    """The question that a condition answers."""

    READY = "Ready"
    """Does the job run as the spec says?"""
    RECONCILING = "Reconciling"
    """Is the operator still applying the spec?"""
    STALLED = "Stalled"
    """Has the operator stopped retrying until the spec or the cluster changes?"""
    AVAILABLE = "Available"
    """Is input processed, by whatever revision?"""
    CHECKPOINT_HEALTHY = "CheckpointHealthy"
    """Do checkpoints complete?"""
    STORAGE_REACHABLE = "StorageReachable"
    """Did the last read of the storage succeed?"""
    UPGRADING = "Upgrading"
    """Is a change of the spec being carried out?"""
    UPGRADE_BLOCKED = "UpgradeBlocked"
    """Does an earlier revision run, because the current one was refused or rolled back?"""
    COMPLETE = "Complete"
    """Of a SparkSavepoint: is it complete on storage?"""
    FAILED = "Failed"
    """Of a SparkSavepoint: has the operator given it up?"""


SAVEPOINT_TYPES = (
    ConditionType.READY,
    ConditionType.RECONCILING,
    ConditionType.STALLED,
    ConditionType.COMPLETE,
    ConditionType.FAILED,
)
"""The conditions of a SparkSavepoint, in their order."""
JOB_TYPES = tuple(kind for kind in ConditionType if kind not in (ConditionType.COMPLETE, ConditionType.FAILED))
"""The conditions of a StatefulSparkJob, in their order."""


class ConditionStatus(StrEnum):
    """The answer."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """One answer about the resource."""

    type: ConditionType
    """The question that is answered."""
    status: ConditionStatus
    """The answer."""
    reason: str
    """The kind of cause, one word in PascalCase."""
    message: str = ""
    """The cause in one sentence, with what to do."""
    last_transition_time: UtcDatetime
    """When the answer last changed."""
    observed_generation: int | None = None
    """Generation of the resource that the answer is about."""


def _drop_unfamiliar(stored: object) -> object:
    """Drop the conditions that a later release has written."""
    if not isinstance(stored, list):
        return stored
    return [
        condition
        for condition in stored
        if not isinstance(condition, dict) or condition.get("type") in tuple(ConditionType)
    ]


Conditions = Annotated[tuple[Condition, ...], BeforeValidator(_drop_unfamiliar)]


def merge(previous: tuple[Condition, ...], current: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Keep the transition time of every condition whose answer has not changed.

    Args:
        previous: Conditions of the recorded status.
        current: The new conditions, with the current time as their transition time.

    Returns:
        The current conditions in their order; conditions that are no longer reported are dropped.
    """
    before = {condition.type: condition for condition in previous}
    merged = []
    for condition in current:
        recorded = before.get(condition.type)
        is_same = recorded is not None and recorded.status is condition.status
        since = recorded.last_transition_time if recorded is not None and is_same else condition.last_transition_time
        merged.append(condition.model_copy(update={"last_transition_time": since}))
    return tuple(merged)


def answer(
    kind: ConditionType, status: ConditionStatus, reason: str, message: str, *, now: datetime, generation: int
) -> Condition:
    """Return a condition.

    Args:
        kind: The question.
        status: The answer.
        reason: PascalCase.
        message: One sentence.
        now: Its transition time, unless `merge` finds the same answer in the recorded status.
        generation: Generation of the resource.
    """
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message[:LONGEST_MESSAGE],
        last_transition_time=now,
        observed_generation=generation,
    )
