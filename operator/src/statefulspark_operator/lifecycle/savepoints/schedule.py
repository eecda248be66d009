"""Which moment of a schedule is due, how many were missed, and when the next one is. Pure.

However long nobody looked, one savepoint is due at most: two of the same moment would be equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

Calendar = Callable[[datetime], datetime]
"""Returns the first moment of a schedule after another one, in UTC; nights when clocks change are its concern."""

MISSED_LIMIT = 100
"""Missed moments are counted up to here, as for a CronJob."""
_WINDOWS = (timedelta(hours=1), timedelta(days=1), timedelta(days=32), timedelta(days=366))


@dataclass(frozen=True, slots=True)
class Timetable:
    """What a schedule says now.

    Attributes:
        due: The moment whose savepoint is to be taken now; None if none is.
        missed: Number of moments that are left out, at most `MISSED_LIMIT`.
        handled: The newest moment that is over; the next look begins after it.
        next_at: The next moment.
    """

    due: datetime | None
    missed: int
    handled: datetime
    next_at: datetime


def look(calendar: Calendar, *, since: datetime, now: datetime, deadline: timedelta) -> Timetable:
    """Look at a schedule.

    Args:
        calendar: The schedule.
        since: The newest moment that was handled; of a new schedule, when it was set.
        now: The current time, not before `since`.
        deadline: A moment that is older is left out.
    """
    moments, is_counted = _moments(calendar, since, now)
    if not moments:
        return Timetable(None, 0, since, calendar(now))
    newest = moments[-1]
    is_due = now - newest <= deadline
    missed = len(moments) - 1 if is_due else len(moments)
    capped = min(missed, MISSED_LIMIT) if is_counted else MISSED_LIMIT
    return Timetable(newest if is_due else None, capped, newest, calendar(newest))


def _moments(calendar: Calendar, since: datetime, now: datetime) -> tuple[list[datetime], bool]:
    """Return the moments that have passed, and whether these are all: of very many, only the newest."""
    moments, is_complete = _between(calendar, since, now, MISSED_LIMIT + 1)
    if is_complete:
        return moments, True
    for window in _WINDOWS:
        newest, _ = _between(calendar, max(since, now - window), now, None)
        if newest:
            return newest, False
    return moments, False


def _between(calendar: Calendar, since: datetime, now: datetime, limit: int | None) -> tuple[list[datetime], bool]:
    moments: list[datetime] = []
    at = calendar(since)
    while at <= now:
        if limit is not None and len(moments) == limit:
            return moments, False
        moments.append(at)
        at = calendar(at)
    return moments, True
