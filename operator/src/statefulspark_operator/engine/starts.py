"""Which jobs wait for their turn to start a driver, and whose turn it is: `lifecycle/pace.py` says how many, this says who.

A job joins the line in the pass that would start its driver, so its storage can be read and nothing else holds it up. First
come the jobs whose driver was lost, then new jobs and those that fail again and again; within each of the two, namespaces
take turns. A job looks again at the time that it was told, from the cache and without storage. Each pass of any job calls
those whose turn has come. A turn expires, so a job that cannot start holds up nobody.

The line is in memory only. The next operator recalls from the statuses which starts were made, and keeps the same pace.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.engine.turns import FairShare
from statefulspark_operator.lifecycle.pace import Pace

TURN_LASTS = timedelta(seconds=30)
"""How long a job that was called may start without asking again."""


@dataclass(slots=True)
class _Line:
    """Jobs that wait, by namespace, in the order in which they came."""

    jobs: dict[str, dict[JobKey, None]] = field(default_factory=dict)
    share: FairShare = field(default_factory=FairShare)

    @property
    def length(self) -> int:
        """Number of jobs in it."""
        return sum(map(len, self.jobs.values()))

    def add(self, key: JobKey) -> None:
        self.jobs.setdefault(key.namespace, {})[key] = None

    def remove(self, key: JobKey) -> None:
        waiting = self.jobs.get(key.namespace, {})
        if key not in waiting:
            return
        del waiting[key]
        if not waiting:
            del self.jobs[key.namespace]
            self.share.forget_others(self.jobs)

    def next(self) -> JobKey:
        namespace = self.share.choose(self.jobs)
        self.share.charge(namespace, 1.0)
        return next(iter(self.jobs[namespace]))


@dataclass(slots=True)
class Starts:
    """The starts of all jobs.

    Attributes:
        pace: How many drivers may start in a time; None for any number.
        is_complete: Whether the starts before this operator began were recalled.
    """

    pace: Pace | None = None
    is_complete: bool = False
    _lost: _Line = field(default_factory=_Line)
    _others: _Line = field(default_factory=_Line)
    _due: dict[JobKey, datetime] = field(default_factory=dict)
    """The jobs in both lines, and when each was told to look again."""
    _called: dict[JobKey, datetime] = field(default_factory=dict)

    def recall(self, starts: Iterable[datetime]) -> None:
        """Count starts that were made before this operator began."""
        self.is_complete = True
        if self.pace is not None:  # Without a pace nothing is read: the starts may be a generator over all statuses.
            self.pace = functools.reduce(Pace.spend, sorted(starts), self.pace)

    def call(self, now: datetime) -> tuple[JobKey, ...]:
        """Return the jobs whose turn has come; they have left the line.

        Args:
            now: UTC.
        """
        called = []
        self._bound(now)
        while self.pace is not None and self._due and self.pace.due_at(now, ahead=0) <= now:
            key = (self._lost if self._lost.jobs else self._others).next()
            self.leave(key)
            self._called[key] = now
            self.pace = self.pace.spend(now)
            called.append(key)
        return tuple(called)

    def due_at(self, key: JobKey, now: datetime) -> datetime | None:
        """Return when a job that waits has to look again; None if it does not wait, or its turn has come.

        Args:
            key: The job.
            now: UTC.
        """
        due_at = self._due.get(key)
        if due_at is None or due_at > now or self.pace is None:
            return due_at
        # Others have come before it. Those who are late look again one after the other, at the pace of the starts.
        self._due[key] = self.pace.due_at(now, ahead=len(self._due) - 1)
        return self._due[key]

    def ask(self, key: JobKey, now: datetime, *, is_lost: bool) -> datetime | None:
        """Return when a start has to look again; None lets it begin, and counts it.

        Args:
            key: The job.
            now: UTC.
            is_lost: Whether its driver was lost, so that it comes before the others.
        """
        self._bound(now)
        if self.pace is None:
            return None
        called_at = self._called.pop(key, None)
        if called_at is not None and now - called_at <= TURN_LASTS:
            return None
        if not self._due and self.pace.due_at(now, ahead=0) <= now:
            self.pace = self.pace.spend(now)
            return None
        self.leave(key)
        line = self._lost if is_lost else self._others
        ahead = self._lost.length if is_lost else len(self._due)
        line.add(key)
        self._due[key] = self.pace.due_at(now, ahead=ahead)
        return self._due[key]

    def _bound(self, now: datetime) -> None:
        if self.pace is not None:
            self.pace = self.pace.bounded(now)

    def leave(self, key: JobKey) -> None:
        """Take a job out of the line, and its turn from it: it does not start now."""
        self._called.pop(key, None)
        if self._due.pop(key, None) is not None:
            self._lost.remove(key)
            self._others.remove(key)

    @property
    def waiting(self) -> int:
        """Number of jobs that wait for their turn."""
        return len(self._due)
