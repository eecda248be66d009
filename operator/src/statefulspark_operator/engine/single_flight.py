"""Single-flight: concurrent callers share one run of a piece of work, and that run begins after each of them has called.

When an operator has started, all jobs of a namespace ask for its savepoint objects in the same moment, and in an upgrade of
all jobs each asks for them again before it deletes one. A list for each would grow with the square of the jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class SingleFlight:
    """SingleFlight of work by name: one that runs, and one that whoever asks meanwhile waits for together."""

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
