"""Converts the Rows that a processor returns to frames, column by column as Spark does.

In Rows a map is a dict or a list of pairs, like the maps of the input. Arrow accepts both at any level; the Spark
operator below ours accepts only dicts. So nested values are converted by Arrow to values with dicts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import cast

import pandas as pd
from pyspark.sql import types as spark_types

from statefulspark import errors, rowvalues
from statefulspark.operators.keyed import frames

Shape = Callable[[object], object]


class RowOutput(frames.OutputSchema):
    """Converts Spark Rows to columns by name: missing columns are null, additional ones are omitted.

    Args:
        schema: Names and types of the columns.
        uid: The operator; named in errors.
        timezone: Session time zone.
    """

    def __init__(self, schema: spark_types.StructType, uid: str, timezone: str) -> None:
        super().__init__(schema, uid, timezone)
        self._shapes = [_shape(field.dataType) for field in schema.fields]
        self._has_nested = any(self._nested)

    def kept_row(self, row: object) -> tuple[object, ...]:
        """Return a Row as a tuple in the order of the columns, with copies of the lists and dicts in it, as Spark does.

        Raises:
            SpecRejectedError: `OutputRowInvalid`: it is no Row.
        """
        if not isinstance(row, spark_types.Row) or not hasattr(row, "__fields__"):
            raise self._rejected(row)
        if self._has_nested:
            values = row.asDict(True)  # noqa: FBT003 - Spark's signature
            return tuple([values.get(name) for name in self._names])
        if tuple(row.__fields__) == self._names:
            return row
        values = dict(zip(row.__fields__, row, strict=True))
        return tuple([values.get(name) for name in self._names])

    def kept_frame(self, frame: object) -> pd.DataFrame:
        """Return a copy of a frame.

        Raises:
            SpecRejectedError: `OutputRowInvalid`: it is no frame.
        """
        if isinstance(frame, pd.DataFrame):
            return frame.copy()
        raise errors.SpecRejectedError(
            "OutputRowInvalid",
            f"Operator '{self._uid}' yielded {frame!r:.200}, which is no pandas.DataFrame: yield frames, or return an "
            "iterator of them.",
        )

    def _nested_column(self, index: int, values: tuple[object, ...]) -> object:
        column = rowvalues.convert_keys_to_utc(self._array(index, values)).to_pylist()
        shape = self._shapes[index]
        shaped = column if shape is None else list(map(shape, column))
        return frames.for_pandas_nested(shaped, self._types[index])


def _shape(kind: spark_types.DataType) -> Shape | None:
    """Return the conversion of the maps in a value to dicts; None for a type without maps."""
    if isinstance(kind, spark_types.MapType):
        return _map_shape(_shape(kind.keyType), _shape(kind.valueType))
    if isinstance(kind, spark_types.ArrayType):
        element = _shape(kind.elementType)
        return None if element is None else _array_shape(element)
    if isinstance(kind, spark_types.StructType):
        fields = {field.name: shape for field in kind.fields if (shape := _shape(field.dataType)) is not None}
        return _struct_shape(fields) if fields else None
    return None


def _map_shape(key: Shape | None, value: Shape | None) -> Shape:
    key, value = key or _same, value or _same

    def shape(pairs: object) -> object:
        if pairs is None:
            return None
        entries = cast("Iterable[tuple[object, object]]", pairs)
        return {_hashable(key(entry_key)): value(entry_value) for entry_key, entry_value in entries}

    return shape


def _array_shape(element: Shape) -> Shape:
    return lambda items: None if items is None else [element(item) for item in cast("Iterable[object]", items)]


def _struct_shape(fields: dict[str, Shape]) -> Shape:
    def shape(struct: object) -> object:
        if struct is None:
            return None
        values = cast("dict[str, object]", struct)
        return values | {name: of(values[name]) for name, of in fields.items()}

    return shape


def _hashable(key: object) -> Hashable:
    # Spark accepts tuples for structs and arrays.
    if isinstance(key, dict):
        return tuple([_hashable(value) for value in key.values()])
    return tuple([_hashable(value) for value in key]) if isinstance(key, list) else key


def _same(value: object) -> object:
    return value
