"""What the operator remembers between two passes: of each job, of savepoint objects, and of Secrets.

Everything here may be lost at any time; it costs reads. It is never the reason for an action, but for what a driver has said
of an operation that ended: that stays so, and whoever has forgotten it learns it from the pod's end.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from statefulspark.contract.api import Operation

from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.lifecycle import fault
from statefulspark_operator.lifecycle.decision import STEADY
from statefulspark_operator.lifecycle.savepoints.objects import SavepointObject
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
        ignored: Checksum of what the ConfigMap has, if the spec pins another content, which is kept; None otherwise.
    """

    asked: str
    outcome: str | Rejection
    at: datetime
    is_final: bool = False
    changes: int | None = None
    ignored: str | None = None

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


@dataclass(frozen=True, slots=True)
class TriedPods:
    """What the API server said of the pods of a spec, without creating them.

    Attributes:
        change: The job, its generation and the revision.
        refused: Why they are refused; None if they are not.
        at: When.
    """

    change: tuple[str, int, str]
    refused: Rejection | None
    at: datetime

    def is_current(self, change: tuple[str, int, str], now: datetime) -> bool:
        """Tell whether they need not be tried again: a policy or a right may change without the spec."""
        is_final = self.refused is None or not fault.outlasts_waiting(self.refused.reason)
        return self.change == change and (is_final or now - self.at < LONGEST_POLL)


@dataclass(slots=True)
class JobMemory:
    """What is remembered of one job.

    Attributes:
        resync_at: When the cache is compared with the API server again; None before the first pass.
        idle: The last pass, if it had nothing to do.
        revisions: The stored specs that were read last, by the job's identity and their names; they never change.
        tidied: What the job had come to when its unneeded objects were removed last; None before the first time.
        has_failed: Whether the actions of the last pass failed, which its status says.
        code: What was found of the job's code, if it is not in the image.
        ended: The operation whose end a driver has told last: one that has stopped may say it only once.
        tried: The pods that were tried last; None if they have to be tried again.
        applied: Versions of the objects that were applied last, by the job's identity, kind and name; an object that is kept
            as it is has none.
    """

    resync_at: datetime | None = None
    idle: Idle | None = None
    revisions: dict[str, Resource] = field(default_factory=dict)
    tidied: tuple[object, ...] | None = None
    has_failed: bool = False
    code: CheckedCode | None = None
    ended: Operation | None = None
    tried: TriedPods | None = None
    applied: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def schedule_resync(self, key: JobKey, now: datetime) -> datetime:
        """Return when the cache is compared again; jobs are spread, so that they do not come at once."""
        self.resync_at = now + RESYNC_PERIOD * (0.8 + zlib.crc32(str(key).encode()) % 1000 / 2500)
        return self.resync_at


@dataclass(slots=True)
class Memories:
    """The memory of every job."""

    _jobs: dict[JobKey, JobMemory] = field(default_factory=dict)

    def get(self, key: JobKey) -> JobMemory:
        """Return the memory of a job."""
        return self._jobs.setdefault(key, JobMemory())

    def forget(self, key: JobKey) -> None:
        """Drop the memory of a job that does not exist any more."""
        self._jobs.pop(key, None)


SECRET_TTL = timedelta(minutes=10)
"""How long values are used that nothing speaks against."""
STORAGE_SECRET_TTL = timedelta(seconds=5)
"""The same of credentials and authorities of a storage, which accepts old ones after their Secret was changed: so long that
the jobs of a namespace which start together read it once."""
REREAD_AFTER = timedelta(seconds=30)
"""Values that were read more recently than this are not read again, whatever speaks against them."""

SecretKey = tuple[str, str]
"""Namespace and name; for the token of a job its uid and the name."""


@dataclass(slots=True)
class SecretCache:
    """The values, and when they were read."""

    _read: dict[SecretKey, tuple[datetime, Mapping[str, str]]] = field(default_factory=dict)

    def find(self, key: SecretKey, now: datetime, ttl: timedelta = SECRET_TTL) -> Mapping[str, str] | None:
        """Return the values of a Secret; None if it has to be read."""
        kept = self._read.get(key)
        return kept[1] if kept is not None and now - kept[0] < ttl else None

    def keep(self, key: SecretKey, values: Mapping[str, str], now: datetime) -> None:
        """Keep the values of a Secret that was read."""
        self._read[key] = (now, values)

    def invalidate(self, key: SecretKey, now: datetime) -> None:
        """Have a Secret that does not work read again, unless it was read a moment ago."""
        kept = self._read.get(key)
        if kept is not None and now - kept[0] >= REREAD_AFTER:
            del self._read[key]

    def forget(self, is_of: Callable[[str, str], bool]) -> None:
        """Drop the Secrets whose key has two parts for which a predicate holds."""
        for key in [key for key in self._read if is_of(*key)]:
            del self._read[key]

    def __len__(self) -> int:
        """Return the number of Secrets whose values are kept."""
        return len(self._read)


@dataclass(slots=True)
class SingleFlight:
    """Lets concurrent callers share one run of a piece of work, which begins after each of them has called.

    When an operator has started, all jobs of a namespace ask for its savepoint objects in the same moment, and in an upgrade
    of all jobs each asks for them again before it deletes one. A list for each would grow with the square of the jobs.
    """

    _running: dict[str, asyncio.Task[bool]] = field(default_factory=dict)
    _next: dict[str, asyncio.Task[bool]] = field(default_factory=dict)

    async def join(self, name: str, work: Callable[[], Awaitable[bool]]) -> bool:
        """Return the result of a run that begins after this call; runs of one name never overlap."""
        coming = self._next.get(name)
        if coming is None:
            coming = asyncio.create_task(self._run(name, work, self._running.get(name)))
            self._next[name] = coming
            coming.add_done_callback(lambda done: self._forget(name, done))
        return await asyncio.shield(coming)

    async def _run(self, name: str, work: Callable[[], Awaitable[bool]], before: asyncio.Task[bool] | None) -> bool:
        if before is not None:
            await asyncio.wait({before})
        self._running[name] = self._next.pop(name)
        return await work()

    def _forget(self, name: str, done: asyncio.Task[bool]) -> None:
        for tasks in (self._running, self._next):
            if tasks.get(name) is done:
                del tasks[name]


LIST_TTL = timedelta(minutes=5)
"""How long the cached savepoint objects of a namespace are used before they are listed again: a watch does not tell
everything."""


@dataclass(frozen=True, slots=True)
class ParsedSavepoints:
    """The savepoint objects of a namespace, parsed once for all jobs and passes until one of them changes.

    Attributes:
        changes: What `Cache.changes` was.
        by_uid: Version and content of each; None for one that cannot be read.
        everything: All that can be read.
        by_job: The same, by the job that they name.
    """

    changes: int
    by_uid: Mapping[str, tuple[str, SavepointObject | None]]
    everything: tuple[SavepointObject, ...]
    by_job: Mapping[str, Sequence[SavepointObject]]


@dataclass(slots=True)
class SavepointLists:
    """When the savepoint objects of each namespace were listed last, whether the cluster knows them, and their content."""

    parsed: dict[str, ParsedSavepoints] = field(default_factory=dict)
    single_flight: SingleFlight = field(default_factory=SingleFlight)
    turns: dict[tuple[str, str], str] = field(default_factory=dict)
    """By namespace and job, the object for which something was done on storage last."""
    _listed: dict[str, tuple[datetime, bool]] = field(default_factory=dict)

    def forget(self, namespace: str) -> None:
        """Have the objects of a namespace listed again."""
        self._listed.pop(namespace, None)

    def is_current(self, namespace: str, now: datetime) -> bool:
        """Tell whether the objects of a namespace were listed a short time ago."""
        return namespace in self._listed and now - self._listed[namespace][0] < LIST_TTL

    def is_known(self, namespace: str) -> bool:
        """Tell whether the cluster knew the kind when the objects of a namespace were listed."""
        return self._listed[namespace][1]

    def keep(self, namespace: str, *, now: datetime, is_known: bool) -> None:
        """Note that the objects of a namespace were listed."""
        self._listed[namespace] = (now, is_known)


@dataclass(slots=True)
class FreedBytes:
    """Sizes of all files that this operator has deleted on storage.

    Attributes:
        pruned: In folders of jobs without a driver.
        purged: With their job, as `deletionPolicy: Delete` says.
        disposed: Of savepoints whose objects were deleted, by a person or by the retention of a schedule.
    """

    pruned: int = 0
    purged: int = 0
    disposed: int = 0
