"""Keyed state without an engine: a chunk log in memory, with batches that commit or vanish, and a driver for them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from typing import Any

from statefulspark.state import cache, functions, heads, store, timers, ttl
from statefulspark.testing.keyed import MemoryLog


def new_ids() -> Callable[[], str]:
    """Return a source of ids that never repeat."""
    numbers: Iterator[int] = itertools.count(1)
    return lambda: f"{next(numbers):016x}"


class Worker:
    """A Python worker: a cache, and a function that declares states. With no memory it works on disk."""

    def __init__(
        self,
        declare: Callable[[functions.BatchContext], None],
        ids: Callable[[], str],
        *,
        domains: frozenset[timers.TimeDomain] = frozenset(),
        ttl_change: ttl.TtlChange = ttl.TtlChange.REFUSE,
        disk: cache.DiskViews | None = None,
        memory_bytes: int = cache.DEFAULT_LIMIT_BYTES,
        is_vectorized: bool = False,
    ) -> None:
        self._declare = declare
        self._ids = ids
        self._domains = domains
        self._ttl_change = ttl_change
        self._disk = disk
        self._is_vectorized = is_vectorized
        self.cache = cache.LruCache(memory_bytes)

    def run(
        self,
        log: store.ChunkLog,
        work: Callable[[functions.BatchContext], None],
        *,
        now_ms: int = 0,
        watermark_ms: int = timers.NO_WATERMARK_MS,
        policy: heads.Policy | None = None,
        group: int = 0,
        keys: Collection[object] | None = None,
    ) -> store.Written:
        """Run one attempt of a batch on one key group."""
        context = functions.BatchContext(
            "test",
            now_ms,
            watermark_ms=watermark_ms,
            domains=self._domains,
            ttl_change=self._ttl_change,
            is_vectorized=self._is_vectorized,
        )
        self._declare(context)
        context.opened()
        tables = self.cache.for_operator("test", self._disk)
        wanted = None if keys is None else lambda: keys
        loaded = store.load(log, tables, group, keys=wanted, in_arrays=context.has_arrays_only, due_ms=context.due_ms)
        context.bind(loaded.tables)
        work(context)
        context.leave()
        return loaded.commit(new_id=self._ids, cutoffs_ms=context.cutoffs_ms, policy=policy)


class Mean:
    """An aggregate: the mean of integers."""

    def create(self) -> tuple[int, int]:
        """Return the accumulator of nothing."""
        return 0, 0

    def add(self, accumulator: tuple[int, int], value: int) -> tuple[int, int]:
        """Take a value into an accumulator."""
        return accumulator[0] + value, accumulator[1] + 1

    def result(self, accumulator: tuple[int, int]) -> float:
        """Return the mean."""
        return accumulator[0] / accumulator[1]


class Bench:
    """One key group of one operator; each call of `at` is a batch at a time.

    Attributes:
        handle: Of the state, in the batch that runs.
        log: What the batches have stored.
    """

    def __init__(
        self,
        descriptor: object,
        change: ttl.TtlChange = ttl.TtlChange.REFUSE,
        *,
        policy: heads.Policy | None = None,
    ) -> None:
        self.handle: Any = None
        self.log, self._ids, self._policy = MemoryLog(), new_ids(), policy
        self.declare(descriptor, change)

    def declare(self, descriptor: object, change: ttl.TtlChange = ttl.TtlChange.REFUSE) -> None:
        """Go on in a new worker, as after a restart, with another declaration perhaps."""

        def open_function(context: functions.BatchContext) -> None:
            self.handle = context.declare(descriptor)

        self._descriptor = descriptor
        self._worker = Worker(open_function, self._ids, ttl_change=change)

    def forget(self) -> None:
        """Go on in a new worker with the same declaration."""
        self.declare(self._descriptor)

    def at(
        self, now_ms: int, work: Callable[..., object], key: object = "k", policy: heads.Policy | None = None
    ) -> object:
        """Run a batch that does something with the state of a key; return what that returned."""
        results: list[object] = []

        def run(context: functions.BatchContext) -> None:
            context.enter(key)
            results.append(work(self.handle))

        self._worker.run(self.log, run, now_ms=now_ms, policy=policy or self._policy)
        return results[0]
