"""Descriptors, with which a user declares a state: its kind, name, type and time to live.

A descriptor is a frozen value and holds no state. `ctx.state(descriptor)` in `open` turns it into a handle. Names are
unique per operator. The type is a schema string as in Spark's DDL ("bigint", "array<string>"), a Python type or a
codec; it is stored with the state and compared with the declaration of a later version of the job (`evolution`).
Without a type, the state accepts every value that can be stored.
"""

from __future__ import annotations

import builtins
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from statefulspark import errors
from statefulspark.state.handles import kinds
from statefulspark.state.handles.aggregates import AggregateFunction
from statefulspark.state.memory.ttl import Ttl, TtlUpdate, TtlVisibility
from statefulspark.state.types import typetext
from statefulspark.state.types.conversions import Codec

# Generic descriptors have no slots: in Python 3.11 `ValueState[int](…)` fails on a frozen dataclass that has them.
T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
In = TypeVar("In")
Acc = TypeVar("Acc")
Out = TypeVar("Out")

__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "Descriptor",
    "FoldingState",
    "ListState",
    "MapState",
    "ReducingState",
    "Ttl",
    "TtlUpdate",
    "TtlVisibility",
    "ValueState",
]
_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_.-]{0,127}$")


def _check_name(name: str) -> None:
    if not _NAME.match(name):
        raise errors.SpecRejectedError(
            "StateNameInvalid",
            f"'{name}' is not a valid state name: use a letter or underscore, then letters, digits, '_', '-' and '.', "
            "128 characters at most.",
        )


@dataclass(frozen=True)
class ValueState(Generic[T]):
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

    kind = kinds.VALUE

    def __post_init__(self) -> None:
        _check_name(self.name)

    @property
    def type_text(self) -> str:
        """The type as it is stored with the state."""
        return typetext.canonical(self.type)

    @property
    def value_type(self) -> object:
        """The declared type of a value."""
        return self.type


@dataclass(frozen=True)
class ListState(Generic[T]):
    """A list per key. Unset reads as an empty list, never None; an element is never None.

    Attributes:
        name: Unique name within the operator.
        type: Type of an element.
        ttl: Time to live of each element.
    """

    name: str
    type: builtins.type[T] | Codec[T] | str | None = None
    ttl: Ttl | None = None

    kind = kinds.LIST

    def __post_init__(self) -> None:
        _check_name(self.name)

    @property
    def type_text(self) -> str:
        """The type as it is stored with the state."""
        return f"array<{typetext.canonical(self.type)}>"

    @property
    def value_type(self) -> object:
        """The declared type of an element."""
        return self.type


@dataclass(frozen=True)
class MapState(Generic[K, V]):
    """A map per key. Unset behaves as an empty map, never None. An entry may hold None.

    Attributes:
        name: Unique name within the operator.
        key_type: Type of the keys of the map.
        value_type: Type of its values.
        ttl: Time to live of each entry.
    """

    name: str
    key_type: builtins.type[K] | Codec[K] | str | None = None
    value_type: builtins.type[V] | Codec[V] | str | None = None
    ttl: Ttl | None = None

    kind = kinds.MAP

    def __post_init__(self) -> None:
        _check_name(self.name)

    @property
    def type_text(self) -> str:
        """The type as it is stored with the state."""
        return f"map<{typetext.canonical(self.key_type)},{typetext.canonical(self.value_type)}>"


@dataclass(frozen=True)
class ReducingState(Generic[T]):
    """One value per key, reduced from all added values; None while there is none.

    Attributes:
        name: Unique name within the operator.
        reduce: Combines the value so far with an added one.
        type: Type of the value.
        ttl: Time to live of the value.
    """

    name: str
    reduce: Callable[[T, T], T]
    type: builtins.type[T] | Codec[T] | str | None = None
    ttl: Ttl | None = None

    kind = kinds.REDUCING

    def __post_init__(self) -> None:
        _check_name(self.name)

    @property
    def type_text(self) -> str:
        """The type as it is stored with the state."""
        return typetext.canonical(self.type)

    @property
    def value_type(self) -> object:
        """The declared type of a value."""
        return self.type


@dataclass(frozen=True)
class AggregatingState(Generic[In, Acc, Out]):
    """One accumulator per key; a read returns the result of the function, None while nothing was added.

    Attributes:
        name: Unique name within the operator.
        function: How values are folded.
        type: Type of the accumulator.
        ttl: Time to live of the accumulator.
    """

    name: str
    function: AggregateFunction[In, Acc, Out]
    type: builtins.type[Acc] | Codec[Acc] | str | None = None
    ttl: Ttl | None = None

    kind = kinds.AGGREGATING

    def __post_init__(self) -> None:
        _check_name(self.name)

    @property
    def type_text(self) -> str:
        """The type as it is stored with the state."""
        return typetext.canonical(self.type)

    @property
    def value_type(self) -> object:
        """The declared type of an accumulator."""
        return self.type


@dataclass(frozen=True)
class _Fold(Generic[In, Acc]):
    initial: Acc
    fold: Callable[[Acc, In], Acc] = field()

    def create(self) -> Acc:
        return self.initial

    def add(self, accumulator: Acc, value: In) -> Acc:
        return self.fold(accumulator, value)

    def result(self, accumulator: Acc) -> Acc:
        return accumulator


def FoldingState(  # noqa: N802 - named like the other descriptors
    name: str,
    initial: Acc,
    fold: Callable[[Acc, In], Acc],
    type: builtins.type[Acc] | Codec[Acc] | str | None = None,  # noqa: A002 - the same name as on every descriptor
    ttl: Ttl | None = None,
) -> AggregatingState[In, Acc, Acc]:
    """Declare a folding state: a deprecated name of an aggregating state.

    Args:
        name: Unique name within the operator.
        initial: The empty accumulator; `fold` must not change it in place.
        fold: Combines the accumulator with a value.
        type: Type of the accumulator.
        ttl: Time to live of the accumulator.
    """
    warnings.warn("FoldingState is deprecated; use AggregatingState.", DeprecationWarning, stacklevel=2)
    return AggregatingState(name, _Fold(initial, fold), type, ttl)


Descriptor = ValueState[T] | ListState[T] | MapState[K, V] | ReducingState[T] | AggregatingState[In, Acc, Out]
"""Any declared state."""
