"""A processor of Spark's on our state without an engine: batches of rows, times, and what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keyedstate import MemoryLog, new_ids
from pyspark.sql import types as spark_types
from pyspark.sql.streaming import stateful_processor
from statefulspark.operators.transform import function, modes, wrapping
from statefulspark.state import cache, functions, store, timers

KEY = spark_types.StructType([spark_types.StructField("key", spark_types.StringType())])


def schema(text: str) -> spark_types.StructType:
    """Read the few types that these tests have; reading DDL needs a JVM."""
    kinds = {
        "bigint": spark_types.LongType(),
        "int": spark_types.IntegerType(),
        "double": spark_types.DoubleType(),
        "string": spark_types.StringType(),
        "timestamp": spark_types.TimestampType(),
        "array<bigint>": spark_types.ArrayType(spark_types.LongType()),
    }
    fields = (field.strip().split(" ") for field in text.split(","))
    return spark_types.StructType([spark_types.StructField(name, kinds[kind]) for name, kind in fields])


class World:
    """One key group, across batches; each batch may run in a new worker.

    Args:
        processor: The processor.
        mode: Its time mode.
    """

    def __init__(self, processor: stateful_processor.StatefulProcessor, mode: modes.TimeMode) -> None:
        self._processor, self._mode = processor, mode
        self._log, self._ids = MemoryLog(), new_ids()
        self._cache = cache.LruCache()

    def batch(
        self,
        rows: Mapping[str, Sequence[object]],
        *,
        now_ms: int = 0,
        watermark_ms: int = 0,
        initial: Mapping[str, Sequence[object]] | None = None,
        new_worker: bool = False,
    ) -> list[object]:
        """Run a batch and return what came out of rows, then of timers."""
        if new_worker:
            self._cache = cache.LruCache()
        wrapped = function.ProcessorFunction(self._processor, self._mode, KEY)
        wrapped.parse_schema = schema
        context = functions.BatchContext(
            "test",
            now_ms,
            watermark_ms=watermark_ms if watermark_ms > 0 else timers.NO_WATERMARK_MS,
            domains=self._mode.domains,
        )
        wrapped.open(context)
        context.opened()
        attempt = self._log.attempt()
        loaded = store.load(attempt, self._cache.for_operator("test"), 0)
        context.bind(loaded.tables)
        wrapped.initialize(context, _called(initial or {}))
        output = wrapped.rows(context, _called(rows)) + wrapped.fire(context)
        wrapped.close()
        loaded.commit(new_id=self._ids, cutoffs_ms=context.cutoffs_ms)
        self._log.adopt(attempt)
        return output


def _called(rows: Mapping[str, Sequence[object]]) -> list[wrapping.KeyedInput]:
    return [wrapping.KeyedInput(key, (key,), list(items)) for key, items in rows.items()]
