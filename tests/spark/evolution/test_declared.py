"""What an operator was declared with, as Spark's own plan tells it; nothing is run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from statefulspark.planning import declared, probe

pytestmark = pytest.mark.spark


def _tumbling(rows: DataFrame) -> DataFrame:
    return rows.groupBy(sql.window("timestamp", "5 minutes"), "value").agg(sql.sum("value"), sql.count("*"))


def _sliding(rows: DataFrame) -> DataFrame:
    return rows.groupBy(sql.window("timestamp", "10 minutes", "3 minutes", "1 minute")).agg(sql.max("value"))


def _sessions(rows: DataFrame) -> DataFrame:
    return rows.groupBy(sql.session_window("timestamp", "7 minutes"), "value").count()


def _plain(rows: DataFrame) -> DataFrame:
    return rows.groupBy((sql.col("value") % 3).alias("rest")).agg(sql.avg("value"))


def _lists(rows: DataFrame) -> DataFrame:
    return rows.groupBy("value").agg(sql.collect_set("timestamp"))


def _joined(rows: DataFrame) -> DataFrame:
    other = rows.sparkSession.readStream.format("rate").load().withColumnsRenamed({"value": "v2", "timestamp": "t2"})
    condition = sql.expr("value = v2 and t2 < timestamp + interval 5 minutes")
    return rows.join(other.withWatermark("t2", "1 minute"), condition, "leftOuter")


def _distinct(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicatesWithinWatermark(["value"])


_LATE = "timestamp 10 minutes"


@pytest.mark.parametrize(
    ("build", "mode", "definition"),
    [
        (
            _tumbling,
            "append",
            {"functions": "sum, count", "window": "300 s", "columns": "window, value", "watermark": _LATE},
        ),
        (
            _sliding,
            "append",
            {"functions": "max", "window": "600 s every 180 s from 60 s", "columns": "window", "watermark": _LATE},
        ),
        (_sessions, "append", {"functions": "count", "gap": "7 minutes", "columns": "value", "watermark": _LATE}),
        (_plain, "update", {"functions": "avg", "columns": "_groupingexpression", "watermark": _LATE}),
        (_lists, "update", {"functions": "collect_set", "columns": "value", "watermark": _LATE}),
        (
            _joined,
            "append",
            {
                "joinType": "LeftOuter",
                "columns": "value = v2",
                "condition": "(t2 < timestamp + INTERVAL '05' MINUTE)",
                "watermark": "t2 1 minutes, timestamp 10 minutes",
            },
        ),
        (_distinct, "append", {"columns": "value", "watermark": _LATE}),
    ],
    ids=lambda one: one.__name__.strip("_") if callable(one) else None,
)
def test_a_plan_tells_what_an_operator_was_declared_with(
    spark: SparkSession, build: Callable[[DataFrame], DataFrame], mode: str, definition: dict[str, str]
) -> None:
    rows = spark.readStream.format("rate").load().withWatermark("timestamp", "10 minutes")

    (operator,) = probe.plan(build(rows), mode).operators

    assert operator.definition == definition
    assert probe.plan(build(rows), mode).operators == (operator,), "the same query has the same definition"


def test_what_is_no_window_is_not_taken_for_one() -> None:
    assert declared.window_text("(value#1L % 3) AS rest#2L") is None
    assert declared.gap_text("cast(timestamp#0 + 7 minutes as timestamp) AS later#3") is None
