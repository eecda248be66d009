"""Watches of the ConfigMaps that jobs name as their code: one for each name, without what is in it.

A watch only says *that* something has changed. Who is woken reads the ConfigMap itself, so a change that is shown late or
twice costs a read, and one that is not shown is found when the watch is opened again. Whatever has no watch, because the
operator may not watch or watches many already, is looked at every half minute instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from statefulspark import errors

from statefulspark_operator.cluster.gateway import JobKey

_LOG = logging.getLogger("statefulspark.watches")

MOST = 50
"""Watches that are open at the same time; each takes a connection of those that requests need, too."""
REFUSED_WAIT_S = 600.0
"""How long a right that is missing is not asked for again."""
LONGEST_WAIT_S = 30.0
SHORTEST_WAIT_S = 0.2
"""Between two watches of one name, also if the API server ends each at once."""

Open = Callable[[str, str], AsyncIterator[str]]
"""Opens the watch of a namespace and a name: an empty text when it is open, then the version with each change."""


@dataclass(slots=True)
class _Watch:
    """One ConfigMap.

    Attributes:
        jobs: Who names it.
        task: Keeps its watch open.
        changes: Number of changes that were shown.
        is_open: Whether changes are shown.
        version: The version that was shown last; None before the first.
    """

    jobs: set[JobKey] = field(default_factory=set)
    task: asyncio.Task[None] | None = None
    changes: int = 0
    is_open: bool = False
    version: str | None = None


class OpenWatches:
    """Watches that are opened when a job names a ConfigMap, and closed when none does any more."""

    def __init__(self, open_watch: Open, wake: Callable[[JobKey], None]) -> None:
        """Open nothing yet.

        Args:
            open_watch: Opens a watch.
            wake: Requests a pass of a job.
        """
        self._open, self._wake = open_watch, wake
        self._watches: dict[tuple[str, str], _Watch] = {}
        self._names: dict[JobKey, str] = {}

    def follow(self, key: JobKey, name: str | None) -> int | None:
        """Have a job woken when a ConfigMap of its namespace changes, and no other one any more.

        Args:
            key: The job.
            name: The ConfigMap; None if the job names none, or is gone.

        Returns:
            A number that grows with every change that was shown; None if none is shown, because there is no open watch.
        """
        before = self._names.get(key)
        if before is not None and before != name:
            del self._names[key]
            left = self._watches[key.namespace, before]
            left.jobs.discard(key)
            if not left.jobs:
                del self._watches[key.namespace, before]
                if left.task is not None:
                    left.task.cancel()
        if name is None:
            return None
        watch = self._watches.get((key.namespace, name))
        if watch is None:
            if len(self._watches) >= MOST:
                return None
            watch = self._watches[key.namespace, name] = _Watch()
            opening = self._keep_open(key.namespace, name, watch)
            watch.task = asyncio.create_task(opening, name=f"watch {key.namespace}/{name}")
        watch.jobs.add(key)
        self._names[key] = name
        return watch.changes if watch.is_open else None

    async def close(self) -> None:
        """Close all watches."""
        tasks = [watch.task for watch in self._watches.values() if watch.task is not None]
        self._watches.clear()
        self._names.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_open(self, namespace: str, name: str, watch: _Watch) -> None:
        failures = 0
        try:
            while True:
                wait_s = SHORTEST_WAIT_S
                try:
                    # Until the API server ends the watch. Its opening counts as a change: some may have been missed.
                    async for version in self._open(namespace, name):
                        watch.is_open = True
                        if version != watch.version:
                            self._tell(watch)
                        watch.version = version or watch.version
                    failures = 0
                except errors.StateUnknownError as error:
                    wait_s = REFUSED_WAIT_S
                    _LOG.warning("ConfigMaps not watched", extra={"reason": error.reason, "error": error.message})
                    self._lose(watch)
                except errors.StatefulSparkError as error:
                    wait_s = min(float(1 << min(failures, 10)), LONGEST_WAIT_S)
                    failures += 1
                    _LOG.debug("watch ended", extra={"reason": error.reason, "error": error.message})
                    self._lose(watch)
                await asyncio.sleep(wait_s)
        finally:
            watch.is_open = False

    def _lose(self, watch: _Watch) -> None:
        """Have the jobs looked at now and then instead."""
        was_open, watch.is_open = watch.is_open, False
        if was_open:
            self._tell(watch)

    def _tell(self, watch: _Watch) -> None:
        watch.changes += 1
        for key in watch.jobs:
            self._wake(key)
