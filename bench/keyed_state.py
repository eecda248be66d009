"""Keyed state against the JVM's aggregation: the same keyed count, side by side in one run, results checked equal.

Ours is measured plain, with a time to live, and with a timer for each key.
`python -m bench.keyed_state --rows 200000 --keys 200000 --batches 8` prints a table; `--json FILE` writes the figures.
Each contender runs its own query over the same rows; the first batches warm up and are not counted.
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from statefulspark import state
from statefulspark.spark import keyed

_STATE = "spark.sql.streaming.stateStore"
_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Count(state.KeyedProcessFunction):
    """Counts rows per key, with one value state."""

    def open(self, ctx: state.KeyedContext) -> None:
        """Declare the counter."""
        self.count = ctx.state(state.ValueState("count", int))

    def process(self, key: object, rows: list[state.InputRow], ctx: state.KeyedContext) -> Iterable[object]:
        """Count the rows of a key."""
        counted = (self.count.value() or 0) + len(rows)
        self.count.update(counted)
        yield key, counted


class ExpiringCount(Count):
    """Counts rows per key; counts that were not renewed for a day are gone."""

    def open(self, ctx: state.KeyedContext) -> None:
        """Declare the counter."""
        self.count = ctx.state(state.ValueState("count", int, state.Ttl(days=1)))


class TimedCount(Count):
    """Counts rows per key, and sets a timer for each key that it sees for the first time."""

    def process(self, key: object, rows: list[state.InputRow], ctx: state.KeyedContext) -> Iterable[object]:
        """Count the rows of a key."""
        counted = self.count.value()
        if counted is None:
            counted = 0
            ctx.timer_service.register_event_time_timer(_FAR_MS + hash(key) % 1000)
        counted += len(rows)
        self.count.update(counted)
        yield key, counted

    def on_timer(self, timestamp: int, ctx: state.KeyedContext) -> None:
        """Do nothing: the timers lie behind the end of the run."""


class VectorizedCount(state.VectorizedProcessFunction):
    """Counts rows per key with Arrow, and adds the counts of a batch to the state all at once."""

    def open(self, ctx: state.KeyedContext) -> None:
        """Declare the counter."""
        self.count = ctx.state(state.ReducingState("count", operator.add, int))

    def process_table(self, rows: pa.Table, ctx: state.KeyedContext) -> pa.Table:
        """Count the rows of a key group."""
        counts = rows.group_by("key").aggregate([([], "count_all")])
        totals = self.count.add_many(ctx.keys(counts), ctx.values(counts["count_all"]))  # type: ignore[arg-type]
        return pa.table({"key": counts["key"], "count": totals})


_FAR_MS = 10**15


def _session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("bench")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        f"{_STATE}.providerClass": _PROVIDER,
        f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
        f"{_STATE}.checkpointFormatVersion": "2",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _write_input(spark: SparkSession, folder: Path, *, rows: int, keys: int, batches: int) -> DataFrame:
    """Write one file per batch; return a stream that reads one per batch, in order."""
    for batch in range(batches):
        numbers = spark.range(batch * rows, (batch + 1) * rows, numPartitions=1)
        # A hash spreads keys like real ones: with as many keys as rows, 63% of them occur in a batch.
        one_batch = numbers.select(sql.expr(f"pmod(hash(id), {keys})").cast("bigint").alias("key"))
        one_batch.write.mode("append").parquet(str(folder))
    source = spark.readStream.schema("key bigint").option("maxFilesPerTrigger", 1)
    # Two readers, as on a real source: one file alone would be read by one core.
    return source.parquet(str(folder)).repartition(2)


def _ours(rows: DataFrame) -> DataFrame:
    return keyed.keyed_process(rows, key="key", function=Count(), uid="bench-count", schema="key bigint, count bigint")


def _expiring(rows: DataFrame) -> DataFrame:
    return keyed.keyed_process(
        rows, key="key", function=ExpiringCount(), uid="bench-ttl", schema="key bigint, count bigint"
    )


def _vectorized(rows: DataFrame) -> DataFrame:
    return keyed.keyed_process(
        rows, key="key", function=VectorizedCount(), uid="bench-vectorized", schema="key bigint, count bigint"
    )


def _timed(rows: DataFrame) -> DataFrame:
    timed = rows.withColumn("time", sql.timestamp_seconds(sql.lit(1_000_000_000))).withWatermark("time", "1 second")
    return keyed.keyed_process(
        timed.select("key"),
        key="key",
        function=TimedCount(),
        uid="bench-timers",
        schema="key bigint, count bigint",
        timers="event-time",
    )


def _jvm(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").count()


CONTENDERS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "groupBy.count (JVM)": _jvm,
    "keyed_process": _ours,
    "keyed_process, vectorized": _vectorized,
    "keyed_process, TTL": _expiring,
    "keyed_process, timers": _timed,
}


def _measure(query: DataFrame, folder: Path) -> tuple[list[float], list[int]]:
    """Run a query over all files; return the seconds of each batch, and a checksum of what each emitted."""
    sums: list[int] = []

    def add(batch: DataFrame, _: int) -> None:
        total = batch.select(sql.sum(sql.hash("key", "count").cast("bigint"))).first()
        if total is not None and total[0] is not None:  # a batch without rows fires timers
            sums.append(total[0])

    stream = query.writeStream.outputMode("update").foreachBatch(add).option("checkpointLocation", str(folder))
    running = stream.trigger(availableNow=True).start()
    running.awaitTermination()
    return [progress.batchDuration / 1000 for progress in running.recentProgress if progress.numInputRows], sums


def main(arguments: list[str] | None = None) -> int:
    """Measure, print a table, and fail when results differ."""
    parser = argparse.ArgumentParser(prog="bench.keyed_state", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="rows per batch")
    parser.add_argument("--keys", type=int, default=200_000, help="number of keys the rows are drawn from")
    parser.add_argument("--batches", type=int, default=8, help="batches per contender; the first two warm up")
    parser.add_argument("--json", type=Path, help="write the figures there")
    chosen = parser.parse_args(arguments)
    spark, checksums = _session(), []
    medians_s: dict[str, float] = {}
    batches_s: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "input"
        rows = _write_input(spark, files, rows=chosen.rows, keys=chosen.keys, batches=chosen.batches)
        for name, build in CONTENDERS.items():
            batches_s[name], sums = _measure(build(rows), Path(folder) / name)
            checksums.append(sums)
            medians_s[name] = round(statistics.median(batches_s[name][2:]), 3)
    spark.stop()
    equal = all(sums == checksums[0] for sums in checksums)
    print(f"{chosen.rows} rows per batch from {chosen.keys} keys, local[2], median of {chosen.batches - 2} batches")
    base_s = medians_s[next(iter(CONTENDERS))]
    for name, median_s in medians_s.items():
        print(f"{name:24} {median_s:7.2f} s  {chosen.rows / median_s:12,.0f} rows/s  {base_s / median_s:5.2f}x")
    if chosen.json:
        figures = {
            "rows": chosen.rows,
            "keys": chosen.keys,
            "equal": equal,
            "median_s": medians_s,
            "batches_s": batches_s,
        }
        chosen.json.write_text(json.dumps(figures, indent=2) + "\n")
    if not equal:
        print("The results differ.", file=sys.stderr)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
