"""Arrow columns as Python values: those that functions, serializers and databases get.

Maps are dicts. A value that Python has no form of is refused with its column: on the worker, before the batch is committed,
so corrected code is all that it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa

from statefulspark import errors

Column: TypeAlias = pa.Array | pa.ChunkedArray


def dicts(rows: pa.RecordBatch | pa.Table) -> list[dict[str, object]]:
    """Return each row as a dict by column name, with the shortest form of floats."""
    names = rows.schema.names
    columns = [shortest(rows.column(position), name) for position, name in enumerate(names)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def values(column: Column, name: str) -> list[object]:
    """Return the values of a column.

    Args:
        column: The column.
        name: Its name, for errors.

    Raises:
        SpecRejectedError: `RowUnsupported`: Python has no form of a value, such as a time after the year 9999.
    """
    try:
        listed: list[object] = column.to_pylist(maps_as_pydicts="strict")
    except (OverflowError, ValueError, KeyError, TypeError) as error:
        raise _unsupported(column, name) from error
    return listed


def shortest(column: Column, name: str) -> list[object]:
    """Return the values of a column, where a float of 32 bits is the shortest number that it is, as Spark prints it."""
    listed, narrow = values(column, name), _narrow(column.type)
    return listed if narrow is None else [None if value is None else narrow(value) for value in listed]


def keys_without_text(kind: pa.DataType) -> bool:
    """Tell whether a type has a map whose keys are arrays, structs or maps, which no dict can have."""
    if pa.types.is_map(kind):
        return bool(pa.types.is_nested(kind.key_type)) or keys_without_text(kind.item_type)
    return any(keys_without_text(kind.field(index).type) for index in range(kind.num_fields))


def _narrow(kind: pa.DataType) -> Callable[[object], object] | None:
    """Return what gives floats of 32 bits in values of a type their shortest form; None if the type has none."""
    if pa.types.is_float32(kind):
        return lambda value: float(str(np.float32(cast("float", value))))
    if pa.types.is_map(kind):
        return _each_item(_narrow(kind.item_type))
    if pa.types.is_struct(kind):
        return _each_field({field.name: narrow for field in kind if (narrow := _narrow(field.type)) is not None})
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _each_element(_narrow(kind.value_type))
    return None


def _each_element(narrow: Callable[[object], object] | None) -> Callable[[object], object] | None:
    if narrow is None:
        return None
    return lambda value: [None if item is None else narrow(item) for item in cast("list[object]", value)]


def _each_item(narrow: Callable[[object], object] | None) -> Callable[[object], object] | None:
    if narrow is None:
        return None
    return lambda value: {
        key: None if item is None else narrow(item) for key, item in cast("dict[object, object]", value).items()
    }


def _each_field(fields: dict[str, Callable[[object], object]]) -> Callable[[object], object] | None:
    if not fields:
        return None

    def narrow(value: object) -> object:
        struct = cast("dict[str, object]", value)
        return struct | {name: of(struct[name]) for name, of in fields.items() if struct[name] is not None}

    return narrow


def _unsupported(column: Column, name: str) -> errors.SpecRejectedError:
    """Return the error for the first value that cannot be converted."""
    for position in range(len(column)):
        try:
            column.slice(position, 1).to_pylist(maps_as_pydicts="strict")
        except (OverflowError, ValueError, KeyError, TypeError) as error:
            return errors.SpecRejectedError(
                "RowUnsupported",
                f"The column {name!r} ({column.type}) has a value that has no form in Python, {_shown(column, position)}: "
                f"{error}. Filter such rows, or cast the column to a string.",
            )
    raise errors.InternalError("Unexpected", f"Each value of the column {name!r} converts, and the column does not.")


def _shown(column: Column, position: int) -> str:
    return " ".join(str(column.slice(position, 1)).split())[:200]
