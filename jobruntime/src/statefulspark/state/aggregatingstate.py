"""`ReducingState` and `AggregatingState`: one value per key, folded from what a function adds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast, overload

import pyarrow as pa

from statefulspark.state import cells, kinds, many, numbers
from statefulspark.state.ttl import Ttl
from statefulspark.state.types import typetext

In = TypeVar("In")
Out = TypeVar("Out")
T = TypeVar("T")
Acc = TypeVar("Acc")
In_contra = TypeVar("In_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)


class AggregateFunction(Protocol[In_contra, Acc, Out_co]):
    """Aggregation of an aggregating state: `create`, then `add` for each value, `result` on a read."""

    def create(self) -> Acc:
        """Return an empty accumulator."""

    def add(self, accumulator: Acc, value: In_contra) -> Acc:
        """Return the accumulator with the value added."""

    def result(self, accumulator: Acc) -> Out_co:
        """Return the result of an accumulator."""


class ReducingState(cells.CellHandle[T]):
    """One value per key, folded from what was added; None while there is none."""

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
    def add_many(self, keys: Sequence[object], values: Sequence[T | None]) -> list[T | None]: ...
    def add_many(
        self, keys: numbers.ArrowColumn | Sequence[object], values: numbers.ArrowColumn | Sequence[T | None]
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
                "list[T | None]",
                self._cells.fold(cast("Sequence[object]", keys), cast("Sequence[T | None]", values), reduce),
            )
        folded = self._cells.fold_columns(cast("numbers.ArrowColumn", keys), cast("numbers.ArrowColumn", values))
        if folded is None:
            folded = many.make_column("add_many", self.add_many(*self._turns.objects(keys, values)))  # type: ignore[arg-type]
        return folded

    def get(self) -> T | None:
        """Return the folded value, or None when nothing was added."""
        return cast("T | None", self._cells.read())

    def clear(self) -> None:
        """Remove the value of the current key."""
        self._cells.remove()


class AggregatingState(cells.CellHandle[Out], Generic[In, Out]):
    """One accumulator per key; a read returns the result of the function, None while nothing was added."""

    __slots__ = ("_function",)

    def __init__(self, cells: cells.AnyCells, function: AggregateFunction[In, Any, Out]) -> None:
        super().__init__(cells)
        self._function = function

    def add(self, value: In | None) -> None:
        """Add a value. None leaves the state as it is."""
        if value is None:
            return
        before = self._cells.read()
        accumulator = self._function.create() if before is None else before
        self._cells.write(self._function.add(accumulator, value))

    @overload
    def add_many(self, keys: numbers.ArrowColumn, values: numbers.ArrowColumn) -> pa.Array: ...
    @overload
    def add_many(self, keys: Sequence[object], values: Sequence[In | None]) -> list[Out | None]: ...
    def add_many(
        self, keys: numbers.ArrowColumn | Sequence[object], values: numbers.ArrowColumn | Sequence[In | None]
    ) -> pa.Array | list[Out | None]:
        """Fold one value into the accumulator of each of many keys; in `process_table` only.

        Args:
            keys: Keys that the table has: a column, or a sequence; a key may come more than once.
            values: A value for each of them, likewise; None leaves the accumulator of its key as it is.

        Returns:
            The result of each key after its value, in the order of the keys: a column for columns, a list for sequences.
        """
        if many.are_columns("add_many", keys, values):
            return many.make_column("add_many", self._add_each(*self._turns.objects(keys, values)))  # type: ignore[arg-type]
        return self._add_each(cast("Sequence[object]", keys), cast("Sequence[In | None]", values))

    def _add_each(self, keys: Sequence[object], values: Sequence[In | None]) -> list[Out | None]:
        stored = self._cells.fold(keys, [None] * len(keys), lambda before, _: before)
        before: dict[object, object] = dict(zip(keys, stored, strict=True))
        after: dict[object, object] = {}
        results: list[Out | None] = []
        for key, value in zip(keys, values, strict=True):
            accumulator = after.get(key, before[key])
            if value is not None:
                start = self._function.create() if accumulator is None else accumulator
                after[key] = accumulator = self._function.add(start, value)
            results.append(None if accumulator is None else self._function.result(accumulator))
        self._cells.fold(list(after), list(after.values()), numbers.newest)
        return results

    def get(self) -> Out | None:
        """Return the result of what was added, or None when nothing was added."""
        accumulator = self._cells.read()
        return None if accumulator is None else self._function.result(accumulator)

    def clear(self) -> None:
        """Remove the accumulator of the current key."""
        self._cells.remove()


class ReducingKind(cells.CellKind):
    """One value per key, folded from values of its own type."""

    def new_array_view(
        self, descriptor: ReducingStateDescriptor, state: kinds.StateMeta, scope: kinds.Scope
    ) -> cells.NumberCells | None:
        """Return cells that are folded as columns, if the function and the type allow it."""
        number = numbers.KINDS.get(typetext.parse(state.type_text).family)
        combine = numbers.combination_of(descriptor.reduce)
        return None if number is None or combine is None else cells.NumberCells(state, scope, number, combine)

    def handle(self, descriptor: ReducingStateDescriptor, view: cells.AnyCells) -> ReducingState[Any]:
        """Return the handle."""
        return ReducingState(view, descriptor.reduce)


class AggregatingKind(cells.CellKind):
    """One accumulator per key, folded from values of another type."""

    def handle(self, descriptor: AggregatingStateDescriptor, view: cells.AnyCells) -> AggregatingState[Any, Any]:
        """Return the handle."""
        return AggregatingState(view, descriptor.function)


REDUCING = ReducingKind("ReducingState")
AGGREGATING = AggregatingKind("AggregatingState")


@dataclass(frozen=True)
class ReducingStateDescriptor(kinds.Descriptor):
    """One value per key, reduced from all added values; see `KeyedContext.reducing_state`."""

    name: str
    reduce: Callable[[Any, Any], Any]
    type: object = None
    ttl: Ttl | None = None

    kind = REDUCING


@dataclass(frozen=True)
class AggregatingStateDescriptor(kinds.Descriptor):
    """One accumulator per key; see `KeyedContext.aggregating_state`."""

    name: str
    function: AggregateFunction[Any, Any, Any]
    type: object = None
    ttl: Ttl | None = None

    kind = AGGREGATING


@dataclass(frozen=True)
class Fold(Generic[In, Acc]):
    """The function of a folding state: an aggregation whose result is its accumulator.

    Attributes:
        initial: The empty accumulator.
        fold: Combines an accumulator with a value.
    """

    initial: Acc
    fold: Callable[[Acc, In], Acc]

    def create(self) -> Acc:
        """Return the empty accumulator."""
        return self.initial

    def add(self, accumulator: Acc, value: In) -> Acc:
        """Return the accumulator with the value folded in."""
        return self.fold(accumulator, value)

    def result(self, accumulator: Acc) -> Acc:
        """Return the accumulator."""
        return accumulator
