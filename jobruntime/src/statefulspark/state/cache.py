"""The cache of key groups in a Python worker: tables as objects, least recently used first out, bounded in bytes.

One cache serves all operators of the worker; entries are found by operator and key group, and validated by version
and id, so what is in it can be old but never wrong. Sizes are estimates from the stored size and the number of keys.
"""

from __future__ import annotations

import collections
import threading

from statefulspark.state import store

DEFAULT_LIMIT_BYTES = 1 << 30


class LruCache:
    """Key groups of all operators in this process.

    Args:
        limit_bytes: Estimated memory that may be held; a group larger than that is not kept at all.
    """

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held_bytes = 0
        self._entries: collections.OrderedDict[tuple[str, int], store.CachedGroup] = collections.OrderedDict()
        self._lock = threading.Lock()

    @property
    def held_bytes(self) -> int:
        """Estimated memory in use."""
        return self._held_bytes

    def limit(self, limit_bytes: int) -> None:
        """Change the limit; what is over it goes at once."""
        with self._lock:
            self._limit_bytes = limit_bytes
            self._evict()

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._held_bytes = 0

    def of(self, operator: str) -> OperatorCache:
        """Return the view of one operator."""
        return OperatorCache(self, operator)

    def take(self, operator: str, group: int) -> store.CachedGroup | None:
        """Remove and return an entry."""
        with self._lock:
            cached = self._entries.pop((operator, group), None)
            if cached is not None:
                self._held_bytes -= cached.size_bytes
            return cached

    def put(self, operator: str, group: int, cached: store.CachedGroup) -> None:
        """Keep an entry as the most recently used one."""
        with self._lock:
            before = self._entries.pop((operator, group), None)
            if before is not None:
                self._held_bytes -= before.size_bytes
            self._entries[operator, group] = cached
            self._held_bytes += cached.size_bytes
            self._evict()

    def _evict(self) -> None:
        while self._held_bytes > self._limit_bytes:
            _, evicted = self._entries.popitem(last=False)
            self._held_bytes -= evicted.size_bytes


class OperatorCache:
    """The part of a cache that belongs to one operator."""

    def __init__(self, shared: LruCache, operator: str) -> None:
        self._shared = shared
        self._operator = operator

    def take(self, group: int) -> store.CachedGroup | None:
        """Remove and return what is there for a group."""
        return self._shared.take(self._operator, group)

    def put(self, group: int, cached: store.CachedGroup) -> None:
        """Keep tables."""
        self._shared.put(self._operator, group, cached)
