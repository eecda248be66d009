"""`ValueState`: one value per key.

Values stay objects between batches, so pass a value that was changed in place to `update` again; otherwise the change is
not stored.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import pyarrow as pa

from statefulspark.state import cells, kinds, many, numbers, ttl
from statefulspark.state.ttl import Ttl
from statefulspark.state.types import typetext
from statefulspark.state.types.conversions import Codec

T = TypeVar("T")


class ValueHandle(cells.CellHandle[T]):
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


class ValueKind(cells.CellKind):
    """One value per key."""

    def new_array_view(
        self, descriptor: ValueState[object], state: kinds.StateMeta, scope: kinds.Scope
    ) -> cells.NumberCells | None:
        """Return cells that are set and read as columns, if the type allows it."""
        number = numbers.KINDS.get(typetext.parse(state.type_text).family)
        return None if number is None else cells.NumberCells(state, scope, number, numbers.newest)

    def handle(self, descriptor: ValueState[object], view: cells.AnyCells, life: ttl.Ttl | None) -> ValueHandle[object]:
        """Return the handle, which knows the default of a state without a time to live."""
        if descriptor.default is not None and life is None:
            return DefaultValueHandle(view, descriptor.default)
        return ValueHandle(view)


VALUE = ValueKind("ValueState")


@dataclass(frozen=True)
class ValueState(kinds.Descriptor, Generic[T]):
    """One value per key. Unset reads as None; updating with None clears.

    Attributes:
        name: Unique name within the operator.
        type: Type of the value.
        ttl: Time to live; None keeps it until it is cleared.
        default: Value of an unset state without a time to live. Deprecated, as in Flink: use None.
    """

    name: str
    type: builtins.type[T] | Codec[T] | str | None = None
    ttl: Ttl | None = None
    default: T | None = None

    kind = VALUE
