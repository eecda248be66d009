"""The figures of the report follow from recorded times: the kill, the commits of each epoch, the change."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from demo import timeline
from demo.timeline import CommitPoint, Mark, MarkKind, Timeline

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def commit(seconds: float, *, epoch: int = 1, rows: int = 100, query: str = "aircraft", batch: int = 0) -> CommitPoint:
    return CommitPoint(at(seconds), query, batch, epoch, rows)


def mark(seconds: float, kind: MarkKind = MarkKind.KILLED) -> Mark:
    return Mark(at(seconds), kind, kind.value)


def test_a_recovery_is_the_time_from_the_last_output_before_the_kill_to_the_first_of_a_later_driver() -> None:
    history = Timeline((commit(1), commit(9), commit(22.5, epoch=2), commit(24, epoch=2)), (mark(10),))

    assert history.recovery_s() == 13.5


def test_what_the_dying_driver_left_is_no_recovery_and_no_output_before_the_kill() -> None:
    history = Timeline((commit(9), commit(10.4, epoch=1), commit(20, epoch=2)), (mark(10),))

    assert history.recovery_s() == 11.0


@pytest.mark.parametrize(
    "history",
    [Timeline((commit(1),), ()), Timeline((commit(9),), (mark(10),))],
    ids=["nothing was killed", "nothing was committed afterwards"],
)
def test_without_a_recovery_there_is_no_figure(history: Timeline) -> None:
    assert history.recovery_s() is None


def test_each_step_has_the_pause_of_its_own() -> None:
    commits = tuple(
        commit(s, epoch=e) for s, e in ((9, 1), (20, 2), (30, 2), (33, 3), (50, 3), (54, 4), (70, 4), (85, 5))
    )
    marks = (
        mark(10),
        mark(30, MarkKind.KILLED_GUARDED),
        mark(40, MarkKind.CHANGED),
        mark(65, MarkKind.CHANGED_COLD),
    )

    history = Timeline(commits, marks)

    assert (history.recovery_s(), history.standby_recovery_s()) == (11.0, 3.0)
    assert (history.upgrade_pause_s(), history.cold_upgrade_pause_s()) == (4.0, 15.0)


@pytest.mark.parametrize(("seconds", "gap_s", "downtime_s"), [((8, 13, 18, 23), 5.0, 0.0), ((8, 26), 18.0, 8.0)])
def test_a_broken_version_costs_what_output_is_late_beyond_two_checkpoints(
    seconds: tuple[int, ...], gap_s: float, downtime_s: float
) -> None:
    marks = (mark(10, MarkKind.BROKEN), mark(20, MarkKind.BLOCKED))

    history = Timeline(tuple(commit(s) for s in seconds), marks)

    assert (history.bad_upgrade_gap_s(), history.bad_upgrade_downtime_s()) == (gap_s, downtime_s)
    assert Timeline(history.commits, ()).bad_upgrade_downtime_s() is None


def test_throughput_shows_batches_when_they_were_written_and_not_when_a_checkpoint_made_them_visible() -> None:
    visible = [replace(commit(8, rows=400, batch=s), written_at=at(s)) for s in (4, 6, 8)]

    points = timeline.throughput(visible, START, 2.0)

    assert [rate for _, rate in points[1:4]] == [200.0, 200.0, 200.0]


def test_throughput_keeps_every_row_and_shows_the_pause_as_nothing() -> None:
    commits = [commit(s, rows=400, batch=s) for s in (4, 6, 8)] + [commit(s, rows=400, epoch=2) for s in (20, 22)]

    points = timeline.throughput(commits, START, 2.0)

    assert sum(rate * 2.0 for _, rate in points) == pytest.approx(2000)
    assert [rate for middle_s, rate in points if 10 < middle_s < 18] == [0.0] * 4
    assert points[1:4] == ((3.0, 200.0), (5.0, 200.0), (7.0, 200.0))


def test_throughput_of_nothing_is_empty() -> None:
    assert timeline.throughput([], START, 2.0) == ()
