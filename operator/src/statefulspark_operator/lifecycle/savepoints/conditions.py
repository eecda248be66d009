"""The conditions of a savepoint object, for tools that wait: kstatus, Argo CD, Flux, `kubectl wait`. Pure."""

from __future__ import annotations

from datetime import datetime

from statefulspark_operator.api import conditions
from statefulspark_operator.api.conditions import Condition, ConditionStatus, ConditionType
from statefulspark_operator.api.spark_savepoint import SavepointPhase, SparkSavepointStatus

_TRUE_BY_PHASE = {
    SavepointPhase.PENDING: ConditionType.RECONCILING,
    SavepointPhase.IN_PROGRESS: ConditionType.RECONCILING,
    SavepointPhase.COMPLETED: ConditionType.READY,
    SavepointPhase.FAILED: ConditionType.STALLED,
}
_TYPES = (ConditionType.READY, ConditionType.RECONCILING, ConditionType.STALLED)


def derive(
    status: SparkSavepointStatus, previous: tuple[Condition, ...], *, now: datetime, generation: int
) -> tuple[Condition, ...]:
    """Return `Ready`, `Reconciling` and `Stalled`, of which exactly one is true.

    Args:
        status: The status that is about to be recorded.
        previous: The conditions recorded before; an answer that stays keeps its time.
        now: Time of a changed answer.
        generation: Generation of the object.
    """
    true = _TRUE_BY_PHASE[status.phase]
    message = status.message or ""
    current = tuple(
        conditions.answer(
            kind,
            ConditionStatus.TRUE if kind is true else ConditionStatus.FALSE,
            status.phase.value,
            message,
            now=now,
            generation=generation,
        )
        for kind in _TYPES
    )
    return conditions.merge(previous, current)
