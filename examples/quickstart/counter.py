"""The smallest stateful job: ten keys, and how often each has been seen.

    statefulspark run examples/quickstart/counter.py --dev

Stop it with Ctrl-C, or kill it with `kill -9`, and start it again: the counts go on where they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import statefulspark as ss
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

job = ss.Job("counter")


class Count(ss.KeyedProcessFunction):
    """Counts the rows of each key."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state: one number per key."""
        self.seen = ctx.value_state("seen")

    def process(self, key: int, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[int, int]]:
        """Yield the key and how often it has been seen so far."""
        count = (self.seen.get() or 0) + len(rows)
        self.seen.update(count)
        yield key, count


@job.query(uid="counts")
def counts(spark: SparkSession, ctx: ss.QueryContext) -> DataStreamWriter:
    """Numbers from Spark's own rate source, counted by their last digit, shown on the console."""
    numbers = spark.readStream.format("rate").option("rowsPerSecond", ctx.parameter("rows_per_second", 20)).load()
    digits = numbers.selectExpr("value % 10 AS digit")
    state = ss.keyed_process(
        digits, key="digit", function=Count(), uid="digit-count", schema="digit BIGINT, seen BIGINT"
    )
    return state.writeStream.outputMode("update").format("console").trigger(processingTime="5 seconds")


if __name__ == "__main__":
    job.run()
