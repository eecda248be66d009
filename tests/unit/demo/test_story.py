"""The demo does each thing once, at its time, and names what it waits for when it waits too long."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from demo import story
from demo.story import Action, Seen, Stage

START = datetime(2026, 1, 1, tzinfo=UTC)
TOTAL = 900


def seen(after_s: float = 0, *, flights: int = 0, epoch: int = 1, version: int = 1, scored: int = 0) -> Seen:
    at = START + timedelta(seconds=after_s)
    return Seen(
        at,
        flights=flights,
        scored_flights=scored,
        epoch=epoch,
        version=version,
        driver_pod=f"flights-driver-{epoch}",
        last_commit_at=at if epoch else None,
    )


def in_stage(stage: Stage, epoch: int = 1) -> story.Story:
    return replace(story.begin(TOTAL, START), stage=stage, epoch=epoch)


def test_the_story_does_each_thing_once_and_then_finishes() -> None:
    looks = [
        seen(0, epoch=0),
        seen(10, flights=10),
        seen(20, flights=89),
        seen(30, flights=90),
        seen(31, flights=95),
        seen(45, flights=150, epoch=2),
        seen(60, flights=270, epoch=2),
        replace(seen(61, flights=280, epoch=2), has_standby=True),
        seen(65, flights=285, epoch=2),
        seen(68, flights=290, epoch=3),
        seen(75, flights=360, epoch=3),
        seen(76, flights=361, epoch=3),
        replace(seen(80, flights=400, epoch=3), is_blocked=True),
        replace(seen(85, flights=450, epoch=3), is_blocked=True),
        seen(88, flights=480, epoch=3),
        seen(90, flights=500, epoch=4, version=2),
        seen(99, flights=675, epoch=4, version=2),
        seen(100, flights=680, epoch=4, version=2),
        seen(120, flights=690, epoch=5, version=2),
        seen(130, flights=900, epoch=5, version=2, scored=880),
        seen(131, flights=900, epoch=5, version=2, scored=900),
    ]
    state, actions = story.begin(TOTAL, START), []
    for look in looks:
        state, action = story.advance(state, look)
        actions.append(action)

    assert [action for action in actions if action is not Action.WAIT] == [
        Action.KILL_DRIVER,
        Action.KEEP_STANDBY,
        Action.KILL_GUARDED,
        Action.BREAK_JOB,
        Action.CHANGE_JOB,
        Action.CHANGE_COLD,
        Action.FINISH,
    ]
    assert state.stage is Stage.FINISHED


@pytest.mark.parametrize(
    ("stage", "look"),
    [
        (Stage.STREAMING, replace(seen(flights=400), driver_pod=None)),
        (Stage.RECOVERING, seen(flights=500, epoch=1)),
        (Stage.UPGRADING, seen(flights=700, epoch=5, version=1)),
        (Stage.RECOVERED, seen(flights=700)),
        (Stage.TAKING_OVER, seen(flights=700, epoch=1)),
        (Stage.BREAKING, seen(flights=700)),
        (Stage.RESTARTING, seen(flights=900, epoch=1)),
        (Stage.RESTARTED, seen(flights=900, scored=899)),
        (Stage.RESTARTED, seen(flights=899, scored=900)),
        (Stage.FINISHED, seen(flights=900, scored=900)),
    ],
    ids=[
        "no kill while there is no driver pod",
        "no recovery before a later driver has committed",
        "no upgrade before version 2 has written, whatever restarts in between",
        "no second kill before a standby is ready",
        "no takeover before the standby has committed",
        "no version 2 before the broken one is refused",
        "no end of the cold upgrade before its driver has committed",
        "no end before the carriers have counted the last flight",
        "no end while a flight of the ledger may still come",
        "nothing after the end",
    ],
)
def test_the_story_waits(stage: Stage, look: Seen) -> None:
    state = in_stage(stage)

    assert story.advance(state, look) == (state, Action.WAIT)


def test_input_that_ended_with_a_flight_missing_is_compared_all_the_same() -> None:
    quiet = replace(seen(100, flights=899, scored=900), last_commit_at=START + timedelta(seconds=70))

    _, action = story.advance(in_stage(Stage.RESTARTED), quiet)

    assert action is Action.FINISH


@pytest.mark.parametrize(
    ("stage", "limit_s", "words"),
    [
        (Stage.STARTING, 300, "the first commit of the job"),
        (Stage.STREAMING, 120, "the next commit"),
        (Stage.RECOVERING, 180, "after the driver was killed"),
        (Stage.RECOVERED, 120, "the next commit"),
        (Stage.UPGRADING, 240, "first commit of version 2"),
        (Stage.TAKING_OVER, 180, "of the standby"),
        (Stage.BREAKING, 240, "the refusal"),
        (Stage.RESTARTING, 240, "after the cold upgrade"),
        (Stage.UPGRADED, 120, "12 of 900 flights are out"),
    ],
    ids=str,
)
def test_every_wait_ends_with_a_sentence(stage: Stage, limit_s: float, words: str) -> None:
    early = replace(seen(limit_s, flights=12), last_commit_at=START)
    late = replace(seen(limit_s + 1, flights=12), last_commit_at=START)

    assert story.overdue(in_stage(stage), early) is None
    assert words in (story.overdue(in_stage(stage), late) or "")


@pytest.mark.parametrize("stage", [Stage.UPGRADING, Stage.RESTARTING])
def test_input_that_ends_before_the_new_version_is_there_is_told_at_once(stage: Stage) -> None:
    words = story.overdue(in_stage(stage), seen(flights=TOTAL, scored=TOTAL)) or ""

    assert "before the changed version was there" in words
    assert "--files-per-batch" in words
    assert story.overdue(in_stage(stage), seen(flights=TOTAL, scored=TOTAL - 1)) is None


def test_nothing_is_overdue_at_the_end() -> None:
    assert story.overdue(in_stage(Stage.FINISHED), seen(9999)) is None
