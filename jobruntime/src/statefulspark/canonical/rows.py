"""Converts keyed state to rows and back: one row per value, list element or map entry, independent of key groups.

| kind | columns |
| --- | --- |
| value, reducing, aggregating | key, `value` |
| list | key, `index`, `value` |
| map | key, `entry`, `value` |

The key is the column `key`, or `key_1`, `key_2`, … for a key of several columns. State with a time to
live also has `renewed_ms`, the time of the last renewal in milliseconds since 1970. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import pyarrow as pa

from statefulspark.canonical import values
from statefulspark.state import chunks, kinds

KEY, VALUE, RENEWED = "key", "value", "renewed_ms"

Row = tuple[object, object, object, int]
"""Key, index or entry (None if the kind has none), value, last renewal (0 without a time to live)."""


def key_names(count: int) -> tuple[str, ...]:
    """Return the names of the key's columns."""
    return (KEY,) if count == 1 else tuple(f"{KEY}_{number}" for number in range(1, count + 1))


def read_section(section: chunks.Section) -> Iterator[Row]:
    """Yield the rows of a state in a full chunk."""
    entries = section.meta.kind.entries(section.changes)
    if not section.meta.has_ttl:
        return ((key, sub, cell, 0) for key, sub, cell in entries)
    return ((key, sub, *cast("tuple[object, int]", cell)) for key, sub, cell in entries)


def make_section(meta: kinds.StateMeta, rows: Iterable[Row]) -> chunks.Section:
    """Build a state of a full chunk; the elements of a list may be in any order."""
    timed = ((key, sub, (value, renewed)) for key, sub, value, renewed in rows)
    plain = ((key, sub, value) for key, sub, value, _ in rows)
    return chunks.Section(meta, meta.kind.gather(timed if meta.has_ttl else plain))


def make_table(meta: kinds.StateMeta, rows: Sequence[Row], key_count: int) -> pa.Table:
    """Convert rows to columns, each with the simplest type that holds its values."""
    keys, subs, cells, renewed = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [])
    key_columns = [keys]
    if key_count > 1:
        key_parts = zip(*cast("list[tuple[object, ...]]", keys), strict=True)
        key_columns = [list(column) for column in key_parts] or [[] for _ in range(key_count)]
    columns = dict(zip(key_names(key_count), key_columns, strict=True))
    sub = meta.kind.column
    if sub:
        columns[sub] = subs
    columns[VALUE] = cells
    if meta.has_ttl:
        columns[RENEWED] = renewed
    shapes = {name: values.infer(column) for name, column in columns.items()}
    arrays = {name: values.make_array(column, shapes[name]) for name, column in columns.items()}
    return pa.table(
        list(arrays.values()), schema=pa.schema([values.field(name, arrays[name], shapes[name]) for name in columns])
    )


def from_table(meta: kinds.StateMeta, table: pa.Table, key_count: int, source: str) -> Iterator[Row]:
    """Convert a table of `make_table` back to rows.

    Raises:
        SnapshotCorruptError: `CanonicalUnreadable`.
    """

    def column(name: str) -> list[object]:
        return values.read_array(table.column(name), values.shape_of(table.schema.field(name), source))

    parts = [column(name) for name in key_names(key_count)]
    keys: Iterable[object] = parts[0] if key_count == 1 else zip(*parts, strict=True)
    sub = meta.kind.column
    subs: Sequence[object] = column(sub) if sub else [None] * table.num_rows
    renewed: Sequence[object] = column(RENEWED) if meta.has_ttl else [0] * table.num_rows
    return cast("Iterator[Row]", zip(keys, subs, column(VALUE), renewed, strict=True))
