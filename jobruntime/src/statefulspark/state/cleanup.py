"""Incremental cleanup of expired entries: a few at a time, with each access or record, in turn over all key groups (A.31).

An entry is expired when its last renewal is at or before the cutoff: the current time minus the time to live.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from statefulspark.state import tables


class CleanupRound:
    """One round of incremental cleanup over the key groups of a partition, each of them once.

    Args:
        groups: The key groups.

    Attributes:
        pending_entries: Number of entries still to check for past accesses; they are in key groups without rows.
    """

    __slots__ = ("_groups", "_remaining", "pending_entries")

    def __init__(self, groups: Iterable[int] = ()) -> None:
        self._groups = dict.fromkeys(groups)
        self._remaining = dict(self._groups)
        self.pending_entries = 0

    def is_due(self, group: int) -> bool:
        """Tell whether a key group is still to be checked; a group outside the round always is."""
        return group in self._remaining or group not in self._groups

    def finish(self, group: int) -> None:
        """Record that all entries of a key group were checked."""
        self._remaining.pop(group, None)

    def next_due(self) -> int | None:
        """Return the next key group of the round; None if no entries are pending or there are no groups."""
        if self.pending_entries <= 0:
            return None
        if not self._remaining:
            self._remaining = dict(self._groups)
        return next(iter(self._remaining), None)


class Cleaner:
    """Incremental cleanup of one state: checks a few entries at a time, in turn, and deletes expired ones (A.31).

    The position in a key group is kept with its table in memory; a worker that rebuilds the table starts at the beginning.
    After the last entry of a key group, the round decides which group is next.

    Args:
        count: Number of entries that one step checks.
        duration_ms: The time to live.

    Attributes:
        round: The key groups that are due, and the number of entries that steps could not check.
    """

    __slots__ = ("_count", "_duration_ms", "_group", "_is_due", "_table", "round")

    def __init__(self, count: int, duration_ms: int) -> None:
        self._count = count
        self._duration_ms = duration_ms
        self._table: tables.Table
        self._group = 0
        self._is_due = False
        self.round = CleanupRound()

    def bind(self, table: tables.Table, group: int) -> None:
        """Switch to another key group."""
        self._table, self._group, self._is_due = table, group, self.round.is_due(group)

    def step(self, now_ms: int) -> None:
        """Check the next entries of the key group; entries that it lacks become pending."""
        self.round.pending_entries += self._scan(self._count, now_ms)

    def clean_pending(self, now_ms: int) -> None:
        """Check pending entries. A key group counts as one entry at least, so that empty groups end the loop."""
        pending = self.round.pending_entries
        self.round.pending_entries = min(self._scan(pending, now_ms), pending - 1)

    def _scan(self, count: int, now_ms: int) -> int:
        """Check the next entries; return how many of `count` were not available."""
        if not self._is_due:
            return count
        table, cutoff_ms = self._table, now_ms - self._duration_ms
        for remaining in range(count, 0, -1):
            key = _next_key(table)
            if key is None:
                self.round.finish(self._group)
                self._is_due = self.round.is_due(self._group)
                key = _next_key(table) if self._is_due else None
            if key is None:
                return remaining
            self._check(table, key[0], cutoff_ms)
        return 0

    @staticmethod
    def _check(table: tables.Table, key: object, cutoff_ms: int) -> None:
        row = table.rows.get(key)
        if row is None:
            return
        alive_row = table.alive(row, cutoff_ms)  # type: ignore[arg-type]  # a row of this table
        if alive_row is row or (
            alive_row is not None and len(cast("list[object]", alive_row)) == len(cast("list[object]", row))
        ):
            return
        if alive_row is None:
            del table.rows[key]
        else:
            table.rows[key] = alive_row
        table.touch_row(key)


def _next_key(table: tables.Table) -> tuple[object] | None:
    """Return the next key to check in a table; None at the end, after which the next round starts."""
    if table.cursor is None:
        # A copy, because the table changes meanwhile. It is made once per round over all keys.
        table.cursor = iter([(key,) for key in table.rows])
    key = next(table.cursor, None)
    if key is None:
        table.cursor = None
    return key
