"""What happens when: the demo as a small state machine, without clock or I/O.

The job starts and streams. Its driver is killed, and a cold one follows; then a standby is kept, and it is killed again. A
broken version is applied and refused, version 2 takes over warm, and one more change is carried out cold. It ends when every
flight has come out of both queries. Every wait has a deadline, and a deadline has a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum, auto

KILL_AT = 0.1
KILL_GUARDED_AT = 0.2
BREAK_AT = 0.3
UPGRADE_AT = 0.4
UPGRADE_COLD_AT = 0.65
"""Shares of the flights at which each step is taken, or later, when what it needs is there."""


class Stage(StrEnum):
    """How far the story has come; the value is what a person reads."""

    STARTING = "starting"
    STREAMING = "streaming"
    RECOVERING = "recovering from the kill"
    RECOVERED = "recovered"
    TAKING_OVER = "the standby takes over"
    TAKEN_OVER = "the standby has taken over"
    BREAKING = "a broken version is tried"
    BLOCKED = "the broken version is blocked"
    UPGRADING = "upgrading to version 2"
    UPGRADED = "version 2 runs"
    RESTARTING = "upgrading cold"
    RESTARTED = "upgraded cold"
    FINISHED = "finished"


class Action(Enum):
    """What has to be done now."""

    WAIT = auto()
    KILL_DRIVER = auto()
    """Delete the driver's pod without grace."""
    KEEP_STANDBY = auto()
    """Let a standby be kept from now on."""
    KILL_GUARDED = auto()
    """Delete the pod of a driver that has a standby."""
    BREAK_JOB = auto()
    """Put a version into the spec that cannot start."""
    CHANGE_JOB = auto()
    """Put version 2 into the spec."""
    CHANGE_COLD = auto()
    """Change the spec once more, without a standby of the new revision."""
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
        has_standby: A standby of the running revision is ready.
        is_blocked: The revision in the spec was refused.
    """

    at: datetime
    flights: int = 0
    scored_flights: int = 0
    epoch: int = 0
    version: int = 1
    driver_pod: str | None = None
    last_commit_at: datetime | None = None
    has_standby: bool = False
    is_blocked: bool = False


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

    def is_at(self, seen: Seen, share: float) -> bool:
        """Tell whether a share of all flights is committed."""
        return seen.flights >= int(self.total * share)


def begin(total: int, now: datetime, patience: float = 1.0) -> Story:
    """Start the story when the resource is applied."""
    return Story(total, Stage.STARTING, now, deadlines=Deadlines().times(patience))


def advance(story: Story, seen: Seen) -> tuple[Story, Action]:
    """Take what is seen and say what is next; at most one action per look."""
    found = _next(story, seen)
    if found is None:
        return story, Action.WAIT
    stage, action = found
    return replace(story, stage=stage, since=seen.at, epoch=seen.epoch), action


def _next(story: Story, seen: Seen) -> tuple[Stage, Action] | None:
    return _next_of_deaths(story, seen) or _next_of_changes(story, seen)


def _next_of_deaths(story: Story, seen: Seen) -> tuple[Stage, Action] | None:
    match story.stage:
        case Stage.STARTING if seen.epoch > 0:
            return Stage.STREAMING, Action.WAIT
        case Stage.STREAMING if story.is_at(seen, KILL_AT) and seen.driver_pod:
            return Stage.RECOVERING, Action.KILL_DRIVER
        case Stage.RECOVERING if seen.epoch > story.epoch:
            return Stage.RECOVERED, Action.KEEP_STANDBY
        case Stage.RECOVERED if story.is_at(seen, KILL_GUARDED_AT) and seen.driver_pod and seen.has_standby:
            return Stage.TAKING_OVER, Action.KILL_GUARDED
        case Stage.TAKING_OVER if seen.epoch > story.epoch:
            return Stage.TAKEN_OVER, Action.WAIT
        case _:
            return None


def _next_of_changes(story: Story, seen: Seen) -> tuple[Stage, Action] | None:
    match story.stage:
        case Stage.TAKEN_OVER if story.is_at(seen, BREAK_AT):
            return Stage.BREAKING, Action.BREAK_JOB
        case Stage.BREAKING if seen.is_blocked:
            return Stage.BLOCKED, Action.WAIT
        case Stage.BLOCKED if story.is_at(seen, UPGRADE_AT):
            return Stage.UPGRADING, Action.CHANGE_JOB
        case Stage.UPGRADING if seen.version > 1:
            return Stage.UPGRADED, Action.WAIT
        case Stage.UPGRADED if story.is_at(seen, UPGRADE_COLD_AT):
            return Stage.RESTARTING, Action.CHANGE_COLD
        case Stage.RESTARTING if seen.epoch > story.epoch:
            return Stage.RESTARTED, Action.WAIT
        case Stage.RESTARTED if _is_all_out(story, seen):
            return Stage.FINISHED, Action.FINISH
        case _:
            return None


def overdue(story: Story, seen: Seen) -> str | None:
    """Say what did not happen in time, or None while everything is in time."""
    if story.stage in (Stage.UPGRADING, Stage.RESTARTING) and _is_all_out(story, seen):
        return (
            f"All {story.total:,} flights were counted before the changed version was there, so it has nothing to go on "
            "with. Give fewer of them to each batch with --files-per-batch."
        )
    waited = seen.at - story.since
    limits = story.deadlines
    awaited = {
        Stage.STARTING: (limits.start, "the first commit of the job"),
        Stage.RECOVERING: (limits.recovery, "the first commit after the driver was killed"),
        Stage.TAKING_OVER: (limits.recovery, "the first commit of the standby after the driver was killed"),
        Stage.BREAKING: (limits.upgrade, "the refusal of the broken version"),
        Stage.UPGRADING: (limits.upgrade, "the first commit of version 2 after the spec was changed"),
        Stage.RESTARTING: (limits.upgrade, "the first commit after the cold upgrade"),
    }.get(story.stage)
    if awaited is not None:
        return _late(waited, *awaited)
    if story.stage is Stage.FINISHED:
        return None
    idle = seen.at - max(story.since, seen.last_commit_at or story.since)
    return _late(idle, limits.commit, f"the next commit; {seen.flights:,} of {story.total:,} flights are out")


def _is_all_out(story: Story, seen: Seen) -> bool:
    """Tell whether nothing more will come: every flight is out, or the input ended and some are missing for good."""
    if seen.scored_flights < story.total:
        return False
    idle = seen.at - (seen.last_commit_at or seen.at)
    return seen.flights >= story.total or idle > story.deadlines.settle


def _late(waited: timedelta, limit: timedelta, what: str) -> str | None:
    return f"Waited {limit.total_seconds():.0f} s for {what}." if waited > limit else None
