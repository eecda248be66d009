"""What a savepoint object becomes when something happens: one request at a time, and an end that is final. Pure.

A request that a driver took with it is sent again to the next one under another id, since a driver must not answer with the
savepoint of its predecessor.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from statefulspark_operator.api import conditions, quantities
from statefulspark_operator.api.conditions import Condition, ConditionStatus, ConditionType
from statefulspark_operator.api.spark_savepoint import SavepointPhase, SparkSavepointStatus

ATTEMPTS = 3
"""Number of drivers that are asked for one savepoint."""
OVER = frozenset({SavepointPhase.COMPLETED, SavepointPhase.FAILED})


@dataclass(frozen=True, slots=True)
class Asked:
    """The request is recorded, and is about to be sent.

    Attributes:
        request_id: Its id.
    """

    request_id: str


@dataclass(frozen=True, slots=True)
class Joined:
    """The savepoint of another object is this one's, too.

    Attributes:
        name: That object.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The savepoint is complete on storage.

    Attributes:
        location: Its folder.
        size_bytes: Size of its files, if it is known.
        at: When it was complete.
    """

    location: str
    size_bytes: int | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Refused:
    """The driver, or storage, says that there will be none.

    Attributes:
        why: The reason in one sentence.
    """

    why: str


@dataclass(frozen=True, slots=True)
class DriverGone:
    """The driver that was asked has ended without an answer."""


SavepointEvent = Asked | Joined | Finished | Refused | DriverGone


def after(status: SparkSavepointStatus, event: SavepointEvent) -> SparkSavepointStatus:
    """Return the status after an event; what has ended does not change any more.

    Args:
        status: The status.
        event: What has happened. It may be told twice, and late.
    """
    if status.phase in OVER:
        return status
    match event:
        case Asked():
            if status.phase is not SavepointPhase.PENDING or status.joined is not None:
                return status
            return status.model_copy(
                update={
                    "phase": SavepointPhase.IN_PROGRESS,
                    "request_id": event.request_id,
                    "attempt": status.attempt + 1,
                    "message": None,
                }
            )
        case Joined():
            is_waiting = status.phase is SavepointPhase.PENDING
            return status.model_copy(update={"joined": event.name}) if is_waiting else status
        case Finished():
            return status.model_copy(
                update={
                    "phase": SavepointPhase.COMPLETED,
                    "location": event.location,
                    "size_bytes": event.size_bytes,
                    "size": quantities.rounded(event.size_bytes) if event.size_bytes is not None else None,
                    "completed_at": event.at,
                    "message": None,
                }
            )
        case Refused():
            return status.model_copy(update={"phase": SavepointPhase.FAILED, "message": event.why})
        case DriverGone():
            if status.phase is SavepointPhase.PENDING:
                return status.model_copy(update={"joined": None})
            if status.attempt >= ATTEMPTS:
                message = (
                    f"The operator asked {status.attempt} drivers, and each ended before the savepoint was complete."
                )
                return status.model_copy(update={"phase": SavepointPhase.FAILED, "message": message})
            message = "The driver ended before the savepoint was complete; the operator asks the next one."
            return status.model_copy(update={"phase": SavepointPhase.PENDING, "request_id": None, "message": message})
        case _:
            assert_never(event)


_TRUE_BY_PHASE = {
    SavepointPhase.PENDING: (ConditionType.RECONCILING,),
    SavepointPhase.IN_PROGRESS: (ConditionType.RECONCILING,),
    SavepointPhase.COMPLETED: (ConditionType.READY, ConditionType.COMPLETE),
    SavepointPhase.FAILED: (ConditionType.STALLED, ConditionType.FAILED),
}


def derive_conditions(
    status: SparkSavepointStatus, previous: tuple[Condition, ...], *, now: datetime, generation: int
) -> tuple[Condition, ...]:
    """Return the conditions: one of kstatus is true, and with an end `Complete` or `Failed`.

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
            ConditionStatus.TRUE if kind in true else ConditionStatus.FALSE,
            status.phase.value,
            message,
            now=now,
            generation=generation,
        )
        for kind in conditions.SAVEPOINT_TYPES
    )
    return conditions.merge(previous, current)
