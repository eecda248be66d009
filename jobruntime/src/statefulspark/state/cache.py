"""The cache of key groups in a Python worker: tables of objects and views, limited in bytes, with a disk for other views.

One cache serves all operators of the worker; entries are found by operator and key group, and validated by version
and id, so a cached entry can be old but never wrong. Sizes are estimates from the stored size and the number of keys.

A batch uses most key groups, one after the other. Plain LRU eviction would then evict each group just before it is
needed. So a key group replaces a cached one only if it was used twice since the last use of the cached one; otherwise
it is not cached.
"""

from __future__ import annotations

import collections
import itertools
import threading
from collections.abc import Iterator

from statefulspark.state import grouptables, spill, views

DEFAULT_LIMIT_BYTES = 1 << 30
_NEVER = -1
_Id = tuple[str, int]
Kept = grouptables.GroupTables | views.GroupView
"""All rows of a key group at one version, as tables or as a view."""


class LruCache:
    """Key groups of all operators in this process.

    Args:
        limit_bytes: Estimated memory that may be held; a group larger than that is not cached.
    """

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held_bytes = 0
        self._entries: collections.OrderedDict[_Id, tuple[Kept, int]] = collections.OrderedDict()
        self._uses: dict[_Id, tuple[int, int]] = {}
        self._now = 0
        self._lock = threading.Lock()

    @property
    def held_bytes(self) -> int:
        """Estimated memory in use."""
        return self._held_bytes

    def limit(self, limit_bytes: int) -> None:
        """Change the limit and evict at once what exceeds it."""
        with self._lock:
            self._limit_bytes = limit_bytes
            while self._held_bytes > self._limit_bytes:
                self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()
            self._uses.clear()
            self._held_bytes = 0

    def of(self, operator: str, disk: spill.DiskViews | None = None) -> OperatorCache:
        """Return the part of one operator.

        Args:
            operator: Its uid.
            disk: Holds views for which there is no memory; without it their chunks are read in each batch.
        """
        return OperatorCache(self, operator, disk)

    def take(self, operator: str, group: int) -> Kept | None:
        """Remove and return an entry."""
        with self._lock:
            entry_id = operator, group
            self._now += 1
            self._uses[entry_id] = (self._uses.get(entry_id, (_NEVER, _NEVER))[1], self._now)
            return self._drop(entry_id)

    def admits(self, operator: str, group: int, size_bytes: int) -> bool:
        """Tell whether a key group that was just requested would fit into memory."""
        with self._lock:
            room_bytes = self._limit_bytes - self._held_bytes - size_bytes
            for other in self._replaceable((operator, group)):
                if room_bytes >= 0:
                    break
                room_bytes += self._entries[other][1]
            return room_bytes >= 0

    def put(self, operator: str, group: int, kept: Kept, size_bytes: int) -> None:
        """Cache an entry as the most recently used one, if it fits or can replace entries that were not used for long."""
        with self._lock:
            entry_id = operator, group
            self._uses.setdefault(entry_id, (_NEVER, self._now))
            self._drop(entry_id)
            self._entries[entry_id] = kept, size_bytes
            self._held_bytes += size_bytes
            while self._held_bytes > self._limit_bytes:
                self._drop(next(self._replaceable(entry_id), entry_id))

    def _replaceable(self, candidate: _Id) -> Iterator[_Id]:
        """Return entries not used since the previous use of the candidate, the least recently used first."""
        before, _ = self._uses.get(candidate, (_NEVER, _NEVER))
        old = itertools.takewhile(lambda other: self._uses[other][1] <= before, self._entries)
        return (other for other in old if other != candidate)

    def _drop(self, entry_id: _Id) -> Kept | None:
        kept, size_bytes = self._entries.pop(entry_id, (None, 0))
        self._held_bytes -= size_bytes
        return kept


class OperatorCache:
    """The part of a cache that belongs to one operator. It may drop entries at any time, and never changes them."""

    def __init__(self, shared: LruCache, operator: str, disk: spill.DiskViews | None = None) -> None:
        self._shared = shared
        self._operator = operator
        self._disk = disk

    def take(self, group: int) -> Kept | None:
        """Remove and return what is kept of a key group, in memory or on disk."""
        kept = self._shared.take(self._operator, group)
        view = self._disk.take(group) if self._disk is not None else None
        return view if kept is None else kept

    def put(self, group: int, kept: Kept, size_bytes: int) -> None:
        """Keep a key group in memory, if there is room."""
        self._shared.put(self._operator, group, kept, size_bytes)

    def admits(self, group: int, size_bytes: int) -> bool:
        """Tell whether there is memory for a group of this size."""
        return self._shared.admits(self._operator, group, size_bytes)

    def keep(self, group: int, view: views.GroupView) -> None:
        """Keep a view: in memory, if there is room, else on disk."""
        size_bytes = view.size_bytes + view.disk_bytes
        if self.admits(group, size_bytes):
            if self._disk is not None:
                self._disk.release(view)
            self.put(group, view, size_bytes)
        elif self._disk is not None:
            self._disk.keep(group, view)
