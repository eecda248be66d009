"""Several requests of one call to the S3 adapter: at most so many at a time, and counted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from statefulspark.storage import fsspec_connection

_T = TypeVar("_T")


class CopyCount:
    """Counts finished copies and reports the count.

    Args:
        report: Called with the count after each; never from two threads at once.
    """

    def __init__(self, report: Callable[[int], None] | None) -> None:
        self._report = report
        self._done = 0
        self._lock = threading.Lock()

    async def after(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do one copy, and report that it is done."""
        await work()
        with self._lock:
            self._done += 1
            if self._report:
                self._report(self._done)


async def gather(works: Sequence[Callable[[], Awaitable[_T]]]) -> tuple[_T, ...]:
    """Run tasks, at most `CONCURRENCY` at a time; the first failure cancels the running ones and is raised."""
    gate = asyncio.Semaphore(fsspec_connection.CONCURRENCY)

    async def limited(work: Callable[[], Awaitable[_T]]) -> _T:
        async with gate:
            return await work()

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(limited(work)) for work in works]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0]  # noqa: B904 - callers expect a single error, and this one has its own cause
    return tuple(task.result() for task in tasks)
