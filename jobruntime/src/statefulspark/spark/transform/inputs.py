"""Arrow tables as what a processor is given: Rows, or pandas frames, by key.

Values are what Spark's own operator gives: in Rows what Arrow makes of them, in frames what pandas makes of a list of
tuples, with its ways of guessing types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import pandas as pd
import pyarrow as pa
from pyspark.sql import conversion
from pyspark.sql import types as spark_types

from statefulspark.spark.keyed import rows as keyed_rows
from statefulspark.spark.transform import limits as frame_limits
from statefulspark.spark.transform.function import Called


class Inputs(Protocol):
    """How rows are handed to a processor."""

    def by_key(self, table: pa.Table) -> list[Called]:
        """Return what each key of a table is called with, in the order in which keys first come."""


class RowInputs:
    """Rows of every column.

    Args:
        key: Key columns.
        names: Names of all columns in the Rows, where they have others there.
    """

    def __init__(self, key: Sequence[str], names: Sequence[str] | None = None) -> None:
        self._key, self._names = tuple(key), names

    def by_key(self, table: pa.Table) -> list[Called]:
        """Return the Rows of each key."""
        template = spark_types.Row(*(self._names or table.column_names))
        make = tuple.__new__
        keys = keyed_rows.to_keys(table, self._key)
        grouped: dict[object, list[object]] = {}
        for key, values in zip(keys, zip(*map(_values, table.columns), strict=True), strict=True):
            row = make(spark_types.Row, values)
            row.__fields__ = template  # as Spark's own factory of Rows does
            grouped.setdefault(key, []).append(row)
        return [Called(key, _as_tuple(key, self._key), items) for key, items in grouped.items()]


class FrameInputs:
    """Pandas frames of the rows of a key: one, as long as it is within the limits.

    Args:
        key: Key columns.
        hidden: How many of the first columns are keys that the input does not have; they are left out.
        timezone: Session time zone; timestamps are in it, without saying so.
        names: Names of all columns in the frames, where they have others there.
        limits: How large a frame may get.
    """

    def __init__(
        self,
        key: Sequence[str],
        hidden: int,
        timezone: str,
        names: Sequence[str] | None = None,
        limits: frame_limits.FrameLimits = frame_limits.FrameLimits(),  # noqa: B008 - it is frozen
    ) -> None:
        self._key, self._hidden, self._timezone = tuple(key), hidden, timezone
        self._names, self._limits = names, limits

    def by_key(self, table: pa.Table) -> list[Called]:
        """Return the frames of each key."""
        keys = keyed_rows.to_keys(table, self._key)
        positions = [table.column_names.index(name) for name in self._key]
        named = table.rename_columns(list(self._names or table.column_names)).combine_chunks()
        series = conversion.ArrowBatchTransformer.to_pandas(named, timezone=self._timezone)
        grouped: dict[object, list[tuple[object, ...]]] = {}
        # Tuples and back: that is how Spark's operator makes the frame of a key, and what its types come from.
        for key, row in zip(keys, pd.concat(series, axis=1).itertuples(index=False), strict=True):
            grouped.setdefault(key, []).append(row)
        most = self._limits.rows_of(table)
        return [
            Called(key, tuple(found[0][at] for at in positions), self._frames(found, most))
            for key, found in grouped.items()
        ]

    def _frames(self, found: list[tuple[object, ...]], most: int) -> list[object]:
        starts = range(0, len(found), most)
        return [pd.DataFrame(found[start : start + most]).iloc[:, self._hidden :] for start in starts]


def _values(column: pa.ChunkedArray) -> list[object]:
    return column.to_pylist() if pa.types.is_nested(column.type) else keyed_rows.to_values(column)


def _as_tuple(key: object, columns: tuple[str, ...]) -> tuple[object, ...]:
    return (key,) if len(columns) == 1 else cast("tuple[object, ...]", key)
