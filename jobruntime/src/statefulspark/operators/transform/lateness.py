"""Late rows, dropped as Spark drops them: in event time only, those that the watermark of the batch before had passed.

Spark gives a processor the watermark of the batch, and drops rows by the one of the batch before; a row between the two
is late for nobody. Only the former can be asked for, so each partition writes it down for its next batch. Where it was
never written down, as after a change of the number of partitions, no row is dropped in that batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types
from pyspark.sql.streaming import stateful_processor
from pyspark.sql.streaming import stateful_processor_api_client as client

_PARTITION = (-1,)
"""In place of a key group: neither is -1 the number of one nor does it stand for one (`packing.of_group`)."""
_METADATA = "spark.watermarkDelayMs"
_SCHEMA = spark_types.StructType([spark_types.StructField("watermark_ms", spark_types.LongType())])


@dataclass(frozen=True, slots=True)
class EventTime:
    """The column that the watermark of the input comes from.

    Attributes:
        column: Its name.
        is_window: Whether it is a window, whose end counts.
    """

    column: str
    is_window: bool

    def on_time(self, table: pa.Table, watermark_ms: int | None) -> pa.Table:
        """Return the rows after a watermark, and those without a time; all of them where there is none."""
        if watermark_ms is None:
            return table
        times = table.column(self.column)
        if self.is_window:
            times = pc.struct_field(times, "end")
        micros = pc.cast(pc.cast(times, pa.timestamp("us", times.type.tz)), pa.int64())
        return table.filter(pc.fill_null(pc.greater(micros, watermark_ms * 1000), True))  # noqa: FBT003 - a value


def of(df: DataFrame) -> EventTime | None:
    """Return the event-time column of a frame, None when it has no watermark."""
    attributes = df._jdf.queryExecution().analyzed().output()
    for index in range(attributes.size()):
        attribute = attributes.apply(index)
        if attribute.metadata().contains(_METADATA):
            name = str(attribute.name())
            return EventTime(name, isinstance(df.schema[name].dataType, spark_types.StructType))
    return None


class WatermarkLog:
    """The watermark of the batch before, kept by each partition of the operator in Spark's state store.

    Args:
        handle: Spark's, of this operator.
        uid: The operator's uid.
    """

    def __init__(self, handle: stateful_processor.StatefulProcessorHandle, uid: str) -> None:
        self._client = handle._statefulProcessorApiClient
        self._noted = handle.getValueState(f"late_{uid}", _SCHEMA)
        self._before_ms: int | None = None
        self._is_read = False

    def before_ms(self, current: int, now_ms: int) -> int | None:
        """Return the watermark of the batch before; None when it is not known.

        Args:
            current: Spark's key of the key group that is being worked on; it is the current one again afterwards.
            now_ms: The watermark of this batch. While it is 0, where Spark starts, it was 0 before.
        """
        if not self._is_read:
            self._read()
            self._client.set_implicit_key((current,))
        return 0 if self._before_ms is None and now_ms <= 0 else self._before_ms

    def note(self, watermark_ms: int) -> None:
        """Write the watermark of this batch down, when all key groups are done."""
        if self._client.handle_state is client.StatefulProcessorHandleState.PRE_INIT:
            return  # Spark initialises on the driver, too, where there is no state.
        if not self._is_read:
            self._read()
        if watermark_ms != self._before_ms:
            self._client.set_implicit_key(_PARTITION)
            self._noted.update((watermark_ms,))
        self._client.remove_implicit_key()

    def _read(self) -> None:
        self._client.set_implicit_key(_PARTITION)
        noted = self._noted.get()
        self._before_ms = None if noted is None else noted[0]
        self._is_read = True
