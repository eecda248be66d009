"""Compatibility of stream columns with columns of an Iceberg table; pure.

The table is described by its Arrow schema. Numbers of the stream may be narrower than those of the table, but not wider;
columns that are missing in the stream must be optional.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as compute


def mismatches(schema: pa.Schema, table_schema: pa.Schema) -> tuple[str, ...]:
    """Return the problems of each column of a stream with a table; empty if it fits."""
    problems = [
        f"{field.name} is not in the table"
        if field.name not in table_schema.names
        else f"{field.name} is {field.type} in the stream and {table_schema.field(field.name).type} in the table"
        for field in schema
        if field.name not in table_schema.names or not _fits(field.type, table_schema.field(field.name).type)
    ]
    missing = [
        f"{field.name} is required by the table and is not in the stream"
        for field in table_schema
        if not field.nullable and field.name not in schema.names
    ]
    return (*problems, *missing)


def fit(batch: pa.RecordBatch, table_schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with exactly the column types of the table, in the column order of the stream.

    Raises:
        ValueError: A column does not fit, or has a null in a required column.
    """
    problems = list(mismatches(batch.schema, table_schema))
    problems += [
        f"{name} has a null, which the table does not allow"
        for name in batch.schema.names
        if name in table_schema.names and not table_schema.field(name).nullable and batch.column(name).null_count
    ]
    if problems:
        raise ValueError("; ".join(problems))
    fields = [table_schema.field(name) for name in batch.schema.names]
    arrays = [compute.cast(batch.column(field.name), field.type) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _fits(kind: pa.DataType, table_type: pa.DataType) -> bool:
    if _plain(kind) == _plain(table_type):
        return True
    if pa.types.is_integer(kind) and pa.types.is_integer(table_type):
        return bool(kind.bit_width <= table_type.bit_width)
    if pa.types.is_floating(kind) and pa.types.is_floating(table_type):
        return bool(kind.bit_width <= table_type.bit_width)
    if pa.types.is_decimal(kind) and pa.types.is_decimal(table_type):
        return bool(kind.scale == table_type.scale and kind.precision <= table_type.precision)
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(table_type):
        return (kind.tz is None) == (table_type.tz is None)
    return _fits_nested(kind, table_type)


def _fits_nested(kind: pa.DataType, table_type: pa.DataType) -> bool:
    if _is_list(kind) and _is_list(table_type):
        return _fits(kind.value_type, table_type.value_type)
    if pa.types.is_map(kind) and pa.types.is_map(table_type):
        return _fits(kind.key_type, table_type.key_type) and _fits(kind.item_type, table_type.item_type)
    if pa.types.is_struct(kind) and pa.types.is_struct(table_type):
        return [field.name for field in kind] == [field.name for field in table_type] and all(
            _fits(stream_field.type, table_field.type)
            for stream_field, table_field in zip(kind, table_type, strict=True)
        )
    return False


def _plain(kind: pa.DataType) -> pa.DataType:
    """Map large types to their normal variants."""
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
