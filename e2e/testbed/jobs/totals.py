"""The smallest job whose output tells every lost and every repeated row: counts and sums of three keys.

With the parameter `ballast_mb` its state has that size; with `operators` at 2 it has a second operator with state, and the
same output.

Spark's `rate-micro-batch` source gives batch N the values N * 300 to N * 300 + 299, whenever and however often it runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import statefulspark as ss
from pyspark.sql import SparkSession

job = ss.Job("totals")


BALLAST_BYTES = 1 << 20
SCHEMA = "key BIGINT, count BIGINT, total BIGINT"


class Totals(ss.KeyedProcessFunction):
    """Counts and adds up the values of each key.

    Args:
        ballast: Pieces of a MiB that each key keeps besides, ten more with each batch; they do not compress.
    """

    def __init__(self, ballast: int) -> None:
        """Keep what is to be kept."""
        self.pieces = ballast

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state: how many values, and their sum."""
        self.totals = ctx.state(ss.ValueState("totals"))
        self.ballast = ctx.state(ss.MapState("ballast"))

    def process(self, key: int, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[int, int, int]]:
        """Yield the key's totals after this batch."""
        count, total = self.totals.value() or (0, 0)
        count, total = count + len(rows), total + sum(row.value for row in rows)
        self.totals.update((count, total))
        batch = count // 100 - 1
        for piece in range(batch * 10, min((batch + 1) * 10, self.pieces)):
            self.ballast.put(piece, os.urandom(BALLAST_BYTES))
        yield key, count, total


class Latest(ss.KeyedProcessFunction):
    """Remembers the latest totals of each key, and gives them on."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state: count and sum."""
        self.latest = ctx.state(ss.ValueState("latest"))

    def process(self, key: int, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[int, int, int]]:
        """Yield what came."""
        for row in rows:
            latest = (row["count"], row["total"])
            self.latest.update(latest)
            yield (key, *latest)


@job.query(uid="numbers")
def numbers(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """One row per key and batch."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 300).option("numPartitions", 1).load()
    totals = ss.keyed_process(
        source.selectExpr("value % 3 AS key", "value"),
        key="key",
        function=Totals(int(ctx.parameter("ballast_mb", "0")) // 3),
        uid="a",
        schema=SCHEMA,
        max_parallelism=4,
    )
    if ctx.parameter("operators", "1") == "2":
        totals = ss.keyed_process(totals, key="key", function=Latest(), uid="latest", schema=SCHEMA, max_parallelism=4)
    return ss.write(totals, sink=ss.FilesSink(ctx.parameter("output")), uid="out", trigger="1 second")


if __name__ == "__main__":
    job.run()
