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


def test_the_story_kills_and_upgrades_once_each_and_then_finishes() -> None:
    looks = [
        seen(0, epoch=0),
        seen(10, flights=10),
        seen(20, flights=299),
        seen(30, flights=300),
        seen(31, flights=310),
        seen(40, flights=310),
        seen(45, flights=320, epoch=2),
        seen(60, flights=600, epoch=2),
        seen(61, flights=610, epoch=2),
        seen(70, flights=620, epoch=3, version=2),
        seen(90, flights=900, epoch=3, version=2, scored=880),
        seen(91, flights=900, epoch=3, version=2, scored=900),
    ]
    state, actions = story.begin(TOTAL, START), []
    for look in looks:
        state, action = story.advance(state, look)
        actions.append(action)

    assert [action for action in actions if action is not Action.WAIT] == [
        Action.KILL_DRIVER,
        Action.CHANGE_JOB,
        Action.FINISH,
    ]
    assert state.stage is Stage.FINISHED


@pytest.mark.parametrize(
    ("stage", "look"),
    [
        (Stage.STREAMING, replace(seen(flights=400), driver_pod=None)),
        (Stage.RECOVERING, seen(flights=500, epoch=1)),
        (Stage.UPGRADING, seen(flights=700, epoch=5, version=1)),
        (Stage.UPGRADED, seen(flights=900, scored=899)),
        (Stage.UPGRADED, seen(flights=899, scored=900)),
        (Stage.FINISHED, seen(flights=900, scored=900)),
    ],
    ids=[
        "no kill while there is no driver pod",
        "no recovery before a later driver has committed",
        "no upgrade before version 2 has written, whatever restarts in between",
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

    _, action = story.advance(in_stage(Stage.UPGRADED), quiet)

    assert action is Action.FINISH


@pytest.mark.parametrize(
    ("stage", "limit_s", "words"),
    [
        (Stage.STARTING, 300, "the first commit of the job"),
        (Stage.STREAMING, 120, "the next commit"),
        (Stage.RECOVERING, 180, "after the driver was killed"),
        (Stage.RECOVERED, 120, "the next commit"),
        (Stage.UPGRADING, 240, "first commit of version 2"),
        (Stage.UPGRADED, 120, "12 of 900 flights are out"),
    ],
    ids=str,
)
def test_every_wait_ends_with_a_sentence(stage: Stage, limit_s: float, words: str) -> None:
    early = replace(seen(limit_s, flights=12), last_commit_at=START)
    late = replace(seen(limit_s + 1, flights=12), last_commit_at=START)

    assert story.overdue(in_stage(stage), early) is None
    assert words in (story.overdue(in_stage(stage), late) or "")


def test_nothing_is_overdue_at_the_end() -> None:
    assert story.overdue(in_stage(Stage.FINISHED), seen(9999)) is None
