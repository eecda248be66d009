"""`MapState`: a map of entries per key.

With a time to live, each entry expires on its own. A read deletes the expired ones that it finds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar, cast

import pyarrow as pa

from statefulspark import errors
from statefulspark.state import entries, kinds, many, tables
from statefulspark.state.ttl import Ttl
from statefulspark.state.types import codec, conversions, keyforms, typetext

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class MapChange:
    """Entries put and removed; `replaced` means that all other entries are removed."""

    replaced: bool
    puts: dict[object, tables.Cell]
    removed: AbstractSet[object] = frozenset()


class MapTable:
    """A map of cells per key; `dirty` holds the entries that changed, or None when the map was replaced."""

    __slots__ = ("cursor", "dirty", "rows")
    has_parts: ClassVar[bool] = True
    array_bytes: ClassVar[int] = 0

    def __init__(self) -> None:
        self.rows: dict[tables.Key, object] = {}
        self.dirty: dict[tables.Key, set[object] | None] = {}
        self.cursor: Iterator[tuple[tables.Key]] | None = None

    def touch(self, key: tables.Key, entry: object) -> None:
        """Mark one entry of a key's map as changed."""
        if key not in self.dirty:
            self.dirty[key] = {entry}
            return
        entries = self.dirty[key]
        if entries is not None:
            entries.add(entry)

    @property
    def count(self) -> int:
        """Number of keys."""
        return len(self.rows)

    def touch_row(self, key: tables.Key) -> None:
        """Mark a key's map as replaced or cleared."""
        self.dirty[key] = None

    def take_changes(self) -> tables.Changes:
        """Return the changes since the last call, and reset them."""
        dirty, self.dirty = self.dirty, {}
        return {key: self._change(key, entries) for key, entries in dirty.items()}

    def _change(self, key: tables.Key, entries: set[object] | None) -> object:
        row = self.rows.get(key)
        if not isinstance(row, dict):
            return tables.DELETED
        if entries is None:
            return MapChange(replaced=True, puts=dict(row))
        puts = {entry: row[entry] for entry in entries if entry in row}
        if len(puts) == len(entries):
            return MapChange(replaced=False, puts=puts)
        return MapChange(replaced=False, puts=puts, removed=entries - puts.keys())

    def full(self) -> tables.Changes:
        """Return changes that build this table from an empty one."""
        return {key: MapChange(replaced=True, puts=row) for key, row in self.rows.items() if isinstance(row, dict)}

    def apply(self, changes: tables.Changes) -> None:
        """Apply changes to the table."""
        rows = self.rows
        if not rows:
            self.rows = {key: change.puts for key, change in changes.items() if isinstance(change, MapChange)}
            return
        tables.apply_deleted(rows, changes)
        for key, change in changes.items():
            if not isinstance(change, MapChange):
                continue
            row = rows.get(key)
            if change.replaced or not isinstance(row, dict):
                rows[key] = dict(change.puts)
                continue
            row.update(change.puts)
            for entry in change.removed:
                row.pop(entry, None)

    @staticmethod
    def alive(row: dict[object, tuple[object, int]], cutoff_ms: int, /) -> dict[object, tuple[object, int]] | None:
        """Return the entries that were renewed after a time, None when there are none."""
        return {entry: cell for entry, cell in row.items() if cell[1] > cutoff_ms} or None

    @staticmethod
    def convert(
        row: dict[object, tables.Cell], convert: Callable[[tables.Cell], tables.Cell], /
    ) -> dict[object, tables.Cell]:
        """Return the map with every value converted."""
        return {entry: convert(cell) for entry, cell in row.items()}


class MapState(entries.EntriesHandle[MapTable], Generic[K, V]):
    """A map per key. Unset behaves as an empty map, never None. An entry may hold None."""

    __slots__ = ()

    def _row(self) -> dict[object, object]:
        key = self._scope.require_key(self._meta)
        self._expiry.step()
        return cast("dict[object, object]", self._table.rows.get(key, {}))

    def get(self, entry: K) -> V | None:
        """Return the value of an entry, or None when there is no such entry."""
        return cast("V | None", self._read(keyforms.entry_form(entry), self._row())[1])

    def __getitem__(self, entry: K) -> V:
        is_present, value = self._read(keyforms.entry_form(entry), self._row())
        if not is_present:
            raise KeyError(entry)
        return cast("V", value)

    def __contains__(self, entry: object) -> bool:
        return self._read(keyforms.entry_form(entry), self._row())[0]

    def __len__(self) -> int:
        return len(self._stored_entries()) if self._expiry.active else len(self._row())

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
            InvalidArgumentError: The map is None.
        """
        if entries is None:
            raise errors.InvalidArgumentError("NullInState", "Map of entries to put cannot be null.")
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

    def items(self) -> list[tuple[K, V]]:
        """Return all entries. The order is not part of the contract."""
        return cast("list[tuple[K, V]]", self._stored_entries())

    def _stored_entries(self) -> list[tuple[object, object]]:
        row = self._row()
        cells = ((entry, self._read(entry, row)) for entry in list(row))
        return [(entry, value) for entry, (present, value) in cells if present]

    def keys(self) -> list[K]:
        """Return the keys of all entries."""
        return [cast("K", entry) for entry, _ in self._stored_entries()]

    def values(self) -> list[V]:
        """Return the values of all entries."""
        return [value for _, value in self.items()]

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())

    def exists(self) -> bool:
        """Tell whether there is an entry that is not expired. This renews and deletes nothing."""
        row = cast("dict[object, object]", self._table.rows.get(self._scope.require_key(self._meta), {}))
        return not all(map(self._expiry.is_expired, row.values()))

    def clear(self) -> None:
        """Remove the map of the current key."""
        key = self._scope.require_key(self._meta)
        if self._table.rows.pop(key, None) is not None:
            self._table.touch_row(key)

    def get_many(self, keys: many.Given, entries: many.Given) -> pa.Array | list[V | None]:
        """Return the value of one entry for each row; in `process_table` only.

        Args:
            keys: The key of each row: a column, or a sequence; a key may come more than once.
            entries: The entry of each row, likewise.

        Returns:
            The value of each row's entry, None where there is none: a column for columns, a list for sequences.
        """
        values = [self.get(cast("K", entry)) for (entry,) in self._turns.rows("get_many", keys, entries)]
        return many.make_column("get_many", values) if many.is_column(keys) else values

    def items_many(self, keys: many.Given) -> list[list[tuple[K, V]]]:
        """Return all entries of each of many keys, as a list of pairs for each key; in `process_table` only.

        Args:
            keys: Keys that the table has: a column, or a sequence.
        """
        return [self.items() for _ in self._turns.rows("items_many", keys)]

    def put_many(self, keys: many.Given, entries: many.Given, values: many.Given) -> None:
        """Set an entry for each row; in `process_table` only.

        Args:
            keys: The key of each row: a column, or a sequence; a key may come more than once.
            entries: The entry of each row, likewise; of one that comes twice for a key the last value stays.
            values: The value of each row, likewise.
        """
        for entry, value in self._turns.rows("put_many", keys, entries, values):
            self.put(cast("K", entry), cast("V", value))

    def remove_many(self, keys: many.Given, entries: many.Given) -> None:
        """Remove an entry for each row, if it exists; in `process_table` only.

        Args:
            keys: The key of each row: a column, or a sequence; a key may come more than once.
            entries: The entry of each row, likewise.
        """
        for (entry,) in self._turns.rows("remove_many", keys, entries):
            self.remove(cast("K", entry))

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


class ConvertingMap(MapState[K, V]):
    """The map of the current key, with values of a user-defined type that are stored in another form."""

    __slots__ = ()

    def get(self, entry: K) -> V | None:
        """Return the value of an entry, or None when there is no such entry."""
        return cast("V | None", conversions.converted(self.conversion.decode, super().get(entry)))

    def __getitem__(self, entry: K) -> V:
        return cast("V", conversions.converted(self.conversion.decode, super().__getitem__(entry)))

    def put(self, entry: K, value: V) -> None:
        """Set an entry."""
        super().put(entry, cast("V", conversions.converted(self.conversion.encode, value)))

    def items(self) -> list[tuple[K, V]]:
        """Return all entries. The order is not part of the contract."""
        decode = self.conversion.decode
        return [
            (cast("K", entry), cast("V", conversions.converted(decode, value)))
            for entry, value in self._stored_entries()
        ]


class MapKind(entries.EntriesKind):
    """A map of entries per key."""

    container: ClassVar[str] = "map"
    column: ClassVar[str] = "entry"
    has_entry_keys: ClassVar[bool] = True
    handles = (MapState, ConvertingMap)

    def new_table(self) -> MapTable:
        """Return an empty table."""
        return MapTable()

    def merge(self, older: tables.Changes, newer: tables.Changes) -> None:
        """Fold newer changes into older ones, in place."""
        for key, change in newer.items():
            before = older.get(key)
            if isinstance(change, MapChange) and not change.replaced and isinstance(before, MapChange):
                puts = before.puts | change.puts
                for entry in change.removed:
                    puts.pop(entry, None)
                removed = set() if before.replaced else (before.removed - change.puts.keys()) | change.removed
                older[key] = MapChange(before.replaced, puts, removed)
            elif isinstance(change, MapChange) and before is tables.DELETED:
                # Older entries must stay deleted when this change is applied without the deletion.
                older[key] = MapChange(replaced=True, puts=change.puts)
            else:
                older[key] = change

    def encode(self, changes: tables.Changes) -> list[object]:
        """Return which maps are replaced, their entries and values, and the entries that were removed."""
        maps = [change for change in changes.values() if isinstance(change, MapChange)]
        return [
            [change.replaced for change in maps],
            *entries.flat_columns([change.puts for change in maps]),
            codec.pack_column(itertools.chain.from_iterable(change.puts.values() for change in maps)),
            *entries.flat_columns([change.removed for change in maps]),
        ]

    def decode(  # type: ignore[override]  # its own columns
        self,
        keys: Collection[object],
        replaced: list[bool],
        counts: list[int],
        names: list[object],
        values: list[object],
        removed_counts: list[int],
        removed: list[object],
    ) -> tables.Changes:
        """Undo `encode`."""
        unpacked, cells, gone = map(codec.unpack_column, (names, values, removed))
        entries.require_all(counts, unpacked)
        entries.require_all(counts, cells)
        entries.require_all(removed_counts, gone)
        unpacked, gone = map(keyforms.stored_entries, (unpacked, gone))
        puts = map(dict, entries.split_by_key(counts, zip(unpacked, cells, strict=True)))
        if not gone:
            return dict(zip(keys, map(MapChange, replaced, puts), strict=True))
        maps = map(MapChange, replaced, puts, map(set, entries.split_by_key(removed_counts, gone)))
        return dict(zip(keys, maps, strict=True))

    def make_row(self, change: object) -> object:
        """Return whether the map is replaced, its entries and values, and the entries that were removed."""
        given = cast("MapChange", change)
        return [given.replaced, *map(codec.pack_column, (given.puts, given.puts.values(), given.removed))]

    def read_row(self, row: object) -> object:
        """Undo `make_row`."""
        replaced, *packed = cast("tuple[bool, list[object], list[object], list[object]]", row)
        names, cells, removed = map(codec.unpack_column, packed)
        names, removed = map(keyforms.stored_entries, (names, removed))
        return MapChange(replaced, dict(zip(names, cells, strict=True)), set(removed))

    def written_cells(self, changes: tables.Changes) -> Iterator[tables.Cell]:
        """Return the values that changes set."""
        maps = (change.puts for change in changes.values() if isinstance(change, MapChange))
        return (cell for puts in maps for cell in puts.values())

    def alive(self, change: MapChange, cutoff_ms: int) -> MapChange | None:
        """Return a change with the entries that were renewed after a time, None when there are none."""
        puts = MapTable.alive(cast("dict[object, tuple[object, int]]", change.puts), cutoff_ms)
        return None if puts is None else MapChange(change.replaced, {**puts}, change.removed)

    def entries(self, changes: tables.Changes) -> Iterator[kinds.Entry]:
        """Yield the content of a full chunk: key, entry and value."""
        for key, change in changes.items():
            for entry, cell in cast("MapChange", change).puts.items():
                yield key, entry, cell

    def gather(self, entries: Iterable[kinds.Entry]) -> tables.Changes:
        """Undo `entries`."""
        maps: dict[tables.Key, dict[object, tables.Cell]] = {}
        for key, entry, cell in entries:
            maps.setdefault(key, {})[entry] = cell
        return {key: MapChange(replaced=True, puts=puts) for key, puts in maps.items()}


MAP = MapKind("MapState")


@dataclass(frozen=True)
class MapStateDescriptor(kinds.Descriptor):
    """A map per key; see `KeyedContext.map_state`."""

    name: str
    key_type: object = None
    value_type: object = None
    ttl: Ttl | None = None

    kind = MAP

    @property
    def type_text(self) -> str:
        """The type as it is stored with the state."""
        return f"map<{typetext.canonical(self.key_type)},{typetext.canonical(self.value_type)}>"
