"""Cells of the states with one value per key: plain, with a time to live, converted, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from statefulspark.state.handles.kindtypes import StateMeta
from statefulspark.state.memory import cleanup, numbers, tables
from statefulspark.state.memory import scope as scopes
from statefulspark.state.memory.ttl import Ttl
from statefulspark.state.types import conversions

Reduce = Callable[[object, object], object]


class Cells:
    """Cells of one state in the bound key group, without a time to live."""

    __slots__ = ("_dirty", "_rows", "meta", "scope")

    def __init__(self, meta: StateMeta, scope: scopes.Scope) -> None:
        self.meta = meta
        self.scope = scope
        self._rows: dict[tables.Key, object] = {}
        self._dirty: set[tables.Key] = set()

    def bind(self, table: tables.CellTable) -> None:
        """Switch to another key group."""
        self._rows = table.rows
        self._dirty = table.dirty

    def read(self) -> object:
        """Return the current key's value, None when there is none."""
        key = self.scope.key
        if key is scopes.NO_KEY:
            self.scope.require_key(self.meta)
        return self._rows.get(key)

    def write(self, value: object) -> None:
        """Set the current key's value; None removes it."""
        key = self.scope.key
        if key is scopes.NO_KEY:
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
        self, meta: StateMeta, scope: scopes.Scope, kind: type[int] | type[float], combine: numbers.Combine
    ) -> None:
        super().__init__(meta, scope)
        self._kind = kind
        self._combine = combine
        self._table = tables.CellTable()

    def bind(self, table: tables.CellTable) -> None:
        """Switch to another key group."""
        self._table = table

    def fold(self, keys: Sequence[object], values: Sequence[object], reduce: Reduce) -> list[object]:
        """Fold a value into the cell of each of many keys, as objects."""
        self.use_objects()
        return super().fold(keys, values, reduce)

    def use_objects(self) -> None:
        """Be ready for single keys: arrays become objects."""
        super().bind(self._table)

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
        scope.key = scopes.NO_KEY
    return folded


class ExpiringCells(Cells):
    """Cells with a time to live: pairs of value and last renewal."""

    __slots__ = ("_duration_ms", "_renews_on_read", "_shows_expired")

    def __init__(self, meta: StateMeta, scope: scopes.Scope, ttl: Ttl) -> None:
        super().__init__(meta, scope)
        self._duration_ms = ttl.duration_ms
        self._renews_on_read = ttl.renews_on_read
        self._shows_expired = ttl.shows_expired

    def read(self) -> object:
        """Return the current key's value, None when there is none or it is expired; an expired one is deleted."""
        scope = self.scope
        if scope.key is scopes.NO_KEY:
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

    def write(self, value: object) -> None:
        """Set the current key's value and renew it; None removes it."""
        scope = self.scope
        key = scope.key
        if value is None or key is scopes.NO_KEY:
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

    def __init__(self, meta: StateMeta, scope: scopes.Scope, ttl: Ttl, cleaner: cleanup.Cleaner) -> None:
        super().__init__(meta, scope, ttl)
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

    def read(self) -> object:
        """Return the current key's value, None when there is none."""
        stored = self._cells.read()
        return None if stored is None else self.conversion.decode(stored)

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
    def scope(self) -> scopes.Scope:
        """The operator's scope."""
        return self._cells.scope


AnyCells = Cells | ConvertingCells
