"""A kind of state that the product does not have: the elements of a key, the greatest first. All that a new kind takes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

from statefulspark.state import kinds, tables, ttl
from statefulspark.state.types import codec, conversions

Cells = list[tables.Cell]


class RankedTable:
    """A list of cells per key; a change is the whole list."""

    has_parts: ClassVar[bool] = True
    array_bytes: ClassVar[int] = 0

    def __init__(self) -> None:
        self.rows: dict[tables.Key, object] = {}
        self.dirty: set[tables.Key] = set()
        self.cursor: Iterator[tuple[tables.Key]] | None = None

    @property
    def count(self) -> int:
        return len(self.rows)

    def touch_row(self, key: tables.Key) -> None:
        self.dirty.add(key)

    def take_changes(self) -> tables.Changes:
        dirty, self.dirty = self.dirty, set()
        return {key: list(cast("Cells", self.rows[key])) if key in self.rows else tables.DELETED for key in dirty}

    def full(self) -> tables.Changes:
        return {key: list(cast("Cells", row)) for key, row in self.rows.items()}

    def apply(self, changes: tables.Changes) -> None:
        self.rows.update(changes)
        for key in [key for key, change in changes.items() if change is tables.DELETED]:
            del self.rows[key]

    @staticmethod
    def alive(row: list[tuple[object, int]], cutoff_ms: int) -> object:
        left = [cell for cell in row if cell[1] > cutoff_ms]
        return row if len(left) == len(row) else left or None

    @staticmethod
    def convert(row: Cells, convert: Callable[[tables.Cell], tables.Cell]) -> Cells:
        return [convert(cell) for cell in row]


class RankedHandle:
    """The elements of the current key."""

    def __init__(
        self, meta: kinds.StateMeta, scope: kinds.Scope, life: ttl.Ttl | None, cleaner: ttl.Cleaner | None
    ) -> None:
        self._meta, self._scope, self._life, self._cleaner = meta, scope, life, cleaner
        self._table = RankedTable()

    def _bind(self, table: RankedTable) -> None:
        self._table = table

    def add(self, value: object) -> None:
        """Put an element where it belongs."""
        row = self._row()
        row.append((value, self._scope.now_ms) if self._life else value)
        row.sort(key=self._value, reverse=True)  # type: ignore[arg-type,return-value]
        self._table.rows[self._scope.key] = row
        self._table.touch_row(self._scope.key)

    def get(self) -> list[object]:
        """Return the elements, the greatest first."""
        return [self._value(cell) for cell in self._row()]

    def clear(self) -> None:
        """Remove all elements of the key."""
        if self._table.rows.pop(self._scope.require_key(self._meta), None) is not None:
            self._table.touch_row(self._scope.key)

    def _row(self) -> Cells:
        key = self._scope.require_key(self._meta)
        if self._cleaner is not None:
            self._cleaner.step(self._scope.now_ms)
        row = cast("Cells", self._table.rows.get(key, []))
        if self._life is None:
            return row
        return [*cast("Cells", RankedTable.alive(row, self._scope.now_ms - self._life.duration_ms) or [])]  # type: ignore[arg-type]

    def _value(self, cell: tables.Cell) -> object:
        return cast("tuple[object, int]", cell)[0] if self._life else cell


class ConvertingRanked(RankedHandle):
    """The elements of the current key, of a type of the user's own."""

    def __init__(
        self,
        meta: kinds.StateMeta,
        scope: kinds.Scope,
        life: ttl.Ttl | None,
        cleaner: ttl.Cleaner | None,
        conversion: conversions.Conversion,
    ) -> None:
        super().__init__(meta, scope, life, cleaner)
        self.conversion = conversion

    def add(self, value: object) -> None:
        super().add(self.conversion.encode(value))

    def get(self) -> list[object]:
        return [self.conversion.decode(stored) for stored in super().get()]


class RankedKind(kinds.StateKind):
    """What is done with it."""

    container = "array"
    column = "rank"

    def new_table(self) -> RankedTable:
        return RankedTable()

    def new_view(
        self,
        state: kinds.StateMeta,
        scope: kinds.Scope,
        life: ttl.Ttl | None,
        cleaner: ttl.Cleaner | None,
        conversion: conversions.Conversion | None,
    ) -> RankedHandle:
        if conversion is None:
            return RankedHandle(state, scope, life, cleaner)
        return ConvertingRanked(state, scope, life, cleaner, conversion)

    def merge(self, older: tables.Changes, newer: tables.Changes) -> None:
        older.update(newer)

    def encode(self, changes: tables.Changes) -> list[object]:
        rows = [cast("Cells", change) for change in changes.values()]
        return [[len(row) for row in rows], codec.pack_column(itertools.chain.from_iterable(rows))]

    def decode(self, keys: list[object], counts: list[int], packed: list[object]) -> tables.Changes:  # type: ignore[override]
        rest = iter(codec.unpack_column(packed))
        return {key: list(itertools.islice(rest, count)) for key, count in zip(keys, counts, strict=True)}

    def written_cells(self, changes: tables.Changes) -> Iterator[tables.Cell]:
        return (cell for change in changes.values() if change is not tables.DELETED for cell in cast("Cells", change))

    def alive(self, change: list[tuple[object, int]], cutoff_ms: int) -> object:
        return RankedTable.alive(change, cutoff_ms)

    def entries(self, changes: tables.Changes) -> Iterator[kinds.Entry]:
        return ((key, rank, cell) for key, row in changes.items() for rank, cell in enumerate(cast("Cells", row)))

    def gather(self, entries: Iterable[kinds.Entry]) -> tables.Changes:
        rows: tables.Changes = {}
        for key, _, cell in sorted(entries, key=lambda entry: cast("int", entry[1])):
            cast("Cells", rows.setdefault(key, [])).append(cell)
        return rows


RANKED = RankedKind("RankedState")


@dataclass(frozen=True)
class RankedState(kinds.Descriptor):
    """Declares it."""

    name: str
    type: object = None
    ttl: ttl.Ttl | None = None

    kind = RANKED
