"""On real Spark, the state of a partition is worked on by one process, and whichever worker runs it has what it needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from keyedstream import FileStream
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from statefulspark import state
from statefulspark.operators import keyed

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])

BATCHES = 12
KEYS = 40
OUTPUT = "key bigint, count bigint, pid int"


class Count(state.KeyedProcessFunction):
    """Counts rows, and tells in which process.

    Args:
        ballast: Makes the function large.
    """

    def __init__(self, ballast: bytes = b"") -> None:
        self._ballast = ballast

    def open(self, ctx: state.KeyedContext) -> None:
        self.count = ctx.value_state("count", int)

    def process(self, key: object, rows: Iterable[state.InputRow], ctx: state.KeyedContext) -> Iterable[object]:
        counted = (self.count.get() or 0) + sum(1 for _ in rows)
        self.count.update(counted)
        yield key, counted, os.getpid()


def _pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _counted(rows: DataFrame, function: Count) -> DataFrame:
    """Count, and pass what comes out through another Python function of the same tasks."""
    counts = keyed.keyed_process(rows, key="key", function=function, uid="one-home", schema=OUTPUT)
    return counts.mapInArrow(_pass_on, OUTPUT)


def _feed(stream: FileStream, batches: int) -> None:
    for number in range(batches):
        stream.feed([(key, number) for key in range(KEYS)])


def _processes(stream: FileStream) -> dict[int, set[int]]:
    """Return in which processes each key was, having checked the counts."""
    found: dict[int, set[int]] = {}
    for number, emitted in stream.batches.items():
        assert sorted((row.key, row["count"]) for row in emitted) == [(key, number + 1) for key in range(KEYS)]
        for row in emitted:
            found.setdefault(row.key, set()).add(row.pid)
    return found


def test_a_key_is_in_one_process_in_all_batches(spark: SparkSession, tmp_path: Path) -> None:
    """Spark hands partitions to workers as these become idle, so without the worker pool a key changes its process soon."""
    stream = FileStream(spark, tmp_path, "key bigint, row bigint")
    _feed(stream, BATCHES)
    stream.run(lambda rows: _counted(rows, Count()))
    processes = _processes(stream)
    assert {len(found) for found in processes.values()} == {1}
    assert len(set.union(*processes.values())) == 2


def test_what_spark_sends_its_workers_once_is_right_in_the_processes_behind_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A worker gets a broadcast variable with the first task that uses it, and drops it with the next that does not."""
    known = spark.sparkContext.broadcast(list(range(KEYS)))

    def keep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from (batch for batch in batches if set(batch["key"].to_pylist()) <= set(known.value))

    stream = FileStream(spark, tmp_path, "key bigint, row bigint")
    _feed(stream, 4)
    stream.run(lambda rows: _counted(rows.mapInArrow(keep, "key bigint, row bigint"), Count()))
    assert len(_processes(stream)) == KEYS


def test_a_keyed_function_may_be_large(spark: SparkSession, tmp_path: Path) -> None:
    """Spark opens it on the driver, too, where it knows no broadcast variables."""
    stream = FileStream(spark, tmp_path, "key bigint, row bigint")
    _feed(stream, 2)
    stream.run(lambda rows: _counted(rows, Count(os.urandom(2 << 20))))
    assert len(_processes(stream)) == KEYS
