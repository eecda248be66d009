"""The timers of one key group in memory: a map from key to moments, and a heap over all of them."""

from __future__ import annotations

import heapq

from statefulspark.state.memory import tables

_REBUILD_AT = 1024
_FEW_MOMENTS = 8
"""The change of a key with at most so many timers has all of them, and so says what its earliest one is."""


class TimerTable(tables.MapTable):
    """Timers per key, with a heap over all of them; heap entries of deleted timers are dropped lazily."""

    __slots__ = ("_heap", "_number", "_rebuild_at")

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[tuple[int, int, tables.Key]] = []
        self._number = 0
        self._rebuild_at = _REBUILD_AT

    def _change(self, key: tables.Key, entries: set[object] | None) -> object:
        row = self.rows.get(key)
        are_few = isinstance(row, dict) and len(row) <= _FEW_MOMENTS
        return super()._change(key, None if are_few else entries)

    def push(self, at_ms: int, key: tables.Key) -> None:
        """Add a timer that was put into the map of a key to the heap."""
        self._number += 1
        heapq.heappush(self._heap, (at_ms, self._number, key))
        if len(self._heap) > self._rebuild_at:
            self._rebuild()

    def peek(self) -> tuple[int, tables.Key] | None:
        """Return the earliest timer and its key, None when there is none."""
        heap, rows = self._heap, self.rows
        while heap:
            at_ms, _, key = heap[0]
            moments = rows.get(key)
            if isinstance(moments, dict) and at_ms in moments:
                return at_ms, key
            heapq.heappop(heap)
        return None

    def apply(self, changes: tables.Changes) -> None:
        """Apply changes to the table."""
        super().apply(changes)
        if len(changes) > len(self._heap):
            self._rebuild()
            return
        for key, change in changes.items():
            if isinstance(change, tables.MapChange):
                for at_ms in change.puts:
                    self.push(at_ms, key)  # type: ignore[arg-type]  # moments are integers

    def _rebuild(self) -> None:
        """Drop stale entries; done each time the heap has doubled, so that the cost per push is constant."""
        moments = [(at_ms, key) for key, row in self.rows.items() if isinstance(row, dict) for at_ms in row]
        self._heap = [(at_ms, number, key) for number, (at_ms, key) in enumerate(moments)]
        self._number = len(self._heap)
        heapq.heapify(self._heap)
        self._rebuild_at = max(_REBUILD_AT, 2 * len(self._heap))
