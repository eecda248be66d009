"""Drops late rows as Spark does: in event time only, rows that are behind the watermark of the previous batch.

Spark passes the watermark of the batch to a processor, but drops rows by the one of the previous batch; a row between
both is not late. Only the former is available, so each partition stores it for its next batch. If it is not stored, as
after a change of the number of partitions, no row is dropped in that batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types
from pyspark.sql.streaming import stateful_processor

from statefulspark.operators.keyed import stateserver

_PARTITION = -1
"""Used instead of a key group: -1 is neither the number nor the column value of one (`keygroups.mark`)."""
_METADATA = "spark.watermarkDelayMs"
_SCHEMA = spark_types.StructType([spark_types.StructField("watermark_ms", spark_types.LongType())])


@dataclass(frozen=True, slots=True)
class EventTime:
    """The event-time column of the input.

    Attributes:
        column: Its name.
        is_window: Whether it is a window; its end is used then.
    """

    column: str
    is_window: bool

    def on_time(self, table: pa.Table, watermark_ms: int | None) -> pa.Table:
        """Return the rows after a watermark and rows without a time; all rows if there is no watermark."""
        if watermark_ms is None:
            return table
        times = table.column(self.column)
        if self.is_window:
            times = pc.struct_field(times, "end")
        micros = pc.cast(pc.cast(times, pa.timestamp("us", times.type.tz)), pa.int64())
        return table.filter(pc.fill_null(pc.greater(micros, watermark_ms * 1000), True))  # noqa: FBT003 - a value


def event_time_of(df: DataFrame) -> EventTime | None:
    """Return the event-time column of a frame, None when it has no watermark."""
    attributes = df._jdf.queryExecution().analyzed().output()
    for index in range(attributes.size()):
        attribute = attributes.apply(index)
        if attribute.metadata().contains(_METADATA):
            name = str(attribute.name())
            return EventTime(name, isinstance(df.schema[name].dataType, spark_types.StructType))
    return None


class WatermarkLog:
    """The watermark of the previous batch, stored by each partition of the operator in Spark's state store.

    Args:
        handle: Spark's handle of this operator.
        server: The task's state.
        uid: The operator's uid.
    """

    def __init__(
        self, handle: stateful_processor.StatefulProcessorHandle, server: stateserver.StateServer, uid: str
    ) -> None:
        self._server, self._name = server, f"late_{uid}"
        handle.getValueState(self._name, _SCHEMA)
        self._before_ms: int | None = None
        self._is_read = False

    def previous_ms(self, now_ms: int) -> int | None:
        """Return the watermark of the previous batch; None when unknown.

        Args:
            now_ms: The watermark of this batch. If it is 0, the initial value, the previous one was 0 too.
        """
        self._read()
        return 0 if self._before_ms is None and now_ms <= 0 else self._before_ms

    def record(self, watermark_ms: int) -> None:
        """Store the watermark of this batch, after all key groups."""
        self._read()
        if watermark_ms != self._before_ms:
            self._server.put_value(self._name, _PARTITION, (watermark_ms,))

    def _read(self) -> None:
        if not self._is_read:
            (stored,) = self._server.values(self._name, (_PARTITION,))
            self._before_ms = None if stored is None else cast("int", stored[0])
            self._is_read = True
