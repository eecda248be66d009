"""Clicks of a Kafka topic, counted by user: a source that tells its lag, two thousand clicks a batch at most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import statefulspark as ss
from pyspark.sql import SparkSession

job = ss.Job("clicks")


class Clicks(ss.KeyedProcessFunction):
    """Counts the clicks of a user."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state: how many there were."""
        self.count = ctx.value_state("count", int)

    def process(self, key: str, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[str, int]]:
        """Yield the user's count after this batch."""
        count = (self.count.get() or 0) + len(rows)
        self.count.update(count)
        yield key, count


@job.query(uid="by-user")
def by_user(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """One row per user and batch."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", ctx.parameter("brokers"))
    reader = reader.option("subscribe", ctx.parameter("topic")).option("startingOffsets", "earliest")
    rows = reader.option("maxOffsetsPerTrigger", 2000).load().selectExpr("CAST(key AS STRING) AS user")
    counted = ss.keyed_process(
        rows, key="user", function=Clicks(), uid="clicks", schema="user STRING, count BIGINT", max_parallelism=4
    )
    return ss.write(counted, sink=ss.sinks.FilesSink(ctx.parameter("output")), uid="out", trigger="2s")


if __name__ == "__main__":
    job.run()
