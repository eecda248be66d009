"""The example of Flink's documentation: the mean of every two values of a key, with state that is cleared in between.

    statefulspark run examples/keyed/count_window_average.py --dev

The pairs (1,3), (1,5), (1,7), (1,4), (1,2) give (1,4) and (1,5); the last value waits for another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

job = ss.Job("average")


class Sum(NamedTuple):
    """How many values there were, and their sum."""

    values: int
    total: int


class CountWindowAverage(ss.KeyedProcessFunction):
    """Emits the mean once two values of a key have come, and starts again."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state: count and sum of each key."""
        self.sum = ctx.value_state("average", Sum)

    def process(self, key: int, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[int, int]]:
        """Add the values of a key, in order."""
        for row in rows:
            before = self.sum.get() or Sum(0, 0)
            after = Sum(before.values + 1, before.total + row.value)
            self.sum.update(after)
            if after.values >= 2:
                yield key, after.total // after.values
                self.sum.clear()


def averages_of(pairs: DataFrame) -> DataFrame:
    """Return the means of a stream of `key bigint, value bigint`."""
    return ss.keyed_process(
        pairs, key="key", function=CountWindowAverage(), uid="averages", schema="key bigint, mean bigint"
    )


@job.query(uid="averages")
def averages(spark: SparkSession, ctx: ss.QueryContext) -> DataStreamWriter:
    """Numbers from Spark's own rate source, by their last digit, shown on the console."""
    numbers = spark.readStream.format("rate").option("rowsPerSecond", ctx.parameter("rows_per_second", 20)).load()
    pairs = numbers.selectExpr("value % 10 AS key", "value")
    return averages_of(pairs).writeStream.outputMode("update").format("console").trigger(processingTime="5 seconds")


if __name__ == "__main__":
    job.run()
