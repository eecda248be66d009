"""A job without trouble: five keys, each with a timer by the clock that every batch sets again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import statefulspark as ss
from pyspark.sql import SparkSession

job = ss.Job("quiet")


class Idle(ss.KeyedProcessFunction):
    """Counts the rows of a key until it has been idle for an hour."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state."""
        self.seen = ctx.value_state("seen", int)

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterable[object]:
        """Count, and wait for the key to become idle."""
        self.seen.update((self.seen.get() or 0) + len(rows))
        ctx.timers.set(datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=2))
        yield key, self.seen.get()

    def on_timer(self, when: datetime, ctx: ss.KeyedContext) -> Iterable[object]:
        """Forget an idle key."""
        self.seen.clear()
        return ()


@job.query(uid="idle")
def idle(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """Count rows of five keys."""
    rate = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    frame = ss.keyed_process(
        rate.selectExpr("value % 5 as key"),
        key="key",
        function=Idle(),
        uid="counted",
        schema="key bigint, seen bigint",
        timers="processing-time",
        max_parallelism=8,
    )
    return ss.write(frame, sink=ss.sinks.FilesSink(ctx.parameter("output")), uid="out", trigger="200ms")


if __name__ == "__main__":
    job.run()
