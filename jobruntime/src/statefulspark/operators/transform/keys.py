"""Converts keys of Spark's operator to keys of our state: structs to their fields, floats to their bits.

A key of our state equals itself, is hashable, and is unchanged after storage (`state.types.keyforms`). NaN does not equal
itself, and Arrow returns a struct as a dict. So a struct becomes a column that is true where the struct is null, followed by
its fields; a float or double becomes the integer with its bits, where all NaN are equal and -0.0 is 0.0, as in Spark's hash.
The parts of a key are stored as the type of the key: `struct, double, string` for `struct<d:double,s:string>`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark_types

from statefulspark.state import keygroups
from statefulspark.state import rows as keyed_rows
from statefulspark.state.types import keyforms

STORED_AS_BITS = (spark_types.FloatType, spark_types.DoubleType)
_BITS = {"double": (np.int64, "<d", "<q"), "float": (np.int32, "<f", "<i")}


def type_of(kind: spark_types.DataType) -> tuple[str, ...]:
    """Return the types of the parts of a key column."""
    if isinstance(kind, spark_types.StructType):
        return (keygroups.STRUCT, *(part for field in kind.fields for part in type_of(field.dataType)))
    return (kind.simpleString(),)


def read_keys(table: pa.Table, columns: Sequence[str], kinds: Sequence[spark_types.DataType]) -> list[object]:
    """Return the key of each row: a value, or a tuple of several parts.

    Args:
        table: The rows.
        columns: Key columns.
        kinds: Their types.
    """
    given = zip(columns, kinds, strict=True)
    parts = [part for column, kind in given for part in _parts(table.column(column), kind, column)]
    return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))


def values_of(key: object, kinds: Sequence[spark_types.DataType]) -> list[object]:
    """Return the values of the key columns of a key; structs as tuples."""
    is_single = len([part for kind in kinds for part in type_of(kind)]) == 1
    parts = iter((key,) if is_single else cast("tuple[object, ...]", key))
    return [_value(parts, kind) for kind in kinds]


def _parts(column: pa.ChunkedArray, kind: spark_types.DataType, name: str) -> Iterator[list[object]]:
    if isinstance(kind, spark_types.StructType):
        yield [True if is_null else None for is_null in column.is_null().to_pylist()]
        for index, field in enumerate(kind.fields):
            yield from _parts(pc.struct_field(column, [index]), field.dataType, f"{name}.{field.name}")
    elif kind.simpleString() in _BITS:
        integers, _, _ = _BITS[kind.simpleString()]
        numbers = pc.fill_null(column, 0.0).to_numpy().copy()
        numbers[np.isnan(numbers)] = np.nan
        numbers[numbers == 0] = 0
        bits: list[object] = numbers.view(integers).tolist()
        if column.null_count:
            nulls = column.is_null().to_pylist()
            bits = [None if is_null else number for number, is_null in zip(bits, nulls, strict=True)]
        yield bits
    else:
        yield list(keyforms.one_form(keyed_rows.read_values(column, name)))


def _value(parts: Iterator[object], kind: spark_types.DataType) -> object:
    if isinstance(kind, spark_types.StructType):
        is_null = next(parts)
        fields = [_value(parts, field.dataType) for field in kind.fields]
        return None if is_null else tuple(fields)
    part = next(parts)
    if part is None or kind.simpleString() not in _BITS:
        return part
    _, number, integer = _BITS[kind.simpleString()]
    return struct.unpack(number, struct.pack(integer, part))[0]
