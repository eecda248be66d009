"""Converts Arrow columns to Python keys and rows.

Rows are tuples with the columns as attributes. Timestamps are aware datetimes, decimals are Decimal, structs dicts,
arrays lists, maps dicts.
"""

from __future__ import annotations

import collections
import difflib
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import cast

import pyarrow as pa

from statefulspark.state import functions
from statefulspark.state.types import floatkeys


def _column_getter(positions: dict[str, int]) -> Callable[[tuple[object, ...], str | int | slice], object]:
    plain = tuple.__getitem__

    def get_column(row: tuple[object, ...], column: str | int | slice) -> object:
        return plain(row, positions[column] if isinstance(column, str) else column)

    return get_column


def _missing_column(columns: tuple[str, ...]) -> Callable[[object, str], object]:
    def refuse(_: object, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)  # numpy and others ask every value what it can do
        meant = difflib.get_close_matches(name, columns, 1)
        hint = f" (did you mean {meant[0]!r}?)" if meant else ""
        raise AttributeError(f"the rows have no column {name!r}{hint}; they have {', '.join(columns)}", name=name)

    return refuse


@functools.lru_cache(maxsize=256)
def row_maker(columns: tuple[str, ...]) -> Callable[[Iterable[object]], functions.InputRow]:
    """Return a row factory for these columns. A column whose name is not an identifier is accessed as `row["the name"]`."""
    named_tuple = cast("Callable[..., type[tuple[object, ...]]]", collections.namedtuple)
    plain = named_tuple("InputRow", columns, rename=True)
    get_column = _column_getter({column: position for position, column in enumerate(columns)})
    own = {"__slots__": (), "__getitem__": get_column, "__getattr__": _missing_column(columns)}
    row_class = type("InputRow", (plain,), own)
    # Not `_make`, which is written in Python and takes twice as long.
    return cast("Callable[[Iterable[object]], functions.InputRow]", functools.partial(tuple.__new__, row_class))


def to_rows(table: pa.Table) -> list[functions.InputRow]:
    """Return the rows of a table, in order."""
    make = row_maker(tuple(table.column_names))
    return list(map(make, zip(*map(to_values, table.columns), strict=True)))


def to_keys(table: pa.Table, key: Sequence[str]) -> list[object]:
    """Return the key of each row: a value, or a tuple for a key of several columns. NaN is one key, and -0.0 is 0.0."""
    if len(key) == 1:
        return list(floatkeys.one_form(to_values(table.column(key[0]))))
    return list(floatkeys.one_form(list(zip(*(to_values(table.column(name)) for name in key), strict=True))))


def to_values(column: pa.ChunkedArray) -> list[object]:
    """Return a column as Python values."""
    kind = column.type
    is_number = (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and column.null_count == 0
    if is_number or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        # numpy is several times faster than to_pylist and returns the same values here.
        values: list[object] = column.to_numpy().tolist()
        return values
    listed: list[object] = column.to_pylist(maps_as_pydicts="strict")
    return listed
