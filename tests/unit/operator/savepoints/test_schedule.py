"""Which moment of a schedule is due: one at most, however long nobody looked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statefulspark_operator.api.spark_savepoint import scheduled_name
from statefulspark_operator.lifecycle.savepoints import schedule
from statefulspark_operator.lifecycle.savepoints.schedule import MISSED_LIMIT, Calendar, Timetable

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def every(period: timedelta) -> Calendar:
    """Return the calendar of a period, counted from the start of the year."""
    return lambda moment: START + ((moment - START) // period + 1) * period


def at(**amount: float) -> datetime:
    return START + timedelta(**amount)


@pytest.mark.parametrize(
    ("since", "now", "said"),
    [
        pytest.param(at(), at(minutes=59), Timetable(None, 0, at(), at(hours=1)), id="not yet"),
        pytest.param(at(), at(hours=1), Timetable(at(hours=1), 0, at(hours=1), at(hours=2)), id="at the moment itself"),
        pytest.param(at(), at(hours=1.2), Timetable(at(hours=1), 0, at(hours=1), at(hours=2)), id="shortly after"),
        pytest.param(
            at(hours=1), at(hours=1.2), Timetable(None, 0, at(hours=1), at(hours=2)), id="the moment was handled"
        ),
        pytest.param(
            at(), at(hours=5.2), Timetable(at(hours=5), 4, at(hours=5), at(hours=6)), id="the newest of several"
        ),
        pytest.param(
            at(), at(hours=5.7), Timetable(None, 5, at(hours=5), at(hours=6)), id="the newest is too long ago, too"
        ),
    ],
)
def test_a_schedule_says(since: datetime, now: datetime, said: Timetable) -> None:
    assert schedule.look(every(HOUR), since=since, now=now, deadline=timedelta(minutes=30)) == said


def test_a_year_without_an_operator_is_one_savepoint_and_few_looks_at_the_calendar() -> None:
    asked: list[datetime] = []
    minutes = every(timedelta(minutes=1))

    def calendar(moment: datetime) -> datetime:
        asked.append(moment)
        return minutes(moment)

    said = schedule.look(calendar, since=START, now=at(days=365, seconds=30), deadline=HOUR)

    assert said == Timetable(at(days=365), MISSED_LIMIT, at(days=365), at(days=365, minutes=1))
    assert len(asked) < 200


@given(
    period_s=st.integers(60, 40 * 86_400),
    away_s=st.integers(0, 2 * 366 * 86_400),
    deadline_s=st.integers(0, 7 * 86_400),
)
def test_one_moment_is_due_at_most_and_never_twice(period_s: int, away_s: int, deadline_s: int) -> None:
    calendar, now, deadline = every(timedelta(seconds=period_s)), at(seconds=away_s), timedelta(seconds=deadline_s)

    said = schedule.look(calendar, since=START, now=now, deadline=deadline)
    again = schedule.look(calendar, since=said.handled, now=now, deadline=deadline)

    passed = away_s // period_s
    assert said.handled == START + passed * timedelta(seconds=period_s)
    assert said.next_at == calendar(said.handled) > now
    assert said.due is None or (said.due == said.handled and now - deadline <= said.due <= now)
    assert said.missed == min(passed - (said.due is not None), MISSED_LIMIT)
    assert again == Timetable(None, 0, said.handled, said.next_at)


def test_one_moment_has_one_name() -> None:
    assert scheduled_name("flights", at(hours=3)) == "flights-scheduled-202601010300"
