"""What happened, when: commits and marks, and the figures that follow from them. Pure.

Times of commits are those that the sink wrote down, by the driver's clock; times of marks are the demo's. On one
machine both are the same clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class MarkKind(StrEnum):
    """What a mark in the timeline is about."""

    APPLIED = "applied"
    KILLED = "killed"
    CHANGED = "changed"
    PHASE = "phase"
    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    EVENT = "event"
    FINISHED = "finished"


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
    """One commit of one query."""

    at: datetime
    query: str
    batch_id: int
    epoch: int
    rows: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """Everything that was seen, each sequence in the order of time."""

    commits: tuple[CommitPoint, ...]
    marks: tuple[Mark, ...]
    first_version_2_epoch: int | None = None

    def first(self, kind: MarkKind) -> datetime | None:
        """Return the time of the first mark of a kind."""
        return next((mark.at for mark in self.marks if mark.kind is kind), None)

    def recovery_s(self) -> float | None:
        """Return the seconds from the kill to the first commit of a later driver, of whichever query."""
        killed_at, first = self.first(MarkKind.KILLED), self.first_after_kill()
        return (first.at - killed_at).total_seconds() if killed_at and first else None

    def first_after_kill(self) -> CommitPoint | None:
        """Return the first commit of a later driver than the one that was killed."""
        killed_at = self.first(MarkKind.KILLED)
        if killed_at is None:
            return None
        killed_epoch = max((point.epoch for point in self.commits if point.at <= killed_at), default=0)
        later = [point for point in self.commits if point.epoch > killed_epoch and point.at > killed_at]
        return min(later, key=lambda point: point.at, default=None)

    def upgrade_pause_s(self) -> float | None:
        """Return the seconds without output: from the last commit before version 2 to its first one."""
        epoch = self.first_version_2_epoch
        if epoch is None:
            return None
        before = [point.at for point in self.commits if point.epoch < epoch]
        after = [point.at for point in self.commits if point.epoch >= epoch]
        return (min(after) - max(before)).total_seconds() if before and after else None


def throughput(commits: Sequence[CommitPoint], start: datetime, bin_s: float) -> tuple[tuple[float, float], ...]:
    """Return rows per second over time, in bins of equal length.

    A batch's rows are spread evenly over the time since the query's commit before it in the same epoch, since they
    were worked on all that time and not only at the end. The first batch of an epoch is taken to have lasted as long as
    the second one.

    Args:
        commits: Of one query, in the order of time.
        start: Second 0.
        bin_s: Length of a bin.

    Returns:
        Middle of the bin in seconds and rows per second, from second 0 to the last commit.
    """
    if not commits:
        return ()
    end_s = (commits[-1].at - start).total_seconds()
    bins = [0.0] * (int(end_s // bin_s) + 1)
    for place, point in enumerate(commits):
        at_s = (point.at - start).total_seconds()
        from_s = max(0.0, at_s - _duration_s(commits, place, otherwise_s=bin_s))
        _spread(bins, bin_s, rows=point.rows, from_s=from_s, to_s=at_s)
    return tuple(((place + 0.5) * bin_s, rows / bin_s) for place, rows in enumerate(bins))


def _duration_s(commits: Sequence[CommitPoint], place: int, *, otherwise_s: float) -> float:
    """Return how long a batch was worked on: since the commit before it, or else until the one after it."""
    point = commits[place]
    if place and commits[place - 1].epoch == point.epoch:
        return (point.at - commits[place - 1].at).total_seconds()
    if place + 1 < len(commits) and commits[place + 1].epoch == point.epoch:
        return (commits[place + 1].at - point.at).total_seconds()
    return otherwise_s


def _spread(bins: list[float], bin_s: float, *, rows: int, from_s: float, to_s: float) -> None:
    length_s = to_s - from_s
    if length_s <= 0:
        bins[min(int(to_s // bin_s), len(bins) - 1)] += rows
        return
    for place in range(int(from_s // bin_s), min(int(to_s // bin_s), len(bins) - 1) + 1):
        overlap_s = min(to_s, (place + 1) * bin_s) - max(from_s, place * bin_s)
        bins[place] += rows * max(0.0, overlap_s) / length_s
