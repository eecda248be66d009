"""The smallest job whose output tells every lost and every repeated row: counts and sums of three keys.

Spark's `rate-micro-batch` source gives batch N the values N * 300 to N * 300 + 299, whenever and however often it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import statefulspark as ss
from pyspark.sql import SparkSession

job = ss.Job("totals")


class Totals(ss.KeyedProcessFunction):
    """Counts and adds up the values of each key."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state: how many values, and their sum."""
        self.totals = ctx.state(ss.ValueState("totals"))

    def process(self, key: int, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[int, int, int]]:
        """Yield the key's totals after this batch."""
        count, total = self.totals.value() or (0, 0)
        count, total = count + len(rows), total + sum(row.value for row in rows)
        self.totals.update((count, total))
        yield key, count, total


@job.query(uid="numbers")
def numbers(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """One row per key and batch."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 300).option("numPartitions", 1).load()
    totals = ss.keyed_process(
        source.selectExpr("value % 3 AS key", "value"),
        key="key",
        function=Totals(),
        uid="a",
        schema="key BIGINT, count BIGINT, total BIGINT",
        max_parallelism=4,
    )
    return ss.write(totals, sink=ss.FilesSink(ctx.parameter("output")), uid="out", trigger="1 second")


if __name__ == "__main__":
    job.run()
