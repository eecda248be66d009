"""What Spark writes into the folder of a rehearsal after its end, and that it does not stay."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import streams
from puttingoff import PutOff
from pyspark.sql import SparkSession
from statefulspark.engine import session, settings
from statefulspark.planning import rehearsal, rehearsal_folder
from statefulspark.testing.stores import MemoryStore

pytestmark = pytest.mark.spark


def _maintain(spark: SparkSession) -> None:
    """Have all state stores do what they do when their interval is over; Spark does that in threads of its own."""
    jvm = session.jvm_view(spark)
    stores = jvm.java.lang.Class.forName("org.apache.spark.sql.execution.streaming.state.StateStore$")
    none = jvm.java.util.ArrayList().toArray()
    (maintain,) = (
        method
        for method in stores.getDeclaredMethods()
        if method.getName() == "doMaintenance" and method.getParameterCount() == 0
    )
    maintain.setAccessible(True)
    maintain.invoke(stores.getField("MODULE$").get(None), none)


def test_what_spark_uploads_after_a_rehearsal_is_removed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_off = PutOff.instead_of_timers(monkeypatch)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    counts = spark.readStream.format("rate").load().groupBy("value").count()
    spark.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "1")
    try:
        within = rehearsal_folder.on_this_machine(spark, MemoryStore())
        outcome = rehearsal.rehearse(counts, "update", within, stops=lambda: False)
    finally:
        spark.conf.unset("spark.sql.streaming.stateStore.minDeltasForSnapshot")
    at_the_end = list(tmp_path.iterdir())

    _maintain(spark)
    streams.wait_until(lambda: any(tmp_path.rglob("*.zip")), "a snapshot after the rehearsal's end")
    put_off.do()

    assert (outcome, at_the_end, list(tmp_path.iterdir())) == (rehearsal.RehearsalOutcome(has_run=True), [], [])


def test_the_interval_of_maintenance_is_what_the_session_says(spark: SparkSession) -> None:
    spark.conf.set(settings.MAINTENANCE_INTERVAL, "1500ms")
    try:
        assert session.maintenance_interval_s(spark) == 1.5
    finally:
        spark.conf.unset(settings.MAINTENANCE_INTERVAL)
