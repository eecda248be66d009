"""Tables: all values of one state in one key group, and the changes since the last write.

Most kinds share one of three: one cell per key, a list per key, a map per key (`shapes`). A table tracks the changes
of a batch and returns them as a delta. Deltas can be merged without the table. Applying a delta is idempotent, also to a
table that already has a part of it: a list change replaces the list from an index on, a map change names entries. So a
stale cached table can be updated from any earlier version.

With a time to live every cell, element or entry is a pair `(value, last renewal in ms)`; tables keep the pair.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import ClassVar, Final, Never, Protocol

from statefulspark.state.memory import numbers

Key = object
"""A key: one value, or a tuple for a key of several columns."""
Cell = object
"""A stored value, or a pair of value and last renewal where there is a time to live."""


class Deleted:
    """The change of a key whose value was removed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "DELETED"


DELETED: Final = Deleted()


@dataclass(slots=True)
class ListChange:
    """Replaces the list from index `start` on by `items`."""

    start: int
    items: list[Cell]


@dataclass(slots=True)
class MapChange:
    """Entries put and removed; `replaced` means that all other entries are removed."""

    replaced: bool
    puts: dict[object, Cell]
    removed: AbstractSet[object] = frozenset()


Changes = dict[Key, object]
"""The change of each key: DELETED, a cell, `ListChange` or `MapChange`, by the shape of the table."""
Content = Changes | numbers.Numbers
"""Changes as objects, or numbers as arrays."""


class Table(Protocol):
    """All values of one state in one key group."""

    cursor: Iterator[tuple[Key]] | None
    """Position of incremental cleanup in a round over all keys; None between rounds."""

    @property
    def rows(self) -> dict[Key, object]:
        """Value per key: a cell, a list or a dict."""

    @property
    def count(self) -> int:
        """Number of keys."""

    def take_changes(self) -> Content:
        """Return the changes since the last call, and reset them."""

    def full(self) -> Content:
        """Return changes that build this table from an empty one."""

    def apply(self, changes: Changes, /) -> None:
        """Apply changes to the table, which may keep their objects and change these later."""

    def touch_row(self, key: Key) -> None:
        """Mark the whole row of a key as changed."""

    @property
    def has_parts(self) -> bool:
        """Whether a row has many cells, so that a change may cover some of them."""

    @property
    def array_bytes(self) -> int:
        """Memory that cells take as arrays, 0 while they are objects."""

    def alive(self, row: Never, cutoff_ms: int, /) -> object:
        """Return the part of a row renewed after a time: the row itself, a shorter one, or None."""

    def convert(self, row: Never, convert: Callable[[Cell], Cell], /) -> object:
        """Return a row with every cell converted."""


class CellTable:
    """One cell per key: Python objects, or numbers as arrays until they are needed as objects."""

    __slots__ = ("_dirty", "_numbers", "_rows", "cursor")
    has_parts: ClassVar[bool] = False

    def __init__(self) -> None:
        self._rows: dict[Key, object] = {}
        self._dirty: set[Key] = set()
        self._numbers: numbers.NumberTable | None = None
        self.cursor: Iterator[tuple[Key]] | None = None

    @property
    def rows(self) -> dict[Key, object]:
        """Cell per key."""
        self._to_objects()
        return self._rows

    @property
    def dirty(self) -> set[Key]:
        """Keys whose cells changed."""
        self._to_objects()
        return self._dirty

    @property
    def count(self) -> int:
        """Number of keys."""
        return len(self._rows if self._numbers is None else self._numbers)

    @property
    def array_bytes(self) -> int:
        """Memory that cells take as arrays, 0 while they are objects."""
        return 0 if self._numbers is None else self._numbers.size_bytes

    def as_numbers(self, kind: type[int] | type[float]) -> numbers.NumberTable | None:
        """Convert the cells to numbers by key and return these, None where that is impossible."""
        if self._numbers is not None:
            return self._numbers if self._numbers.holds(kind) else None
        self._numbers = numbers.NumberTable.of(self._rows, self._dirty, kind)
        if self._numbers is not None:
            self._rows, self._dirty = {}, set()
        return self._numbers

    def _to_objects(self) -> None:
        if self._numbers is not None:
            self._rows, self._dirty = self._numbers.full().to_dict(), set(self._numbers.changes().keys.tolist())
            self._numbers = None

    def touch_row(self, key: Key) -> None:
        """Mark the cell of a key as changed."""
        self.dirty.add(key)

    def take_changes(self) -> Content:
        """Return the changes since the last call, and reset them."""
        if self._numbers is not None:
            changed = self._numbers.changes()
            self._numbers.clean()
            return changed
        rows, dirty = self._rows, self._dirty
        self._dirty = set()
        return dict(zip(dirty, map(rows.get, dirty, itertools.repeat(DELETED)), strict=True))

    def full(self) -> Content:
        """Return changes that build this table from an empty one."""
        return dict(self._rows) if self._numbers is None else self._numbers.full()

    def apply(self, changes: Content) -> None:
        """Apply changes to the table."""
        if isinstance(changes, numbers.Numbers):
            self._apply_numbers(changes)
            return
        rows = self.rows
        deleted = [key for key, cell in changes.items() if cell is DELETED]
        if not rows and not deleted:
            self._rows = changes
            return
        rows.update(changes)
        for key in deleted:
            del rows[key]

    def _apply_numbers(self, changes: numbers.Numbers) -> None:
        if not self.count:
            self._numbers = numbers.NumberTable(changes)
        elif self._numbers is not None and self._numbers.holds(changes.kind):
            self._numbers.put(changes)
        else:
            self.rows.update(changes.to_dict())

    @staticmethod
    def alive(row: tuple[object, int], cutoff_ms: int, /) -> tuple[object, int] | None:
        """Return the cell if it was renewed after a time, else None."""
        return row if row[1] > cutoff_ms else None

    @staticmethod
    def convert(row: Cell, convert: Callable[[Cell], Cell], /) -> Cell:
        """Return the cell converted."""
        return convert(row)


class ListTable:
    """A list of cells per key; `dirty` holds the first index that changed."""

    __slots__ = ("cursor", "dirty", "rows")
    has_parts: ClassVar[bool] = True
    array_bytes: ClassVar[int] = 0

    def __init__(self) -> None:
        self.rows: dict[Key, object] = {}
        self.dirty: dict[Key, int] = {}
        self.cursor: Iterator[tuple[Key]] | None = None

    @property
    def count(self) -> int:
        """Number of keys."""
        return len(self.rows)

    def touch_row(self, key: Key) -> None:
        """Mark the whole list of a key as changed."""
        self.dirty[key] = 0

    def touch(self, key: Key, start: int) -> None:
        """Mark the list of a key as changed from an index on."""
        self.dirty[key] = min(start, self.dirty.get(key, start))

    def take_changes(self) -> Changes:
        """Return the changes since the last call, and reset them."""
        rows, dirty = self.rows, self.dirty
        self.dirty = {}
        return {
            key: ListChange(start, rows[key][start:]) if key in rows else DELETED  # type: ignore[index]  # rows are lists
            for key, start in dirty.items()
        }

    def full(self) -> Changes:
        """Return changes that build this table from an empty one."""
        return {key: ListChange(0, items) for key, items in self.rows.items() if isinstance(items, list)}

    def apply(self, changes: Changes) -> None:
        """Apply changes to the table."""
        rows = self.rows
        if not rows:
            self.rows = {key: change.items for key, change in changes.items() if isinstance(change, ListChange)}
            return
        _apply_deleted(rows, changes)
        for key, change in changes.items():
            if isinstance(change, ListChange):
                before = rows.get(key, []) if change.start else []
                rows[key] = [*before[: change.start], *change.items]  # type: ignore[index]  # rows are lists

    @staticmethod
    def alive(row: list[tuple[object, int]], cutoff_ms: int, /) -> list[tuple[object, int]] | None:
        """Return the elements that were renewed after a time, None when there are none."""
        return [cell for cell in row if cell[1] > cutoff_ms] or None

    @staticmethod
    def convert(row: list[Cell], convert: Callable[[Cell], Cell], /) -> list[Cell]:
        """Return the list with every element converted."""
        return [convert(cell) for cell in row]


class MapTable:
    """A map of cells per key; `dirty` holds the entries that changed, or None when the map was replaced."""

    __slots__ = ("cursor", "dirty", "rows")
    has_parts: ClassVar[bool] = True
    array_bytes: ClassVar[int] = 0

    def __init__(self) -> None:
        self.rows: dict[Key, object] = {}
        self.dirty: dict[Key, set[object] | None] = {}
        self.cursor: Iterator[tuple[Key]] | None = None

    def touch(self, key: Key, entry: object) -> None:
        """Mark one entry of a key's map as changed."""
        if key not in self.dirty:
            self.dirty[key] = {entry}
            return
        entries = self.dirty[key]
        if entries is not None:
            entries.add(entry)

    @property
    def count(self) -> int:
        """Number of keys."""
        return len(self.rows)

    def touch_row(self, key: Key) -> None:
        """Mark a key's map as replaced or cleared."""
        self.dirty[key] = None

    def take_changes(self) -> Changes:
        """Return the changes since the last call, and reset them."""
        dirty, self.dirty = self.dirty, {}
        return {key: self._change(key, entries) for key, entries in dirty.items()}

    def _change(self, key: Key, entries: set[object] | None) -> object:
        row = self.rows.get(key)
        if not isinstance(row, dict):
            return DELETED
        if entries is None:
            return MapChange(replaced=True, puts=dict(row))
        puts = {entry: row[entry] for entry in entries if entry in row}
        if len(puts) == len(entries):
            return MapChange(replaced=False, puts=puts)
        return MapChange(replaced=False, puts=puts, removed=entries - puts.keys())

    def full(self) -> Changes:
        """Return changes that build this table from an empty one."""
        return {key: MapChange(replaced=True, puts=row) for key, row in self.rows.items() if isinstance(row, dict)}

    def apply(self, changes: Changes) -> None:
        """Apply changes to the table."""
        rows = self.rows
        if not rows:
            self.rows = {key: change.puts for key, change in changes.items() if isinstance(change, MapChange)}
            return
        _apply_deleted(rows, changes)
        for key, change in changes.items():
            if isinstance(change, MapChange):
                _apply_map(rows, key, change)

    @staticmethod
    def alive(row: dict[object, tuple[object, int]], cutoff_ms: int, /) -> dict[object, tuple[object, int]] | None:
        """Return the entries that were renewed after a time, None when there are none."""
        return {entry: cell for entry, cell in row.items() if cell[1] > cutoff_ms} or None

    @staticmethod
    def convert(row: dict[object, Cell], convert: Callable[[Cell], Cell], /) -> dict[object, Cell]:
        """Return the map with every value converted."""
        return {entry: convert(cell) for entry, cell in row.items()}


TIMER_PREFIX = "_timer_state/"
"""Name prefix of the states that hold timers."""


def _apply_deleted(rows: dict[Key, object], changes: Changes) -> None:
    for key, change in changes.items():
        if change is DELETED:
            rows.pop(key, None)


def _apply_map(rows: dict[Key, object], key: Key, change: MapChange) -> None:
    row = rows.get(key)
    if change.replaced or not isinstance(row, dict):
        rows[key] = dict(change.puts)
        return
    row.update(change.puts)
    for entry in change.removed:
        row.pop(entry, None)
