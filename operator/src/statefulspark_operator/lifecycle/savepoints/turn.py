"""Whose turn it is: a driver takes one savepoint at a time, and equal requests that wait share one. Pure.

A request never joins a savepoint that has begun, whose cut may be older than the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from statefulspark_operator.api.spark_savepoint import SavepointOrigin, SavepointPhase
from statefulspark_operator.api.spec import SavepointForm

_STOPS = (SavepointOrigin.UPGRADE, SavepointOrigin.DELETION)


@dataclass(frozen=True, slots=True)
class Request:
    """A savepoint object of a job, as far as its turn depends on it.

    Attributes:
        name: Its name.
        origin: Who asked for it.
        phase: Its phase.
        requested_at: When it was created.
        location: Folder that it asks for; None for the job's own.
        form: Form that it asks for.
        joined: Name of the object that it has joined.
    """

    name: str
    origin: SavepointOrigin
    phase: SavepointPhase
    requested_at: datetime
    location: str | None = None
    form: SavepointForm = SavepointForm.NATIVE
    joined: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """What is to be done now.

    Attributes:
        start: Name of the object whose savepoint is requested from the driver; None if none may be.
        joins: Names of the objects whose savepoint that is, too.
    """

    start: str | None = None
    joins: tuple[str, ...] = ()


def choose(requests: Sequence[Request]) -> Turn:
    """Choose the savepoint that is requested now.

    The stop of an upgrade or of a deletion comes first, since the job waits for it; then the oldest request. A stop ends
    the driver, so nothing joins it and it joins nothing.

    Args:
        requests: All savepoint objects of one job, in any order.
    """
    if any(request.phase is SavepointPhase.IN_PROGRESS for request in requests):
        return Turn()
    waiting = sorted((request for request in requests if _waits(request)), key=_rank)
    if not waiting:
        return Turn()
    first, *others = waiting
    return Turn(first.name, tuple(request.name for request in others if _are_equal(first, request)))


def _waits(request: Request) -> bool:
    return (
        request.phase is SavepointPhase.PENDING
        and request.joined is None
        and request.origin is not SavepointOrigin.ADOPTED
    )


def _rank(request: Request) -> tuple[bool, datetime, str]:
    return request.origin not in _STOPS, request.requested_at, request.name


def _are_equal(first: Request, other: Request) -> bool:
    is_stop = first.origin in _STOPS or other.origin in _STOPS
    return not is_stop and (first.location, first.form) == (other.location, other.form)
