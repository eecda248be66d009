"""The operator's memory of each job between two passes.

Everything here may be lost at any time; it costs reads. It is never the reason for an action, but for what a driver has said
of an operation that ended: that stays so, and whoever has forgotten it learns it from the pod's end.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from statefulspark.contract.api import Operation

from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.lifecycle.decision import STEADY
from statefulspark_operator.lifecycle.situation import Rejection

RESYNC_PERIOD = timedelta(minutes=5)
"""How long the cache of a job is used before it is compared with the API server: a watch does not tell everything."""
LONGEST_POLL = timedelta(seconds=30)
"""The longest time after which a driver is asked again whose job has nothing to do."""


@dataclass(slots=True)
class Idle:
    """A pass that had nothing to do, and would have nothing to do later either, if no fact changes.

    Attributes:
        fingerprint: The facts of the pass that can change without one.
        until: Until when that holds, whatever the time is.
        longest_poll: The longest time after which the driver is asked again.
        polls: How often the facts were the same since.
    """

    fingerprint: tuple[str, ...]
    until: datetime
    longest_poll: timedelta
    polls: int = 0

    def holds(self, fingerprint: tuple[str, ...], now: datetime) -> bool:
        """Tell whether there is still nothing to do."""
        return now < self.until and fingerprint == self.fingerprint

    def next_poll(self, now: datetime) -> timedelta:
        """Return the time after which the driver is asked again; it grows while nothing changes."""
        wait = min(STEADY * (1 << min(self.polls, 8)), self.longest_poll, self.until - now)
        self.polls += 1
        return wait


@dataclass(frozen=True, slots=True)
class CheckedCode:
    """What a look at code outside of the image found.

    Attributes:
        asked: What names the code, as text.
        outcome: Its checksum, or why it cannot run.
        at: When.
        is_final: Whether the same look can find nothing else.
        changes: Number of changes that the watch of a ConfigMap had shown before the look; None without an open watch.
    """

    asked: str
    outcome: str | Rejection
    at: datetime
    is_final: bool = False
    changes: int | None = None

    def is_current(self, now: datetime, changes: int | None) -> bool:
        """Tell whether it need not be looked at again.

        Args:
            now: UTC.
            changes: Number of changes that the watch has shown by now; None without an open watch.
        """
        if self.is_final:
            return True
        if changes is not None:
            return changes == self.changes and now - self.at < RESYNC_PERIOD
        return now - self.at < LONGEST_POLL

    @property
    def is_watched(self) -> bool:
        """Whether an event tells if another look would find something else."""
        return self.is_final or self.changes is not None


@dataclass(slots=True)
class JobMemory:
    """What is remembered of one job.

    Attributes:
        resync_at: When the cache is compared with the API server again; None before the first pass.
        idle: The last pass, if it had nothing to do.
        revision: The stored spec that was read last, by its name; it never changes.
        tidied: What the job had come to when its unneeded objects were removed last; None before the first time.
        has_failed: Whether the actions of the last pass failed, which its status says.
        code: What was found of the job's code, if it is not in the image.
        ended: The operation whose end a driver has told last: one that has stopped may say it only once.
        applied: Versions of the objects that were applied last, by the job's identity, kind and name.
    """

    resync_at: datetime | None = None
    idle: Idle | None = None
    revision: tuple[str, Resource] | None = None
    tidied: tuple[object, ...] | None = None
    has_failed: bool = False
    code: CheckedCode | None = None
    ended: Operation | None = None
    applied: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def schedule_resync(self, key: JobKey, now: datetime) -> datetime:
        """Return when the cache is compared again; jobs are spread, so that they do not come at once."""
        self.resync_at = now + RESYNC_PERIOD * (0.8 + zlib.crc32(str(key).encode()) % 1000 / 2500)
        return self.resync_at


@dataclass(slots=True)
class Memories:
    """The memory of every job."""

    _jobs: dict[JobKey, JobMemory] = field(default_factory=dict)

    def of(self, key: JobKey) -> JobMemory:
        """Return the memory of a job."""
        return self._jobs.setdefault(key, JobMemory())

    def forget(self, key: JobKey) -> None:
        """Drop the memory of a job that does not exist any more."""
        self._jobs.pop(key, None)
