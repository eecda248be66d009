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


BALLAST_BYTES = 1 << 10
BALLAST_KEYS_PER_ROW = 100
"""Each row brings as many keys that are only kept, until there are enough; they begin at 3."""
KEYS = 3
SCHEMA = "key BIGINT, count BIGINT, total BIGINT"


class Totals(ss.KeyedProcessFunction):
    """Counts and adds up the values of three keys; all others keep a KiB each, which does not compress."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state: how many values, and their sum."""
        self.totals = ctx.value_state("totals")
        self.ballast = ctx.value_state("ballast")

    def process(self, key: int, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[int, int, int]]:
        """Yield the key's totals after this batch."""
        if key >= KEYS:
            self.ballast.update(os.urandom(BALLAST_BYTES))
            return
        count, total = self.totals.get() or (0, 0)
        count, total = count + len(rows), total + sum(row.value for row in rows)
        self.totals.update((count, total))
        yield key, count, total


class Latest(ss.KeyedProcessFunction):
    """Remembers the latest totals of each key, and gives them on."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state: count and sum."""
        self.latest = ctx.value_state("latest")

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
    rows = ctx.parameter("ballast_mb", 0) * (1 << 20) // (BALLAST_BYTES * BALLAST_KEYS_PER_ROW)
    kept = f"sequence({KEYS} + value * {BALLAST_KEYS_PER_ROW}, {KEYS - 1} + (value + 1) * {BALLAST_KEYS_PER_ROW})"
    keys = f"concat(array(value % {KEYS}), if(value < {rows}, {kept}, array()))" if rows else f"array(value % {KEYS})"
    totals = ss.keyed_process(
        source.selectExpr(f"explode({keys}) AS key", "value"),
        key="key",
        function=Totals(),
        uid="a",
        schema=SCHEMA,
        max_parallelism=128 if rows else 4,
    )
    if ctx.parameter("operators", 1) == 2:
        totals = ss.keyed_process(totals, key="key", function=Latest(), uid="latest", schema=SCHEMA, max_parallelism=4)
    return ss.write(totals, sink=ss.sinks.FilesSink(ctx.parameter("output")), uid="out", trigger="1s")


if __name__ == "__main__":
    job.run()
