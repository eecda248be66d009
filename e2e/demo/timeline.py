"""What happened, when: commits and marks, and the figures that follow from them. Pure.

Times of commits are those that the sink wrote down, by the driver's clock; times of marks are the demo's. On one
machine both are the same clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise

LATE_AFTER_S = 10.0
"""Output becomes visible with a checkpoint, every 5 s; a gap of two is nothing out of the ordinary."""


class MarkKind(StrEnum):
    """What a mark in the timeline is about."""

    APPLIED = "applied"
    KILLED = "killed"
    GUARDED = "guarded"
    """A standby is kept from now on."""
    KILLED_GUARDED = "killed beside a standby"
    BROKEN = "broken"
    """A version that cannot start was applied."""
    BLOCKED = "blocked"
    CHANGED = "changed"
    CHANGED_COLD = "changed cold"
    PHASE = "phase"
    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    EVENT = "event"
    FINISHED = "finished"


_KILLS = frozenset({MarkKind.KILLED, MarkKind.KILLED_GUARDED})


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at one moment.

    Attributes:
        at: When.
        kind: What it is about.
        text: A few words for people.
    """

    at: datetime
    kind: MarkKind
    text: str


@dataclass(frozen=True, slots=True)
class CommitPoint:
    """One commit of one query.

    Attributes:
        at: When its output became visible, which a checkpoint makes it.
        query: The query.
        batch_id: The batch.
        epoch: Of the driver that worked on it.
        rows: Rows of output.
        written_at: When its rows were written, which was before; None if it has no file.
    """

    at: datetime
    query: str
    batch_id: int
    epoch: int
    rows: int
    written_at: datetime | None = None

    @property
    def worked_until(self) -> datetime:
        """When the batch was done."""
        return self.written_at or self.at


@dataclass(frozen=True, slots=True)
class Pause:
    """A time without output: from the last that was visible before to the first of a later driver."""

    began_at: datetime
    ended_at: datetime
    epoch: int
    """Of the driver that ended it."""

    @property
    def seconds(self) -> float:
        """How long it was."""
        return (self.ended_at - self.began_at).total_seconds()


@dataclass(frozen=True, slots=True)
class Timeline:
    """Everything that was seen, each sequence in the order of time."""

    commits: tuple[CommitPoint, ...]
    marks: tuple[Mark, ...]

    def first(self, kind: MarkKind) -> datetime | None:
        """Return the time of the first mark of a kind."""
        return next((mark.at for mark in self.marks if mark.kind is kind), None)

    def recovery_s(self) -> float | None:
        """Return the seconds without output when the driver was killed, and a cold one followed."""
        return _seconds(self.pause(MarkKind.KILLED))

    def standby_recovery_s(self) -> float | None:
        """Return the seconds without output when a driver was killed whose standby was ready."""
        return _seconds(self.pause(MarkKind.KILLED_GUARDED))

    def upgrade_pause_s(self) -> float | None:
        """Return the seconds without output when version 2 took over, warm."""
        return _seconds(self.pause(MarkKind.CHANGED))

    def cold_upgrade_pause_s(self) -> float | None:
        """Return the seconds without output when a change was carried out cold."""
        return _seconds(self.pause(MarkKind.CHANGED_COLD))

    def pause(self, kind: MarkKind) -> Pause | None:
        """Return the pause after a mark; None if the mark, or output of a later driver, is missing.

        After a kill, what the next driver finds of the one before, and makes visible, neither begins nor ends the pause.
        """
        at = self.first(kind)
        if at is None:
            return None
        epoch = max((point.epoch for point in self.commits if point.at <= at), default=0)
        after = min((p for p in self.commits if p.epoch > epoch and p.at > at), key=lambda p: p.at, default=None)
        if after is None:
            return None
        until = at if kind in _KILLS else after.at
        before = [point.at for point in self.commits if point.epoch <= epoch and point.at <= until]
        return Pause(max(before, default=at), after.at, after.epoch)

    def bad_upgrade_gap_s(self) -> float | None:
        """Return the longest time between two outputs while a version that cannot start was tried."""
        began_at, ended_at = self.first(MarkKind.BROKEN), self.first(MarkKind.BLOCKED)
        if began_at is None or ended_at is None:
            return None
        times = [point.at for point in self.commits]
        before = max((at for at in times if at <= began_at), default=began_at)
        after = min((at for at in times if at >= ended_at), default=ended_at)
        inside = sorted(at for at in times if before <= at <= after)
        return max(((later - at).total_seconds() for at, later in pairwise(inside)), default=0.0)

    def bad_upgrade_downtime_s(self) -> float | None:
        """Return by how much output was late meanwhile: a gap counts beyond the time of two checkpoints."""
        gap_s = self.bad_upgrade_gap_s()
        return None if gap_s is None else max(0.0, gap_s - LATE_AFTER_S)


def _seconds(pause: Pause | None) -> float | None:
    return pause.seconds if pause is not None else None


def throughput(commits: Sequence[CommitPoint], start: datetime, bin_s: float) -> tuple[tuple[float, float], ...]:
    """Return rows per second over time, in bins of equal length.

    A batch's rows are spread evenly over the time since the query's batch before it was done, in the same epoch, since they
    were worked on all that time and not only at the end. The first batch of an epoch is taken to have lasted as long as
    the second one.

    Args:
        commits: Of one query, in the order in which they were worked on.
        start: Second 0.
        bin_s: Length of a bin.

    Returns:
        Middle of the bin in seconds and rows per second, from second 0 to the last commit.
    """
    if not commits:
        return ()
    end_s = (commits[-1].worked_until - start).total_seconds()
    bins = [0.0] * (int(end_s // bin_s) + 1)
    for place, point in enumerate(commits):
        at_s = (point.worked_until - start).total_seconds()
        from_s = max(0.0, at_s - _duration_s(commits, place, otherwise_s=bin_s))
        _spread(bins, bin_s, rows=point.rows, from_s=from_s, to_s=at_s)
    return tuple(((place + 0.5) * bin_s, rows / bin_s) for place, rows in enumerate(bins))


def _duration_s(commits: Sequence[CommitPoint], place: int, *, otherwise_s: float) -> float:
    """Return how long a batch was worked on: since the commit before it, or else until the one after it."""
    point = commits[place]
    if place and commits[place - 1].epoch == point.epoch:
        return (point.worked_until - commits[place - 1].worked_until).total_seconds()
    if place + 1 < len(commits) and commits[place + 1].epoch == point.epoch:
        return (commits[place + 1].worked_until - point.worked_until).total_seconds()
    return otherwise_s


def _spread(bins: list[float], bin_s: float, *, rows: int, from_s: float, to_s: float) -> None:
    length_s = to_s - from_s
    if length_s <= 0:
        bins[min(int(to_s // bin_s), len(bins) - 1)] += rows
        return
    for place in range(int(from_s // bin_s), min(int(to_s // bin_s), len(bins) - 1) + 1):
        overlap_s = min(to_s, (place + 1) * bin_s) - max(from_s, place * bin_s)
        bins[place] += rows * max(0.0, overlap_s) / length_s
