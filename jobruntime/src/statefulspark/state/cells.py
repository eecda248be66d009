"""Handles of the states with one cell per key: value, reducing and aggregating.

A handle is a view: what it reads and writes belongs to the key that is being processed. Values are kept as objects
between batches, so a value that is changed in place must be given to `update` again to be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

from statefulspark.state import chunks, conversions, descriptors, expiry, tables
from statefulspark.state import scope as scopes

T = TypeVar("T")
In = TypeVar("In")
Acc = TypeVar("Acc")
Out = TypeVar("Out")

Reduce = Callable[[object, object], object]


class Cells:
    """Cells of one state in the bound key group, without a time to live."""

    __slots__ = ("_dirty", "_rows", "meta", "scope")

    def __init__(self, meta: chunks.StateMeta, scope: scopes.Scope) -> None:
        self.meta = meta
        self.scope = scope
        self._rows: dict[tables.Key, object] = {}
        self._dirty: set[tables.Key] = set()

    def bind(self, table: tables.CellTable) -> None:
        """Look at another key group."""
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
        if type(self) is Cells and len(set(keys)) == len(keys) and None not in values:
            before = map(self._rows.get, keys)
            folded = [value if old is None else reduce(old, value) for old, value in zip(before, values, strict=True)]
            self._rows.update(zip(keys, folded, strict=True))
            self._dirty.update(keys)
            return folded
        return fold_one_by_one(self, self.scope, keys, values, reduce)


def fold_one_by_one(
    cells: AnyCells, scope: scopes.Scope, keys: Sequence[object], values: Sequence[object], reduce: Reduce
) -> list[object]:
    """Fold values into the cells of keys, through all that stands between a handle and the table."""
    folded = []
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

    def __init__(self, meta: chunks.StateMeta, scope: scopes.Scope, ttl: descriptors.Ttl) -> None:
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


class SteppingCells(ExpiringCells):
    """Cells with a time to live that look for expired ones at every access."""

    __slots__ = ("_cleaner",)

    def __init__(
        self, meta: chunks.StateMeta, scope: scopes.Scope, ttl: descriptors.Ttl, cleaner: expiry.Cleaner
    ) -> None:
        super().__init__(meta, scope, ttl)
        self._cleaner = cleaner

    def read(self) -> object:
        """Look at the next entries, then read."""
        self._cleaner.step(self.scope.now_ms)
        return super().read()

    def write(self, value: object) -> None:
        """Look at the next entries, then write."""
        self._cleaner.step(self.scope.now_ms)
        super().write(value)


class ConvertingCells:
    """Cells whose values are of a type of the user's own, and are stored in another form.

    Attributes:
        conversion: Between the two; another one for a key group whose stored form is older.
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
        self._cells.scope.require_group(self._cells.meta)
        return fold_one_by_one(self, self._cells.scope, keys, values, reduce)


AnyCells = Cells | ConvertingCells


class ValueHandle(Generic[T]):
    """One value of the current key."""

    __slots__ = ("_cells",)

    def __init__(self, cells: AnyCells) -> None:
        self._cells = cells

    def value(self) -> T | None:
        """Return the value, or None when it is unset."""
        return cast("T | None", self._cells.read())

    get = value

    def update(self, value: T | None) -> None:
        """Set the value; None clears it."""
        self._cells.write(value)

    def clear(self) -> None:
        """Remove the value of the current key."""
        self._cells.remove()


class DefaultValueHandle(ValueHandle[T]):
    """One value of the current key that reads as a default while it is unset."""

    __slots__ = ("_default",)

    def __init__(self, cells: AnyCells, default: T) -> None:
        super().__init__(cells)
        self._default = default

    def value(self) -> T | None:
        """Return the value, or the default when it is unset."""
        found = cast("T | None", self._cells.read())
        return self._default if found is None else found

    get = value


class ReducingHandle(Generic[T]):
    """One value of the current key, folded from what was added."""

    __slots__ = ("_cells", "_reduce")

    def __init__(self, cells: AnyCells, reduce: Callable[[T, T], T]) -> None:
        self._cells = cells
        self._reduce = reduce

    def add(self, value: T | None) -> None:
        """Fold a value in. None leaves the state as it is."""
        if value is None:
            return
        before = cast("T | None", self._cells.read())
        self._cells.write(value if before is None else self._reduce(before, value))

    def add_many(self, keys: Sequence[object], values: Sequence[T | None]) -> list[T | None]:
        """Fold one value into the state of each of many keys; in `process_table` only.

        Args:
            keys: Keys that the table has.
            values: A value for each of them; None leaves the state of its key as it is.

        Returns:
            The folded value of each key, in the order of the keys.
        """
        return cast("list[T | None]", self._cells.fold(keys, values, cast("Reduce", self._reduce)))

    def get(self) -> T | None:
        """Return the folded value, or None when nothing was added."""
        return cast("T | None", self._cells.read())

    def clear(self) -> None:
        """Remove the value of the current key."""
        self._cells.remove()


class AggregatingHandle(Generic[In, Acc, Out]):
    """One accumulator of the current key."""

    __slots__ = ("_cells", "_function")

    def __init__(self, cells: AnyCells, function: descriptors.AggregateFunction[In, Acc, Out]) -> None:
        self._cells = cells
        self._function = function

    def add(self, value: In | None) -> None:
        """Fold a value in. None leaves the state as it is."""
        if value is None:
            return
        before = cast("Acc | None", self._cells.read())
        accumulator = self._function.create() if before is None else before
        self._cells.write(self._function.add(accumulator, value))

    def add_many(self, keys: Sequence[object], values: Sequence[In | None]) -> list[Out | None]:
        """Fold one value into the accumulator of each of many keys; in `process_table` only.

        Args:
            keys: Keys that the table has; a key may come more than once.
            values: A value for each of them; None leaves the accumulator of its key as it is.

        Returns:
            The result of each key after its value, in the order of the keys.
        """
        stored = self._cells.fold(keys, [None] * len(keys), _same)
        before: dict[object, object] = dict(zip(keys, stored, strict=True))
        results: list[Out | None] = []
        for key, value in zip(keys, values, strict=True):
            accumulator = cast("Acc | None", before[key])
            if value is not None:
                start = self._function.create() if accumulator is None else accumulator
                before[key] = accumulator = self._function.add(start, value)
            results.append(None if accumulator is None else self._function.result(accumulator))
        self._cells.fold(list(before), list(before.values()), _newer)
        return results

    def get(self) -> Out | None:
        """Return the result of what was added, or None when nothing was."""
        accumulator = cast("Acc | None", self._cells.read())
        return None if accumulator is None else self._function.result(accumulator)

    def clear(self) -> None:
        """Remove the accumulator of the current key."""
        self._cells.remove()


def _same(before: object, _: object) -> object:
    return before


def _newer(_: object, after: object) -> object:
    return after
