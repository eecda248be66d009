"""`ListState`: a list of elements per key.

With a time to live, each element expires on its own. A read deletes the expired ones that it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar, cast

import pyarrow as pa

from statefulspark import errors
from statefulspark.state import entries, kinds, many, tables
from statefulspark.state.ttl import Ttl
from statefulspark.state.types import codec, conversions

In = TypeVar("In")
T = TypeVar("T")


@dataclass(slots=True)
class ListChange:
    """Replaces the list from index `start` on by `items`."""

    start: int
    items: list[tables.Cell]


class ListTable:
    """A list of cells per key; `dirty` holds the first index that changed."""

    __slots__ = ("cursor", "dirty", "rows")
    has_parts: ClassVar[bool] = True
    array_bytes: ClassVar[int] = 0

    def __init__(self) -> None:
        self.rows: dict[tables.Key, object] = {}
        self.dirty: dict[tables.Key, int] = {}
        self.cursor: Iterator[tuple[tables.Key]] | None = None

    @property
    def count(self) -> int:
        """Number of keys."""
        return len(self.rows)

    def touch_row(self, key: tables.Key) -> None:
        """Mark the whole list of a key as changed."""
        self.dirty[key] = 0

    def touch(self, key: tables.Key, start: int) -> None:
        """Mark the list of a key as changed from an index on."""
        self.dirty[key] = min(start, self.dirty.get(key, start))

    def take_changes(self) -> tables.Changes:
        """Return the changes since the last call, and reset them."""
        rows, dirty = self.rows, self.dirty
        self.dirty = {}
        return {
            key: ListChange(start, rows[key][start:]) if key in rows else tables.DELETED  # type: ignore[index]  # rows are lists
            for key, start in dirty.items()
        }

    def full(self) -> tables.Changes:
        """Return changes that build this table from an empty one."""
        return {key: ListChange(0, items) for key, items in self.rows.items() if isinstance(items, list)}

    def apply(self, changes: tables.Changes) -> None:
        """Apply changes to the table."""
        rows = self.rows
        if not rows:
            self.rows = {key: change.items for key, change in changes.items() if isinstance(change, ListChange)}
            return
        tables.apply_deleted(rows, changes)
        for key, change in changes.items():
            if isinstance(change, ListChange):
                before = rows.get(key, []) if change.start else []
                rows[key] = [*before[: change.start], *change.items]  # type: ignore[index]  # rows are lists

    @staticmethod
    def alive(row: list[tuple[object, int]], cutoff_ms: int, /) -> list[tuple[object, int]] | None:
        """Return the elements that were renewed after a time, None when there are none."""
        return [cell for cell in row if cell[1] > cutoff_ms] or None

    @staticmethod
    def convert(row: list[tables.Cell], convert: Callable[[tables.Cell], tables.Cell], /) -> list[tables.Cell]:
        """Return the list with every element converted."""
        return [convert(cell) for cell in row]


def require_elements(values: Iterable[T] | None) -> list[T]:
    """Return values as a list.

    Raises:
        InvalidArgumentError: `NullInState`: they are None, or one of them is.
    """
    if values is None:
        raise errors.InvalidArgumentError("NullInState", "List of values to add cannot be null.")
    elements = list(values)
    if any(value is None for value in elements):
        raise errors.InvalidArgumentError("NullInState", "You cannot add null to a ListState.")
    return elements


class ListState(entries.EntriesHandle[ListTable], Generic[T]):
    """A list per key. Unset reads as an empty list, never None; an element is never None."""

    __slots__ = ()

    def get(self) -> list[T]:
        """Return the elements, oldest first; an empty list when there are none. The list is a copy."""
        key = self._scope.require_key(self._meta)
        self._expiry.step()
        cells = cast("list[object]", self._table.rows.get(key, []))
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

    def exists(self) -> bool:
        """Tell whether there is an element that is not expired. This renews and deletes nothing."""
        cells = cast("list[object]", self._table.rows.get(self._scope.require_key(self._meta), []))
        return not all(map(self._expiry.is_expired, cells))

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())

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
            InvalidArgumentError: The iterable, or one of the elements, is None.
        """
        self._replace([self._expiry.wrap(value) for value in self._checked(values)])

    def clear(self) -> None:
        """Remove the list of the current key."""
        self._replace([])

    def get_many(self, keys: many.Given) -> pa.Array | list[list[T]]:
        """Return the elements of each of many keys, oldest first; in `process_table` only.

        Args:
            keys: Keys that the table has: a column, or a sequence.

        Returns:
            The list of each key, in the order of the keys: a column for a column, a list for a sequence.
        """
        lists = [self.get() for _ in self._turns.rows("get_many", keys)]
        return many.make_column("get_many", lists) if many.is_column(keys) else lists

    def add_many(self, keys: many.Given, values: many.Given) -> None:
        """Append an element for each row; in `process_table` only.

        Args:
            keys: The key of each row: a column, or a sequence; a key may come more than once.
            values: The element of each row, likewise.

        Raises:
            InvalidArgumentError: An element is None.
        """
        for (value,) in self._turns.rows("add_many", keys, values):
            self.add(cast("T", value))

    def update_many(self, keys: many.Given, lists: many.Given) -> None:
        """Replace the list of each of many keys; no elements clear it. In `process_table` only.

        Args:
            keys: Keys that the table has: a column, or a sequence.
            lists: A list for each of them, likewise.

        Raises:
            InvalidArgumentError: A list, or one of the elements, is None.
        """
        for (values,) in self._turns.rows("update_many", keys, lists):
            self.update(cast("Iterable[T]", values))

    def _checked(self, values: Iterable[T] | None) -> list[T]:
        return require_elements(values)

    def _replace(self, cells: list[object]) -> None:
        key = self._scope.require_key(self._meta)
        if cells:
            self._table.rows[key] = cells
        elif self._table.rows.pop(key, None) is None:
            return
        self._table.touch(key, 0)


class ConvertingList(ListState[T]):
    """The list of the current key, with elements of a user-defined type that are stored in another form."""

    __slots__ = ()

    def get(self) -> list[T]:
        """Return the elements, oldest first; an empty list when there are none."""
        return cast("list[T]", [self.conversion.decode(item) for item in super().get()])

    def _checked(self, values: Iterable[T] | None) -> list[T]:
        if values is None:
            return super()._checked(values)
        encoded = [conversions.converted(self.conversion.encode, value) for value in values]
        return super()._checked(cast("list[T]", encoded))


class ListKind(entries.EntriesKind):
    """A list of elements per key."""

    container: ClassVar[str] = "array"
    column: ClassVar[str] = "index"
    handles = (ListState, ConvertingList)

    def new_table(self) -> ListTable:
        """Return an empty table."""
        return ListTable()

    def merge(self, older: tables.Changes, newer: tables.Changes) -> None:
        """Fold newer changes into older ones, in place."""
        for key, change in newer.items():
            before = older.get(key)
            if isinstance(change, ListChange) and isinstance(before, ListChange) and change.start > before.start:
                older[key] = ListChange(before.start, before.items[: change.start - before.start] + change.items)
            else:
                older[key] = change

    def encode(self, changes: tables.Changes) -> list[object]:
        """Return the start index of each list change, and the elements from that index on."""
        lists = [change for change in changes.values() if isinstance(change, ListChange)]
        return [[change.start for change in lists], *entries.flat_columns([change.items for change in lists])]

    def decode(  # type: ignore[override]  # its own columns
        self, keys: Collection[object], starts: list[int], counts: list[int], items: list[object]
    ) -> tables.Changes:
        """Undo `encode`."""
        elements = codec.unpack_column(items)
        entries.require_all(counts, elements)
        return dict(zip(keys, map(ListChange, starts, map(list, entries.split_by_key(counts, elements))), strict=True))

    def make_row(self, change: object) -> object:
        """Return start and elements."""
        given = cast("ListChange", change)
        return [given.start, codec.pack_column(given.items)]

    def read_row(self, row: object) -> object:
        """Undo `make_row`."""
        start, items = cast("tuple[int, list[object]]", row)
        return ListChange(start, codec.unpack_column(items))

    def written_cells(self, changes: tables.Changes) -> Iterator[tables.Cell]:
        """Return the elements that changes set."""
        lists = (change.items for change in changes.values() if isinstance(change, ListChange))
        return (cell for items in lists for cell in items)

    def alive(self, change: ListChange, cutoff_ms: int) -> ListChange | None:
        """Return a change with the elements that were renewed after a time, None when there are none."""
        items = ListTable.alive(cast("list[tuple[object, int]]", change.items), cutoff_ms)
        return None if items is None else ListChange(change.start, [*items])

    def entries(self, changes: tables.Changes) -> Iterator[kinds.Entry]:
        """Yield the content of a full chunk: key, index and element."""
        for key, change in changes.items():
            for index, cell in enumerate(cast("ListChange", change).items):
                yield key, index, cell

    def gather(self, entries: Iterable[kinds.Entry]) -> tables.Changes:
        """Undo `entries`."""
        lists: dict[tables.Key, list[tuple[int, tables.Cell]]] = {}
        for key, index, cell in entries:
            lists.setdefault(key, []).append((cast("int", index), cell))
        for elements in lists.values():
            elements.sort(key=lambda element: element[0])
        return {key: ListChange(0, [cell for _, cell in elements]) for key, elements in lists.items()}


LIST = ListKind("ListState")


@dataclass(frozen=True)
class ListStateDescriptor(kinds.Descriptor):
    """A list per key; see `KeyedContext.list_state`."""

    name: str
    type: object = None
    ttl: Ttl | None = None

    kind = LIST
