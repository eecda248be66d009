"""The figures of the report follow from recorded times: the kill, the commits of each epoch, the change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from demo import timeline
from demo.timeline import CommitPoint, Mark, MarkKind, Timeline

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def commit(seconds: float, *, epoch: int = 1, rows: int = 100, query: str = "aircraft", batch: int = 0) -> CommitPoint:
    return CommitPoint(at(seconds), query, batch, epoch, rows)


def killed(seconds: float) -> Mark:
    return Mark(at(seconds), MarkKind.KILLED, "pod gone")


def test_recovery_is_the_time_from_the_kill_to_the_first_commit_of_a_later_driver() -> None:
    history = Timeline((commit(1), commit(9), commit(22.5, epoch=2), commit(24, epoch=2)), (killed(10),))

    assert history.recovery_s() == 12.5


def test_a_last_commit_of_the_dying_driver_is_no_recovery() -> None:
    history = Timeline((commit(9), commit(10.4, epoch=1), commit(20, epoch=2)), (killed(10),))

    assert history.recovery_s() == 10.0


@pytest.mark.parametrize(
    "history",
    [Timeline((commit(1),), ()), Timeline((commit(9),), (killed(10),))],
    ids=["nothing was killed", "nothing was committed afterwards"],
)
def test_without_a_recovery_there_is_no_figure(history: Timeline) -> None:
    assert history.recovery_s() is None


def test_the_upgrades_pause_is_the_time_without_any_commit() -> None:
    commits = (commit(30, epoch=2), commit(31, epoch=2, query="carriers"), commit(45, epoch=3), commit(46, epoch=3))

    assert Timeline(commits, (), first_version_2_epoch=3).upgrade_pause_s() == 14.0
    assert Timeline(commits, ()).upgrade_pause_s() is None


def test_throughput_keeps_every_row_and_shows_the_pause_as_nothing() -> None:
    commits = [commit(s, rows=400, batch=s) for s in (4, 6, 8)] + [commit(s, rows=400, epoch=2) for s in (20, 22)]

    points = timeline.throughput(commits, START, 2.0)

    assert sum(rate * 2.0 for _, rate in points) == pytest.approx(2000)
    assert [rate for middle_s, rate in points if 10 < middle_s < 18] == [0.0] * 4
    assert points[1:4] == ((3.0, 200.0), (5.0, 200.0), (7.0, 200.0))


def test_throughput_of_nothing_is_empty() -> None:
    assert timeline.throughput([], START, 2.0) == ()
