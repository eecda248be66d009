"""Threads for work on storage: a store that hangs takes a few of them, and no pass waits for it without end.

They are the operator's own: in asyncio's default pool, which has six threads on two cores, six hung reads would stop every
other, and the resolution of names. A thread cannot be ended, so work that is given up goes on; nothing is begun twice for
one job meanwhile.

Deletions last minutes and nobody waits for them to start a job, so they have threads of their own: those for reads are free
for starts, however many deletions hang.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from statefulspark import errors
from statefulspark.storage import allowance, port

from statefulspark_operator.cluster.shares import Holder, Limits, Places

THREADS = Limits(most=48, most_at_store=16)
"""So that the first namespace gets 24 threads at most, and 8 of them at one store."""
DELETIONS = Limits(most=12, most_at_store=4)
"""The same for deletions: at one store two of the first namespace."""
LARGE = Limits(most=3, most_at_store=3)
"""Pieces of work that may hold large objects at a time, one for each namespace: with what they become when they are parsed,
each takes up to 200 MB."""
LARGE_DELETIONS = Limits(most=1, most_at_store=1)
"""How many of them may be deletions."""
TIMEOUT_S = 60.0
"""The longest time that a pass waits for an answer of storage."""
DELETION_TIMEOUT_S = 240.0
"""The same while files are deleted, of which there may be very many. It is less than a pass may take; what is not done
then goes on, and the next pass waits for it."""
LONGEST_S = 600.0
"""The longest time of any work: a server that never ends an answer gives the thread back. What was deleted stays deleted."""
Result = TypeVar("Result")


class _Lane:
    """Threads for one kind of work."""

    def __init__(self, name: str, limits: Limits, timeout_s: float) -> None:
        self.pool = ThreadPoolExecutor(limits.most, thread_name_prefix=name)
        self.places = Places(limits)
        self.timeout_s = timeout_s


class StorageThreads:
    """Pools of threads, shared fairly between stores and between namespaces."""

    def __init__(self, *, timeout_s: float = TIMEOUT_S, limits: Limits = THREADS, longest_s: float = LONGEST_S) -> None:
        """Create pools without threads; they are started when they are needed.

        Args:
            timeout_s: The longest time that a caller waits for work that deletes nothing.
            limits: Number of threads for such work.
            longest_s: The longest time of any work.
        """
        self._reads = _Lane("storage", limits, timeout_s)
        self._deletions = _Lane("deletion", DELETIONS, DELETION_TIMEOUT_S)
        self._longest_s = longest_s
        self._large, self._large_deletions = Places(LARGE), Places(LARGE_DELETIONS)
        self._running: dict[str, asyncio.Task[object]] = {}

    async def run(self, store: str, owner: str, work: Callable[[], Result]) -> Result:
        """Run work that deletes little in a thread, and wait for it for a limited time.

        Args:
            store: The store that it waits for.
            owner: The job whose work it is, `namespace/name`; work of the same job that was given up is waited for first.
            work: The work; it may be run again later.

        Raises:
            TransientError: `StorageSlow`: it did not end in time; it goes on, and its result is dropped.
        """
        return await self._run(self._reads, Holder(owner.partition("/")[0], store), owner, work)

    async def delete(self, store: str, owner: str, work: Callable[[], Result]) -> Result:
        """Run work that deletes what may be many files, as `run` does other work."""
        return await self._run(self._deletions, Holder(owner.partition("/")[0], store), owner, work)

    async def delete_beside(self, store: str, owner: str, work: Callable[[], Result]) -> Result:
        """Run work that deletes files on which nothing else of the job depends, and wait for it as for other work.

        The job's other work waits for it no longer than this call: its next driver may have to start.
        """
        holder = Holder(owner.partition("/")[0], store)
        return await self._run(self._deletions, holder, f"{owner}, beside", work, self._reads.timeout_s)

    async def _run(
        self, lane: _Lane, holder: Holder, owner: str, work: Callable[[], Result], timeout_s: float | None = None
    ) -> Result:
        deadline_s = asyncio.get_running_loop().time() + (lane.timeout_s if timeout_s is None else timeout_s)
        given_up = self._running.get(owner)
        if given_up is not None:
            await self._wait(given_up, holder.store, deadline_s)
        task = asyncio.create_task(self._run_within_memory(lane, holder, work))
        self._running[owner] = task
        task.add_done_callback(lambda done: self._forget(owner, done))
        await self._wait(task, holder.store, deadline_s)
        return task.result().result()

    async def _run_within_memory(
        self, lane: _Lane, holder: Holder, work: Callable[[], Result]
    ) -> asyncio.Future[Result]:
        """Return the work when it has ended, however it did; whoever still wants its result asks for it.

        Nearly all work holds little. What exceeds a small allowance is done once more with a large one, a few at a time.
        A task that raised would be raised again by kopf, which asks every task of the loop at its end.
        """
        # The documents of a usual job take some 10 MB while they are read.
        small = allowance.Allowance(2**20, 10_000, 50_000, time.monotonic() + self._longest_s)
        ended = await self._run_in_turn(lane, holder, work, small)
        if not small.is_exceeded:
            return ended
        async with contextlib.AsyncExitStack() as turns:
            if lane is self._deletions:
                await turns.enter_async_context(self._large_deletions.held(holder))
            await turns.enter_async_context(self._large.held(holder))
            return await self._run_in_turn(lane, holder, work, _large(self._longest_s))

    async def _run_in_turn(
        self, lane: _Lane, holder: Holder, work: Callable[[], Result], limits: allowance.Allowance
    ) -> asyncio.Future[Result]:
        def limited() -> Result:
            with allowance.holding(limits):
                return work()

        async with lane.places.held(holder):
            running = asyncio.get_running_loop().run_in_executor(lane.pool, limited)
            running.add_done_callback(_look_at)
            await asyncio.wait({running})
            return running

    async def _wait(self, task: asyncio.Task[object], store: str, deadline_s: float) -> None:
        done, _ = await asyncio.wait({task}, timeout=max(0.0, deadline_s - asyncio.get_running_loop().time()))
        if not done:
            raise errors.TransientError("StorageSlow", f"Storage {store} does not answer in time; it is asked again.")

    def _forget(self, owner: str, done: asyncio.Task[object]) -> None:
        if self._running.get(owner) is done:
            del self._running[owner]


def _large(longest_s: float) -> allowance.Allowance:
    """Return what the largest job needs: a manifest of 100,000 files, at most 150 MB while it is read."""
    return allowance.Allowance(port.MOST_OF_A_MANIFEST, 100_000, 600_000, time.monotonic() + longest_s)


def _look_at(ended: asyncio.Future[Result]) -> None:
    """Take note of a failure that nobody may be waiting for any more; asyncio would log it as forgotten."""
    if not ended.cancelled():
        ended.exception()
