"""What happens when: the demo as a small state machine, without clock or I/O.

The job starts, streams, loses its driver at a third of the flights, recovers, is changed to version 2 at two thirds,
and ends when every flight has come out of both queries. Every wait has a deadline, and a deadline has a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum, auto


class Stage(StrEnum):
    """How far the story has come; the value is what a person reads."""

    STARTING = "starting"
    STREAMING = "streaming"
    RECOVERING = "recovering from the kill"
    RECOVERED = "recovered"
    UPGRADING = "upgrading to version 2"
    UPGRADED = "version 2 runs"
    FINISHED = "finished"


class Action(Enum):
    """What has to be done now."""

    WAIT = auto()
    KILL_DRIVER = auto()
    """Delete the driver's pod without grace."""
    CHANGE_JOB = auto()
    """Put version 2 into the spec."""
    FINISH = auto()
    """Everything is out; compare."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known at one moment.

    Attributes:
        at: The moment.
        flights: Ledger rows committed so far.
        scored_flights: The last flight that the carriers' newest row has counted.
        epoch: Highest epoch that has committed anything; 0 before the first commit.
        version: Version of the job that wrote the carriers' newest row.
        driver_pod: The pod of the driver, None while there is none.
        last_commit_at: Time of the newest commit of any query.
    """

    at: datetime
    flights: int = 0
    scored_flights: int = 0
    epoch: int = 0
    version: int = 1
    driver_pod: str | None = None
    last_commit_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long each wait may take, and the sentence if it takes longer."""

    start: timedelta = timedelta(minutes=5)
    recovery: timedelta = timedelta(minutes=3)
    upgrade: timedelta = timedelta(minutes=4)
    commit: timedelta = timedelta(minutes=2)
    settle: timedelta = timedelta(seconds=20)

    def times(self, patience: float) -> Deadlines:
        """Return all deadlines multiplied, for a slow machine."""
        return Deadlines(
            start=self.start * patience,
            recovery=self.recovery * patience,
            upgrade=self.upgrade * patience,
            commit=self.commit * patience,
            settle=self.settle * patience,
        )


@dataclass(frozen=True, slots=True)
class Story:
    """Where the story is.

    Attributes:
        total: How many flights there are.
        stage: The present chapter.
        since: When it began.
        epoch: The epoch that had committed last when it began.
    """

    total: int
    stage: Stage
    since: datetime
    epoch: int = 0
    deadlines: Deadlines = Deadlines()

    @property
    def kill_at(self) -> int:
        """Committed flights at which the driver is killed."""
        return self.total // 3

    @property
    def upgrade_at(self) -> int:
        """Committed flights at which the job is changed."""
        return self.total * 2 // 3


def begin(total: int, now: datetime, patience: float = 1.0) -> Story:
    """Start the story when the resource is applied."""
    return Story(total, Stage.STARTING, now, deadlines=Deadlines().times(patience))


def advance(story: Story, seen: Seen) -> tuple[Story, Action]:
    """Take what is seen and say what is next; at most one action per look."""
    match story.stage:
        case Stage.STARTING if seen.epoch > 0:
            return _enter(story, Stage.STREAMING, seen), Action.WAIT
        case Stage.STREAMING if seen.flights >= story.kill_at and seen.driver_pod:
            return _enter(story, Stage.RECOVERING, seen), Action.KILL_DRIVER
        case Stage.RECOVERING if seen.epoch > story.epoch:
            return _enter(story, Stage.RECOVERED, seen), Action.WAIT
        case Stage.RECOVERED if seen.flights >= story.upgrade_at:
            return _enter(story, Stage.UPGRADING, seen), Action.CHANGE_JOB
        case Stage.UPGRADING if seen.version > 1:
            return _enter(story, Stage.UPGRADED, seen), Action.WAIT
        case Stage.UPGRADED if _is_all_out(story, seen):
            return _enter(story, Stage.FINISHED, seen), Action.FINISH
        case _:
            return story, Action.WAIT


def overdue(story: Story, seen: Seen) -> str | None:
    """Say what did not happen in time, or None while everything is in time."""
    waited = seen.at - story.since
    limits = story.deadlines
    match story.stage:
        case Stage.STARTING:
            return _late(waited, limits.start, "the first commit of the job")
        case Stage.RECOVERING:
            return _late(waited, limits.recovery, "the first commit after the driver was killed")
        case Stage.UPGRADING:
            return _late(waited, limits.upgrade, "the first commit of version 2 after the spec was changed")
        case Stage.STREAMING | Stage.RECOVERED | Stage.UPGRADED:
            idle = seen.at - max(story.since, seen.last_commit_at or story.since)
            return _late(idle, limits.commit, f"the next commit; {seen.flights:,} of {story.total:,} flights are out")
        case Stage.FINISHED:
            return None


def _is_all_out(story: Story, seen: Seen) -> bool:
    """Tell whether nothing more will come: every flight is out, or the input ended and some are missing for good."""
    if seen.scored_flights < story.total:
        return False
    idle = seen.at - (seen.last_commit_at or seen.at)
    return seen.flights >= story.total or idle > story.deadlines.settle


def _enter(story: Story, stage: Stage, seen: Seen) -> Story:
    return replace(story, stage=stage, since=seen.at, epoch=seen.epoch)


def _late(waited: timedelta, limit: timedelta, what: str) -> str | None:
    return f"Waited {limit.total_seconds():.0f} s for {what}." if waited > limit else None
