"""Which columns of a stream fit which columns of an Iceberg table; pure.

The table is given by its Arrow schema. A stream may hold narrower numbers than the table, never wider ones; columns that it
lacks must be optional.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as compute


def mismatches(schema: pa.Schema, wanted: pa.Schema) -> tuple[str, ...]:
    """Return, column by column, why a stream does not fit a table; empty if it does."""
    problems = [
        f"{field.name} is not in the table"
        if field.name not in wanted.names
        else f"{field.name} is {field.type} in the stream and {wanted.field(field.name).type} in the table"
        for field in schema
        if field.name not in wanted.names or not _fits(field.type, wanted.field(field.name).type)
    ]
    missing = [
        f"{field.name} is required by the table and is not in the stream"
        for field in wanted
        if not field.nullable and field.name not in schema.names
    ]
    return (*problems, *missing)


def fit(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Return rows with exactly the types of the table's columns, in the stream's order of columns.

    Raises:
        ValueError: A column does not fit, or holds a null that the table refuses.
    """
    problems = list(mismatches(batch.schema, wanted))
    problems += [
        f"{name} holds a null, which the table refuses"
        for name in batch.schema.names
        if name in wanted.names and not wanted.field(name).nullable and batch.column(name).null_count
    ]
    if problems:
        raise ValueError("; ".join(problems))
    fields = [wanted.field(name) for name in batch.schema.names]
    arrays = [compute.cast(batch.column(field.name), field.type) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _fits(kind: pa.DataType, wanted: pa.DataType) -> bool:
    if _plain(kind) == _plain(wanted):
        return True
    if pa.types.is_integer(kind) and pa.types.is_integer(wanted):
        return bool(kind.bit_width <= wanted.bit_width)
    if pa.types.is_floating(kind) and pa.types.is_floating(wanted):
        return bool(kind.bit_width <= wanted.bit_width)
    if pa.types.is_decimal(kind) and pa.types.is_decimal(wanted):
        return bool(kind.scale == wanted.scale and kind.precision <= wanted.precision)
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(wanted):
        return (kind.tz is None) == (wanted.tz is None)
    return _fits_nested(kind, wanted)


def _fits_nested(kind: pa.DataType, wanted: pa.DataType) -> bool:
    if _is_list(kind) and _is_list(wanted):
        return _fits(kind.value_type, wanted.value_type)
    if pa.types.is_map(kind) and pa.types.is_map(wanted):
        return _fits(kind.key_type, wanted.key_type) and _fits(kind.item_type, wanted.item_type)
    if pa.types.is_struct(kind) and pa.types.is_struct(wanted):
        return [field.name for field in kind] == [field.name for field in wanted] and all(
            _fits(mine.type, theirs.type) for mine, theirs in zip(kind, wanted, strict=True)
        )
    return False


def _plain(kind: pa.DataType) -> pa.DataType:
    """Leave aside how a type counts its bytes."""
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
