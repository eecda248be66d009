"""Converts Arrow tables to the keys and frames of Spark's `applyInPandasWithState`.

They differ from those of a `StatefulProcessor`: columns keep their Arrow types, and keys have pandas values, including
numpy numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import pandas as pd
import pyarrow as pa
from pyspark.sql import types as spark_types

from statefulspark.operators.transform import inputs, keys
from statefulspark.operators.transform.wrapping import KeyedInput
from statefulspark.sparkinternals import arrowtypes, pandasvalues


@dataclass(frozen=True, slots=True)
class PandasOptions:
    """Options of the session for the conversion of Arrow columns to pandas.

    Attributes:
        timezone: Time zone of the naive timestamps.
        extended_integers: Whether integers become pandas' nullable integers.
        limits: Maximum size of a frame.
    """

    timezone: str
    extended_integers: bool = False
    limits: inputs.FrameLimits = inputs.FrameLimits()  # noqa: RUF009 - it is frozen

    def series(self, table: pa.Table) -> list[pd.Series]:
        """Return the columns of a table."""
        return inputs.convert_columns(
            table.combine_chunks(),
            lambda part: pandasvalues.to_series(part, timezone=self.timezone, extended_integers=self.extended_integers),
        )


class StateFrames:
    """Frames of the rows of a key, and an empty frame for a key that has timed out.

    Args:
        schema: Columns of the input.
        key: Key columns.
        pandas_options: Conversion to pandas.
        names: Names of all columns in the frames, if they differ from the schema.
        hidden: Number of leading key columns that are not in the input; frames omit them.
    """

    def __init__(
        self,
        schema: spark_types.StructType,
        key: Sequence[str],
        *,
        pandas_options: PandasOptions,
        names: Sequence[str] | None = None,
        hidden: int = 0,
    ) -> None:
        self._key, self._hidden, self._pandas_options = tuple(key), hidden, pandas_options
        self._columns = list(names or schema.names)[hidden:]
        self._kinds = [schema[name].dataType for name in self._key]
        arrow = [arrowtypes.to_arrow_type(kind, timezone=pandas_options.timezone) for kind in self._kinds]
        self._key_schema = pa.schema(list(zip(self._key, arrow, strict=True)))

    def group_by_key(self, table: pa.Table) -> list[KeyedInput]:
        """Return the frames of each key, in the order of first occurrence."""
        positions_of: dict[object, list[int]] = {}
        for position, key in enumerate(self.keys(table)):
            positions_of.setdefault(key, []).append(position)
        max_rows = self._pandas_options.limits.rows_of(table)
        key_positions = [table.column_names.index(name) for name in self._key]
        grouped = []
        for key, positions in positions_of.items():
            rows = table.take(pa.array(positions))
            parts = [
                self._pandas_options.series(rows.slice(start, max_rows)) for start in range(0, len(rows), max_rows)
            ]
            frames: list[object] = []
            for part in parts:
                frame = pd.concat(part[self._hidden :], axis=1)
                frame.columns = self._columns
                frames.append(frame)
            spark_key = tuple([parts[0][position][0] for position in key_positions])
            grouped.append(KeyedInput(key, spark_key, frames))
        return grouped

    def keys(self, table: pa.Table) -> list[object]:
        """Return the state key of each row."""
        return keys.read_keys(table, self._key, self._kinds)

    def timed_out(self, key: object) -> KeyedInput:
        """Return the input of the function for a key that has timed out."""
        values = zip(keys.values_of(key, self._kinds), self._key_schema, strict=True)
        arrays = [pa.array([_for_arrow(value, field.type)], field.type) for value, field in values]
        table = pa.table(arrays, schema=self._key_schema)
        spark_key = tuple([column[0] for column in self._pandas_options.series(table)])
        return KeyedInput(key, spark_key, [pd.DataFrame(columns=self._columns)])


def _for_arrow(value: object, kind: pa.DataType) -> object:
    """Convert the structs of a value from tuples to dicts for Arrow."""
    if not pa.types.is_struct(kind) or value is None:
        return value
    fields = zip(kind, cast("tuple[object, ...]", value), strict=True)
    return {field.name: _for_arrow(part, field.type) for field, part in fields}
