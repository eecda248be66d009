"""Arrow columns as Python values: those that functions, serializers and databases get.

Maps are dicts. A value that Python has no form of is refused with its column: on the worker, before the batch is committed,
so corrected code is all that it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

from statefulspark import errors

Column: TypeAlias = pa.Array | pa.ChunkedArray
Change: TypeAlias = Callable[[object], object]
T = TypeVar("T")
PARQUET_ERRORS = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What reading a damaged Parquet file raises; most complaints are OSErrors."""
_NO_FORM = (OverflowError, ValueError, KeyError, TypeError)


def dicts(rows: pa.RecordBatch | pa.Table) -> list[dict[str, object]]:
    """Return each row as a dict by column name, with the shortest form of floats."""
    names = rows.schema.names
    columns = [shortest(rows.column(position), name) for position, name in enumerate(names)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def values(column: Column, name: str) -> list[object]:
    """Return the values of a column; points in time that are keys of maps are in UTC, see `convert_keys_to_utc`.

    Args:
        column: The column.
        name: Its name, for errors.

    Raises:
        SpecRejectedError: `RowUnsupported`: Python has no form of a value, such as a time after the year 9999.
    """
    return converted(convert_keys_to_utc(column), name, lambda part: part.to_pylist(maps_as_pydicts="strict"))


def convert_keys_to_utc(column: Column) -> Column:
    """Return a column whose points in time are in UTC where they are keys of maps.

    In another zone, Python takes both points in time of a repeated hour for one key of a dict.
    """
    kind = _convert_key_type(column.type)
    return column if kind == column.type else column.cast(kind)


def _convert_key_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_map(kind):
        return pa.map_(_convert_time_type(kind.key_type), kind.item_field.with_type(_convert_key_type(kind.item_type)))
    return _convert_parts(kind, _convert_key_type)


def _convert_time_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    return _convert_parts(kind, _convert_time_type)


def _convert_parts(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type with the types of its elements or fields changed."""
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(change(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(change(field.type)) for field in kind])
    return kind


def values_with_pairs(column: Column, name: str) -> list[object]:
    """Return the values of a column as `values` does, with maps as lists of pairs, as Spark hands them to a processor."""
    return converted(column, name, lambda part: part.to_pylist())


def converted(column: Column, name: str, convert: Callable[[Column], T], place: str = "Python") -> T:
    """Return what a column is converted to.

    Args:
        column: The column.
        name: Its name, for errors.
        convert: Converts it, or a part of it.
        place: Where its values have no form if that fails, for errors.

    Raises:
        SpecRejectedError: `RowUnsupported`, with the first value that cannot be converted.
    """
    try:
        return convert(column)
    except _NO_FORM as error:
        raise _unsupported(column, name, convert, place) from error


def shortest(column: Column, name: str) -> list[object]:
    """Return the values of a column, where a float of 32 bits is the shortest number that it is, as Spark prints it."""
    listed, narrow = values(column, name), changing(column.type, _narrow)
    return listed if narrow is None else [None if value is None else narrow(value) for value in listed]


def require_forms(column: pa.Array, name: str) -> None:
    """Refuse a column with a time or a text that Python has no form of; nothing is converted.

    Args:
        column: The column.
        name: Its name, for errors.

    Raises:
        SpecRejectedError: `RowUnsupported`.
    """
    for part in leaves(column):
        try:
            if pa.types.is_date(part.type) or pa.types.is_timestamp(part.type):
                _ = [end.as_py() for end in compute.min_max(part).values()]
            elif is_text(part.type):
                part.validate(full=True)
        except (OverflowError, ValueError) as error:
            raise _unsupported(column, name, lambda value: value.to_pylist(maps_as_pydicts="strict")) from error


def leaves(column: pa.Array) -> Iterator[pa.Array]:
    """Yield the arrays of a column that have no parts: itself, or its elements, keys, items and fields."""
    kind = column.type
    if pa.types.is_map(kind):
        start, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
        for part in (column.keys, column.items):
            yield from leaves(part.slice(start, end - start))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from leaves(column.flatten())
    elif pa.types.is_struct(kind):
        for part in column.flatten():
            yield from leaves(part)
    else:
        yield column


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a type is a string."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def keys_without_text(kind: pa.DataType) -> bool:
    """Tell whether a type has a map whose keys are arrays, structs or maps, which no dict can have."""
    if pa.types.is_map(kind):
        return bool(pa.types.is_nested(kind.key_type)) or keys_without_text(kind.item_type)
    return any(keys_without_text(kind.field(index).type) for index in range(kind.num_fields))


def changing(kind: pa.DataType, change_of: Callable[[pa.DataType], Change | None]) -> Change | None:
    """Return a function that changes the parts of a value of a type; None where there is nothing to change.

    Args:
        kind: The type; its maps are dicts and its structs are dicts with every field.
        change_of: What is done with a value, not null, of a type that has no parts; None for nothing.
    """
    if pa.types.is_map(kind):
        of_key = changing(kind.key_type, change_of)
        of_item = changing(kind.item_type, change_of)
        if of_key is None and of_item is None:
            return None
        key_of, item_of = of_key or _same, of_item or _same
        return lambda value: {
            key_of(key): None if item is None else item_of(item)
            for key, item in cast("dict[object, object]", value).items()
        }
    if pa.types.is_struct(kind):
        changes = {field.name: change for field in kind if (change := changing(field.type, change_of)) is not None}
        if not changes:
            return None

        def change_fields(value: object) -> object:
            struct = cast("dict[str, object]", value)
            return struct | {name: of(struct[name]) for name, of in changes.items() if struct[name] is not None}

        return change_fields
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        change_item = changing(kind.value_type, change_of)
        if change_item is None:
            return None
        return lambda value: [None if item is None else change_item(item) for item in cast("list[object]", value)]
    return change_of(kind)


def _narrow(kind: pa.DataType) -> Change | None:
    """Return what gives a float of 32 bits its shortest form."""
    return (lambda value: float(str(np.float32(cast("float", value))))) if pa.types.is_float32(kind) else None


def _same(value: object) -> object:
    return value


def _unsupported(
    column: Column, name: str, convert: Callable[[Column], object], place: str = "Python"
) -> errors.SpecRejectedError:
    """Return the error for the first value that cannot be converted."""
    for position in range(len(column)):
        try:
            convert(column.slice(position, 1))
        except _NO_FORM as error:
            shown = " ".join(str(column.slice(position, 1)).split())[:200]
            return errors.SpecRejectedError(
                "RowUnsupported",
                f"The column {name!r} ({column.type}) has a value that has no form in {place}, {shown}: "
                f"{error}. Filter such rows, or cast the column to a string.",
            )
    raise errors.InternalError("Unexpected", f"Each value of the column {name!r} converts, and the column does not.")
