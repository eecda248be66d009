"""Arrow tables as what a processor is given: Rows, or pandas frames, by key.

Values are what Spark's own operator gives: in Rows what Arrow makes of them, in frames what pandas makes of a list of
tuples, with its ways of guessing types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pandas as pd
import pyarrow as pa
from pyspark.sql import conversion
from pyspark.sql import types as spark_types

from statefulspark.operators.keyed import rows as keyed_rows
from statefulspark.operators.transform import keys
from statefulspark.operators.transform import limits as frame_limits
from statefulspark.operators.transform.wrapping import Called


class Inputs(Protocol):
    """How rows are handed to a processor."""

    def by_key(self, table: pa.Table) -> list[Called]:
        """Return what each key of a table is called with, in the order in which keys first come."""

    def keys(self, table: pa.Table) -> list[object]:
        """Return the key of each row, as our state has it."""


class RowInputs:
    """Rows of every column.

    Args:
        key: Key columns.
        names: Names of all columns in the Rows, where they have others there.
        types: Types of the key columns, where one is not a key as it is.
    """

    def __init__(
        self,
        key: Sequence[str],
        names: Sequence[str] | None = None,
        types: Sequence[spark_types.DataType] | None = None,
    ) -> None:
        self._key, self._names, self._types = tuple(key), names, types

    def by_key(self, table: pa.Table) -> list[Called]:
        """Return the Rows of each key."""
        template = spark_types.Row(*(self._names or table.column_names))
        make = tuple.__new__
        positions = [table.column_names.index(name) for name in self._key]
        grouped: dict[object, list[tuple[object, ...]]] = {}
        for key, values in zip(self.keys(table), zip(*map(_values, table.columns), strict=True), strict=True):
            row = make(spark_types.Row, values)
            row.__fields__ = template  # as Spark's own factory of Rows does
            grouped.setdefault(key, []).append(row)
        return [Called(key, tuple([rows[0][at] for at in positions]), [*rows]) for key, rows in grouped.items()]

    def keys(self, table: pa.Table) -> list[object]:
        """Return the key of each row, as our state has it."""
        return _keys(table, self._key, self._types)


class FrameInputs:
    """Pandas frames of the rows of a key: one, as long as it is within the limits.

    Args:
        key: Key columns.
        hidden: How many of the first columns are keys that the input does not have; they are left out.
        timezone: Session time zone; timestamps are in it, without saying so.
        names: Names of all columns in the frames, where they have others there.
        types: Types of the key columns, where one is not a key as it is.
        limits: How large a frame may get.
    """

    def __init__(
        self,
        key: Sequence[str],
        hidden: int,
        timezone: str,
        names: Sequence[str] | None = None,
        types: Sequence[spark_types.DataType] | None = None,
        limits: frame_limits.FrameLimits = frame_limits.FrameLimits(),  # noqa: B008 - it is frozen
    ) -> None:
        self._key, self._hidden, self._timezone = tuple(key), hidden, timezone
        self._names, self._types, self._limits = names, types, limits

    def by_key(self, table: pa.Table) -> list[Called]:
        """Return the frames of each key."""
        positions = [table.column_names.index(name) for name in self._key]
        named = table.rename_columns(list(self._names or table.column_names)).combine_chunks()
        series = conversion.ArrowBatchTransformer.to_pandas(named, timezone=self._timezone)
        grouped: dict[object, list[tuple[object, ...]]] = {}
        # Tuples and back: that is how Spark's operator makes the frame of a key, and what its types come from.
        for key, row in zip(self.keys(table), pd.concat(series, axis=1).itertuples(index=False), strict=True):
            grouped.setdefault(key, []).append(row)
        most = self._limits.rows_of(table)
        return [
            Called(key, tuple(found[0][at] for at in positions), self._frames(found, most))
            for key, found in grouped.items()
        ]

    def keys(self, table: pa.Table) -> list[object]:
        """Return the key of each row, as our state has it."""
        return _keys(table, self._key, self._types)

    def _frames(self, found: list[tuple[object, ...]], most: int) -> list[object]:
        starts = range(0, len(found), most)
        return [pd.DataFrame(found[start : start + most]).iloc[:, self._hidden :] for start in starts]


def _values(column: pa.ChunkedArray) -> list[object]:
    return column.to_pylist() if pa.types.is_nested(column.type) else keyed_rows.to_values(column)


def _keys(table: pa.Table, key: tuple[str, ...], types: Sequence[spark_types.DataType] | None) -> list[object]:
    return keyed_rows.to_keys(table, key) if types is None else keys.to_keys(table, key, types)
