"""Timers on real Spark: event time by the watermark, processing time by the batch's clock, also without rows."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from keyedstream import FileStream
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from statefulspark import errors, state
from statefulspark.operators import keyed
from statefulspark.state import timers

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEMA = "key string, at bigint"
OUTPUT = "kind string, key string, at bigint, seen bigint"
DELAY_MS = 1000


class Reminder(state.KeyedProcessFunction):
    """Calls back 500 ms of event time after each row, and says what it saw until then."""

    def __init__(self, marker: Path | None = None) -> None:
        self._marker = marker

    def open(self, ctx: state.KeyedContext) -> None:
        self.seen = ctx.reducing_state("seen", lambda one, two: one + two)

    def process(self, key: object, rows: Sequence[state.InputRow], ctx: state.KeyedContext) -> Iterable[object]:
        if self._marker is not None and key == "k3" and not self._marker.exists():
            self._marker.touch()
            raise ValueError("once")
        for row in rows:
            self.seen.add(1)
            at = timers.moment(row.at)
            if ctx.is_late(at):
                yield "late", key, row.at, ctx.watermark and timers.milliseconds(ctx.watermark)
            else:
                ctx.timers.set(at + timedelta(milliseconds=500))

    def on_timer(self, when: datetime, ctx: state.KeyedContext) -> Iterable[object]:
        yield "timer", ctx.key, timers.milliseconds(when), self.seen.get()


def _reminders(rows: DataFrame, function: Reminder) -> DataFrame:
    timed = rows.withColumn("time", sql.timestamp_millis("at")).withWatermark("time", f"{DELAY_MS} milliseconds")
    return keyed.keyed_process(
        timed.select("key", "at"),
        key="key",
        function=function,
        uid="reminders",
        schema=OUTPUT,
        max_parallelism=8,
        timers="event-time",
    )


class Truth:
    """What `Reminder` gives, computed without Spark."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}
        self.timers: set[tuple[int, str]] = set()

    def batch(self, rows: list[tuple[str, int]], watermark_ms: int) -> set[tuple[object, ...]]:
        emitted: set[tuple[object, ...]] = set()
        for key, at in rows:
            self.seen[key] = self.seen.get(key, 0) + 1
            if watermark_ms and at <= watermark_ms:
                emitted.add(("late", key, at, watermark_ms))
            else:
                self.timers.add((at + 500, key))
        due = {timer for timer in self.timers if watermark_ms and timer[0] <= watermark_ms}
        self.timers -= due
        return emitted | {("timer", key, at, self.seen[key]) for at, key in due}


def test_event_time_timers_equal_a_model_through_restarts_and_failures(spark: SparkSession, tmp_path: Path) -> None:
    """Keys come and go, so that most timers fire in key groups without rows; late rows are given to the function."""
    chance = random.Random(5)
    batches = [
        [(f"k{chance.randrange(12)}", 10_000 + 400 * number + chance.randrange(-1500, 600)) for _ in range(size)]
        for number, size in enumerate((30, 3, 2, 25, 1, 4))
    ]
    batches.append([("end", 60_000)])
    stream = FileStream(spark, tmp_path, SCHEMA)
    for rows in batches[:3]:
        stream.feed(rows)
    stream.run(lambda rows: _reminders(rows, Reminder()))
    for rows in batches[3:]:
        stream.feed(rows)
    failures = stream.run_through_failures(lambda rows: _reminders(rows, Reminder(tmp_path / "failed")))
    assert len(failures) == 1

    truth, latest, expected = Truth(), 0, set()
    for rows in [*batches[:3], [], *batches[3:], []]:
        watermark_ms = max(0, latest - DELAY_MS)
        expected |= truth.batch(rows, watermark_ms)
        latest = max([latest, *(at for _, at in rows)])
    emitted = [tuple(row) for number in sorted(stream.batches) for row in stream.batches[number]]
    assert sorted(emitted) == sorted(expected)
    assert {kind for kind, *_ in emitted} == {"late", "timer"}


class Alarm(state.KeyedProcessFunction):
    """Calls back a second of processing time after the first row of a key."""

    def open(self, ctx: state.KeyedContext) -> None:
        self.rows = ctx.value_state("rows", int)

    def process(self, key: object, rows: Sequence[state.InputRow], ctx: state.KeyedContext) -> Iterable[object]:
        if self.rows.get() is None:
            ctx.timers.set(ctx.processing_time + timedelta(seconds=1))
        self.rows.update((self.rows.get() or 0) + len(rows))
        yield "row", key, timers.milliseconds(ctx.processing_time), None

    def on_timer(self, when: datetime, ctx: state.KeyedContext) -> Iterable[object]:
        yield "timer", ctx.key, timers.milliseconds(when), self.rows.get()
        self.rows.clear()


def test_processing_time_timers_fire_once_without_any_rows(spark: SparkSession, tmp_path: Path) -> None:
    stream = FileStream(spark, tmp_path, SCHEMA)
    stream.feed([("a", 1), ("b", 2), ("a", 3)])
    emitted: list[tuple[object, ...]] = []

    def build(rows: DataFrame) -> DataFrame:
        return keyed.keyed_process(
            rows,
            key="key",
            function=Alarm(),
            uid="alarms",
            schema=OUTPUT,
            max_parallelism=8,
            timers="processing-time",
        )

    source = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "input"))
    writer = build(source).writeStream.outputMode("update").option("checkpointLocation", str(stream.checkpoint))
    query = writer.foreachBatch(lambda batch, _: emitted.extend(map(tuple, batch.collect()))).trigger(
        processingTime="200 milliseconds"
    )
    running = query.start()
    try:
        deadline = time.monotonic() + 60
        while sum(row[0] == "timer" for row in emitted) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        count = len(running.recentProgress)
        while len(running.recentProgress) < count + 3 and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        running.stop()
    times = {row[2] for row in emitted if row[0] == "row"}
    assert len(times) == 1, "one batch has one processing time, in all tasks"
    (at_ms,) = times
    assert sorted(row for row in emitted if row[0] == "timer") == [
        ("timer", "a", at_ms + 1000, 2),
        ("timer", "b", at_ms + 1000, 1),
    ]


class Silent(state.KeyedProcessFunction):
    """Has a callback and does nothing."""

    def process(self, key: object, rows: Sequence[state.InputRow], ctx: state.KeyedContext) -> None:
        """Do nothing."""

    def on_timer(self, when: datetime, ctx: state.KeyedContext) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        (None, 'pass timers="event-time"'),
        ("wall-clock", "timers='wall-clock', which is unknown; use one of 'event-time'"),
    ],
)
def test_timers_must_be_declared(spark: SparkSession, chosen: str | None, sentence: str) -> None:
    frame = spark.createDataFrame([("a", 1)], SCHEMA)
    with pytest.raises(errors.SpecRejectedError) as caught:
        keyed.keyed_process(frame, key="key", function=Silent(), uid="silent", schema=OUTPUT, timers=chosen)  # type: ignore[arg-type]
    assert sentence in caught.value.message
