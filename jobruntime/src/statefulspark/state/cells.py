"""States with one value per key: its rows in memory, as objects or as numbers, its changes and its bytes."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import ClassVar, Generic, TypeVar, cast, overload

import numpy as np
import pyarrow as pa

from statefulspark.state import kinds, many, numbers, tables, ttl
from statefulspark.state.kinds import StateMeta
from statefulspark.state.ttl import Ttl
from statefulspark.state.types import codec, conversions

T = TypeVar("T")


class CellTable:
    """One cell per key: Python objects, or numbers as arrays until they are needed as objects."""

    __slots__ = ("_dirty", "_numbers", "_rows", "cursor")
    has_parts: ClassVar[bool] = False

    def __init__(self) -> None:
        self._rows: dict[tables.Key, object] = {}
        self._dirty: set[tables.Key] = set()
        self._numbers: numbers.NumberTable | None = None
        self.cursor: Iterator[tuple[tables.Key]] | None = None

    @property
    def rows(self) -> dict[tables.Key, object]:
        """Cell per key."""
        self._become_objects()
        return self._rows

    @property
    def dirty(self) -> set[tables.Key]:
        """Keys whose cells changed."""
        self._become_objects()
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
        self._numbers = numbers.NumberTable.from_rows(self._rows, self._dirty, kind)
        if self._numbers is not None:
            self._rows, self._dirty = {}, set()
        return self._numbers

    def _become_objects(self) -> None:
        if self._numbers is not None:
            self._rows, self._dirty = self._numbers.full().to_dict(), set(self._numbers.changes().keys.tolist())
            self._numbers = None

    def touch_row(self, key: tables.Key) -> None:
        """Mark the cell of a key as changed."""
        self.dirty.add(key)

    def take_changes(self) -> tables.Content:
        """Return the changes since the last call, and reset them."""
        if self._numbers is not None:
            changed = self._numbers.changes()
            self._numbers.clean()
            return changed
        rows, dirty = self._rows, self._dirty
        self._dirty = set()
        return dict(zip(dirty, map(rows.get, dirty, itertools.repeat(tables.DELETED)), strict=True))

    def full(self) -> tables.Content:
        """Return changes that build this table from an empty one."""
        return dict(self._rows) if self._numbers is None else self._numbers.full()

    def apply(self, changes: tables.Content) -> None:
        """Apply changes to the table."""
        if isinstance(changes, numbers.Numbers):
            if not self.count:
                self._numbers = numbers.NumberTable(changes)
            elif self._numbers is not None and self._numbers.holds(changes.kind):
                self._numbers.put(changes)
            else:
                self.rows.update(changes.to_dict())
            return
        rows = self.rows
        deleted = [key for key, cell in changes.items() if cell is tables.DELETED]
        if not rows and not deleted:
            self._rows = changes
            return
        rows.update(changes)
        for key in deleted:
            del rows[key]

    @staticmethod
    def alive(row: tuple[object, int], cutoff_ms: int, /) -> tuple[object, int] | None:
        """Return the cell if it was renewed after a time, else None."""
        return row if row[1] > cutoff_ms else None

    @staticmethod
    def convert(row: tables.Cell, convert: Callable[[tables.Cell], tables.Cell], /) -> tables.Cell:
        """Return the cell converted."""
        return convert(row)


Reduce = Callable[[object, object], object]


class Cells:
    """Cells of one state in the bound key group, without a time to live."""

    __slots__ = ("_dirty", "_rows", "meta", "scope")

    def __init__(self, meta: StateMeta, scope: kinds.Scope) -> None:
        self.meta = meta
        self.scope = scope
        self._rows: dict[tables.Key, object] = {}
        self._dirty: set[tables.Key] = set()

    def _bind(self, table: CellTable) -> None:
        """Switch to another key group."""
        self._rows = table.rows
        self._dirty = table.dirty

    def read(self) -> object:
        """Return the current key's value, None when there is none."""
        key = self.scope.key
        if key is kinds.NO_KEY:
            self.scope.require_key(self.meta)
        return self._rows.get(key)

    def exists(self) -> bool:
        """Tell whether the current key has a value."""
        return self.scope.require_key(self.meta) in self._rows

    def write(self, value: object) -> None:
        """Set the current key's value; None removes it."""
        key = self.scope.key
        if key is kinds.NO_KEY:
            self.scope.require_key(self.meta)
        if value is None:
            self.remove()
            return
        self._rows[key] = value
        self._dirty.add(key)

    def remove(self) -> None:
        """Remove the current key's value."""
        key = self.scope.require_key(self.meta)
        if key in self._rows:
            del self._rows[key]
            self._dirty.add(key)

    def fold(self, keys: Sequence[object], values: Sequence[object], reduce: Reduce) -> list[object]:
        """Fold a value into the cell of each of many keys, and return the cells' values; None changes nothing."""
        self.scope.require_group(self.meta)
        if len(set(keys)) == len(keys) and None not in values:
            before = map(self._rows.get, keys)
            folded = [value if old is None else reduce(old, value) for old, value in zip(before, values, strict=True)]
            self._rows.update(zip(keys, folded, strict=True))
            self._dirty.update(keys)
            return folded
        return fold_one_by_one(self, keys, values, reduce)

    def fold_columns(self, keys: numbers.ArrowColumn, values: numbers.ArrowColumn) -> pa.Array | None:
        """Fold columns without Python objects; return None and change nothing where that is impossible."""
        return None

    def read_columns(self, keys: numbers.ArrowColumn) -> pa.Array | None:
        """Return the cells of many keys without Python objects; None where that is impossible."""
        return None

    def use_objects(self) -> None:
        """Be ready for single keys."""


class NumberCells(Cells):
    """Cells of a vectorised function, folded as columns: they stay arrays until another operation is used.

    Args:
        meta: The state.
        scope: The operator's scope.
        kind: Type of the numbers.
        combine: Folds two arrays of numbers.
    """

    __slots__ = ("_combine", "_kind", "_table")

    def __init__(
        self, meta: StateMeta, scope: kinds.Scope, kind: type[int] | type[float], combine: numbers.Combine
    ) -> None:
        super().__init__(meta, scope)
        self._kind = kind
        self._combine = combine
        self._table = CellTable()

    def _bind(self, table: CellTable) -> None:
        """Switch to another key group."""
        self._table = table

    def fold(self, keys: Sequence[object], values: Sequence[object], reduce: Reduce) -> list[object]:
        """Fold a value into the cell of each of many keys, as objects."""
        self.use_objects()
        return super().fold(keys, values, reduce)

    def use_objects(self) -> None:
        """Be ready for single keys: arrays become objects."""
        super()._bind(self._table)

    def read_columns(self, keys: numbers.ArrowColumn) -> pa.Array | None:
        """Return the cells of many keys without Python objects; None where that is impossible."""
        self.scope.require_group(self.meta)
        sought = numbers.read_keys(keys)
        table = None if sought is None else self._table.as_numbers(self._kind)
        if sought is None or table is None:
            return None
        values, exists = table.get(sought)
        return pa.array(values, mask=~exists)

    def fold_columns(self, keys: numbers.ArrowColumn, values: numbers.ArrowColumn) -> pa.Array | None:
        """Fold columns without Python objects; return None and change nothing where that is impossible."""
        self.scope.require_group(self.meta)
        read = numbers.read_columns(keys, values, self._kind)
        table = None if read is None else self._table.as_numbers(self._kind)
        if read is None or table is None:
            return None
        added, order = read
        folded = table.fold(added, self._combine)
        if folded is None:
            return None
        in_given_order = np.empty_like(folded)
        in_given_order[order] = folded
        return pa.array(in_given_order)


def fold_one_by_one(cells: AnyCells, keys: Sequence[object], values: Sequence[object], reduce: Reduce) -> list[object]:
    """Fold values into the cells of keys one by one, with expiry and conversion."""
    scope, folded = cells.scope, []
    scope.require_group(cells.meta)
    try:
        for scope.key, value in zip(keys, values, strict=True):
            before = cells.read()
            after = before if value is None else value if before is None else reduce(before, value)
            if value is not None:
                cells.write(after)
            folded.append(after)
    finally:
        scope.key = kinds.NO_KEY
    return folded


class ExpiringCells(Cells):
    """Cells with a time to live: pairs of value and last renewal."""

    __slots__ = ("_duration_ms", "_renews_on_read", "_shows_expired")

    def __init__(self, meta: StateMeta, scope: kinds.Scope, life: Ttl) -> None:
        super().__init__(meta, scope)
        self._duration_ms = life.duration_ms
        self._renews_on_read = life.renews_on_read
        self._shows_expired = life.shows_expired

    def read(self) -> object:
        """Return the current key's value, None when there is none or it is expired; an expired one is deleted."""
        scope = self.scope
        if scope.key is kinds.NO_KEY:
            scope.require_key(self.meta)
        cell = self._rows.get(scope.key)
        if cell is None:
            return None
        value: object
        renewed_ms: int
        value, renewed_ms = cell  # type: ignore[misc]  # a pair where there is a time to live
        if renewed_ms + self._duration_ms <= scope.now_ms:
            self.remove()
            return value if self._shows_expired else None
        if self._renews_on_read and renewed_ms != scope.now_ms:
            self._rows[scope.key] = (value, scope.now_ms)
            self._dirty.add(scope.key)
        return value

    def exists(self) -> bool:
        """Tell whether the current key has a value that is not expired."""
        cell = self._rows.get(self.scope.require_key(self.meta))
        return cell is not None and cast("tuple[object, int]", cell)[1] + self._duration_ms > self.scope.now_ms

    def write(self, value: object) -> None:
        """Set the current key's value and renew it; None removes it."""
        scope = self.scope
        key = scope.key
        if value is None or key is kinds.NO_KEY:
            self.remove()
            return
        self._rows[key] = (value, scope.now_ms)
        self._dirty.add(key)

    def fold(self, keys: Sequence[object], values: Sequence[object], reduce: Reduce) -> list[object]:
        """Fold a value into the cell of each of many keys, and return the cells' values; None changes nothing."""
        return fold_one_by_one(self, keys, values, reduce)


class CleaningCells(ExpiringCells):
    """Cells with a time to live that clean up some entries at every access."""

    __slots__ = ("_cleaner",)

    def __init__(self, meta: StateMeta, scope: kinds.Scope, life: Ttl, cleaner: ttl.Cleaner) -> None:
        super().__init__(meta, scope, life)
        self._cleaner = cleaner

    def read(self) -> object:
        """Clean up the next entries, then read."""
        self._cleaner.step(self.scope.now_ms)
        return super().read()

    def write(self, value: object) -> None:
        """Clean up the next entries, then write."""
        self._cleaner.step(self.scope.now_ms)
        super().write(value)


class ConvertingCells:
    """Cells with values of a user-defined type that are stored in another form.

    Attributes:
        conversion: Converts between both; a key group with an older stored form has its own.
    """

    __slots__ = ("_cells", "conversion")

    def __init__(self, cells: Cells, conversion: conversions.Conversion) -> None:
        self._cells = cells
        self.conversion = conversion

    def _bind(self, table: CellTable) -> None:
        """Switch to another key group."""
        self._cells._bind(table)

    def read(self) -> object:
        """Return the current key's value, None when there is none."""
        stored = self._cells.read()
        return None if stored is None else self.conversion.decode(stored)

    def exists(self) -> bool:
        """Tell whether the current key has a value."""
        return self._cells.exists()

    def write(self, value: object) -> None:
        """Set the current key's value; None removes it."""
        self._cells.write(None if value is None else self.conversion.encode(value))

    def remove(self) -> None:
        """Remove the current key's value."""
        self._cells.remove()

    def fold(self, keys: Sequence[object], values: Sequence[object], reduce: Reduce) -> list[object]:
        """Fold a value into the cell of each of many keys, and return the cells' values; None changes nothing."""
        return fold_one_by_one(self, keys, values, reduce)

    def fold_columns(self, keys: numbers.ArrowColumn, values: numbers.ArrowColumn) -> pa.Array | None:
        """Return None: values are converted one by one."""
        return None

    def read_columns(self, keys: numbers.ArrowColumn) -> pa.Array | None:
        """Return None: values are converted one by one."""
        return None

    def use_objects(self) -> None:
        """Be ready for single keys."""
        self._cells.use_objects()

    @property
    def meta(self) -> StateMeta:
        """The state."""
        return self._cells.meta

    @property
    def scope(self) -> kinds.Scope:
        """The operator's scope."""
        return self._cells.scope


AnyCells = Cells | ConvertingCells


class CellKind(kinds.StateKind):
    """One cell per key."""

    is_one_cell: ClassVar[bool] = True
    has_columns: ClassVar[bool] = True

    def new_table(self) -> CellTable:
        """Return an empty table."""
        return CellTable()

    def new_view(
        self,
        state: kinds.StateMeta,
        scope: kinds.Scope,
        life: Ttl | None,
        cleaner: ttl.Cleaner | None,
        conversion: conversions.Conversion | None,
    ) -> AnyCells:
        """Return the view of the tables of a state."""
        if life is None:
            view = Cells(state, scope)
        elif cleaner is None:
            view = ExpiringCells(state, scope, life)
        else:
            view = CleaningCells(state, scope, life, cleaner)
        return view if conversion is None else ConvertingCells(view, conversion)

    def merge(self, older: tables.Changes, newer: tables.Changes) -> None:
        """Fold newer changes into older ones, in place."""
        older.update(newer)

    def encode(self, changes: tables.Changes) -> list[object]:
        """Return the column of cells."""
        return [codec.pack_column(changes.values())]

    def decode(self, keys: Collection[object], cells: list[object]) -> tables.Changes:  # type: ignore[override]  # its own columns
        """Undo `encode`."""
        return dict(zip(keys, codec.unpack_column(cells), strict=True))

    def make_row(self, change: object) -> object:
        """Return the cell."""
        return change

    def read_row(self, row: object) -> object:
        """Return the cell."""
        return row

    def written_cells(self, changes: tables.Changes) -> Iterable[tables.Cell]:
        """Return the cells that changes set."""
        return changes.values()

    def alive(self, change: tuple[object, int], cutoff_ms: int) -> object:
        """Return the cell if it was renewed after a time, else None."""
        return CellTable.alive(change, cutoff_ms)

    def entries(self, changes: tables.Changes) -> Iterator[kinds.Entry]:
        """Yield the content of a full chunk."""
        return ((key, None, cell) for key, cell in changes.items())

    def gather(self, entries: Iterable[kinds.Entry]) -> tables.Changes:
        """Undo `entries`."""
        return {key: cell for key, _, cell in entries}


class CellHandle(many.OfManyKeys, Generic[T]):
    """One value of the current key, or of many keys."""

    __slots__ = ("_cells",)

    def __init__(self, cells: AnyCells) -> None:
        self._cells = cells

    @property
    def _turns(self) -> many.Turns:
        """Makes keys the current one, in turn."""
        self._cells.use_objects()
        return many.Turns(self._cells.scope, self._cells.meta)

    @abstractmethod
    def get(self) -> T | None:
        """Return the value of the current key."""

    def exists(self) -> bool:
        """Tell whether the current key has a value that is not expired. This renews and deletes nothing."""
        return self._cells.exists()

    @overload
    def get_many(self, keys: numbers.ArrowColumn) -> pa.Array: ...
    @overload
    def get_many(self, keys: Sequence[object]) -> list[T | None]: ...
    def get_many(self, keys: many.Given) -> pa.Array | list[T | None]:
        """Return the value of each of many keys; in `process_table` only.

        Args:
            keys: Keys that the table has: a column, or a sequence.

        Returns:
            What `get` returns for each key, in the order of the keys: a column for a column, a list for a sequence.
        """
        column = self._cells.read_columns(keys) if many.is_column(keys) else None  # type: ignore[arg-type]  # a column
        if column is not None:
            return column
        values = [self.get() for _ in self._turns.rows("get_many", keys)]
        return many.make_column("get_many", values) if many.is_column(keys) else values
