"""Keyed counts of numbered rows, each row of the output once: parameter `output` is the folder of its files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import statefulspark as ss
from pyspark.sql import SparkSession

job = ss.Job("counted")


class Count(ss.KeyedProcessFunction):
    """Counts the rows of each key."""

    def open(self, ctx: ss.KeyedContext) -> None:
        self.seen = ctx.value_state("seen", int)

    def process(self, key: int, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[int, int]]:
        self.seen.update((self.seen.get() or 0) + len(rows))
        yield key, self.seen.get() or 0


@job.query(uid="counts")
def counts(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).load().selectExpr("value % 10 AS k")
    counted = ss.keyed_process(rows, key="k", function=Count(), uid="count", schema="k bigint, n bigint")
    return ss.write(counted, sink=ss.sinks.FilesSink(ctx.parameter("output")), uid="out", trigger="200ms")


if __name__ == "__main__":
    job.run()
