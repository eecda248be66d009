"""A job that counts rows per key in Python, one by one, as fast as it can; its rows are made by Spark's own rate source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import statefulspark as ss

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

job = ss.Job("spreading")


class Counted(NamedTuple):
    """How many rows, and their sum."""

    rows: int
    total: int


class Count(ss.KeyedProcessFunction):
    """Counts and sums the rows of a key."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state."""
        self.counted = ctx.value_state("counted", Counted)

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[object, ...]]:
        """Yield both after this batch."""
        count, total = self.counted.get() or Counted(0, 0)
        for row in rows:
            count, total = count + 1, total + cast("int", row.value)
        self.counted.update(Counted(count, total))
        yield key, count, total


@job.query(uid="counts")
def counts(spark: SparkSession, ctx: ss.QueryContext) -> DataStreamWriter:
    """Count per key."""
    made = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ctx.parameter("rows"))
    made = made.option("numPartitions", ctx.parameter("partitions"))
    rows = made.load().selectExpr(f"pmod(hash(value), {ctx.parameter('keys')}) AS key", "value")
    counted = ss.keyed_process(
        rows, key="key", function=Count(), uid="count", schema="key INT, count BIGINT, total BIGINT"
    )
    return counted.writeStream.outputMode("update").format("noop")


job.run()
