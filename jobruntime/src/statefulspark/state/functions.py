"""Base classes of user functions over the rows of one key, with state and timers.

An instance is sent to the workers by value. In each batch and for each partition, a new copy is opened, gets the rows
of one key after the other, and is closed. Attributes are lost at the end of the batch; state is kept exactly once and
is available in the next batch on any worker.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol

from typing_extensions import TypeVar

from statefulspark import errors
from statefulspark.state import evolution, timers, ttl, valuestate
from statefulspark.state.context import BatchContext, KeyedContext

__all__ = [
    "BatchContext",
    "Declared",
    "FlatMapWithState",
    "InputRow",
    "KeyedContext",
    "KeyedProcessFunction",
    "MapWithState",
    "VectorizedProcessFunction",
    "declarations_of",
    "timer_domains",
]

if TYPE_CHECKING:
    import pyarrow as pa

S = TypeVar("S")
Key = TypeVar("Key", default=Any)
Out = TypeVar("Out", default=Any)


class InputRow(Protocol):
    """A row: a tuple whose columns are also attributes, and items by name."""

    def __getattr__(self, column: str) -> Any: ...  # noqa: ANN401 - a checker does not see the schema

    def __getitem__(self, column: str | int) -> Any: ...  # noqa: ANN401

    def __iter__(self) -> Iterator[Any]: ...

    def __len__(self) -> int: ...


class KeyedProcessFunction(Generic[Key, Out]):
    """Base class of functions over keyed rows. Override `process`, and `open` to declare state.

    `KeyedProcessFunction[str, tuple[str, int]]` tells a type checker the type of the key, and of an output row.
    """

    def open(self, ctx: KeyedContext[Key]) -> None:
        """Declare states with `ctx.value_state` and the like, and keep the handles. Called once per partition and batch.

        At the start of the job a copy is also opened on the driver, with `ctx.declares_only`, to compare declared types
        with stored ones before anything runs: return then after declaring the states if the rest is expensive.
        """

    def process(self, key: Key, rows: Sequence[InputRow], ctx: KeyedContext[Key]) -> Iterable[Out] | None:
        """Process all rows of one key in a batch, in the order of the batch.

        Args:
            key: The key: a value, or a tuple when it has several columns. Null is a key like any other.
            rows: At least one row, with every column of the input, including late rows (`ctx.is_late`).
            ctx: Current key, time and timers; state is reached through the handles from `open`.

        Returns:
            An iterable (mostly a generator) of output rows: tuples in the order of the schema, dicts, or Rows.
            A single column is written as a tuple of one. None is no output.
        """
        raise NotImplementedError(f"{type(self).__qualname__} must override process()")

    def on_timer(self, when: datetime.datetime, ctx: KeyedContext[Key]) -> Iterable[Out] | None:
        """Handle a due timer, after the rows of the batch. The timer is already deleted and may be set again.

        Args:
            when: The moment it was set for, in UTC, rounded up to a millisecond.
            ctx: As in `process`; `ctx.key` is the key of the timer, `ctx.time_domain` its clock.

        Returns:
            Output rows, as from `process`.
        """

    def close(self) -> None:
        """Release what `open` acquired. Called once per partition and batch, unless the batch failed."""


class VectorizedProcessFunction(KeyedProcessFunction[Any, Any]):
    """Base class of functions over whole tables: all rows of a key group in a batch, as Arrow columns.

    Rows are aggregated with Arrow, and every state takes and returns columns with an item for each key (`add_many`,
    `get_many`, `update_many`, `put_many`, …), so that no Python of the function runs per row, and none at all per key for
    numbers by integer key. There is no current key, and there are no timers.
    """

    def process_table(self, rows: pa.Table, ctx: KeyedContext) -> pa.Table | None:
        """Process the rows of a key group.

        Args:
            rows: Every column of the input, at least one row. All rows of a key are in one table.
            ctx: Time, and `ctx.keys(table)` and `ctx.values(column)`, which return Python values; for a key of several
                columns pass the result of `ctx.keys` to `add_many` and the like.

        Returns:
            A table with the columns of the output schema, by name. None is no output.
        """
        raise NotImplementedError(f"{type(self).__qualname__} must override process_table()")


class FlatMapWithState(KeyedProcessFunction[Any, Any], Generic[S]):
    """Turns each row into any number of rows, with one value of state per key.

    Args:
        function: Gets a row and the state, None when there is none; returns output rows and the new state, None to
            clear it.
        state: The state.
    """

    def __init__(
        self,
        function: Callable[[InputRow, S | None], tuple[Iterable[object] | None, S | None]],
        state: valuestate.ValueStateDescriptor,
    ) -> None:
        self._call = function
        self._descriptor = state
        self._state: valuestate.ValueState[S]

    def open(self, ctx: KeyedContext) -> None:
        """Declare the state."""
        self._state = ctx._declare(self._descriptor)

    def process(self, key: object, rows: Sequence[InputRow], ctx: KeyedContext) -> Iterable[object]:
        """Give each row with the state to the function, in order."""
        state = self._state.get()
        for row in rows:
            emitted, state = self._call(row, state)
            if emitted is not None:
                yield from emitted
        self._state.update(state)


class MapWithState(FlatMapWithState[S]):
    """Turns each row into one row, with one value of state per key.

    Args:
        function: Gets a row and the state, None when there is none; returns one output row and the new state, None to
            clear it.
        state: The state.
    """

    def __init__(
        self,
        function: Callable[[InputRow, S | None], tuple[object, S | None]],
        state: valuestate.ValueStateDescriptor,
    ) -> None:
        def flat_map(row: InputRow, before: S | None) -> tuple[Iterable[object], S | None]:
            emitted, after = function(row, before)
            return (emitted,), after

        super().__init__(flat_map, state)


@dataclass(frozen=True, slots=True)
class Declared:
    """The states that a function declares.

    Attributes:
        states: Its states, in order.
        lifetimes: Time to live by name of the state, for those that have one.
    """

    states: tuple[evolution.Declaration, ...]
    lifetimes: Mapping[str, ttl.Ttl]


def timer_domains(chosen: str | None, function: KeyedProcessFunction, uid: str) -> frozenset[timers.TimeDomain]:
    """Return the time domains in which a function has timers.

    Args:
        chosen: What its operator was given as `timers`.
        function: The function.
        uid: The uid of its operator, for errors.

    Raises:
        InvalidArgumentError: `TimersInvalid`, `TimersNotDeclared`.
    """
    if chosen is not None and isinstance(function, VectorizedProcessFunction):
        raise errors.InvalidArgumentError(
            "TimersInvalid",
            f"Keyed operator '{uid}' has a VectorizedProcessFunction, which has no timers; leave timers out.",
        )
    if chosen is None:
        if type(function).on_timer is KeyedProcessFunction.on_timer:
            return frozenset()
        raise errors.InvalidArgumentError(
            "TimersNotDeclared",
            f"{type(function).__qualname__} of keyed operator '{uid}' has an on_timer(), but no timers: pass "
            'timers="event-time", "processing-time" or "both".',
        )
    domains = timers.TIMER_CHOICES.get(chosen)
    if domains is None:
        raise errors.InvalidArgumentError(
            "TimersInvalid",
            f"Keyed operator '{uid}' was given timers={chosen!r}, which is unknown; use one of "
            f"{', '.join(map(repr, timers.TIMER_CHOICES))}, or None.",
        )
    return domains


def declarations_of(
    function: KeyedProcessFunction,
    uid: str,
    *,
    domains: frozenset[timers.TimeDomain] = frozenset(),
    ttl_change: ttl.TtlChange = ttl.TtlChange.REFUSE,
) -> Declared:
    """Return the declarations of a function, without running it on a worker.

    It opens and closes a copy of the function with `ctx.declares_only`.

    Args:
        function: The function; it is not changed.
        uid: The uid of its operator.
        domains: Time domains in which it has timers.
        ttl_change: Handling of a time to live that was enabled or disabled.

    Raises:
        Exception: Any error of copying or of `open`.
    """
    opened = copy.deepcopy(function)
    context = BatchContext(uid, 0, domains=domains, ttl_change=ttl_change, declares_only=True)
    opened.open(context)
    # If `open` returned early, `close` may fail, and there is nothing to release.
    with contextlib.suppress(Exception):
        opened.close()
    return Declared(context.declarations, context.lifetimes)
