"""A ledger of accounts with everything at once: each kind of state, timers, a window, a join, each transactional sink.

    python -m faults --scenario calm

runs it under load and compares everything with the truth. Its four queries:

- `ledger`: a row for every event, from keyed state of each kind; one for every period that ends, from a timer in event time;
  and one now and then for the events since the last such row, from a timer by the clock; into Kafka;
- `windows`: events without their copies, summed by key and window, into PostgreSQL;
- `confirmed`: events joined with their confirmations from files, into files;
- `counter`: numbers of a source with operator state, into Iceberg.

Events may come twice: a copy has the sequence number of the event, by which the ledger knows it.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession, functions

job = ss.Job("load")

PERIOD_MS = 5_000
LATEST = 3
REMEMBERED = "2s"
REPORTED_AFTER_MS = 1_500
EVENT = "number BIGINT, key STRING, sequence BIGINT, at_ms BIGINT, amount BIGINT, kind STRING"
DELAY = "10 seconds"


class Totals(NamedTuple):
    """How many events there were, the newest one's sequence number, and the sum of all."""

    events: int
    sequence: int
    balance: int


class Spent:
    """Adds up what was paid out."""

    def create(self) -> int:
        """Return nothing."""
        return 0

    def add(self, accumulator: int, value: int) -> int:
        """Add an amount below zero."""
        return accumulator + max(0, -value)

    def result(self, accumulator: int) -> int:
        """Return the sum."""
        return accumulator


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=at_ms)


def _milliseconds(when: datetime) -> int:
    return round(when.timestamp() * 1000)


class Ledger(ss.KeyedProcessFunction):
    """Keeps the account of a key, closes its periods, and reports its events.

    Attributes:
        is_broken: Whether this is a version that fails in its first batch.
    """

    schema = """
        row STRING, key STRING, sequence BIGINT, number BIGINT, balance BIGINT, largest BIGINT, of_kind BIGINT,
        latest ARRAY<BIGINT>, processed_ms BIGINT, remembered_ms BIGINT, due_ms BIGINT, fired BIGINT, in_period BIGINT
    """

    def __init__(self, *, is_broken: bool = False) -> None:
        """Make a version that works, or one that does not."""
        self.is_broken = is_broken

    def open(self, ctx: ss.KeyedContext) -> None:
        """Declare a state of each kind."""
        self.totals = ctx.value_state("totals", Totals)
        self.latest = ctx.list_state("latest", int)
        self.kinds = ctx.map_state("kinds", str, int)
        self.largest = ctx.reducing_state("largest", max, int)
        self.copies = ctx.reducing_state("copies", operator.add, int)
        self.remembered = ctx.value_state("remembered", int, ttl=ss.Ttl(REMEMBERED))
        self.periods = ctx.map_state("periods", int, int)
        self.fired = ctx.reducing_state("fired", operator.add, int)
        self.spent = ctx.aggregating_state("spent", Spent(), int)
        self.unreported = ctx.value_state("unreported", int)
        self.reports = ctx.reducing_state("reports", operator.add, int)

    def process(self, key: str, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[object, ...]]:
        """Yield a row for every event that is no copy; rows of a batch come in no particular order."""
        if self.is_broken:
            raise ValueError("this version does not work")
        before = self.totals.get() or Totals(0, 0, 0)
        events_before = before.events
        now_ms = _milliseconds(ctx.processing_time)
        for row in sorted(rows, key=lambda row: row.sequence):
            if row.sequence <= before.sequence:
                self.copies.add(1)
                continue
            before = Totals(before.events + 1, row.sequence, before.balance + row.amount)
            self.latest.update([*self.latest.get(), row.amount][-LATEST:])
            self.kinds.put(row.kind, (self.kinds.get(row.kind) or 0) + 1)
            self.largest.add(row.amount)
            self.spent.add(row.amount)
            due_ms = (row.at_ms // PERIOD_MS + 1) * PERIOD_MS
            self.periods.put(due_ms, (self.periods.get(due_ms) or 0) + 1)
            ctx.timers.set(_moment(due_ms), domain="event-time")
            yield self._event_row(key, row, before, now_ms)
            self.remembered.update(now_ms)
        self.totals.update(before)
        if before.events > events_before:
            self._report_soon(before.events - events_before, now_ms, ctx)

    def on_timer(self, when: datetime, ctx: ss.KeyedContext) -> Iterator[tuple[object, ...]]:
        """Yield how many events a period had that is over, or how many there were since the last report."""
        nothing, timestamp = (None,) * 8, _milliseconds(when)
        if ctx.time_domain == "processing-time":
            self.reports.add(1)
            yield "report", ctx.key, *nothing, timestamp, self.reports.get(), self.unreported.get()
            self.unreported.update(0)
            return
        self.fired.add(1)
        count = self.periods.get(timestamp)
        self.periods.remove(timestamp)
        yield "period", ctx.key, *nothing, timestamp, self.fired.get(), count

    def _report_soon(self, events: int, now_ms: int, ctx: ss.KeyedContext) -> None:
        waiting = self.unreported.get() or 0
        if not waiting:
            ctx.timers.set(_moment(now_ms + REPORTED_AFTER_MS), domain="processing-time")
        self.unreported.update(waiting + events)

    def _event_row(self, key: str, row: ss.InputRow, totals: Totals, now_ms: int) -> tuple[object, ...]:
        account = (totals.balance, self.largest.get(), self.kinds.get(row.kind), self.latest.get())
        return "event", key, row.sequence, row.number, *account, now_ms, self.remembered.get(), None, None, None


class Counter(ss.driver.SourceFunction[tuple[int, int]], ss.driver.CheckpointedFunction):
    """Emits (subtask, number), each number once."""

    def __init__(self, pause_s: float) -> None:
        """Wait this long after every number."""
        self.pause_s = pause_s
        self.next = 0
        self.is_running = True

    def initialize_state(self, context: ss.driver.FunctionInitializationContext) -> None:
        """Declare the state, and go on where the restored snapshot ends."""
        self.subtask = context.subtask_index
        self.state = context.operator_state_store.list_state("next", int)
        for number in self.state:
            self.next = number

    def run(self, ctx: ss.driver.SourceContext[tuple[int, int]]) -> None:
        """Emit, and count what was emitted, as one step."""
        while self.is_running:
            with ctx.checkpoint_lock:
                ctx.collect((self.subtask, self.next))
                self.next += 1
            time.sleep(self.pause_s)

    def cancel(self) -> None:
        """Leave `run` soon."""
        self.is_running = False

    def snapshot_state(self, context: ss.driver.FunctionSnapshotContext) -> None:
        """Keep the next number."""
        self.state.update([self.next])


def read_events(spark: SparkSession, ctx: ss.QueryContext) -> DataFrame:
    """Stream the events, of a second topic too if there is one, with their time as the watermark's column."""
    rows = read_topic(spark, ctx, ctx.parameter("events"))
    if more := ctx.parameter("more", ""):
        rows = rows.union(ss.named_source(read_topic(spark, ctx, more), uid="more"))
    event = functions.from_json(functions.col("value").cast("string"), EVENT)
    timed = rows.select(event.alias("event")).select("event.*")
    return timed.withColumn("time", functions.timestamp_millis("at_ms")).withWatermark("time", DELAY)


def read_topic(spark: SparkSession, ctx: ss.QueryContext, topic: str) -> DataFrame:
    """Stream a topic from its beginning."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", ctx.parameter("brokers"))
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()


def trigger(ctx: ss.QueryContext) -> str:
    """Return the pause between two batches of every query."""
    return ctx.parameter("trigger", "1s")


def visible(ctx: ss.QueryContext) -> str:
    """Return when every sink shows a batch."""
    return ctx.parameter("visible", "checkpoint")


@job.query(uid="ledger")
def ledger(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """A row for every event, every period and every report, into Kafka; parameters make versions that cannot work."""
    rows = ss.keyed_process(
        read_events(spark, ctx),
        key="key",
        function=Ledger(is_broken=ctx.parameter("broken", default=False)),
        uid=ctx.parameter("accounts", "accounts"),
        schema=Ledger.schema,
        timers="both",
    )
    rows_of, brokers = ctx.parameter("rows"), ctx.parameter("brokers")
    sink = ss.sinks.KafkaSink(
        rows_of, bootstrap_servers=brokers, serializer=ss.sinks.JsonSerializer(key="key"), visible=visible(ctx)
    )
    return ss.write(rows, sink=sink, uid="ledger-out", trigger=trigger(ctx))


@job.query(uid="windows")
def windows(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """Events without copies by key and window, into PostgreSQL; a version of the job looks at the largest amount, too."""
    once = read_events(spark, ctx).dropDuplicatesWithinWatermark(["number"])
    sums = [functions.count("*").alias("events"), functions.sum("amount").alias("total")]
    by_window = once.groupBy(functions.window("time", "10 seconds"), "key")
    if ctx.parameter("aggregate", default=False):
        kept = by_window.agg(*sums, functions.max("amount").alias("largest")).where("largest IS NOT NULL")
    else:
        kept = by_window.agg(*sums)
    rows = kept.selectExpr("key", "unix_millis(window.start) AS begin_ms", "events", "total")
    sink = ss.sinks.PostgresSink("windows", dsn=ss.Secret.env("LOAD_DSN"), visible=visible(ctx))
    return ss.write(rows, sink=sink, uid="windows-out", trigger=trigger(ctx))


@job.query(uid="confirmed")
def confirmed(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """Events with their confirmations, into files."""
    lines = spark.readStream.schema("number BIGINT, confirmed_ms BIGINT").json(ctx.parameter("confirmations"))
    lines = lines.withColumn("confirmed", functions.timestamp_millis("confirmed_ms")).withWatermark("confirmed", DELAY)
    once = read_events(spark, ctx).dropDuplicatesWithinWatermark(["number"]).alias("event")
    near = functions.expr("""
        event.number = line.number AND confirmed >= time AND confirmed <= time + INTERVAL 5 SECONDS
    """)
    pairs = once.join(lines.alias("line"), near).selectExpr("event.number", "key", "sequence", "amount", "confirmed_ms")
    sink = ss.sinks.FilesSink(ctx.parameter("output") + "/confirmed", visible=visible(ctx))
    return ss.write(pairs, sink=sink, uid="confirmed-out", trigger=trigger(ctx))


@job.query(uid="counter")
def counter(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """Numbers of every subtask, into Iceberg."""
    numbers = ss.read_function(
        spark,
        function=Counter(ctx.parameter("pause_s", 0.1)),
        schema="subtask INT, number BIGINT",
        uid="numbers",
        parallelism=2,
    )
    catalog = {
        "type": "sql",
        "uri": ss.Secret.env("LOAD_CATALOG"),
        "warehouse": ctx.parameter("warehouse"),
    }
    sink = ss.sinks.IcebergSink("load.numbers", catalog=catalog, visible=visible(ctx))
    return ss.write(numbers, sink=sink, uid="counter-out", trigger=trigger(ctx))


if __name__ == "__main__":
    job.run()
