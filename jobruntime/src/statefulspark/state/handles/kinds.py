"""The table of all kinds of state: one row per kind, with its handle and the shape that it shares with others.

A new kind is a file with its descriptor, its handle and, where no shape fits, its shape; and a row here. No other code
branches on the kind: declaring, tables, chunks, merging, exports, expiry and evolution use the row (`kindtypes`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from statefulspark.state.handles import cellhandles, cells, kindtypes, shapes
from statefulspark.state.memory import numbers, tables
from statefulspark.state.memory import scope as scopes
from statefulspark.state.types import typetext

if TYPE_CHECKING:
    from statefulspark.state.handles import aggregates
    from statefulspark.state.memory import ttl


class _WithDefault(Protocol):
    """What a handle needs of the declaration of a value."""

    @property
    def default(self) -> object: ...


class _WithReduce(Protocol):
    """What a handle needs of the declaration of a reducing state."""

    @property
    def reduce(self) -> Callable[[object, object], object]: ...


class _WithFunction(Protocol):
    """What a handle needs of the declaration of an aggregating state."""

    @property
    def function(self) -> aggregates.AggregateFunction[object, object, object]: ...


def _value(descriptor: _WithDefault, view: cells.AnyCells, life: ttl.Ttl | None) -> cellhandles.ValueHandle[object]:
    if descriptor.default is not None and life is None:
        return cellhandles.DefaultValueHandle(view, descriptor.default)
    return cellhandles.ValueHandle(view)


def _reducing(descriptor: _WithReduce, view: cells.AnyCells, _: ttl.Ttl | None) -> cellhandles.ReducingHandle[object]:
    return cellhandles.ReducingHandle(view, descriptor.reduce)


def _aggregating(
    descriptor: _WithFunction, view: cells.AnyCells, _: ttl.Ttl | None
) -> cellhandles.AggregatingHandle[object, object, object]:
    return cellhandles.AggregatingHandle(view, descriptor.function)


def _view(_: kindtypes.Descriptor, view: kindtypes.View | kindtypes.Converting, __: ttl.Ttl | None) -> object:
    return view


def _replaced_numbers(_: _WithDefault, state: kindtypes.StateMeta, scope: scopes.Scope) -> cells.NumberCells | None:
    """Return cells that are set and read as columns, if the type allows it."""
    number = numbers.KINDS.get(typetext.parse(state.type_text).family)
    return None if number is None else cells.NumberCells(state, scope, number, numbers.newest)


def _number_cells(descriptor: _WithReduce, state: kindtypes.StateMeta, scope: scopes.Scope) -> cells.NumberCells | None:
    """Return cells that are folded as columns, if the function and the type allow it."""
    number = numbers.KINDS.get(typetext.parse(state.type_text).family)
    combine = numbers.combination_of(descriptor.reduce)
    return None if number is None or combine is None else cells.NumberCells(state, scope, number, combine)


VALUE = kindtypes.register(kindtypes.StateKind("ValueState", shapes.CELLS, _value, in_arrays=_replaced_numbers))
"""One value."""
LIST = kindtypes.register(kindtypes.StateKind("ListState", shapes.LISTS, _view))
"""A list of elements."""
MAP = kindtypes.register(kindtypes.StateKind("MapState", shapes.MAPS, _view))
"""A map of entries."""
REDUCING = kindtypes.register(kindtypes.StateKind("ReducingState", shapes.CELLS, _reducing, in_arrays=_number_cells))
"""One value, folded from values of its own type."""
AGGREGATING = kindtypes.register(kindtypes.StateKind("AggregatingState", shapes.CELLS, _aggregating))
"""One accumulator, folded from values of another type."""
TIMERS = kindtypes.register(kindtypes.StateKind("MapState", shapes.MOMENTS, _view, prefix=tables.TIMER_PREFIX))
"""Timers of one key; not declared by users, and stored as maps."""
