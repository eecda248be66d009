"""A query that Spark cannot run as a stream is refused while it is planned, by `run --check` too."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from statefulspark import errors
from statefulspark.operators import spark_errors
from statefulspark.planning import carry, describe

pytestmark = pytest.mark.spark


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load()


def _describe(frame: DataFrame, mode: str) -> None:
    with spark_errors.refusing_plan("counts"):
        describe.describe("counts", carry.Stream(frame, mode), (), partitions=2)


def test_an_aggregation_without_watermark_cannot_be_appended(rows: DataFrame) -> None:
    with pytest.raises(errors.SpecRejectedError, match=r"'counts'.*append") as refused:
        _describe(rows.groupBy("value").count(), "append")

    assert refused.value.reason == "QueryInvalid"


def test_a_stream_cannot_be_sorted_before_it_is_aggregated(rows: DataFrame) -> None:
    with pytest.raises(errors.SpecRejectedError, match=r"(?i)sort"):
        _describe(rows.orderBy("value"), "append")


def test_a_user_who_has_switched_the_check_off_is_believed(rows: DataFrame) -> None:
    name = "spark.sql.streaming.unsupportedOperationCheck"
    rows.sparkSession.conf.set(name, "false")
    try:
        _describe(rows.groupBy(sql.window("timestamp", "1 minute")).count(), "append")
    finally:
        rows.sparkSession.conf.unset(name)
