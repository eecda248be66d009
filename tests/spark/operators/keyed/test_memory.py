"""Keyed state that waits on the executor's disk, on real Spark: workers die, batches run again, and results are the same."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from keyedstream import FileStream
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from statefulspark import state
from statefulspark.operators import keyed

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])

BATCHES = [[(f"k{number % size}",) for number in range(300)] for size in (90, 70, 80, 60)]
"""Keys come up to five times a batch, most of them in every batch."""


class Counting(state.KeyedProcessFunction):
    """Counts rows per key in a value and, one entry each, in a list."""

    def open(self, ctx: state.KeyedContext) -> None:
        self.count = ctx.value_state("count", int)
        self.list = ctx.list_state("list", int)

    def process(self, key: object, rows: Sequence[state.InputRow], ctx: state.KeyedContext) -> Iterable[object]:
        for _ in rows:
            self.count.update((self.count.get() or 0) + 1)
            self.list.add(1)
        yield key, self.count.get(), len(self.list.get()), os.getpid()


def _expected() -> list[set[tuple[object, ...]]]:
    seen: Counter[str] = Counter()
    expected: list[set[tuple[object, ...]]] = []
    for batch in BATCHES:
        seen.update(key for (key,) in batch)
        expected.append({(key, seen[key], seen[key]) for (key,) in batch})
    return expected


def _emitted(stream: FileStream) -> list[set[tuple[object, ...]]]:
    return [{tuple(row)[:3] for row in stream.batches[number]} for number in sorted(stream.batches)]


def _on_disk(function: Counting, uid: str = "on-disk") -> Callable[[DataFrame], DataFrame]:
    def build(rows: DataFrame) -> DataFrame:
        return keyed.keyed_process(
            rows,
            key="key",
            function=function,
            uid=uid,
            schema="key string, count bigint, listed bigint, pid bigint",
            max_parallelism=4,
            cache_bytes=0,
        )

    return build


def _kill_workers(stream: FileStream, number: int) -> None:
    for pid in {row.pid for row in stream.batches[number]}:
        os.kill(pid, signal.SIGKILL)


def _folders(spark: SparkSession, uid: str) -> list[Path]:
    """Return the folders of an operator in the local directories of the (only) executor."""
    block_manager = spark.sparkContext._jvm.org.apache.spark.SparkEnv.get().blockManager()
    folders = [Path(folder.getPath()) for folder in block_manager.diskBlockManager().localDirs()]
    return [found for folder in folders for found in folder.glob(f"statefulspark-keyed/{uid}")]


def test_workers_die_after_the_tasks_and_between_batches_and_a_batch_runs_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The tasks of batch 1 have committed their state when the batch fails, so it runs again, under other ids."""
    stream = FileStream(spark, tmp_path, "key string")
    for batch in BATCHES[:3]:
        stream.feed(batch)
    failed: list[int] = []

    def after_batch(number: int) -> None:
        _kill_workers(stream, number)
        if number == 1 and not failed:
            failed.append(number)
            raise RuntimeError("the sink is gone")

    stream.after_batch = after_batch
    failures = stream.run_through_failures(_on_disk(Counting()))
    stream.feed(BATCHES[3])
    stream.run(_on_disk(Counting()))

    assert (len(failures), failed) == (1, [1])
    assert _emitted(stream) == _expected()
    assert [list(folder.iterdir()) for folder in _folders(spark, "on-disk")] == [[]], "files without names"


def test_a_query_that_restarts_from_an_older_checkpoint_sees_the_state_of_then(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream, older = FileStream(spark, tmp_path, "key string"), tmp_path / "older"
    stream.feed(BATCHES[0])
    stream.run(_on_disk(Counting()))
    shutil.copytree(stream.checkpoint, older)
    for batch in BATCHES[1:3]:
        stream.feed(batch)
    stream.run(_on_disk(Counting()))
    shutil.rmtree(stream.checkpoint)
    older.rename(stream.checkpoint)
    stream.feed(BATCHES[3])
    stream.run(_on_disk(Counting()))
    assert _emitted(stream) == _expected()


def test_a_folder_that_is_deleted_between_batches_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    stream = FileStream(spark, tmp_path, "key string")

    def delete(_: int) -> None:
        for folder in _folders(spark, "deleted"):
            shutil.rmtree(folder)

    stream.after_batch = delete
    for batch in BATCHES:
        stream.feed(batch)
    stream.run(_on_disk(Counting(), "deleted"))
    assert _emitted(stream) == _expected()
