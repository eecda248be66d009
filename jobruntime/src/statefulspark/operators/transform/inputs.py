"""Converts Arrow tables to the input of a processor: Rows, or pandas frames, by key, within Spark's limits of Arrow batches.

Values are those of Spark's operator: in Rows the Python values of Arrow, in frames the values of a pandas frame built from
a list of tuples, with inferred types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from statefulspark import rowvalues
from statefulspark.operators.transform import keys
from statefulspark.operators.transform.wrapping import KeyedInput
from statefulspark.sparkinternals import pandasvalues
from statefulspark.state import rows as keyed_rows

if TYPE_CHECKING:
    import pandas as pd


class Inputs(Protocol):
    """Creates the input of a processor."""

    def group_by_key(self, table: pa.Table) -> list[KeyedInput]:
        """Return the input of each key of a table, in the order of first occurrence."""

    def keys(self, table: pa.Table) -> list[object]:
        """Return the state key of each row."""


_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


@dataclass(frozen=True, slots=True)
class FrameLimits:
    """The limits of a frame.

    Attributes:
        rows: Maximum number of rows; below 1 is unlimited.
        size_bytes: Maximum size in bytes, except for a single row; below 1 is unlimited.
    """

    rows: int = -1
    size_bytes: int = -1

    def rows_of(self, table: pa.Table) -> int:
        """Return the maximum number of rows of a table in one frame; at least 1."""
        limits = [max(1, len(table))]
        if self.rows > 0:
            limits.append(self.rows)
        if self.size_bytes > 0 and table.nbytes > 0:
            limits.append(max(1, self.size_bytes * len(table) // table.nbytes))
        return min(limits)


def read_limits(session: SparkSession) -> FrameLimits:
    """Return the limits of a session."""
    # The session setting may have a unit; Spark's configuration method returns bytes.
    size = session._jsparkSession.sessionState().conf().arrowMaxBytesPerBatch()
    return FrameLimits(rows=int(session.conf.get(_ROWS, "-1") or -1), size_bytes=int(size))


class RowInputs:
    """Rows of every column.

    Args:
        key: Key columns.
        names: Names of all columns in the Rows, if they differ from the table.
        types: Types of the key columns, if one is not a plain key type.
    """

    def __init__(
        self,
        key: Sequence[str],
        names: Sequence[str] | None = None,
        types: Sequence[spark_types.DataType] | None = None,
    ) -> None:
        self._key, self._names, self._types = tuple(key), names, types

    def group_by_key(self, table: pa.Table) -> list[KeyedInput]:
        """Return the Rows of each key."""
        template = spark_types.Row(*(self._names or table.column_names))
        make = tuple.__new__
        positions = [table.column_names.index(name) for name in self._key]
        grouped: dict[object, KeyedInput] = {}
        columns = (
            rowvalues.values_with_pairs(column, name)
            if pa.types.is_nested(column.type)
            else keyed_rows.read_values(column, name)
            for name, column in zip(table.column_names, table.columns, strict=True)
        )
        for key, values in zip(self.keys(table), zip(*columns, strict=True), strict=True):
            row = make(spark_types.Row, values)
            row.__fields__ = template  # as Spark's Row factory does
            of_key = grouped.get(key)
            if of_key is None:
                grouped[key] = KeyedInput(key, tuple([row[position] for position in positions]), [row])
            else:
                of_key.items.append(row)
        return list(grouped.values())

    def keys(self, table: pa.Table) -> list[object]:
        """Return the state key of each row."""
        return _keys(table, self._key, self._types)


class FrameInputs:
    """Pandas frames of the rows of a key: one frame if within the limits.

    Args:
        key: Key columns.
        hidden: Number of leading key columns that are not in the input; frames omit them.
        timezone: Session time zone, of the naive timestamps.
        names: Names of all columns in the frames, if they differ from the table.
        types: Types of the key columns, if one is not a plain key type.
        limits: Maximum size of a frame.
    """

    def __init__(
        self,
        key: Sequence[str],
        hidden: int,
        timezone: str,
        names: Sequence[str] | None = None,
        types: Sequence[spark_types.DataType] | None = None,
        limits: FrameLimits = FrameLimits(),
    ) -> None:
        self._key, self._hidden, self._timezone = tuple(key), hidden, timezone
        self._names, self._types, self._limits = names, types, limits

    def group_by_key(self, table: pa.Table) -> list[KeyedInput]:
        """Return the frames of each key."""
        import pandas as pd  # Here, because not every job has frames; see `keyed.frames`.

        positions = [table.column_names.index(name) for name in self._key]
        named = table.rename_columns(list(self._names or table.column_names)).combine_chunks()
        series = convert_columns(named, lambda part: pandasvalues.to_series(part, timezone=self._timezone))
        grouped: dict[object, list[tuple[object, ...]]] = {}
        # Via tuples: Spark's operator builds the frame of a key so, which determines its types.
        for key, row in zip(self.keys(table), pd.concat(series, axis=1).itertuples(index=False), strict=True):
            grouped.setdefault(key, []).append(row)
        max_rows = self._limits.rows_of(table)
        return [
            KeyedInput(
                key,
                tuple(rows[0][position] for position in positions),
                [
                    pd.DataFrame(rows[start : start + max_rows]).iloc[:, self._hidden :]
                    for start in range(0, len(rows), max_rows)
                ],
            )
            for key, rows in grouped.items()
        ]

    def keys(self, table: pa.Table) -> list[object]:
        """Return the state key of each row."""
        return _keys(table, self._key, self._types)


def convert_columns(table: pa.Table, convert: Callable[[pa.Table], list[pd.Series]]) -> list[pd.Series]:
    """Return the columns of a table for a frame of pandas.

    Raises:
        SpecRejectedError: `RowUnsupported`: pandas has no form of a value, such as a point in time before the year 1677, or
            a duration of 300 years.
    """
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_duration(column.type):  # The conversion would wrap around without an error.
            rowvalues.converted(column, name, lambda part: part.cast(pa.duration("ns")), "pandas")
    try:
        return convert(table)
    except (OverflowError, ValueError):
        for name, column in zip(table.column_names, table.columns, strict=True):
            rowvalues.converted(column, name, lambda part: convert(pa.table([part], ["column"])), "pandas")
        raise


def _keys(table: pa.Table, key: tuple[str, ...], types: Sequence[spark_types.DataType] | None) -> list[object]:
    return keyed_rows.read_keys(table, key) if types is None else keys.read_keys(table, key, types)
