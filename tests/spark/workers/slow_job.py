"""A job with both kinds of Python processes that Spark starts on the driver: of a keyed operator, and of a source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import statefulspark as ss
from pyspark.sql import SparkSession

job = ss.Job("slow")


class Numbers(ss.driver.SourceFunction[tuple[int]]):
    """Emits ten numbers, then nothing any more."""

    def run(self, ctx: ss.driver.SourceContext[tuple[int]]) -> None:
        """Emit."""
        with ctx.checkpoint_lock:
            for number in range(10):
                ctx.collect((number,))

    def cancel(self) -> None:
        """Nothing to leave."""


class Count(ss.KeyedProcessFunction):
    """Counts the rows of a key."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state."""
        self.seen = ctx.value_state("seen", int)

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterable[object]:
        """Count."""
        self.seen.update((self.seen.get() or 0) + len(rows))
        yield key, self.seen.get()


@job.query(uid="counts")
def counts(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """Rows per remainder of three."""
    numbers = ss.read_function(spark, function=Numbers(), schema="n bigint", uid="numbers")
    keyed = numbers.selectExpr("n % 3 as key")
    frame = ss.keyed_process(
        keyed, key="key", function=Count(), uid="count", schema="key bigint, seen int", max_parallelism=4
    )
    return ss.write(frame, sink=ss.sinks.FilesSink(ctx.parameter("output")), uid="out", trigger="200ms")


if __name__ == "__main__":
    job.run()
