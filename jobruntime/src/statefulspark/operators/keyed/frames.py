"""Converts output rows to columns of the frame that Spark expects.

Output goes through Arrow with the declared schema, so a value that does not fit is an error that names the column, never
a silent cast. Pandas is imported here and not in `processor`: Spark runs that once per start in a separate process,
which delays the first batch and has no output.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import cast

import pandas as pd
import pyarrow as pa
from pyspark.sql import types as spark_types

from statefulspark import errors, rowvalues
from statefulspark.sparkinternals import arrowtypes
from statefulspark.state import rows as keyed_rows


class OutputSchema:
    """The declared output of an operator.

    Args:
        schema: Names and types of the columns.
        uid: The operator; named in errors.
        timezone: Session time zone; Arrow's timestamps carry it.

    Attributes:
        kept: Returns an output row as it is now: a function may change it after it has yielded it.
    """

    def __init__(self, schema: spark_types.StructType, uid: str, timezone: str) -> None:
        self._names = tuple(schema.names)
        self._types = [arrowtypes.to_arrow_type(field.dataType, timezone=timezone) for field in schema.fields]
        self._nested = [isinstance(f.dataType, _NESTED) for f in schema.fields]
        self._uid = uid
        self.kept = keyed_rows.kept if any(self._nested) else _kept_flat

    def to_pandas(self, rows: list[object] | pa.Table) -> pd.DataFrame:
        """Build the frame that Spark expects from tuples, Rows, dicts, or a table.

        Returns:
            A column for each column of the schema, in its order; their names are numbers.

        Raises:
            SpecRejectedError: A row has the wrong number of columns, or a value does not fit its column.
        """
        if isinstance(rows, pa.Table):
            missing = [name for name in self._names if name not in rows.column_names]
            if missing:
                raise errors.SpecRejectedError(
                    "OutputRowInvalid",
                    f"Operator '{self._uid}' returned a table with the columns {', '.join(rows.column_names)}; the output "
                    f"has {', '.join(self._names)}.",
                )
            return _frame(self._from_array(index, rows.column(name)) for index, name in enumerate(self._names))
        width = len(self._names)
        # Check all rows at once first: tuples of the right width, the usual case, need no Python code per row.
        if set(map(type, rows)) != {tuple} or set(map(len, cast("list[tuple[object, ...]]", rows))) != {width}:
            rows = [row if isinstance(row, tuple) and len(row) == width else self._make_tuple(row) for row in rows]
        tuples = cast("list[tuple[object, ...]]", rows)
        return _frame(
            self._nested_column(index, values) if self._nested[index] else _for_pandas(self._array(index, values))
            for index, values in enumerate(zip(*tuples, strict=True))
        )

    def _from_array(self, index: int, column: pa.ChunkedArray) -> object:
        kind = self._types[index]
        if self._nested[index]:
            return for_pandas_nested(rowvalues.values(column, self._names[index]), column.type)
        try:
            return _for_pandas(column.cast(kind).combine_chunks())
        except pa.ArrowException as error:
            raise errors.SpecRejectedError(
                "OutputValueInvalid",
                f"Operator '{self._uid}' returned a column '{self._names[index]}' of type {column.type} that does not "
                f"fit {kind}: {error}.",
            ) from error

    def _nested_column(self, index: int, values: tuple[object, ...]) -> object:
        kind = self._types[index]
        if rowvalues.changing(kind, _kept_nan) is None:
            return pd.Series(values, dtype="object")
        return for_pandas_nested(rowvalues.values(self._array(index, values), self._names[index]), kind)

    def _array(self, index: int, values: tuple[object, ...]) -> pa.Array:
        kind = self._types[index]
        try:
            return pa.array(values, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise errors.SpecRejectedError(
                "OutputValueInvalid",
                f"Operator '{self._uid}' yielded a value that does not fit column '{self._names[index]}' of type "
                f"{kind}: {error}.",
            ) from error

    def _make_tuple(self, row: object) -> tuple[object, ...]:
        if isinstance(row, dict) and row.keys() <= set(self._names):
            return tuple(row.get(name) for name in self._names)
        raise self._rejected(row)

    def _rejected(self, row: object) -> errors.SpecRejectedError:
        return errors.SpecRejectedError(
            "OutputRowInvalid",
            f"Operator '{self._uid}' yielded {row!r:.200}, which is not a row of ({', '.join(self._names)}): yield a "
            "tuple with these columns in this order, a dict with these names, or a Row.",
        )


def _kept_flat(row: object) -> object:
    # A row without nested columns can change only if it is a dict.
    return dict(row) if type(row) is dict else row


def _frame(columns: Iterable[object]) -> pd.DataFrame:
    # Spark selects columns by name if one name is a string, which takes a third of the conversion time back to Arrow.
    return pd.DataFrame(dict(enumerate(columns)), copy=False)


def _for_pandas(column: pa.Array) -> object:
    # An Arrow-backed series costs pandas more than the values; integers without nulls are the same in numpy. Floats are
    # not, because pandas converts NaN to null on the way back.
    if pa.types.is_integer(column.type) and column.null_count == 0:
        return column.to_numpy()
    return pd.Series(column, dtype=pd.ArrowDtype(column.type), copy=False)


def for_pandas_nested(values: list[object], kind: pa.DataType) -> pd.Series:
    """Return the column of nested values, with dicts for maps and structs, that keeps each NaN in them."""
    change = rowvalues.changing(kind, _kept_nan)
    kept = values if change is None else [None if value is None else change(value) for value in values]
    return pd.Series(kept, dtype="object")


def _kept_nan(kind: pa.DataType) -> rowvalues.Change | None:
    """Return what makes NaN a scalar of Arrow: on the way back, Spark takes NaN of Python in a nested value for null."""
    if not pa.types.is_floating(kind):
        return None
    nan = pa.scalar(math.nan, kind)
    return lambda value: value if value == value else nan


_NESTED = (spark_types.ArrayType, spark_types.MapType, spark_types.StructType)
