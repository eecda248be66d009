"""A query waits for its trigger's interval at most, whatever happens to the machine's clock."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from statefulspark.engine import jvm
from statefulspark.engine import session as spark_session

pytestmark = pytest.mark.spark

AN_HOUR_MS = 3_600_000


@pytest.fixture
def query(spark: SparkSession) -> Iterator[StreamingQuery]:
    """A query that waits for its second batch for as long as the test lasts."""
    rows = spark.readStream.format("rate").load()
    started = rows.writeStream.format("noop").trigger(processingTime="1 hour").start()
    yield jvm.install_steady_clock(spark, started)
    started.stop()


def clock_of(query: StreamingQuery) -> str:
    executor = query._jsq.streamingQuery().triggerExecutor()
    return str(executor.clock().getClass().getSimpleName()) if executor is not None else ""


def until_it_is_steady(query: StreamingQuery) -> None:
    while clock_of(query) != "SteadyClock":
        assert query.isActive
        time.sleep(0.05)


def test_a_clock_that_was_set_back_by_an_hour_holds_a_trigger_up_for_its_interval_only(spark: SparkSession) -> None:
    """The time that it waits for was computed before that; with Spark's clock this call takes the hour."""
    clock = spark_session.jvm_view(spark).io.statefulspark.trigger.SteadyClock(50)
    target_ms = clock.getTimeMillis() + AN_HOUR_MS

    assert clock.waitTillTime(target_ms) < target_ms


def test_a_trigger_waits_until_its_time(spark: SparkSession) -> None:
    clock = spark_session.jvm_view(spark).io.statefulspark.trigger.SteadyClock(AN_HOUR_MS)
    target_ms = clock.getTimeMillis() + 100

    assert clock.waitTillTime(target_ms) >= target_ms
    assert clock.waitTillTime(target_ms - 1000) >= target_ms


def test_a_query_that_was_started_gets_it_and_stops_without_an_error(query: StreamingQuery) -> None:
    until_it_is_steady(query)
    while not query.recentProgress:  # then it waits
        time.sleep(0.05)

    query.stop()

    assert query.exception() is None


def test_a_query_that_ends_by_itself_keeps_its_own(spark: SparkSession) -> None:
    rows = spark.readStream.format("rate").load()

    query = jvm.install_steady_clock(spark, rows.writeStream.format("noop").trigger(availableNow=True).start())

    query.awaitTermination()
    assert query.exception() is None
