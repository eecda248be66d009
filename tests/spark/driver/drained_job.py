"""A job with timers far in the future, windows that no later row closes, and a stateful source.

Parameters: `input`, a folder of Parquet files with `key string, at bigint` (milliseconds), read one file a batch; `output`,
a folder for a files sink per query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

FAR = timedelta(hours=1)
NUMBERS = 50
job = ss.Job("drained")


def moment(at_ms: int) -> datetime:
    """Return the moment of a row."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def milliseconds(when: datetime) -> int:
    """Return a moment as a number of a row."""
    return round(when.timestamp() * 1000)


class Reminder(ss.KeyedProcessFunction):
    """Counts rows, and calls back an hour of event time after each, and at the end of time."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the state."""
        self.seen = ctx.value_state("seen", int)

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterable[object]:
        """Say what was late, and set the timers."""
        for row in rows:
            self.seen.update((self.seen.get() or 0) + 1)
            ctx.timers.set(moment(row.at) + FAR)
            ctx.timers.set(ss.MAX_WATERMARK)
            yield "late" if ctx.is_late(moment(row.at)) else "row", key, row.at, self.seen.get()

    def on_timer(self, when: datetime, ctx: ss.KeyedContext) -> Iterable[object]:
        """Tell what was seen."""
        is_end = when == ss.MAX_WATERMARK == ctx.watermark
        yield "end" if is_end else "timer", ctx.key, -1 if is_end else milliseconds(when), self.seen.get()


class Alarm(ss.KeyedProcessFunction):
    """Calls back an hour of processing time after each row, so that Spark plans empty batches for ever."""

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterable[object]:
        """Set the timer."""
        for row in rows:
            ctx.timers.set(ctx.processing_time + FAR)
            yield "row", row.at

    def on_timer(self, when: datetime, ctx: ss.KeyedContext) -> Iterable[object]:
        """Tell of it."""
        yield "alarm", milliseconds(when)


class Counter(ss.driver.SourceFunction[tuple[int]], ss.driver.CheckpointedFunction):
    """Emits numbers, then nothing any more."""

    def __init__(self) -> None:
        """Begin at nought."""
        self.offset = 0

    def initialize_state(self, context: ss.driver.FunctionInitializationContext) -> None:
        """Go on where the state ends."""
        self.state = context.operator_state_store.list_state("offset", int)
        for offset in self.state:
            self.offset = offset

    def run(self, ctx: ss.driver.SourceContext[tuple[int]]) -> None:
        """Emit."""
        while self.offset < NUMBERS:
            with ctx.checkpoint_lock:
                ctx.collect((self.offset,))
                self.offset += 1

    def cancel(self) -> None:
        """Nothing to leave."""

    def snapshot_state(self, context: ss.driver.FunctionSnapshotContext) -> None:
        """Keep the next number."""
        self.state.update([self.offset])


def timed(spark: SparkSession, ctx: ss.QueryContext) -> DataFrame:
    """Return the input with a watermark."""
    source = spark.readStream.schema("key string, at bigint").option("maxFilesPerTrigger", 1)
    rows = source.parquet(ctx.parameter("input"))
    return rows.withColumn("time", sql.timestamp_millis("at")).withWatermark("time", "1 second")


def sink(ctx: ss.QueryContext, name: str) -> ss.sinks.FilesSink:
    """Return the sink of a query."""
    return ss.sinks.FilesSink(f"{ctx.parameter('output')}/{name}")


@job.query(uid="timers")
def timers(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """Rows and timers."""
    frame = ss.keyed_process(
        timed(spark, ctx).select("key", "at"),
        key="key",
        function=Reminder(),
        uid="reminders",
        schema="kind string, key string, at bigint, seen bigint",
        max_parallelism=4,
        timers="event-time",
    )
    return ss.write(frame, sink=sink(ctx, "timers"), uid="timers", trigger="200ms")


@job.query(uid="alarms")
def alarms(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """Rows with timers that are not due."""
    frame = ss.keyed_process(
        timed(spark, ctx).select("key", "at"),
        key="key",
        function=Alarm(),
        uid="alarms",
        schema="kind string, at bigint",
        max_parallelism=4,
        timers="processing-time",
    )
    return ss.write(frame, sink=sink(ctx, "alarms"), uid="alarms", trigger="200ms")


@job.query(uid="windows")
def windows(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """Rows per ten seconds, by Spark's own operator, once a window is over."""
    counted = timed(spark, ctx).groupBy(sql.window("time", "10 seconds")).count()
    frame = counted.selectExpr("unix_millis(window.start) as start", "count as rows")
    return ss.write(frame, sink=sink(ctx, "windows"), uid="windows", trigger="200ms")


@job.query(uid="numbers")
def numbers(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """What a function emits."""
    frame = ss.read_function(spark, function=Counter(), schema="n bigint", uid="counter")
    return ss.write(frame, sink=sink(ctx, "numbers"), uid="numbers", trigger="200ms")


if __name__ == "__main__":
    job.run()
