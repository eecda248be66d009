"""The store that a subtask gets its states from, and the handles to them.

A state that was restored and is not asked for stays as it is and is written again with the next snapshot, so that a job
which stops using a state for a while does not lose it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar, cast

from statefulspark import errors
from statefulspark.opstate.model import ANY_TYPE, Mode, Part, StateMeta, SubtaskState
from statefulspark.state import descriptors

_ANY = re.compile(rf"\b{ANY_TYPE}\b")

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class OperatorListHandle(Generic[T]):
    """The list of one subtask. Unset reads as an empty list, never None; None is no element."""

    __slots__ = ("_elements",)

    def __init__(self, part: Part = ()) -> None:
        self._elements = list(cast("tuple[T, ...]", part))

    def get(self) -> list[T]:
        """Return the elements in order, as a list of its own."""
        return list(self._elements)

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())

    def __len__(self) -> int:
        return len(self._elements)

    def add(self, value: T) -> None:
        """Append an element.

        Raises:
            SpecRejectedError: It is None.
        """
        self.add_all((value,))

    def add_all(self, values: Iterable[T]) -> None:
        """Append elements; none is fine.

        Raises:
            SpecRejectedError: The iterable, or one of the elements, is None.
        """
        self._elements.extend(_without_none(values))

    def update(self, values: Iterable[T]) -> None:
        """Replace the list; with no elements this clears it.

        Raises:
            SpecRejectedError: The iterable, or one of the elements, is None.
        """
        self._elements = _without_none(values)

    def clear(self) -> None:
        """Remove every element."""
        self._elements = []

    def part(self) -> Part:
        """Return the elements as they are written down."""
        return tuple(self._elements)


class BroadcastHandle(Generic[K, V]):
    """A map of which every subtask holds a copy; the function has to change all copies alike. An entry may hold None."""

    __slots__ = ("_entries",)

    def __init__(self, part: Part = ()) -> None:
        self._entries = dict(cast("tuple[tuple[K, V], ...]", part))

    def get(self, entry: K) -> V | None:
        """Return the value of an entry, or None when there is no such entry."""
        return self._entries.get(entry)

    def contains(self, entry: K) -> bool:
        """Tell whether there is an entry, also one that holds None."""
        return entry in self._entries

    __contains__ = contains

    def put(self, entry: K, value: V) -> None:
        """Set an entry."""
        self._entries[entry] = value

    def put_all(self, entries: Mapping[K, V]) -> None:
        """Set many entries."""
        self._entries.update(entries)

    def remove(self, entry: K) -> None:
        """Remove an entry; an absent one is fine."""
        self._entries.pop(entry, None)

    def entries(self) -> list[tuple[K, V]]:
        """Return all entries. The order is not part of the contract."""
        return list(self._entries.items())

    items = entries

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

    def part(self) -> Part:
        """Return the entries as they are written down, in an order that only depends on what was put when."""
        return tuple(self._entries.items())


_Handle = OperatorListHandle[object] | BroadcastHandle[object, object]


class OperatorStateStore:
    """The states of one subtask, by name. Handed to `initialize_state`; the handles stay valid for its life."""

    def __init__(self, restored: Mapping[str, SubtaskState] | None = None) -> None:
        """Begin with what was restored."""
        self._restored = dict(restored or {})
        self._metas: dict[str, StateMeta] = {}
        self._handles: dict[str, _Handle] = {}

    def get_list_state(self, descriptor: descriptors.ListState[T]) -> OperatorListHandle[T]:
        """Return a list that is divided evenly when the parallelism changes.

        Args:
            descriptor: `ListState(name)`; asking again for the same gives the same handle.

        Raises:
            SpecRejectedError: `StateDescriptorInvalid`, `StateModeIncompatible` or `StateTypeIncompatible`.
        """
        return cast("OperatorListHandle[T]", self._handle(descriptor, descriptors.ListState, Mode.SPLIT))

    def get_union_list_state(self, descriptor: descriptors.ListState[T]) -> OperatorListHandle[T]:
        """Return a list of which every subtask gets all elements of all subtasks at every restore.

        Meant for few elements: it is as long as all lists together. See `get_list_state` for arguments and errors.
        """
        return cast("OperatorListHandle[T]", self._handle(descriptor, descriptors.ListState, Mode.UNION))

    def get_broadcast_state(self, descriptor: descriptors.MapState[K, V]) -> BroadcastHandle[K, V]:
        """Return a map of which every subtask, new ones too, gets a copy at every restore.

        Args:
            descriptor: `MapState(name)`; asking again for the same gives the same handle.

        Raises:
            SpecRejectedError: `StateDescriptorInvalid`, `StateModeIncompatible` or `StateTypeIncompatible`.
        """
        return cast("BroadcastHandle[K, V]", self._handle(descriptor, descriptors.MapState, Mode.BROADCAST))

    def contents(self) -> dict[str, SubtaskState]:
        """Return every state as it is now, also restored ones that nobody asked for."""
        asked = {name: SubtaskState(self._metas[name], handle.part()) for name, handle in self._handles.items()}
        return {**self._restored, **asked}

    def _handle(self, descriptor: object, expected: type, mode: Mode) -> _Handle:
        if not isinstance(descriptor, expected):
            raise errors.SpecRejectedError(
                "StateDescriptorInvalid",
                f"A {mode.value} state takes a descriptor such as {expected.__name__}('name'), not "
                f"{type(descriptor).__name__}.",
            )
        meta = _meta_of(descriptor, mode)
        before = self._metas.get(meta.name) or (self._restored[meta.name].meta if meta.name in self._restored else None)
        if before is not None:
            _require_compatible(before, meta)
        if meta.name not in self._handles:
            part = self._restored[meta.name].part if meta.name in self._restored else ()
            self._metas[meta.name] = meta
            self._handles[meta.name] = BroadcastHandle(part) if mode is Mode.BROADCAST else OperatorListHandle(part)
        return self._handles[meta.name]


def _meta_of(descriptor: object, mode: Mode) -> StateMeta:
    chosen = cast("descriptors.ListState[object] | descriptors.MapState[object, object]", descriptor)
    if chosen.ttl is not None:
        raise errors.SpecRejectedError(
            "StateDescriptorInvalid",
            f"State '{chosen.name}' has a time to live, which operator state does not know; leave it out.",
        )
    return StateMeta(chosen.name, mode, chosen.type_text)


def _require_compatible(before: StateMeta, now: StateMeta) -> None:
    if before.mode is not now.mode:
        raise errors.SpecRejectedError(
            "StateModeIncompatible",
            f"Incompatible state assignment modes. Was [{before.mode.value}], registered with [{now.mode.value}]. "
            f"State '{now.name}' was declared with the first; declare it so again, or give the new one another name.",
        )
    if not _types_fit(before.type_text, now.type_text):
        raise errors.SpecRejectedError(
            "StateTypeIncompatible",
            f"Incompatible operator state types. Was [{before.type_text}], registered with [{now.type_text}]. State "
            f"'{now.name}' was declared with the first; declare it so again, or give the new one another name.",
        )


def _types_fit(one: str, other: str) -> bool:
    """Tell whether two declared types agree; `any` in one of them, whole or inside, fits every type."""
    return one == other or bool(_ANY.search(one) or _ANY.search(other))


def _without_none(values: Iterable[T] | None) -> list[T]:
    if values is None:
        raise errors.SpecRejectedError("NullInState", "List of values to add cannot be null.")
    checked = list(values)
    if any(value is None for value in checked):
        raise errors.SpecRejectedError("NullInState", "You cannot add null to a ListState.")
    return checked
