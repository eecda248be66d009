"""Keys and values that are points in time, in a session whose zone has a summer time, through new worker processes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import statefulspark as ss
from keyedstream import FileStream
from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql import types as spark_types
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from statefulspark import state

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ZONE = "spark.sql.session.timeZone"
FIRST_S, SECOND_S = 1793511000, 1793514600
"""1:30 in New York on the first of November 2026, before and after the end of summer time."""


@pytest.fixture
def in_new_york(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, "America/New_York")
    yield spark
    spark.conf.set(ZONE, before)


class Hours(state.KeyedProcessFunction):
    """Counts the rows of a key, and keeps the first point in time that it saw."""

    def open(self, ctx: state.KeyedContext) -> None:
        self.count = ctx.value_state("count", int)
        self.first = ctx.value_state("first")

    def process(self, key: object, rows: Iterable[state.InputRow], ctx: state.KeyedContext) -> Iterable[object]:
        at = next(iter(rows))["at"]
        self.count.update((self.count.get() or 0) + 1)
        self.first.update(self.first.get() or at)
        yield f"{key!r} {ctx.key == key}", self.count.get(), repr(self.first.get()), os.getpid()


class SparksHours(StatefulProcessor):
    """Counts the rows of a key, as a processor of Spark's own."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        kind = spark_types.StructType([spark_types.StructField("n", spark_types.LongType())])
        self.count = handle.getValueState("count", kind)

    def handleInputRows(self, key: object, rows: Iterator[Row], timerValues: object) -> Iterator[Row]:  # noqa: N802, N803
        count = (self.count.get()[0] if self.count.exists() else 0) + 1
        self.count.update((count,))
        yield Row(shown=repr(key), count=count, first="", pid=os.getpid())

    def close(self) -> None:
        pass


OUTPUT = "shown string, count bigint, first string, pid int"


def _keyed(rows: DataFrame) -> DataFrame:
    return ss.keyed_process(rows, key="at", function=Hours(), uid="hours", schema=OUTPUT, max_parallelism=4)


def _window(rows: DataFrame) -> DataFrame:
    return ss.compat.transform_with_state(
        rows.groupBy(sql.window("at", "1 hour")),
        SparksHours(),
        outputStructType=OUTPUT,
        outputMode="Update",
        timeMode="None",
        uid="hours",
    )


@pytest.mark.parametrize("build", [_keyed, _window], ids=["keyed", "window"])
def test_keys_in_a_repeated_hour_keep_their_state_in_new_processes(
    in_new_york: SparkSession, tmp_path: Path, build: object
) -> None:
    stream = FileStream(in_new_york, tmp_path, "second bigint")
    counts: list[list[int]] = []
    shown: set[frozenset[tuple[str, str]]] = set()
    for _ in range(3):
        for _ in range(2):
            stream.feed([(FIRST_S,), (SECOND_S,)])
        stream.run(lambda rows: build(rows.select(sql.timestamp_seconds("second").alias("at"))))  # type: ignore[operator]
        for number in sorted(stream.batches)[-2:]:
            counts.append(sorted(row["count"] for row in stream.batches[number]))
            shown.add(frozenset((row.shown, row["first"]) for row in stream.batches[number]))
        for pid in {row.pid for rows in stream.batches.values() for row in rows}:
            _end(pid)
    assert counts == [[number, number] for number in range(1, 7)]
    assert len(shown) == 1
    if build is _keyed:
        assert all("America/New_York" in key and key.endswith(" True") for key, _ in next(iter(shown)))
        assert all("America/New_York" in first for _, first in next(iter(shown)))


def _end(pid: int) -> None:
    """End a worker, and all that it keeps in memory."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
