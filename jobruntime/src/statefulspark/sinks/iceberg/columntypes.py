"""Compatibility of stream columns with columns of an Iceberg table; pure.

The table is described by its Arrow schema. Numbers of the stream may be narrower than those of the table, but not wider.
Columns, and fields of structs, are found by their names; those that are missing in the stream must be optional.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as compute

from statefulspark import rowvalues


def mismatches(schema: pa.Schema, table_schema: pa.Schema) -> tuple[str, ...]:
    """Return the problems of each column, and each field in a column, of a stream with a table; empty if it fits."""
    return tuple(_fields(list(schema), list(table_schema), ""))


def fit(batch: pa.RecordBatch, table_schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with exactly the column types of the table, in the column order of the stream.

    Raises:
        ValueError: A column does not fit, or has a null in a required column.
        SpecRejectedError: `RowUnsupported`: the library that writes the table has no form of a value.
    """
    problems = list(mismatches(batch.schema, table_schema))
    problems += [
        f"{name} has a null, which the table does not allow"
        for name in batch.schema.names
        if name in table_schema.names and not table_schema.field(name).nullable and batch.column(name).null_count
    ]
    if problems:
        raise ValueError("; ".join(problems))
    for column, name in zip(batch.columns, batch.schema.names, strict=True):
        rowvalues.require_forms(column, name)
    fields = [table_schema.field(name) for name in batch.schema.names]
    arrays = [compute.cast(batch.column(field.name), field.type) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _fields(stream: Sequence[pa.Field], table: Sequence[pa.Field], above: str) -> Iterator[str]:
    """Compare fields by their names, as Iceberg does: a field that was added to the table is null in what the stream has."""
    by_name = {field.name: field for field in table}
    for field in stream:
        path = f"{above}{field.name}"
        if field.name in by_name:
            yield from _problems(path, field.type, by_name[field.name].type)
        else:
            yield f"{path} is not in the table"
    given = {field.name for field in stream}
    for field in table:
        if not field.nullable and field.name not in given:
            yield f"{above}{field.name} is required by the table and is not in the stream"


def _problems(path: str, kind: pa.DataType, table_type: pa.DataType) -> Iterator[str]:
    if pa.types.is_struct(kind) and pa.types.is_struct(table_type):
        yield from _fields(list(kind), list(table_type), f"{path}.")
    elif _is_list(kind) and _is_list(table_type):
        yield from _problems(f"{path}.element", kind.value_type, table_type.value_type)
    elif pa.types.is_map(kind) and pa.types.is_map(table_type):
        yield from _problems(f"{path}.key", kind.key_type, table_type.key_type)
        yield from _problems(f"{path}.value", kind.item_type, table_type.item_type)
    elif not _fits(kind, table_type):
        yield f"{path} is {kind} in the stream and {table_type} in the table"


def _fits(kind: pa.DataType, table_type: pa.DataType) -> bool:
    if _plain(kind) == _plain(table_type):
        return True
    if pa.types.is_integer(kind) and pa.types.is_integer(table_type):
        return bool(kind.bit_width <= table_type.bit_width)
    if pa.types.is_floating(kind) and pa.types.is_floating(table_type):
        return bool(kind.bit_width <= table_type.bit_width)
    if pa.types.is_decimal(kind) and pa.types.is_decimal(table_type):
        return bool(kind.scale == table_type.scale and kind.precision <= table_type.precision)
    if pa.types.is_time(kind) and pa.types.is_time(table_type):
        return True  # Both have microseconds; Spark hands them over as nanoseconds.
    is_time = pa.types.is_timestamp(kind) and pa.types.is_timestamp(table_type)
    return is_time and (kind.tz is None) == (table_type.tz is None)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Map large types to their normal variants."""
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
