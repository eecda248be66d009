"""Each event of a topic once, with how often its key has been seen, into another topic; parameter `visible` of the sink."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import statefulspark as ss
from pyspark.sql import SparkSession
from statefulspark.sinks import visibility

job = ss.Job("relaying")


class Count(ss.KeyedProcessFunction):
    """Counts the rows of each key, and passes each on."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the count."""
        self.seen = ctx.value_state("seen", int)

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[object, str]]:
        """Yield the rows with their numbers."""
        seen = self.seen.get() or 0
        for row in rows:
            seen += 1
            yield key, f"{seen},{row.sent}"
        self.seen.update(seen)


@job.query(uid="relayed")
def relayed(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """As fast as it goes."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", ctx.parameter("brokers"))
    events = reader.option("subscribe", ctx.parameter("from")).option("startingOffsets", "earliest").load()
    sent = events.selectExpr("CAST(key AS string) AS name", "CAST(value AS string) AS sent")
    counted = ss.keyed_process(sent, key="name", function=Count(), uid="count", schema="key string, value string")
    sink = ss.sinks.KafkaSink(
        ctx.parameter("to"),
        bootstrap_servers=ctx.parameter("brokers"),
        visible=visibility.Visibility(ctx.parameter("visible")),
    )
    return ss.write(counted, sink=sink, uid="kafka")


if __name__ == "__main__":
    job.run()
