"""Arrow tables as the keys and frames that Spark's `applyInPandasWithState` gives.

They differ from those of a `StatefulProcessor`: columns keep the types that Arrow has for them, and a key is made of
pandas' values, numpy's numbers among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import pandas as pd
import pyarrow as pa
from pyspark.sql import conversion
from pyspark.sql import types as spark_types
from pyspark.sql.pandas import types as arrow_types

from statefulspark.operators.transform import keys
from statefulspark.operators.transform import limits as frame_limits
from statefulspark.operators.transform.wrapping import Called


@dataclass(frozen=True, slots=True)
class Reading:
    """How Arrow's columns become pandas', as the session has it.

    Attributes:
        timezone: Time zone of timestamps; they are in it, without saying so.
        extended_integers: Whether integers become pandas' own, which may be null.
        limits: How large a frame may get.
    """

    timezone: str
    extended_integers: bool = False
    limits: frame_limits.FrameLimits = frame_limits.FrameLimits()  # noqa: RUF009 - it is frozen

    def series(self, table: pa.Table) -> list[pd.Series]:
        """Return the columns of a table."""
        return conversion.ArrowBatchTransformer.to_pandas(
            table.combine_chunks(), timezone=self.timezone, prefer_int_ext_dtype=self.extended_integers
        )


class StateFrames:
    """Frames of the rows of a key, and one without rows for a key that has timed out.

    Args:
        schema: Columns of the input.
        key: Key columns.
        reading: How columns become pandas'.
        names: Names of all columns in the frames, where they have others there.
        hidden: How many of the first columns are keys that the input does not have; they are left out of frames.
    """

    def __init__(
        self,
        schema: spark_types.StructType,
        key: Sequence[str],
        *,
        reading: Reading,
        names: Sequence[str] | None = None,
        hidden: int = 0,
    ) -> None:
        self._key, self._hidden, self._reading = tuple(key), hidden, reading
        self._columns = list(names or schema.names)[hidden:]
        self._kinds = [schema[name].dataType for name in self._key]
        arrow = [arrow_types.to_arrow_type(kind, timezone=reading.timezone) for kind in self._kinds]
        self._key_schema = pa.schema(list(zip(self._key, arrow, strict=True)))

    def by_key(self, table: pa.Table) -> list[Called]:
        """Return the frames of each key, in the order in which keys first come."""
        found: dict[object, list[int]] = {}
        for position, key in enumerate(self.keys(table)):
            found.setdefault(key, []).append(position)
        most = self._reading.limits.rows_of(table)
        return [self._called(key, table.take(pa.array(positions)), most) for key, positions in found.items()]

    def keys(self, table: pa.Table) -> list[object]:
        """Return the key of each row, as our state has it."""
        return keys.to_keys(table, self._key, self._kinds)

    def timed_out(self, key: object) -> Called:
        """Return what the function is called with for a key whose timeout is over."""
        values = zip(keys.values_of(key, self._kinds), self._key_schema, strict=True)
        arrays = [pa.array([_for_arrow(value, field.type)], field.type) for value, field in values]
        table = pa.table(arrays, schema=self._key_schema)
        return Called(key, self._first(self._reading.series(table)), [pd.DataFrame(columns=self._columns)])

    def _called(self, key: object, rows: pa.Table, most: int) -> Called:
        parts = [self._reading.series(rows.slice(start, most)) for start in range(0, len(rows), most)]
        positions = [rows.column_names.index(name) for name in self._key]
        frames: list[object] = [self._frame(part[self._hidden :]) for part in parts]
        return Called(key, self._first([parts[0][at] for at in positions]), frames)

    def _frame(self, columns: list[pd.Series]) -> pd.DataFrame:
        frame = pd.concat(columns, axis=1)
        frame.columns = self._columns
        return frame

    def _first(self, columns: Sequence[pd.Series]) -> tuple[object, ...]:
        return tuple([column[0] for column in columns])


def _for_arrow(value: object, kind: pa.DataType) -> object:
    """Return a value with its structs as dicts, as Arrow takes them; a key has them as tuples."""
    if not pa.types.is_struct(kind) or value is None:
        return value
    fields = zip(kind, cast("tuple[object, ...]", value), strict=True)
    return {field.name: _for_arrow(part, field.type) for field, part in fields}
