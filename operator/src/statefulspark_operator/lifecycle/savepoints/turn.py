"""Whose turn it is: a driver takes one savepoint at a time, and equal requests that wait share one. Pure.

A request never joins a savepoint that has begun, whose cut may be older than the request. Stops are no requests of objects:
theirs is made when the savepoint is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from statefulspark_operator.api.spark_savepoint import SavepointPhase
from statefulspark_operator.api.spec import SavepointForm


@dataclass(frozen=True, slots=True)
class Request:
    """A savepoint object of a job that waits for a driver, or has one, as far as its turn depends on it.

    Attributes:
        name: Its name.
        phase: Its phase.
        requested_at: When it was created.
        location: Folder that it asks for; None for the job's own.
        form: Form that it asks for.
        joined: Name of the object that it has joined.
    """

    name: str
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
    """Choose the savepoint that is requested now: the oldest, and with it what asks for the same.

    Args:
        requests: The objects of one job, in any order.
    """
    if any(request.phase is SavepointPhase.IN_PROGRESS for request in requests):
        return Turn()
    waiting = sorted((request for request in requests if _waits(request)), key=_rank)
    if not waiting:
        return Turn()
    first, *others = waiting
    return Turn(first.name, tuple(request.name for request in others if _are_equal(first, request)))


def _waits(request: Request) -> bool:
    return request.phase is SavepointPhase.PENDING and request.joined is None


def _rank(request: Request) -> tuple[datetime, str]:
    return request.requested_at, request.name


def _are_equal(first: Request, other: Request) -> bool:
    return (first.location, first.form) == (other.location, other.form)
