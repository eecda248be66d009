"""Handles of the states with one cell per key: value, reducing and aggregating.

A handle reads and writes the value of the current key, or of many keys at once (`many`). Values stay objects between
batches, so pass a value that was changed in place to `update` again; otherwise the change is not stored.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar, cast, overload

import pyarrow as pa

from statefulspark.state.handles import cells, many
from statefulspark.state.memory import numbers

if TYPE_CHECKING:
    from statefulspark.state.handles import aggregates

T = TypeVar("T")
In = TypeVar("In")
Acc = TypeVar("Acc")
Out = TypeVar("Out")
Keys = Sequence[object]


class CellHandle(many.OfManyKeys, Generic[T]):
    """One value of the current key, or of many keys."""

    __slots__ = ("_cells",)

    def __init__(self, cells: cells.AnyCells) -> None:
        self._cells = cells

    @property
    def turns(self) -> many.Turns:
        """Makes keys the current one, in turn."""
        self._cells.use_objects()
        return many.Turns(self._cells.scope, self._cells.meta)

    @abstractmethod
    def get(self) -> T | None:
        """Return the value of the current key."""

    @overload
    def get_many(self, keys: numbers.ArrowColumn) -> pa.Array: ...
    @overload
    def get_many(self, keys: Keys) -> list[T | None]: ...
    def get_many(self, keys: many.Given) -> pa.Array | list[T | None]:
        """Return the value of each of many keys; in `process_table` only.

        Args:
            keys: Keys that the table has: a column, or a sequence.

        Returns:
            What `get` returns for each key, in the order of the keys: a column for a column, a list for a sequence.
        """
        column = self._column_of(keys) if many.is_column(keys) else None  # type: ignore[arg-type]  # a column
        if column is not None:
            return column
        values = [self.get() for _ in self.turns.rows("get_many", keys)]
        return many.to_column("get_many", values) if many.is_column(keys) else values

    def _column_of(self, keys: numbers.ArrowColumn) -> pa.Array | None:
        """Return the values as a column without Python objects; None where that is impossible."""
        return self._cells.read_columns(keys)


class ValueHandle(CellHandle[T]):
    """One value of the current key."""

    __slots__ = ()

    def value(self) -> T | None:
        """Return the value, or None when it is unset."""
        return cast("T | None", self._cells.read())

    get = value

    def update(self, value: T | None) -> None:
        """Set the value; None clears it."""
        self._cells.write(value)

    def update_many(self, keys: many.Given, values: many.Given) -> None:
        """Set the value of each of many keys; in `process_table` only.

        Numbers by integer key stay arrays: see `ReducingState`.

        Args:
            keys: Keys that the table has: a column, or a sequence; of a key that comes twice the last value stays.
            values: A value for each of them, likewise; None clears it.
        """
        is_set = many.are_columns("update_many", keys, values) and self._cells.fold_columns(keys, values) is not None  # type: ignore[arg-type]  # columns
        if not is_set:
            for (value,) in self.turns.rows("update_many", keys, values):
                self._cells.write(value)

    def clear(self) -> None:
        """Remove the value of the current key."""
        self._cells.remove()


class DefaultValueHandle(ValueHandle[T]):
    """One value of the current key that reads as a default while it is unset."""

    __slots__ = ("_default",)

    def __init__(self, cells: cells.AnyCells, default: T) -> None:
        super().__init__(cells)
        self._default = default

    def value(self) -> T | None:
        """Return the value, or the default when it is unset."""
        value = cast("T | None", self._cells.read())
        return self._default if value is None else value

    get = value

    def _column_of(self, keys: numbers.ArrowColumn) -> pa.Array | None:
        column = self._cells.read_columns(keys)
        return None if column is None else column.fill_null(self._default)


class ReducingHandle(CellHandle[T]):
    """One value of the current key, folded from what was added."""

    __slots__ = ("_reduce",)

    def __init__(self, cells: cells.AnyCells, reduce: Callable[[T, T], T]) -> None:
        super().__init__(cells)
        self._reduce = reduce

    def add(self, value: T | None) -> None:
        """Add a value. None leaves the state as it is."""
        if value is None:
            return
        before = cast("T | None", self._cells.read())
        self._cells.write(value if before is None else self._reduce(before, value))

    @overload
    def add_many(self, keys: numbers.ArrowColumn, values: numbers.ArrowColumn) -> pa.Array: ...
    @overload
    def add_many(self, keys: Keys, values: Sequence[T | None]) -> list[T | None]: ...
    def add_many(
        self, keys: numbers.ArrowColumn | Keys, values: numbers.ArrowColumn | Sequence[T | None]
    ) -> pa.Array | list[T | None]:
        """Fold one value into the state of each of many keys; in `process_table` only.

        Numbers by integer key stay arrays, in memory and in storage, and cost no Python object each: the state is
        declared as `int` or `float` without a time to live, its function is `operator.add`, `min` or `max`, and the
        keys are a column of integers without duplicates.

        Args:
            keys: Keys that the table has: a column, or a sequence.
            values: A value for each of them, likewise; None leaves the state of its key as it is.

        Returns:
            The folded value of each key, in the order of the keys: a column for columns, a list for sequences.
        """
        if not many.are_columns("add_many", keys, values):
            reduce = cast("cells.Reduce", self._reduce)
            return cast(
                "list[T | None]", self._cells.fold(cast("Keys", keys), cast("Sequence[T | None]", values), reduce)
            )
        folded = self._cells.fold_columns(cast("numbers.ArrowColumn", keys), cast("numbers.ArrowColumn", values))
        if folded is None:
            folded = many.to_column("add_many", self.add_many(*self.turns.objects(keys, values)))  # type: ignore[arg-type]
        return folded

    def get(self) -> T | None:
        """Return the folded value, or None when nothing was added."""
        return cast("T | None", self._cells.read())

    def clear(self) -> None:
        """Remove the value of the current key."""
        self._cells.remove()


class AggregatingHandle(CellHandle[Out], Generic[In, Acc, Out]):
    """One accumulator of the current key."""

    __slots__ = ("_function",)

    def __init__(self, cells: cells.AnyCells, function: aggregates.AggregateFunction[In, Acc, Out]) -> None:
        super().__init__(cells)
        self._function = function

    def add(self, value: In | None) -> None:
        """Add a value. None leaves the state as it is."""
        if value is None:
            return
        before = cast("Acc | None", self._cells.read())
        accumulator = self._function.create() if before is None else before
        self._cells.write(self._function.add(accumulator, value))

    @overload
    def add_many(self, keys: numbers.ArrowColumn, values: numbers.ArrowColumn) -> pa.Array: ...
    @overload
    def add_many(self, keys: Keys, values: Sequence[In | None]) -> list[Out | None]: ...
    def add_many(
        self, keys: numbers.ArrowColumn | Keys, values: numbers.ArrowColumn | Sequence[In | None]
    ) -> pa.Array | list[Out | None]:
        """Fold one value into the accumulator of each of many keys; in `process_table` only.

        Args:
            keys: Keys that the table has: a column, or a sequence; a key may come more than once.
            values: A value for each of them, likewise; None leaves the accumulator of its key as it is.

        Returns:
            The result of each key after its value, in the order of the keys: a column for columns, a list for sequences.
        """
        if many.are_columns("add_many", keys, values):
            return many.to_column("add_many", self._add_each(*self.turns.objects(keys, values)))  # type: ignore[arg-type]
        return self._add_each(cast("Keys", keys), cast("Sequence[In | None]", values))

    def _add_each(self, keys: Keys, values: Sequence[In | None]) -> list[Out | None]:
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
        """Return the result of what was added, or None when nothing was added."""
        accumulator = cast("Acc | None", self._cells.read())
        return None if accumulator is None else self._function.result(accumulator)

    def clear(self) -> None:
        """Remove the accumulator of the current key."""
        self._cells.remove()


def _same(before: object, _: object) -> object:
    return before


def _newer(_: object, after: object) -> object:
    return after
