"""How a function declares its states: one method for each kind, typed so that a handle knows what it holds."""
# ruff: noqa: A002 - the type of a state is its `type`

from __future__ import annotations

import types
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar, overload

from statefulspark.state import aggregatingstate, liststate, mapstate, valuestate
from statefulspark.state.kinds import Descriptor
from statefulspark.state.ttl import Ttl
from statefulspark.state.types.conversions import Codec

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
In = TypeVar("In")
Acc = TypeVar("Acc")
Out = TypeVar("Out")
TypeText = str | types.UnionType | None
"""A type that a type checker cannot follow into a handle: text as in Spark's DDL, a union with None, or no type."""


class StateDeclarations(ABC):
    """What a context offers in `open` to declare keyed states."""

    @abstractmethod
    def _declare(self, descriptor: Descriptor) -> Any:  # noqa: ANN401 - the handle of whatever is declared
        """Return the handle of a state."""

    @overload
    def value_state(
        self, name: str, type: type[T] | Codec[T], *, ttl: Ttl | None = None
    ) -> valuestate.ValueState[T]: ...
    @overload
    def value_state(
        self, name: str, type: TypeText = None, *, ttl: Ttl | None = None
    ) -> valuestate.ValueState[Any]: ...
    def value_state(self, name: str, type: object = None, *, ttl: Ttl | None = None) -> valuestate.ValueState[Any]:
        """Declare one value per key; call it in `open`.

        Args:
            name: Unique name within the operator.
            type: Type of the value: a Python type, a codec, or a type of Spark as text ("bigint", "array<string>"). It is
                stored with the state, and compared when a later version of the job reads it. Without a type the state
                takes every value that can be stored.
            ttl: Time to live; None keeps the value until it is cleared.

        Raises:
            InvalidArgumentError: The name is taken or invalid, the type cannot be stored, or the function is already open.
        """
        return self._declare(valuestate.ValueStateDescriptor(name, type, ttl))  # type: ignore[no-any-return]  # its handle

    @overload
    def list_state(self, name: str, type: type[T] | Codec[T], *, ttl: Ttl | None = None) -> liststate.ListState[T]: ...
    @overload
    def list_state(self, name: str, type: TypeText = None, *, ttl: Ttl | None = None) -> liststate.ListState[Any]: ...
    def list_state(self, name: str, type: object = None, *, ttl: Ttl | None = None) -> liststate.ListState[Any]:
        """Declare a list per key; call it in `open`. See `value_state` for names, types and errors.

        Args:
            name: Unique name within the operator.
            type: Type of an element.
            ttl: Time to live of each element.
        """
        return self._declare(liststate.ListStateDescriptor(name, type, ttl))  # type: ignore[no-any-return]  # its handle

    @overload
    def map_state(
        self, name: str, key_type: type[K] | Codec[K], value_type: type[V] | Codec[V], *, ttl: Ttl | None = None
    ) -> mapstate.MapState[K, V]: ...
    @overload
    def map_state(
        self, name: str, key_type: type[K] | Codec[K], value_type: TypeText = None, *, ttl: Ttl | None = None
    ) -> mapstate.MapState[K, Any]: ...
    @overload
    def map_state(
        self, name: str, key_type: TypeText, value_type: type[V] | Codec[V], *, ttl: Ttl | None = None
    ) -> mapstate.MapState[Any, V]: ...
    @overload
    def map_state(
        self, name: str, key_type: TypeText = None, value_type: TypeText = None, *, ttl: Ttl | None = None
    ) -> mapstate.MapState[Any, Any]: ...
    def map_state(
        self, name: str, key_type: object = None, value_type: object = None, *, ttl: Ttl | None = None
    ) -> mapstate.MapState[Any, Any]:
        """Declare a map per key; call it in `open`. See `value_state` for names, types and errors.

        Args:
            name: Unique name within the operator.
            key_type: Type of the keys of the map.
            value_type: Type of its values.
            ttl: Time to live of each entry.
        """
        return self._declare(mapstate.MapStateDescriptor(name, key_type, value_type, ttl))  # type: ignore[no-any-return]  # its handle

    @overload
    def reducing_state(
        self, name: str, reduce: Callable[[T, T], T], type: type[T] | Codec[T], *, ttl: Ttl | None = None
    ) -> aggregatingstate.ReducingState[T]: ...
    @overload
    def reducing_state(
        self, name: str, reduce: Callable[[T, T], T], type: TypeText = None, *, ttl: Ttl | None = None
    ) -> aggregatingstate.ReducingState[T]: ...
    def reducing_state(
        self, name: str, reduce: Callable[[Any, Any], Any], type: object = None, *, ttl: Ttl | None = None
    ) -> aggregatingstate.ReducingState[Any]:
        """Declare one value per key, reduced from all added values; call it in `open`.

        See `value_state` for names, types and errors.

        Args:
            name: Unique name within the operator.
            reduce: Combines the value so far with an added one.
            type: Type of the value.
            ttl: Time to live of the value.
        """
        descriptor = aggregatingstate.ReducingStateDescriptor(name, reduce, type, ttl)
        return self._declare(descriptor)  # type: ignore[no-any-return]  # its handle

    def aggregating_state(
        self,
        name: str,
        function: aggregatingstate.AggregateFunction[In, Acc, Out],
        type: type[Acc] | Codec[Acc] | TypeText = None,
        *,
        ttl: Ttl | None = None,
    ) -> aggregatingstate.AggregatingState[In, Out]:
        """Declare one accumulator per key, of which a read returns the result; call it in `open`.

        See `value_state` for names, types and errors.

        Args:
            name: Unique name within the operator.
            function: How values are added to an accumulator, and what its result is.
            type: Type of the accumulator.
            ttl: Time to live of the accumulator.
        """
        descriptor = aggregatingstate.AggregatingStateDescriptor(name, function, type, ttl)
        return self._declare(descriptor)  # type: ignore[no-any-return]  # its handle

    def folding_state(
        self,
        name: str,
        initial: Acc,
        fold: Callable[[Acc, In], Acc],
        type: type[Acc] | Codec[Acc] | TypeText = None,
        *,
        ttl: Ttl | None = None,
    ) -> aggregatingstate.AggregatingState[In, Acc]:
        """Declare a folding state: an aggregating state whose result is its accumulator; call it in `open`.

        See `value_state` for names, types and errors.

        Args:
            name: Unique name within the operator.
            initial: The empty accumulator; `fold` must not change it in place.
            fold: Combines the accumulator with a value.
            type: Type of the accumulator.
            ttl: Time to live of the accumulator.
        """
        return self.aggregating_state(name, aggregatingstate.Fold(initial, fold), type, ttl=ttl)
