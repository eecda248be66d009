"""Handles of lists and maps with values of a user-defined type that are stored in another form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar, cast

from statefulspark.state.handles import entries, many
from statefulspark.state.types import conversions

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class ConvertingList(many.ListsOfKeys[T]):
    """The list of the current key, as `ListHandle`.

    Attributes:
        conversion: Converts elements; a key group with an older stored form has its own.
    """

    __slots__ = ("_stored", "conversion")

    def __init__(self, stored: entries.ListHandle[object], conversion: conversions.Conversion) -> None:
        self._stored = stored
        self.conversion = conversion

    @property
    def turns(self) -> many.Turns:
        """Makes keys the current one, in turn."""
        return self._stored.turns

    def get(self) -> list[T]:
        """Return the elements, oldest first; an empty list when there are none."""
        return cast("list[T]", [self.conversion.decode(item) for item in self._stored.get()])

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())

    def add(self, value: T) -> None:
        """Append an element; None is rejected."""
        self.add_all((value,))

    def add_all(self, values: Iterable[T]) -> None:
        """Append any number of elements; a None element is rejected."""
        self._stored.add_all(self._encoded(values))

    def update(self, values: Iterable[T]) -> None:
        """Replace the list; with no elements this clears it."""
        self._stored.update(self._encoded(values))

    def clear(self) -> None:
        """Remove the list of the current key."""
        self._stored.clear()

    def _encoded(self, values: Iterable[T] | None) -> list[object]:
        if values is None:
            return cast("list[object]", None)
        return [conversions.converted(self.conversion.encode, value) for value in values]


class ConvertingMap(many.MapsOfKeys[K, V]):
    """The map of the current key, as `MapHandle`; keys are stored as they are.

    Attributes:
        conversion: Converts values; a key group with an older stored form has its own.
    """

    __slots__ = ("_stored", "conversion")

    def __init__(self, stored: entries.MapHandle[K, object], conversion: conversions.Conversion) -> None:
        self._stored = stored
        self.conversion = conversion

    @property
    def turns(self) -> many.Turns:
        """Makes keys the current one, in turn."""
        return self._stored.turns

    def _decoded(self, stored: object) -> V:
        return cast("V", conversions.converted(self.conversion.decode, stored))

    def get(self, entry: K) -> V | None:
        """Return the value of an entry, or None when there is no such entry."""
        return self._decoded(self._stored.get(entry))

    def contains(self, entry: K) -> bool:
        """Tell whether there is an entry; its value may be None."""
        return self._stored.contains(entry)

    __contains__ = contains

    def put(self, entry: K, value: V) -> None:
        """Set an entry."""
        self._stored.put(entry, conversions.converted(self.conversion.encode, value))

    def put_all(self, entries: Mapping[K, V]) -> None:
        """Set many entries."""
        for entry, value in entries.items():
            self.put(entry, value)

    def remove(self, entry: K) -> None:
        """Remove an entry if it exists."""
        self._stored.remove(entry)

    def entries(self) -> list[tuple[K, V]]:
        """Return all entries. The order is not part of the contract."""
        return [(entry, self._decoded(value)) for entry, value in self._stored.entries()]

    items = entries

    def keys(self) -> list[K]:
        """Return the keys of all entries."""
        return self._stored.keys()

    def values(self) -> list[V]:
        """Return the values of all entries."""
        return [value for _, value in self.entries()]

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())

    def is_empty(self) -> bool:
        """Tell whether there is no entry."""
        return self._stored.is_empty()

    def clear(self) -> None:
        """Remove the map of the current key."""
        self._stored.clear()
