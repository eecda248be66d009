"""Handles of the states with many entries per key: list and map.

With a time to live, each element and each entry expires on its own. A read deletes the expired ones that it finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar, cast

from statefulspark import errors
from statefulspark.state.handles import many
from statefulspark.state.handles.kindtypes import StateMeta
from statefulspark.state.memory import cleanup, tables
from statefulspark.state.memory import scope as scopes
from statefulspark.state.memory.ttl import Ttl
from statefulspark.state.types import keyforms

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class _Expiry:
    """Wraps and unwraps cells; without a time to live the cell is the value."""

    __slots__ = ("_cleaner", "_scope", "active", "duration_ms", "renews_on_read", "shows_expired")

    def __init__(self, scope: scopes.Scope, ttl: Ttl | None, cleaner: cleanup.Cleaner | None) -> None:
        self._scope = scope
        self._cleaner = cleaner
        self.active = ttl is not None
        self.duration_ms = 0 if ttl is None else ttl.duration_ms
        self.renews_on_read = ttl is not None and ttl.renews_on_read
        self.shows_expired = ttl is not None and ttl.shows_expired

    def step(self) -> None:
        """Clean up the next entries of the table; called before every read and write."""
        if self._cleaner is not None:
            self._cleaner.step(self._scope.now_ms)

    def wrap(self, value: object) -> object:
        return (value, self._scope.now_ms) if self.active else value

    def unwrap(self, cell: object) -> object:
        return cast("tuple[object, int]", cell)[0] if self.active else cell

    def is_expired(self, cell: object) -> bool:
        return self.active and cast("tuple[object, int]", cell)[1] + self.duration_ms <= self._scope.now_ms


class ListHandle(many.ListsOfKeys[T]):
    """The list of the current key."""

    __slots__ = ("_expiry", "_meta", "_scope", "_table")

    def __init__(
        self,
        meta: StateMeta,
        scope: scopes.Scope,
        ttl: Ttl | None,
        cleaner: cleanup.Cleaner | None = None,
    ) -> None:
        self._meta = meta
        self._scope = scope
        self._expiry = _Expiry(scope, ttl, cleaner)
        self._table = tables.ListTable()

    def bind(self, table: tables.ListTable) -> None:
        """Switch to another key group."""
        self._table = table

    @property
    def turns(self) -> many.Turns:
        """Makes keys the current one, in turn."""
        return many.Turns(self._scope, self._meta)

    def _cells(self) -> list[object]:
        key = self._scope.require_key(self._meta)
        self._expiry.step()
        return cast("list[object]", self._table.rows.get(key, []))

    def get(self) -> list[T]:
        """Return the elements, oldest first; an empty list when there are none. The list is a copy."""
        cells = self._cells()
        if not self._expiry.active:
            return cast("list[T]", list(cells))
        alive = [cell for cell in cells if not self._expiry.is_expired(cell)]
        shown = cells if self._expiry.shows_expired else alive
        values = [self._expiry.unwrap(cell) for cell in shown]
        if self._expiry.renews_on_read and alive:
            self._replace([self._expiry.wrap(self._expiry.unwrap(cell)) for cell in alive])
        elif len(alive) < len(cells):
            self._replace(alive)
        return cast("list[T]", values)

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())

    def add(self, value: T) -> None:
        """Append an element.

        Raises:
            SpecRejectedError: It is None.
        """
        self.add_all((value,))

    def add_all(self, values: Iterable[T]) -> None:
        """Append any number of elements.

        Raises:
            SpecRejectedError: The iterable, or one of the elements, is None.
        """
        added = [self._expiry.wrap(value) for value in self._checked(values)]
        key = self._scope.require_key(self._meta)
        self._expiry.step()
        if not added:
            return
        cells = cast("list[object]", self._table.rows.setdefault(key, []))
        self._table.touch(key, len(cells))
        cells.extend(added)

    def update(self, values: Iterable[T]) -> None:
        """Replace the list; with no elements this clears it.

        Raises:
            SpecRejectedError: The iterable, or one of the elements, is None.
        """
        self._replace([self._expiry.wrap(value) for value in self._checked(values)])

    def clear(self) -> None:
        """Remove the list of the current key."""
        self._replace([])

    def _checked(self, values: Iterable[T] | None) -> list[T]:
        if values is None:
            raise errors.SpecRejectedError("NullInState", "List of values to add cannot be null.")
        checked = list(values)
        if any(value is None for value in checked):
            raise errors.SpecRejectedError("NullInState", "You cannot add null to a ListState.")
        return checked

    def _replace(self, cells: list[object]) -> None:
        key = self._scope.require_key(self._meta)
        if cells:
            self._table.rows[key] = cells
        elif self._table.rows.pop(key, None) is None:
            return
        self._table.touch(key, 0)


class MapHandle(many.MapsOfKeys[K, V]):
    """The map of the current key."""

    __slots__ = ("_expiry", "_meta", "_scope", "_table")

    def __init__(
        self,
        meta: StateMeta,
        scope: scopes.Scope,
        ttl: Ttl | None,
        cleaner: cleanup.Cleaner | None = None,
    ) -> None:
        self._meta = meta
        self._scope = scope
        self._expiry = _Expiry(scope, ttl, cleaner)
        self._table = tables.MapTable()

    def bind(self, table: tables.MapTable) -> None:
        """Switch to another key group."""
        self._table = table

    @property
    def turns(self) -> many.Turns:
        """Makes keys the current one, in turn."""
        return many.Turns(self._scope, self._meta)

    def _row(self) -> dict[object, object]:
        key = self._scope.require_key(self._meta)
        self._expiry.step()
        return cast("dict[object, object]", self._table.rows.get(key, {}))

    def get(self, entry: K) -> V | None:
        """Return the value of an entry, or None when there is no such entry."""
        return cast("V | None", self._read(keyforms.entry_form(entry), self._row())[1])

    def contains(self, entry: K) -> bool:
        """Tell whether there is an entry; its value may be None."""
        return self._read(keyforms.entry_form(entry), self._row())[0]

    __contains__ = contains

    def put(self, entry: K, value: V) -> None:
        """Set an entry; points in time in its key become UTC, and Decimals lose trailing zeros."""
        key, entry = self._scope.require_key(self._meta), cast("K", keyforms.entry_form(entry))
        self._expiry.step()
        row = cast("dict[object, object]", self._table.rows.setdefault(key, {}))
        row[entry] = self._expiry.wrap(value)
        self._table.touch(key, entry)

    def put_all(self, entries: Mapping[K, V]) -> None:
        """Set many entries.

        Raises:
            SpecRejectedError: The map is None.
        """
        if entries is None:
            raise errors.SpecRejectedError("NullInState", "Map of entries to put cannot be null.")
        for entry, value in entries.items():
            self.put(entry, value)

    def remove(self, entry: K) -> None:
        """Remove an entry if it exists."""
        self._remove(self._row(), keyforms.entry_form(entry))

    def _remove(self, row: dict[object, object], entry: object) -> None:
        if entry not in row:
            return
        del row[entry]
        if not row:
            del self._table.rows[self._scope.key]
        self._table.touch(self._scope.key, entry)

    def entries(self) -> list[tuple[K, V]]:
        """Return all entries. The order is not part of the contract."""
        row = self._row()
        cells = ((entry, self._read(entry, row)) for entry in list(row))
        return [(cast("K", entry), cast("V", value)) for entry, (present, value) in cells if present]

    items = entries

    def keys(self) -> list[K]:
        """Return the keys of all entries."""
        return [entry for entry, _ in self.entries()]

    def values(self) -> list[V]:
        """Return the values of all entries."""
        return [value for _, value in self.entries()]

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())

    def is_empty(self) -> bool:
        """Tell whether there is no entry."""
        return not self.entries() if self._expiry.active else not self._row()

    def clear(self) -> None:
        """Remove the map of the current key."""
        key = self._scope.require_key(self._meta)
        if self._table.rows.pop(key, None) is not None:
            self._table.touch_row(key)

    def _read(self, entry: object, row: dict[object, object]) -> tuple[bool, object]:
        if entry not in row:
            return False, None
        cell = row[entry]
        value = self._expiry.unwrap(cell)
        if self._expiry.is_expired(cell):
            self._remove(row, entry)
            return self._expiry.shows_expired, value if self._expiry.shows_expired else None
        if self._expiry.renews_on_read:
            row[entry] = self._expiry.wrap(value)
            self._table.touch(self._scope.key, entry)
        return True, value
