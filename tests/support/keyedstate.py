"""Keyed state without an engine: a chunk log in memory, with batches that commit or vanish, and a driver for them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator

from statefulspark.state import cache, compaction, functions, store, timers, ttl


class MemoryLog:
    """A `ChunkLog` for one key group. Writes go to a copy that replaces the original when the batch commits."""

    def __init__(self) -> None:
        self.stored_head: store.Head | None = None
        self.chunks: dict[int, tuple[str, bytes]] = {}
        self.reads = 0

    def attempt(self) -> MemoryLog:
        """Return what one attempt of a batch works on."""
        copy = MemoryLog()
        copy.stored_head, copy.chunks = self.stored_head, dict(self.chunks)
        return copy

    def adopt(self, attempt: MemoryLog) -> None:
        """Commit an attempt."""
        self.stored_head, self.chunks = attempt.stored_head, attempt.chunks

    def head(self) -> store.Head | None:
        """Return the head, as it comes back from storage."""
        head = self.stored_head
        return head and store.Head.from_layout(head.version, head.unique_id, head.pack_layout())

    def set_head(self, head: store.Head) -> None:
        """Replace the head."""
        self.stored_head = head

    def chunk(self, version: int) -> tuple[str, bytes] | None:
        """Return a chunk."""
        self.reads += 1
        return self.chunks.get(version)

    def put_chunk(self, version: int, unique_id: str, blob: bytes) -> None:
        """Store a chunk."""
        self.chunks[version] = (unique_id, blob)

    def remove_chunk(self, version: int) -> None:
        """Remove a chunk, which must be there."""
        del self.chunks[version]


def new_ids() -> Callable[[], str]:
    """Return a source of ids that never repeat."""
    numbers: Iterator[int] = itertools.count(1)
    return lambda: f"{next(numbers):016x}"


class Worker:
    """A Python worker: a cache, and a function that declares states. With no memory it works on the disk tier."""

    def __init__(
        self,
        declare: Callable[[functions.KeyedContext], None],
        ids: Callable[[], str],
        *,
        domains: frozenset[timers.TimeDomain] = frozenset(),
        ttl_change: ttl.TtlChange = ttl.TtlChange.REFUSE,
        tier: store.Tier | None = None,
        memory_bytes: int = cache.DEFAULT_LIMIT_BYTES,
        is_vectorized: bool = False,
    ) -> None:
        self._declare = declare
        self._ids = ids
        self._domains = domains
        self._ttl_change = ttl_change
        self._tier = tier
        self._is_vectorized = is_vectorized
        self.cache = cache.LruCache(memory_bytes)

    def run(
        self,
        log: store.ChunkLog,
        work: Callable[[functions.KeyedContext], None],
        *,
        now_ms: int = 0,
        watermark_ms: int = timers.NO_WATERMARK,
        policy: compaction.Policy | None = None,
        group: int = 0,
        keys: Collection[object] | None = None,
    ) -> store.Written:
        """Run one attempt of a batch on one key group."""
        context = functions.KeyedContext(
            "test",
            now_ms,
            watermark_ms=watermark_ms,
            domains=self._domains,
            ttl_change=self._ttl_change,
            is_vectorized=self._is_vectorized,
        )
        self._declare(context)
        context.opened()
        tables = self.cache.of("test", self._tier)
        wanted = None if keys is None else lambda: keys
        loaded = store.load(log, tables, group, keys=wanted, in_arrays=context.has_arrays_only)
        context.bind(loaded.tables)
        work(context)
        context.leave()
        return store.commit(log, tables, loaded, new_id=self._ids, before_full=context.drop_expired, policy=policy)
