"""On real Spark, the state of a partition is worked on by one process, and whichever worker runs it has what it needs."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from keyedstream import FileStream
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from statefulspark import state
from statefulspark.spark import keyed

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])

BATCHES = 12
KEYS = 40
_TASKS_HAVE_ENDED_S = 2.0


class Count(state.KeyedProcessFunction):
    """Counts rows, and tells in which process."""

    def open(self, ctx: state.KeyedContext) -> None:
        self.count = ctx.state(state.ValueState("count", int))

    def process(self, key: object, rows: Iterable[state.InputRow], ctx: state.KeyedContext) -> Iterable[object]:
        counted = (self.count.value() or 0) + sum(1 for _ in rows)
        self.count.update(counted)
        yield key, counted, os.getpid()


def test_a_key_is_in_one_process_in_all_batches(spark: SparkSession, tmp_path: Path) -> None:
    """Spark hands partitions to workers as these become idle, so without the keeper a key changes its process soon."""
    stream = FileStream(spark, tmp_path, "key bigint, row bigint")
    for number in range(BATCHES):
        stream.feed([(key, number) for key in range(KEYS)])
    stream.run(
        lambda rows: keyed.keyed_process(
            rows, key="key", function=Count(), uid="one-home", schema="key bigint, count bigint, pid int"
        )
    )
    processes: dict[int, set[int]] = {}
    for number, emitted in stream.batches.items():
        assert sorted((row.key, row["count"]) for row in emitted) == [(key, number + 1) for key in range(KEYS)]
        for row in emitted:
            processes.setdefault(row.key, set()).add(row.pid)
    assert {len(found) for found in processes.values()} == {1}
    assert len(set.union(*processes.values())) == 2


def test_a_process_has_the_broadcast_variables_that_spark_sent_to_another(spark: SparkSession) -> None:
    """A function of more than a megabyte is one: Spark sends it to each of its workers once, and these outlive processes."""
    ballast = os.urandom(2 << 20)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"pid": [os.getpid()], "size": [len(ballast) + batch.num_rows]})

    sizes = spark.range(0, 60, 1, 6).mapInArrow(run, "pid long, size long")
    seen: set[int] = set()
    for _ in range(3):
        rows = sizes.collect()
        assert [row.size for row in rows] == [len(ballast) + 10] * 6
        assert not seen & {row.pid for row in rows}
        seen |= {row.pid for row in rows}
        time.sleep(_TASKS_HAVE_ENDED_S)
        for pid in {row.pid for row in rows}:
            os.kill(pid, signal.SIGKILL)
