# ruff: noqa: N802, N803 - processors have Spark's names
"""One processor, the same batches, Spark's operator and ours: what comes out is equal, batch by batch."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from keyedstream import FileStream, run_in_two_lives, run_one_by_one, timed
from pyspark import cloudpickle
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, GroupedData, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StatefulProcessor
from statefulspark.operators import transform

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])

INPUT = "key string, at bigint"
OUTPUT = "what string, key string, saw string"
Rows = list[tuple[str, int]]
Transform = Callable[..., DataFrame]


def _batches(seed: int, count: int) -> list[Rows]:
    """Make batches whose times wander on, with stragglers far behind."""
    rng = random.Random(seed)
    return [
        [(f"k{rng.randrange(5)}", at * 900 + rng.randrange(-3500, 1500)) for _ in range(rng.randrange(4, 14))]
        for at in range(4, 4 + count)
    ]


class Watcher(StatefulProcessor):
    """Counts, lists and maps its rows, sets timers by them, and tells all that it sees."""

    def __init__(self, has_timers: bool) -> None:
        self._has_timers = has_timers

    def init(self, handle) -> None:
        self._handle = handle
        self._count = handle.getValueState("count", "n bigint, last string")
        self._times = handle.getListState("times", "at bigint")
        self._digits = handle.getMapState("digits", "digit bigint", "n int, wrong double, rows array<bigint>")

    def handleInitialState(self, key, initialState, timerValues) -> None:
        self._count.update((initialState.start, "initial"))
        if self._has_timers:
            self._handle.registerTimer(0)
            self._handle.registerTimer(4000)

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        count = self._count.get()[0] if self._count.exists() else 0
        for row in rows:
            count += 1
            self._times.appendValue((row.at,))
            before = self._digits.getValue((row.at % 3,))
            seen = before.rows if before else []
            # An integer in a column of doubles becomes null, in Spark without an error.
            self._digits.updateValue((row.at % 3,), (len(seen) + 1, 5, [*seen, row.at]))
            if row.at % 11 == 0:
                self._times.clear()
            if self._has_timers:
                self._handle.registerTimer(row.at + 300)
        self._count.update((count, key[-1]))
        yield Row(saw=self._look(timerValues.getCurrentWatermarkInMs()), what="rows", key=str(key), more="left out")

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        at_ms = expiredTimerInfo.getExpiryTimeInMs()
        listed = self._look(at_ms)
        if at_ms % 2 == 0:
            self._handle.registerTimer(at_ms - 101)
        if at_ms % 3 == 0:
            self._handle.registerTimer(at_ms)
        if at_ms % 5 == 0:
            # Sorted, as Spark lists them by the bytes of the number.
            for other in sorted(self._handle.listTimers())[:2]:
                self._handle.deleteTimer(other)
        yield Row(what="timer", key=key.key, saw=listed + self._look(timerValues.getCurrentWatermarkInMs()))

    def _look(self, time_ms: int) -> str:
        timers = sorted(self._handle.listTimers()) if self._has_timers else None
        digits = sorted(map(str, self._digits.iterator()))
        return str((time_ms, self._count.get(), self._times.exists(), list(self._times.get()), digits, timers))


class Forgetter(StatefulProcessor):
    """Has states that live for a moment or for long, and timers before, after and long after the batch, with pandas."""

    def init(self, handle) -> None:
        self._handle = handle
        self._brief = handle.getValueState("brief", "n bigint", 1)
        self._long = handle.getListState("long", "n bigint", 10**9)
        self._map = handle.getMapState("map", "n bigint", "n bigint", 1)

    def handleInputRows(self, key, rows, timerValues) -> Iterator[pd.DataFrame]:
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        before = (self._brief.get(), self._map.exists(), list(self._map.keys()), len(list(self._long.get())))
        kinds, count = "", 0
        for frame in rows:
            count += len(frame)
            kinds = str([str(kind) for kind in frame.dtypes])
        self._brief.update((count,))
        self._long.appendList([(count,), (count,)])
        self._map.updateValue((count,), (count,))
        after = (self._brief.get(), list(self._map.iterator()))
        for moment in (now_ms - 5, now_ms, now_ms + 1, now_ms + 10**9):
            self._handle.registerTimer(moment)
        yield pd.DataFrame({"what": ["rows"], "key": [key[0]], "saw": [str((before, after, kinds))]})

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[pd.DataFrame]:
        late_ms = timerValues.getCurrentProcessingTimeInMs() - expiredTimerInfo.getExpiryTimeInMs()
        saw = (min(late_ms, 6), self._brief.exists(), len(list(self._long.get())))
        yield pd.DataFrame({"saw": [str(saw)], "what": ["timer"], "key": [key[0]]})


class Sessions(StatefulProcessor):
    """Emits one row per key and batch with the latest time, as the event time of what follows."""

    def init(self, handle) -> None:
        self._latest = handle.getValueState("latest", "at bigint")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        before = self._latest.get() or (0,)
        latest = max(before[0], *(row.at for row in rows))
        self._latest.update((latest,))
        yield Row(key=key[0], at=pd.Timestamp(latest, unit="ms", tz="UTC").to_pydatetime())


class Deleter(StatefulProcessor):
    """Counts rows, or deletes the count and tells what using it does."""

    def __init__(self, what: str) -> None:
        self._what = what

    def init(self, handle) -> None:
        if self._what != "only deletes":
            self._count = handle.getValueState("count", "n bigint")
        if self._what != "counts":
            handle.deleteIfExists("count")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        saw = "nothing"
        try:
            if self._what != "only deletes":
                before = self._count.get()
                saw = str(before)
                self._count.update(((before or (0,))[0] + len(list(rows)),))
        except PySparkRuntimeError as error:
            saw = str(error).removeprefix("StatefulProcessorFailed: ")
        yield Row(what=self._what, key=key[0], saw=saw)


def _spark(grouped: GroupedData, *arguments: object) -> DataFrame:
    return grouped.transformWithState(*arguments)


def _ours(grouped: GroupedData, *arguments: object) -> DataFrame:
    return transform.transform_with_state(grouped, *arguments, uid="watched", max_parallelism=8)


def _spark_in_pandas(grouped: GroupedData, *arguments: object) -> DataFrame:
    return grouped.transformWithStateInPandas(*arguments)


def _ours_in_pandas(grouped: GroupedData, *arguments: object) -> DataFrame:
    return transform.transform_with_state_in_pandas(grouped, *arguments, uid="watched", max_parallelism=8)


def test_states_and_timers_and_late_rows_in_event_time(spark: SparkSession, tmp_path: Path) -> None:
    batches = _batches(seed=5, count=5)
    initial = spark.createDataFrame([("k1", 100), ("waits", 7)], "key string, start bigint")

    def build(transform_rows: Transform) -> Callable[[DataFrame], DataFrame]:
        return lambda rows: transform_rows(
            timed(rows).groupBy("key"), Watcher(has_timers=True), OUTPUT, "Update", "EventTime", initial.groupBy("key")
        )

    expected = run_in_two_lives(spark, tmp_path / "spark", INPUT, batches, build(_spark))
    assert run_in_two_lives(spark, tmp_path / "ours", INPUT, batches, build(_ours)) == expected
    assert "timer" in str(expected)
    assert "waits" in str(expected)


def test_keys_of_two_columns_without_time(spark: SparkSession, tmp_path: Path) -> None:
    batches = _batches(seed=6, count=2)

    def build(transform_rows: Transform) -> Callable[[DataFrame], DataFrame]:
        return lambda rows: transform_rows(
            rows.withColumn("odd", sql.col("at") % 2).groupBy("odd", "key"),
            Watcher(has_timers=False),
            OUTPUT,
            "append",
            "none",
        )

    expected = run_in_two_lives(spark, tmp_path / "spark", INPUT, batches, build(_spark))
    assert run_in_two_lives(spark, tmp_path / "ours", INPUT, batches, build(_ours)) == expected
    assert any(expected.values())


def test_frames_with_a_time_to_live_and_timers_in_processing_time(spark: SparkSession, tmp_path: Path) -> None:
    batches = _batches(seed=7, count=3)

    def build(transform_rows: Transform) -> Callable[[DataFrame], DataFrame]:
        return lambda rows: transform_rows(rows.groupBy("key"), Forgetter(), OUTPUT, "Update", "ProcessingTime")

    expected = run_one_by_one(spark, tmp_path / "spark", INPUT, batches, build(_spark_in_pandas))
    assert run_one_by_one(spark, tmp_path / "ours", INPUT, batches, build(_ours_in_pandas)) == expected
    assert "timer" in str(expected)


def test_a_deleted_state_is_gone_for_every_key_and_cannot_be_used(spark: SparkSession, tmp_path: Path) -> None:
    keys = [("k1", 1), ("k2", 2), ("k3", 3)]
    runs = [("counts", keys), ("only deletes", keys[:1]), ("counts", keys), ("declares and deletes", keys[:1])]

    def run(folder: Path, transform_rows: Transform) -> dict[int, Counter[tuple[object, ...]]]:
        folder.mkdir()
        stream = FileStream(spark, folder, INPUT)
        for what, rows in runs:
            stream.feed(rows)
            stream.run(lambda df, own=what: transform_rows(df.groupBy("key"), Deleter(own), OUTPUT, "Update", "None"))
        return {number: Counter(map(tuple, rows)) for number, rows in stream.batches.items()}

    expected = run(tmp_path / "spark", _spark)
    assert run(tmp_path / "ours", _ours) == expected
    assert set(expected[2]) == {("counts", key, "None") for key, _ in keys}
    assert "not initialized" in str(expected[3])


def test_a_window_after_the_event_time_that_comes_out(spark: SparkSession, tmp_path: Path) -> None:
    batches = _batches(seed=8, count=4)

    def build(transform_rows: Transform) -> Callable[[DataFrame], DataFrame]:
        def chained(rows: DataFrame) -> DataFrame:
            arguments = ("key string, at timestamp", "Append", "EventTime", None, "at")
            latest = transform_rows(timed(rows).groupBy("key"), Sessions(), *arguments)
            counted = latest.groupBy(sql.window("at", "2 seconds")).count()
            return counted.selectExpr("'window' AS what", "string(window.start) AS key", "string(count) AS saw")

        return chained

    expected = run_in_two_lives(spark, tmp_path / "spark", INPUT, batches, build(_spark))
    assert run_in_two_lives(spark, tmp_path / "ours", INPUT, batches, build(_ours)) == expected
    assert any(expected.values())
