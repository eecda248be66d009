"""Sessions: the events of a user that lie less than a minute apart, emitted when the watermark says that one is over.

    statefulspark run examples/keyed/sessions.py --dev

Each event moves the timer of its user; the callback emits the session and clears it. Events that come after the
watermark has passed them are counted and left out.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

job = ss.Job("sessions")
GAP = datetime.timedelta(minutes=1)


class Sessions(ss.KeyedProcessFunction):
    """Gathers the events of a user until a minute has passed without one."""

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare the states of a user."""
        self.events = ctx.value_state("events", int)
        self.last = ctx.value_state("last", datetime.datetime)
        self.late = ctx.reducing_state("late", lambda one, two: one + two, int)

    def process(self, key: str, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> None:
        """Take in the events of a user, and move the timer."""
        last = self.last.get()
        for row in rows:
            if ctx.is_late(row.time):
                self.late.add(1)
                continue
            self.events.update((self.events.get() or 0) + 1)
            latest = max(last, row.time) if last else row.time
            if last:
                ctx.timers.delete(last + GAP)
            ctx.timers.set(latest + GAP)
            last = latest
        self.last.update(last)

    def on_timer(self, when: datetime.datetime, ctx: ss.KeyedContext) -> Iterator[tuple[str, int, int]]:
        """Emit a session that is over."""
        yield ctx.key, self.events.get() or 0, self.late.get() or 0
        self.events.clear()
        self.last.clear()


def sessions_of(events: DataFrame) -> DataFrame:
    """Return the sessions of a stream of `user string, time timestamp`."""
    return ss.keyed_process(
        events.withWatermark("time", "10 seconds"),
        key="user",
        function=Sessions(),
        uid="sessions",
        schema="user string, events bigint, late bigint",
        timers="event-time",
    )


@job.query(uid="sessions")
def sessions(spark: SparkSession, ctx: ss.QueryContext) -> DataStreamWriter:
    """Events of a few users from Spark's own rate source, shown on the console."""
    numbers = spark.readStream.format("rate").option("rowsPerSecond", ctx.parameter("rows_per_second", 1)).load()
    events = numbers.selectExpr("concat('user', value % 3) AS user", "timestamp AS time").where("value % 200 < 60")
    return sessions_of(events).writeStream.outputMode("update").format("console").trigger(processingTime="5 seconds")


if __name__ == "__main__":
    job.run()
