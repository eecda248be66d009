"""Converts Arrow columns to Python keys and rows.

Rows are tuples with the columns as attributes. Timestamps are aware datetimes, decimals are Decimal, structs dicts,
arrays lists, maps dicts.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import cast

import pyarrow as pa

from statefulspark import rowvalues
from statefulspark.state import functions
from statefulspark.state.types import keyforms


class _Row(tuple[object, ...]):
    """The base of all rows: a tuple that is printed, copied and turned into a dict by the names of its columns."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"InputRow({', '.join(f'{name}={value!r}' for name, value in zip(_columns(self), self, strict=True))})"

    def __getnewargs__(self) -> tuple[tuple[object, ...]]:
        return (tuple(self),)

    def _asdict(self) -> dict[str, object]:
        return dict(zip(_columns(self), self, strict=True))


def _columns(row: tuple[object, ...]) -> tuple[str, ...]:
    columns: tuple[str, ...] = vars(type(row))["__columns__"]
    return columns


@functools.lru_cache(maxsize=256)
def row_maker(columns: tuple[str, ...]) -> Callable[[Iterable[object]], functions.InputRow]:
    """Return a row factory for these columns.

    `row["the name"]` and `getattr(row, "the name")` work for every name, and `row.name` wherever Python's grammar allows it.
    Only a name with two underscores at both ends is no attribute: Python itself asks for those.
    """
    positions = {column: position for position, column in enumerate(columns)}
    plain = tuple.__getitem__

    def get_column(row: tuple[object, ...], column: str | int | slice) -> object:
        return plain(row, positions[column] if isinstance(column, str) else column)

    def refuse(_: object, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)  # numpy and others ask every value what it can do
        meant = difflib.get_close_matches(name, columns, 1)
        hint = f" (did you mean {meant[0]!r}?)" if meant else ""
        raise AttributeError(f"the rows have no column {name!r}{hint}; they have {', '.join(columns)}", name=name)

    attributes = {
        column: property(operator.itemgetter(position))
        for column, position in positions.items()
        if not (column.startswith("__") and column.endswith("__"))
    }
    own = {"__getitem__": get_column, "__getattr__": refuse, "__columns__": columns}
    row_class = type("InputRow", (_Row,), {"__slots__": (), "_fields": columns, **attributes, **own})
    return cast("Callable[[Iterable[object]], functions.InputRow]", functools.partial(tuple.__new__, row_class))


def read_rows(table: pa.Table) -> list[functions.InputRow]:
    """Return the rows of a table, in order."""
    make = row_maker(tuple(table.column_names))
    return list(map(make, zip(*map(read_values, table.columns, table.column_names), strict=True)))


def kept(row: object) -> object:
    """Return an output row as it is now: a function may change its lists and dicts after it has yielded it."""
    if not isinstance(row, tuple):
        return _copied(row)
    copied = tuple.__new__(type(row), [_copied(value) for value in row])
    if hasattr(row, "__dict__"):
        vars(copied).update(vars(row))  # Where a Row of Spark has the names of its columns.
    return copied


def _copied(value: object) -> object:
    kind = type(value)
    if kind is dict:
        return {key: _copied(item) for key, item in cast("dict[object, object]", value).items()}
    if kind is list:
        return [_copied(item) for item in cast("list[object]", value)]
    return tuple([_copied(item) for item in cast("tuple[object, ...]", value)]) if kind is tuple else value


def read_keys(table: pa.Table, key: Sequence[str]) -> list[object]:
    """Return the key of each row in its one form (`types.keyforms`): a value, or a tuple for a key of several columns."""
    if len(key) == 1:
        return list(keyforms.one_form(read_values(table.column(key[0]), key[0])))
    return list(keyforms.one_form(list(zip(*(read_values(table.column(name), name) for name in key), strict=True))))


def read_values(column: pa.ChunkedArray, name: str = "a column") -> list[object]:
    """Return a column as Python values.

    Args:
        column: The column.
        name: Its name, for errors.

    Raises:
        SpecRejectedError: `RowUnsupported`: Python has no form of a value.
    """
    kind = column.type
    is_number = (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and column.null_count == 0
    if is_number or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        # numpy is several times faster than to_pylist and returns the same values here; text that is no UTF-8 is neither's.
        with contextlib.suppress(pa.ArrowException):
            values: list[object] = column.to_numpy().tolist()
            return values
    return rowvalues.values(column, name)
