"""Converts columns of Python values to Arrow arrays and back without loss of type or value.

A column gets the simplest Arrow type that can hold all of its values without loss; mixed types use the msgpack of the
state's own codec. The field's metadata contains the shape of the column for the reader: a name such
as `int` or `datetime:Europe/Paris`, or a list such as `["tuple", "int", "float"]`, `["list", "str"]`, `["map", "int"]`
(keys are strings).
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import json
import uuid
import zoneinfo
from collections.abc import Callable, Sequence
from typing import cast

import pyarrow as pa

from statefulspark import errors
from statefulspark.state.types import codec

METADATA_KEY = b"statefulspark.type"
MSGPACK = "msgpack"
NULL = "null"

Shape = str | list["Shape"]
"""Encoding of a column; see the module."""

_IN_ZONE = "datetime:"
"""Points in time of one zone; its name follows."""
_MOST_LEVELS = 32
"""Parquet is read to a depth of 100, and a level of lists or maps takes two."""
_INT64 = (-(1 << 63), (1 << 63) - 1)
_PLAIN: dict[str, pa.DataType] = {
    NULL: pa.bool_(),
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "datetime": pa.timestamp("us"),
    "datetime_utc": pa.timestamp("us", "UTC"),
    "timedelta": pa.duration("us"),
    "time": pa.time64("us"),
    "uuid": pa.string(),
    MSGPACK: pa.binary(),
}


def infer(values: Sequence[object], levels: int = _MOST_LEVELS) -> Shape:
    """Choose an encoding that writes a column without loss; values that nest more levels than these are msgpack."""
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) != 1:
        return MSGPACK if kinds else NULL
    kind, present = kinds.pop(), [value for value in values if value is not None]
    if kind not in _NESTED:
        return _INFER[kind](present) if kind in _INFER else MSGPACK
    name, columns_of = _NESTED[kind]
    columns = columns_of(present) if levels else None
    children = [MSGPACK] if columns is None else [infer(column, levels - 1) for column in columns]
    return MSGPACK if MSGPACK in children else [name, *children]


def _infer_int(values: Sequence[object]) -> Shape:
    numbers = cast("Sequence[int]", values)
    return "int" if min(numbers) >= _INT64[0] and max(numbers) <= _INT64[1] else MSGPACK


def _infer_datetime(values: Sequence[object]) -> Shape:
    moments = cast("Sequence[datetime.datetime]", values)
    zones = {value.tzinfo for value in moments}
    zone = zones.pop()
    if zones:
        return MSGPACK
    if zone is None:
        return MSGPACK if any(value.fold for value in moments) else "datetime"
    if zone is datetime.UTC:
        return "datetime_utc"
    if isinstance(zone, zoneinfo.ZoneInfo) and zone.key and None not in map(codec.elapsed_us, moments):
        return f"{_IN_ZONE}{zone.key}"
    return MSGPACK


def _infer_time(values: Sequence[object]) -> Shape:
    plain = all(value.tzinfo is None and value.fold == 0 for value in cast("Sequence[datetime.time]", values))
    return "time" if plain else MSGPACK


def _infer_timedelta(values: Sequence[object]) -> Shape:
    limit = datetime.timedelta(days=100_000_000)
    return "timedelta" if all(abs(value) < limit for value in cast("Sequence[datetime.timedelta]", values)) else MSGPACK


def _infer_decimal(values: Sequence[object]) -> Shape:
    tuples = [value.as_tuple() for value in cast("Sequence[decimal.Decimal]", values)]
    exponents = {number.exponent for number in tuples}
    exponent = exponents.pop()
    if exponents or not isinstance(exponent, int) or not -38 <= exponent <= 0:
        return MSGPACK
    if any(len(number.digits) > 38 or (number.sign and not any(number.digits)) for number in tuples):
        return MSGPACK
    return f"decimal:{-exponent}"


def _tuple_columns(tuples: Sequence[tuple[object, ...]]) -> list[list[object]] | None:
    is_even = len({len(value) for value in tuples}) == 1 and tuples[0]
    return [list(column) for column in zip(*tuples, strict=True)] if is_even else None


def _list_columns(lists: Sequence[list[object]]) -> list[list[object]]:
    return [list(itertools.chain.from_iterable(lists))]


def _dict_columns(dicts: Sequence[dict[object, object]]) -> list[list[object]] | None:
    if any(type(key) is not str for value in dicts for key in value):
        return None
    return [[item for value in dicts for item in value.values()]]


_NESTED: dict[type, tuple[str, Callable[..., list[list[object]] | None]]] = {
    tuple: ("tuple", _tuple_columns),
    list: ("list", _list_columns),
    dict: ("map", _dict_columns),
}
"""The name of a shape, and its columns of children; None if they differ too much."""


_INFER: dict[type, Callable[[Sequence[object]], Shape]] = {
    bool: lambda _: "bool",
    int: _infer_int,
    float: lambda _: "float",
    str: lambda _: "str",
    bytes: lambda _: "bytes",
    datetime.date: lambda _: "date",
    datetime.datetime: _infer_datetime,
    datetime.timedelta: _infer_timedelta,
    datetime.time: _infer_time,
    uuid.UUID: lambda _: "uuid",
    decimal.Decimal: _infer_decimal,
}


def make_array(values: Sequence[object], shape: Shape) -> pa.Array:
    """Build an array; `shape` must be the result of `infer` for these values."""
    if isinstance(shape, str):
        if shape.startswith("decimal:"):
            return pa.array(values, pa.decimal128(38, int(shape[len("decimal:") :])))
        if shape.startswith(_IN_ZONE):
            return pa.array(values, pa.timestamp("us", shape.removeprefix(_IN_ZONE)))
        convert = _TO_ARROW.get(shape)
        plain = values if convert is None else [None if value is None else convert(value) for value in values]
        return pa.array(plain, _PLAIN[shape])
    kind, *children = shape
    if kind == "tuple":
        present = [value if isinstance(value, tuple) else (None,) * len(children) for value in values]
        columns = list(zip(*present, strict=True)) if present else [()] * len(children)
        arrays = [make_array(column, child) for column, child in zip(columns, children, strict=True)]
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(arrays, names=[f"_{n}" for n in range(1, len(children) + 1)], mask=mask)
    if kind == "list":
        lists = [value if isinstance(value, list) else [] for value in values]
        items = make_array(list(itertools.chain.from_iterable(lists)), children[0])
        return pa.ListArray.from_arrays(_offsets(values, [len(value) for value in lists]), items)
    maps = [value if isinstance(value, dict) else {} for value in values]
    keys = pa.array([key for value in maps for key in value], pa.string())
    items = make_array([item for value in maps for item in value.values()], children[0])
    return pa.MapArray.from_arrays(_offsets(values, [len(value) for value in maps]), keys, items)


_TO_ARROW: dict[str, Callable[[object], object]] = {"uuid": str, MSGPACK: codec.pack}


def _offsets(values: Sequence[object], lengths: list[int]) -> pa.Array:
    """Return the start of each list; null for a value that is None."""
    starts = list(itertools.accumulate(lengths, initial=0))
    marked = [None if value is None else start for value, start in zip(values, starts, strict=False)]
    return pa.array([*marked, starts[-1]], pa.int32())


def read_array(array: pa.Array, shape: Shape) -> list[object]:
    """Convert an array of `make_array` back to values."""
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in read_array(chunk, shape)]
    if isinstance(shape, str):
        convert = _FROM_ARROW.get(shape)
        listed: list[object] = array.to_pylist()
        return listed if convert is None else [None if value is None else convert(value) for value in listed]
    kind, *children = shape
    is_valid = array.is_valid().to_pylist()
    if kind == "tuple":
        columns = [read_array(array.field(index), child) for index, child in enumerate(children)]
        return [row if ok else None for row, ok in zip(zip(*columns, strict=True), is_valid, strict=True)]
    offsets = array.offsets.to_pylist()
    spans = zip(offsets, offsets[1:], is_valid, strict=False)
    if kind == "list":
        items = read_array(array.values, children[0])
        return [items[start:end] if ok else None for start, end, ok in spans]
    keys, items = array.keys.to_pylist(), read_array(array.items, children[0])
    return [dict(zip(keys[start:end], items[start:end], strict=True)) if ok else None for start, end, ok in spans]


_FROM_ARROW: dict[str, Callable[[object], object]] = {
    "uuid": lambda value: uuid.UUID(cast("str", value)),
    "datetime_utc": lambda value: cast("datetime.datetime", value).replace(tzinfo=datetime.UTC),
    MSGPACK: lambda value: codec.unpack(cast("bytes", value)),
}


def field(name: str, array: pa.Array, shape: Shape) -> pa.Field:
    """Return the field of a column, with its shape in the metadata."""
    return pa.field(name, array.type, metadata={METADATA_KEY: json.dumps(shape).encode()})


def shape_of(column: pa.Field, source: str) -> Shape:
    """Read the shape of a column from its field.

    Raises:
        SnapshotCorruptError: `CanonicalUnreadable`: the field has no shape.
    """
    written = (column.metadata or {}).get(METADATA_KEY)
    if written is None:
        raise errors.SnapshotCorruptError(
            "CanonicalUnreadable",
            f"{source} does not have the encoding of its column {column.name!r}; it is not a file of a canonical savepoint, "
            "or another tool has rewritten it. Restore another snapshot.",
        )
    return cast("Shape", json.loads(written))
