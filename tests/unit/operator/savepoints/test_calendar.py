"""Cron expressions as calendars: nights when clocks change, and expressions that are none."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from statefulspark import errors
from statefulspark_operator.cluster import calendar


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "time_zone", "after", "expected"),
    [
        pytest.param("0 3 * * *", "Etc/UTC", "2026-01-01 03:00", "2026-01-02 03:00", id="a moment is not after itself"),
        pytest.param("0 3 * * *", "Europe/Berlin", "2026-07-01 00:00", "2026-07-01 01:00", id="in its time zone"),
        pytest.param(
            "30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", "2026-03-29 01:00", id="skipped hour: once after it"
        ),
        pytest.param(
            "30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", "2026-10-25 00:30", id="repeated hour: its first time"
        ),
        pytest.param(
            "30 2 * * *", "Europe/Berlin", "2026-10-25 00:30", "2026-10-26 01:30", id="repeated hour: not again"
        ),
    ],
)
def test_the_next_moment(cron: str, time_zone: str, after: str, expected: str) -> None:
    assert calendar.read(cron, time_zone)(at(after)) == at(expected)


@pytest.mark.parametrize(
    ("cron", "time_zone", "says"),
    [
        ("0 3 * *", "Etc/UTC", "'0 3 * *' has not five fields"),
        ("0 3 * * * *", "Etc/UTC", "has not five fields"),
        ("0 25 * * *", "Etc/UTC", "'0 25 * * *' is no cron expression"),
        ("0 0 31 2 *", "Etc/UTC", "its day never comes"),
        ("0 3 * * *", "Europe/Nowhere", "'Europe/Nowhere' is no time zone"),
        ("0 3 * * *", "../../etc/passwd", "is no time zone"),
    ],
)
def test_what_is_no_schedule_is_refused_by_its_value(cron: str, time_zone: str, says: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match="ScheduleInvalid") as refused:
        calendar.read(cron, time_zone)

    assert says in refused.value.message
