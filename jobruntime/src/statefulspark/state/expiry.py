"""Expired entries outside of a read: dropped when everything is written, a few at a time, or from an exported chunk.

Cells of a state with a time to live are pairs `(value, last renewal in ms)`. An entry is expired when its renewal lies
at or before the cutoff, which is now less the time to live.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, cast

from statefulspark.state import tables

if TYPE_CHECKING:
    from statefulspark.state import chunks


def drop_expired(table: tables.Table, cutoff_ms: int) -> None:
    """Drop what was renewed at or before a time. It is not noted as a change: the caller writes the table in full."""
    alive = table.alive
    left = ((key, alive(row, cutoff_ms)) for key, row in table.rows.items())  # type: ignore[arg-type]  # rows of this table
    keep = {key: row for key, row in left if row is not None}
    if len(keep) < len(table.rows) or table.has_parts:
        table.rows.clear()
        table.rows.update(keep)


def without_expired(chunk: chunks.Chunk, durations_ms: Mapping[str, int], now_ms: int) -> chunks.Chunk:
    """Return a full chunk without its expired entries, for a canonical export (A.29).

    The live state is not touched; entries are gone for whoever restores the export.

    Args:
        chunk: Everything that a key group holds; a full chunk.
        durations_ms: Time to live by name of the state, for those that ask for it (`Ttl.full_snapshot`). The snapshot
            does not know it: it belongs to the running job. States that were written without a time to live stay.
        now_ms: Processing time.
    """
    sections = []
    for section in chunk.sections:
        duration_ms = durations_ms.get(section.meta.name)
        if duration_ms is None or not section.meta.has_ttl:
            sections.append(section)
            continue
        changes = _alive_changes(section, now_ms - duration_ms)
        if changes:
            sections.append(dataclasses.replace(section, content=changes))
    return dataclasses.replace(chunk, sections=tuple(sections))


def _alive_changes(section: chunks.Section, cutoff_ms: int) -> tables.Changes:
    left_of = section.meta.kind.shape.alive
    left = (
        (key, change if change is tables.DELETED else left_of(change, cutoff_ms))
        for key, change in section.changes.items()
    )
    return {key: change for key, change in left if change is not None}


class Round:
    """Which key groups of a partition have still to be looked at, each once, before the first one's turn comes again.

    Args:
        groups: All of them.

    Attributes:
        owed: Entries that accesses have paid for and that were not at hand: they are in key groups without rows.
    """

    __slots__ = ("_groups", "_left", "owed")

    def __init__(self, groups: Iterable[int] = ()) -> None:
        self._groups = dict.fromkeys(groups)
        self._left = dict(self._groups)
        self.owed = 0

    def is_due(self, group: int) -> bool:
        """Tell whether a key group has still to be looked at; one that is not known here always has."""
        return group in self._left or group not in self._groups

    def finish(self, group: int) -> None:
        """Note that all entries of a key group were looked at."""
        self._left.pop(group, None)

    def next_due(self) -> int | None:
        """Return the key group whose turn it is; None if nothing is owed, or there is none."""
        if self.owed <= 0:
            return None
        if not self._left:
            self._left = dict(self._groups)
        return next(iter(self._left), None)


class Cleaner:
    """Looks at a few entries of one state at a time, in turn, and deletes the expired ones (A.31).

    The position in a key group is kept with its table in memory; on a worker that builds the table anew it starts from the
    front. What is looked at next, once all of a key group was, is told by the round.

    Args:
        count: Entries that one step looks at.
        duration_ms: The time to live.

    Attributes:
        round: Tells which key groups are due, and gets what a step could not look at.
    """

    __slots__ = ("_count", "_duration_ms", "_group", "_is_due", "_table", "round")

    def __init__(self, count: int, duration_ms: int) -> None:
        self._count = count
        self._duration_ms = duration_ms
        self._table: tables.Table = tables.CellTable()
        self._group = 0
        self._is_due = True
        self.round = Round()

    def bind(self, table: tables.Table, group: int) -> None:
        """Look at another key group."""
        self._table, self._group, self._is_due = table, group, self.round.is_due(group)

    def step(self, now_ms: int) -> None:
        """Look at the next entries of the key group, and owe those that it has not."""
        self.round.owed += self._look(self._count, now_ms)

    def spend(self, now_ms: int) -> None:
        """Look at what is owed. A key group costs one entry at least, so that empty ones come to an end."""
        owed = self.round.owed
        self.round.owed = min(self._look(owed, now_ms), owed - 1)

    def _look(self, count: int, now_ms: int) -> int:
        """Look at the next entries; return how many there were not."""
        table, cutoff_ms = self._table, now_ms - self._duration_ms
        for left in range(count if self._is_due else 0, 0, -1):
            key = _next_key(table)
            if key is None:
                self.round.finish(self._group)
                self._is_due = self.round.is_due(self._group)
                key = _next_key(table) if self._is_due else None
            if key is None:
                return left
            self._check(table, key[0], cutoff_ms)
        return 0 if self._is_due else count

    @staticmethod
    def _check(table: tables.Table, key: object, cutoff_ms: int) -> None:
        row = table.rows.get(key)
        if row is None:
            return
        left = table.alive(row, cutoff_ms)  # type: ignore[arg-type]  # a row of this table
        if left is row or (left is not None and len(cast("list[object]", left)) == len(cast("list[object]", row))):
            return
        if left is None:
            del table.rows[key]
        else:
            table.rows[key] = left
        table.touch_row(key)


def _next_key(table: tables.Table) -> tuple[object] | None:
    """Return the key at which a table is to be looked next; None at the end, after which it begins anew."""
    if table.cursor is None:
        # A copy, as the table changes meanwhile. It is made once per round over all keys.
        table.cursor = iter([(key,) for key in table.rows])
    key = next(table.cursor, None)
    if key is None:
        table.cursor = None
    return key


def convert_cells(table: tables.Table, convert: Callable[[object], object]) -> None:
    """Replace every cell of a table. It is not noted as a change: the caller has the table written in full."""
    rows, convert_row = table.rows, table.convert
    for key, row in rows.items():
        rows[key] = convert_row(row, convert)  # type: ignore[arg-type]  # a row of this table
