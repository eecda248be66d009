"""What a user writes: a function over the rows of one key, with state and timers.

An instance is sent to the workers by value. In each batch and for each partition a fresh copy is opened, gets the rows
of one key after the other, and is closed. What is kept in attributes is lost with the batch; what is kept in state is
there again with the next one, exactly once, wherever it runs.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from statefulspark.state import cellhandles, descriptors, evolution, timers, ttl
from statefulspark.state.context import KeyedContext

__all__ = [
    "Declared",
    "FlatMapWithState",
    "InputRow",
    "KeyedContext",
    "KeyedProcessFunction",
    "MapWithState",
    "VectorizedProcessFunction",
    "declarations_of",
]

if TYPE_CHECKING:
    import pyarrow as pa

S = TypeVar("S")


class InputRow(Protocol):
    """A row: a tuple whose columns are also attributes, and items by name."""

    def __getattr__(self, column: str) -> object: ...

    def __getitem__(self, column: str | int) -> object: ...


class KeyedProcessFunction:
    """Base of functions over keyed rows. Override `process`, and `open` to declare state."""

    def open(self, ctx: KeyedContext) -> None:
        """Get ready: declare states with `ctx.state` and keep the handles. Called once per partition and batch.

        When the job starts, a copy is opened on the driver, too, with `ctx.declares_only`, which is how types are compared
        with those in the state before anything runs: return then once the states are declared, if more is expensive.
        """

    def process(self, key: object, rows: list[InputRow], ctx: KeyedContext) -> Iterable[object] | None:
        """Work on all rows of one key in a batch, in the order in which the batch has them.

        Args:
            key: The key: a value, or a tuple when it has several columns. Null is a key like any other.
            rows: At least one row, with every column of the input, late ones too (`ctx.is_late`).
            ctx: Current key, time and timers; state is reached through the handles from `open`.

        Returns:
            An iterable (mostly a generator) of output rows: tuples in the order of the schema, dicts, or Rows.
            A single column is written as a tuple of one. None is no output.
        """
        raise NotImplementedError(f"{type(self).__qualname__} must override process()")

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterable[object] | None:
        """Work on a timer that is due, after the rows of the batch. The timer is gone; it may be set again.

        Args:
            timestamp: The moment it was set for, in milliseconds since 1970.
            ctx: As in `process`; `ctx.key` is the key of the timer, `ctx.time_domain` its domain.

        Returns:
            Output rows, as `process` does.
        """

    def close(self) -> None:
        """Release what `open` acquired. Called once per partition and batch, unless the batch failed."""


class VectorizedProcessFunction(KeyedProcessFunction):
    """Base of functions over whole tables: all rows of a key group in a batch, as Arrow columns.

    Rows are aggregated with Arrow, and reducing and aggregating states take columns with one value for each key with
    `add_many`, so that no Python runs per row, and none per key for numbers by integer key. Other states and timers
    belong to one key and are not reached from here.
    """

    def process_table(self, rows: pa.Table, ctx: KeyedContext) -> pa.Table | None:
        """Work on the rows of a key group.

        Args:
            rows: Every column of the input, at least one row. All rows of a key are in one table.
            ctx: Time, and `ctx.keys(table)` and `ctx.values(column)`, which give Python values; for a key of several columns
                `add_many` takes what `ctx.keys` gives.

        Returns:
            A table with the columns of the output schema, by name. None is no output.
        """
        raise NotImplementedError(f"{type(self).__qualname__} must override process_table()")


class FlatMapWithState(KeyedProcessFunction, Generic[S]):
    """Rows to any number of rows each, with one value of state per key.

    Args:
        function: Gets a row and the state, None when there is none; returns output rows and the new state, None to
            clear it.
        state: The state.
    """

    def __init__(
        self,
        function: Callable[[InputRow, S | None], tuple[Iterable[object] | None, S | None]],
        state: descriptors.ValueState[S],
    ) -> None:
        self._call = function
        self._descriptor = state
        self._state: cellhandles.ValueHandle[S]

    def open(self, ctx: KeyedContext) -> None:
        """Declare the state."""
        self._state = ctx.state(self._descriptor)

    def process(self, key: object, rows: list[InputRow], ctx: KeyedContext) -> Iterable[object]:
        """Give each row with the state to the function, in order."""
        output: list[object] = []
        state = self._state.value()
        for row in rows:
            emitted, state = self._call(row, state)
            if emitted is not None:
                output.extend(emitted)
        self._state.update(state)
        return output


class MapWithState(FlatMapWithState[S]):
    """Rows to one row each, with one value of state per key.

    Args:
        function: Gets a row and the state, None when there is none; returns one output row and the new state, None to
            clear it.
        state: The state.
    """

    def __init__(
        self,
        function: Callable[[InputRow, S | None], tuple[object, S | None]],
        state: descriptors.ValueState[S],
    ) -> None:
        def one(row: InputRow, before: S | None) -> tuple[Iterable[object], S | None]:
            emitted, after = function(row, before)
            return (emitted,), after

        super().__init__(one, state)


@dataclass(frozen=True, slots=True)
class Declared:
    """What a function declares.

    Attributes:
        states: Its states, in order.
        lifetimes: Time to live by name of the state, for those that have one.
    """

    states: tuple[evolution.Declaration, ...]
    lifetimes: Mapping[str, ttl.Ttl]


def declarations_of(
    function: KeyedProcessFunction,
    uid: str,
    *,
    domains: frozenset[timers.TimeDomain] = frozenset(),
    ttl_change: ttl.TtlChange = ttl.TtlChange.REFUSE,
) -> Declared:
    """Return what a function declares, without running it on a worker.

    A copy of the function is opened and closed for that, with `ctx.declares_only`.

    Args:
        function: The function; it stays as it is.
        uid: Of its operator.
        domains: Time domains in which it has timers.
        ttl_change: What happens when a time to live was switched on or off.

    Raises:
        Exception: What copying or `open` raise.
    """
    opened = copy.deepcopy(function)
    context = KeyedContext(uid, 0, domains=domains, ttl_change=ttl_change, declares_only=True)
    opened.open(context)
    # Where `open` returned before it made what `close` releases, that fails, and nothing is left to release.
    with contextlib.suppress(Exception):
        opened.close()
    return Declared(context.declarations, context.lifetimes)
