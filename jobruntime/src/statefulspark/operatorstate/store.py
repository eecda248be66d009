"""The operator state store of a subtask, and its handles.

A restored state that is not declared stays unchanged and is part of the next snapshot, so that a job that stops using a
state for a while does not lose it.
"""
# ruff: noqa: A002 - the type of a state is its `type`

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast, overload

from statefulspark import errors
from statefulspark.operatorstate.model import Mode, OperatorStateMeta, Part, SubtaskState
from statefulspark.state import evolution, kinds, liststate, mapstate
from statefulspark.state.declaring import TypeText
from statefulspark.state.types import conversions
from statefulspark.state.types.conversions import Codec

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class ElementForm:
    """The stored form of values: conversion of user-defined types, and migration of older stored values.

    Attributes:
        conversion: Converts values to storable ones and back; None if not needed.
        migrate: Converts older stored values to the current stored form; None if not needed.
    """

    conversion: conversions.Conversion | None = None
    migrate: Callable[[object], object] | None = None

    def read(self, stored: object) -> object:
        """Return the value of a stored form."""
        if stored is None:
            return None
        now = stored if self.migrate is None else self.migrate(stored)
        return now if self.conversion is None else self.conversion.decode(now)

    def write(self, value: object) -> object:
        """Return the stored form of a value."""
        return value if value is None or self.conversion is None else self.conversion.encode(value)


class OperatorListState(Generic[T]):
    """The list of one subtask. Unset reads as an empty list, never None; an element is never None."""

    __slots__ = ("_elements", "_form")

    def __init__(self, part: Part = (), form: ElementForm | None = None) -> None:
        """Load stored elements.

        Args:
            part: The stored elements.
            form: The stored form of values; None stores values unchanged.
        """
        self._form = form or ElementForm()
        self._elements = [cast("T", self._form.read(element)) for element in part]

    def get(self) -> list[T]:
        """Return a copy of the elements, in order."""
        return list(self._elements)

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())

    def __len__(self) -> int:
        return len(self._elements)

    def add(self, value: T) -> None:
        """Append an element.

        Raises:
            InvalidArgumentError: It is None.
        """
        self.add_all((value,))

    def add_all(self, values: Iterable[T]) -> None:
        """Append any number of elements.

        Raises:
            InvalidArgumentError: The iterable, or one of the elements, is None.
        """
        self._elements.extend(liststate.require_elements(values))

    def update(self, values: Iterable[T]) -> None:
        """Replace the list; with no elements this clears it.

        Raises:
            InvalidArgumentError: The iterable, or one of the elements, is None.
        """
        self._elements = liststate.require_elements(values)

    def clear(self) -> None:
        """Remove every element."""
        self._elements = []

    def _part(self) -> Part:
        """Return the stored form of the elements."""
        return tuple(self._form.write(element) for element in self._elements)


class BroadcastState(Generic[K, V]):
    """A map with a copy in every subtask; the function must change all copies alike. A value may be None."""

    __slots__ = ("_entries", "_form")

    def __init__(self, part: Part = (), form: ElementForm | None = None) -> None:
        """Load stored entries; see `OperatorListState`. Keys are stored unchanged."""
        self._form = form or ElementForm()
        pairs = cast("tuple[tuple[K, object], ...]", part)
        self._entries = {entry: cast("V", self._form.read(value)) for entry, value in pairs}

    def get(self, entry: K) -> V | None:
        """Return the value of an entry, or None when there is no such entry."""
        return self._entries.get(entry)

    def __getitem__(self, entry: K) -> V:
        return self._entries[entry]

    def __contains__(self, entry: object) -> bool:
        return entry in self._entries

    def put(self, entry: K, value: V) -> None:
        """Set an entry."""
        self._entries[entry] = value

    def put_all(self, entries: Mapping[K, V]) -> None:
        """Set many entries."""
        self._entries.update(entries)

    def remove(self, entry: K) -> None:
        """Remove an entry if it exists."""
        self._entries.pop(entry, None)

    def items(self) -> list[tuple[K, V]]:
        """Return all entries. The order is not part of the contract."""
        return list(self._entries.items())

    def keys(self) -> list[K]:
        """Return the keys of all entries."""
        return list(self._entries)

    def values(self) -> list[V]:
        """Return the values of all entries."""
        return list(self._entries.values())

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._entries)

    def is_empty(self) -> bool:
        """Tell whether there is no entry."""
        return not self._entries

    def clear(self) -> None:
        """Remove every entry."""
        self._entries = {}

    def _part(self) -> Part:
        """Return the stored form of the entries, in the order of insertion."""
        return tuple((entry, self._form.write(value)) for entry, value in self._entries.items())


_ListOrMap = liststate.ListStateDescriptor | mapstate.MapStateDescriptor
_Handle = OperatorListState[object] | BroadcastState[object, object]


class OperatorStateStore:
    """The states of one subtask by name. Passed to `initialize_state`; handles stay valid for the life of the subtask."""

    def __init__(self, restored: Mapping[str, SubtaskState] | None = None) -> None:
        """Start with restored states."""
        self._restored = dict(restored or {})
        self._metas: dict[str, OperatorStateMeta] = {}
        self._handles: dict[str, _Handle] = {}

    @overload
    def list_state(self, name: str, type: type[T] | Codec[T]) -> OperatorListState[T]: ...
    @overload
    def list_state(self, name: str, type: TypeText = None) -> OperatorListState[Any]: ...
    def list_state(self, name: str, type: object = None) -> OperatorListState[Any]:
        """Return a list that is divided evenly when the parallelism changes.

        Args:
            name: Unique name within the function; repeated calls return the same handle.
            type: Type of an element, as for `KeyedContext.value_state`.

        Raises:
            InvalidArgumentError: `StateNameInvalid`.
            SpecRejectedError: `StateModeIncompatible` or `StateTypeIncompatible`.
        """
        return cast("OperatorListState[Any]", self._handle(liststate.ListStateDescriptor(name, type), Mode.SPLIT))

    @overload
    def union_list_state(self, name: str, type: type[T] | Codec[T]) -> OperatorListState[T]: ...
    @overload
    def union_list_state(self, name: str, type: TypeText = None) -> OperatorListState[Any]: ...
    def union_list_state(self, name: str, type: object = None) -> OperatorListState[Any]:
        """Return a list; at every restore each subtask gets all elements of all subtasks.

        It is meant for few elements, because its length is the sum of all lists. See `list_state` for arguments and errors.
        """
        return cast("OperatorListState[Any]", self._handle(liststate.ListStateDescriptor(name, type), Mode.UNION))

    @overload
    def broadcast_state(
        self, name: str, key_type: type[K] | Codec[K], value_type: type[V] | Codec[V]
    ) -> BroadcastState[K, V]: ...
    @overload
    def broadcast_state(
        self, name: str, key_type: type[K] | Codec[K], value_type: TypeText = None
    ) -> BroadcastState[K, Any]: ...
    @overload
    def broadcast_state(
        self, name: str, key_type: TypeText, value_type: type[V] | Codec[V]
    ) -> BroadcastState[Any, V]: ...
    @overload
    def broadcast_state(
        self, name: str, key_type: TypeText = None, value_type: TypeText = None
    ) -> BroadcastState[Any, Any]: ...
    def broadcast_state(
        self, name: str, key_type: object = None, value_type: object = None
    ) -> BroadcastState[Any, Any]:
        """Return a map; at every restore each subtask, also a new one, gets a copy.

        Args:
            name: Unique name within the function; repeated calls return the same handle.
            key_type: Type of the keys of the map, as for `KeyedContext.value_state`.
            value_type: Type of its values.

        Raises:
            InvalidArgumentError: `StateNameInvalid`.
            SpecRejectedError: `StateModeIncompatible` or `StateTypeIncompatible`.
        """
        descriptor = mapstate.MapStateDescriptor(name, key_type, value_type)
        return cast("BroadcastState[Any, Any]", self._handle(descriptor, Mode.BROADCAST))

    def _contents(self, subtask: int) -> dict[str, SubtaskState]:
        """Return the current content of every state of a subtask, including restored states that were not declared."""
        # Each subtask has the whole of a restored union: the first one keeps it.
        kept = {
            name: replace(state, part=()) if subtask > 0 and state.meta.mode is Mode.UNION else state
            for name, state in self._restored.items()
        }
        declared = {name: SubtaskState(self._metas[name], handle._part()) for name, handle in self._handles.items()}
        return {**kept, **declared}

    def _handle(self, descriptor: _ListOrMap, mode: Mode) -> _Handle:
        meta = OperatorStateMeta(descriptor.name, mode, descriptor.type_text)
        if meta.name in self._handles:
            _require_mode(self._metas[meta.name], meta)
            _resolve(self._metas[meta.name], meta, descriptor)
            return self._handles[meta.name]
        part: Part = ()
        form = ElementForm(conversions.choose(descriptor.value_type, evolution.value_type(_keyed(meta))))
        if meta.name in self._restored:
            stored = self._restored[meta.name]
            _require_mode(stored.meta, meta)
            resolution = _resolve(stored.meta, meta, descriptor)
            part, meta = stored.part, replace(meta, type_text=resolution.meta.type_text)
            form = ElementForm(conversions.choose(descriptor.value_type, resolution.kind), resolution.convert)
        self._metas[meta.name] = meta
        self._handles[meta.name] = (
            BroadcastState(part, form) if mode is Mode.BROADCAST else OperatorListState(part, form)
        )
        return self._handles[meta.name]


def _require_mode(before: OperatorStateMeta, now: OperatorStateMeta) -> None:
    if before.mode is not now.mode:
        raise errors.SpecRejectedError(
            "StateModeIncompatible",
            f"Incompatible state assignment modes. Was [{before.mode.value}], registered with [{now.mode.value}]. "
            f"State '{now.name}' was declared with the first; declare it so again, or give the new one another name.",
        )


def _resolve(before: OperatorStateMeta, now: OperatorStateMeta, descriptor: _ListOrMap) -> evolution.Resolution:
    """Compare types as for keyed state; see `evolution.resolve`."""
    return evolution.resolve(_keyed(before), evolution.Declaration(_keyed(now), descriptor.value_type))


def _keyed(meta: OperatorStateMeta) -> kinds.StateMeta:
    kind = mapstate.MAP if meta.mode is Mode.BROADCAST else liststate.LIST
    return kinds.StateMeta(meta.name, kind, meta.type_text, has_ttl=False)
