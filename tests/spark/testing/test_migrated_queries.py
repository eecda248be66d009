"""A query of plain Spark and the same query here write the same rows, where neither says an output mode."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest
import statefulspark as ss
from pyspark import cloudpickle
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from statefulspark.testing import JobHarness

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
SCHEMA = "id int, time timestamp"
BATCHES = ([(1, 0), (1, 30), (2, 20)], [(1, 50), (2, 90), (2, 90)], [(3, 600)], [(4, 1200)])
"""By batch: the id of a row, and its second after noon."""
Apply = Callable[..., DataFrame]
Start = Callable[..., JobHarness]


def in_spark(grouped: GroupedData, *arguments: object) -> DataFrame:
    return grouped.applyInPandasWithState(*arguments)


def in_ours(grouped: GroupedData, *arguments: object) -> DataFrame:
    return ss.compat.apply_in_pandas_with_state(grouped, *arguments, uid="seen")


def windowed_count(rows: DataFrame, apply: Apply) -> DataFrame:
    counted = rows.withWatermark("time", "0 seconds").groupBy(sql.window("time", "1 minute"), "id").count()
    return counted.select("id", sql.unix_seconds("window.start").alias("start"), "count")


def deduplicated(rows: DataFrame, apply: Apply) -> DataFrame:
    return rows.withWatermark("time", "1 hour").dropDuplicatesWithinWatermark(["id"]).select("id")


def joined(rows: DataFrame, apply: Apply) -> DataFrame:
    left = rows.withWatermark("time", "1 minute")
    right = rows.select((sql.col("id") - 1).alias("before"), sql.col("time").alias("later")).withWatermark(
        "later", "1 minute"
    )
    return left.join(right, sql.expr("id = before AND later >= time AND later <= time + INTERVAL 2 MINUTES")).select(
        "id", sql.unix_seconds("time").alias("time"), sql.unix_seconds("later").alias("later")
    )


def count_rows(key: tuple[object, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    seen = (state.get[0] if state.exists else 0) + sum(map(len, frames))
    state.update((seen,))
    yield pd.DataFrame({"id": [key[0]], "seen": [seen]})


def with_group_state(rows: DataFrame, apply: Apply) -> DataFrame:
    return apply(rows.groupBy("id"), count_rows, "id int, seen int", "seen int", "append", GroupStateTimeout.NoTimeout)


def fed(spark: SparkSession, folder: Path) -> DataFrame:
    """Write a file for each batch, and return their stream."""
    for number, batch in enumerate(BATCHES):
        table = pd.DataFrame({"id": [i for i, _ in batch], "time": [NOON + timedelta(seconds=s) for _, s in batch]})
        frame = spark.createDataFrame(table, SCHEMA)
        frame.coalesce(1).write.parquet(str(folder / f"batch={number}"))
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{folder}/*")


@pytest.mark.parametrize("build", [windowed_count, deduplicated, joined, with_group_state])
def test_the_default_output_mode_is_sparks(
    build: Callable[[DataFrame, Apply], DataFrame], spark_session: SparkSession, job_harness: Start, tmp_path: Path
) -> None:
    rows = fed(spark_session, tmp_path / "input")
    plain = (
        build(rows, in_spark).writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    plain.trigger(availableNow=True).start(str(tmp_path / "output")).awaitTermination()
    job = ss.Job("migrated")

    @job.query(uid="query")
    def query(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
        source = ss.named_source(spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "input")), uid="rows")
        return ss.write(build(source, in_ours), sink=ss.sinks.FilesSink((tmp_path / "sink").as_uri()), uid="out")

    ours = job_harness(job)
    for batch in BATCHES:
        ours.add(*({"id": i, "time": NOON + timedelta(seconds=second)} for i, second in batch))
    ours.run()
    ours.checkpoint()

    expected = [row.asDict() for row in spark_session.read.parquet(str(tmp_path / "output")).collect()]
    assert sorted(map(str, ours.output("query"))) == sorted(map(str, expected))
    assert expected
