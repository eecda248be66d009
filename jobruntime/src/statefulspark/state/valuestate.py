"""`ValueState`: one value per key.

Values stay objects between batches, so pass a value that was changed in place to `update` again; otherwise the change is
not stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, cast

from statefulspark.state import cells, kinds, many, numbers
from statefulspark.state.ttl import Ttl
from statefulspark.state.types import typetext

T = TypeVar("T")


class ValueState(cells.CellHandle[T]):
    """One value per key. Unset reads as None; updating with None clears."""

    __slots__ = ()

    def get(self) -> T | None:
        """Return the value, or None when it is unset."""
        return cast("T | None", self._cells.read())

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
            for (value,) in self._turns.rows("update_many", keys, values):
                self._cells.write(value)

    def clear(self) -> None:
        """Remove the value of the current key."""
        self._cells.remove()


class ValueKind(cells.CellKind):
    """One value per key."""

    def new_array_view(
        self, descriptor: ValueStateDescriptor, state: kinds.StateMeta, scope: kinds.Scope
    ) -> cells.NumberCells | None:
        """Return cells that are set and read as columns, if the type allows it."""
        number = numbers.KINDS.get(typetext.parse(state.type_text).family)
        return None if number is None else cells.NumberCells(state, scope, number, numbers.newest)

    def handle(self, descriptor: ValueStateDescriptor, view: cells.AnyCells) -> ValueState[object]:
        """Return the handle."""
        return ValueState(view)


VALUE = ValueKind("ValueState")


@dataclass(frozen=True)
class ValueStateDescriptor(kinds.Descriptor):
    """One value per key; see `KeyedContext.value_state`."""

    name: str
    type: object = None
    ttl: Ttl | None = None

    kind = VALUE
