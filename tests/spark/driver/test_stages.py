"""What is told of a batch that takes long, on real Spark: its stage with the tasks, and without a stage Spark's word."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from statefulspark.driver.running import queries

pytestmark = pytest.mark.spark


def test_a_batch_that_waits_tells_its_stage_while_one_runs_and_then_what_spark_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("0\n")
    goes_on, has_collected = tmp_path / "goes on", threading.Event()
    ends = threading.Event()

    @sql.udf("int", useArrow=False)
    def wait(number: int) -> int:
        while not goes_on.exists():
            time.sleep(0.05)
        return number

    def collect(batch: DataFrame, _: int) -> None:
        batch.collect()
        has_collected.set()
        ends.wait(60)

    rows = spark.readStream.schema("number INT").csv(str(tmp_path / "in")).select(wait("number"))
    stream = rows.writeStream.foreachBatch(collect).option("checkpointLocation", (tmp_path / "checkpoint").as_uri())
    other = spark.sparkContext.statusTracker()
    query = stream.start()
    try:
        _until(lambda: bool(other.getActiveStageIds()))
        in_a_stage = queries.running_stage(query)
        goes_on.touch()
        assert has_collected.wait(60)
        _until(lambda: not other.getActiveStageIds())
        in_the_driver = queries.running_stage(query)
    finally:
        goes_on.touch()
        ends.set()
        query.stop()

    assert in_a_stage is not None
    assert in_a_stage.startswith("stage ")
    assert in_a_stage.endswith(", 0 of 1 tasks have ended")
    assert in_the_driver == "Processing new data"


def _until(is_so: Callable[[], bool], within_s: float = 60) -> None:
    ends_s = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < ends_s
        time.sleep(0.05)
