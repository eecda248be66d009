"""my-job: how many orders each customer has placed, and for how much.

statefulspark run job.py --dev    runs it on this machine, with made-up orders. Ctrl-C ends it, and it goes on where it was.
pytest                            tests the function without Spark, and the job with a kill.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

job = ss.Job("my-job")


@job.parameters
@dataclass(frozen=True)
class Parameters:
    """What the resource or `--parameter NAME=VALUE` may set."""

    rows_per_second: int = 10
    output: str = ""


class Totals(ss.KeyedProcessFunction):
    """Counts the orders of each customer, and adds up their amounts."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state: it is kept for each customer, through restarts and upgrades."""
        self.count = ctx.value_state("count")
        self.total = ctx.value_state("total")

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[object, ...]]:
        """Take the orders of one customer in a batch, and yield a row of the output."""
        self.count.update((self.count.get() or 0) + len(rows))
        self.total.update((self.total.get() or 0) + sum(row.amount for row in rows))
        yield key, self.count.get(), self.total.get()


def orders(spark: SparkSession, ctx: ss.QueryContext[Parameters]) -> DataFrame:
    """Return made-up orders. Put your own source here: spark.readStream with Kafka, files, Iceberg."""
    numbers = spark.readStream.format("rate").option("rowsPerSecond", ctx.parameters.rows_per_second).load()
    customer = "element_at(array('ada', 'bob', 'cleo'), CAST(value % 3 + 1 AS INT)) AS customer"
    return numbers.selectExpr(customer, "value % 7 + 1 AS amount")


@job.query(uid="totals")
def totals(spark: SparkSession, ctx: ss.QueryContext[Parameters]) -> DataStreamWriter | ss.Output:
    """Write the totals to the folder of the parameter `output`, each row once; without one, to the terminal."""
    result = ss.keyed_process(
        orders(spark, ctx),
        key="customer",
        function=Totals(),
        uid="customer-totals",  # state is found by this name: never change it
        schema="customer STRING, orders BIGINT, total BIGINT",
    )
    if ctx.parameters.output:
        return ss.write(result, sink=ss.sinks.FilesSink(ctx.parameters.output), uid="out", trigger="5s")
    return result.writeStream.outputMode("update").format("console").trigger(processingTime="5 seconds")


if __name__ == "__main__":
    job.run()
