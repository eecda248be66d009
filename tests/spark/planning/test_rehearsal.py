"""A rehearsal on real Spark: a query runs over rows of its own sources, or over none where a batch cannot read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest
import statefulspark as ss
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from statefulspark.planning import rehearsal, rehearsal_folder
from statefulspark.testing.stores import MemoryStore

pytestmark = pytest.mark.spark


class Streamed(DataSource):
    """A source that no batch can read."""

    @classmethod
    def name(cls) -> str:
        return "streamed"

    def schema(self) -> str:
        return "key string, number bigint"

    def simpleStreamReader(self, schema: object) -> SimpleDataSourceStreamReader:  # noqa: N802 - Spark's name
        raise AssertionError("a rehearsal has opened a source")


def _seen_in(folder: Path, frame: DataFrame) -> DataFrame:
    """Return the frame with a file in a folder for each partition that a Python worker reads, named by its rows."""

    def note(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        kept = list(frames)
        (folder / str(sum(map(len, kept)))).touch()
        yield from kept

    return frame.mapInPandas(note, frame.schema)


def _rows(folder: Path) -> list[int]:
    return sorted(int(file.name) for file in folder.iterdir())


def _here(spark: SparkSession) -> AbstractContextManager[rehearsal_folder.RehearsalFolder]:
    return rehearsal_folder.on_this_machine(spark, MemoryStore())


@pytest.fixture
def noted(tmp_path: Path) -> Path:
    folder = tmp_path / "noted"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("source", ["rate", "rate-micro-batch"])
def test_a_query_on_a_source_that_counts_runs_over_rows(spark: SparkSession, noted: Path, source: str) -> None:
    options = {"rowsPerBatch": 5} if source == "rate-micro-batch" else {}
    rows = spark.readStream.format(source).options(**options).load()

    outcome = rehearsal.rehearse(_seen_in(noted, rows), "append", _here(spark), stops=lambda: False)

    assert (outcome, _rows(noted)) == (rehearsal.RehearsalOutcome(has_run=True), [rehearsal.SAMPLE_ROWS])


def test_a_query_on_a_source_that_no_batch_can_read_runs_over_no_rows(spark: SparkSession, noted: Path) -> None:
    spark.dataSource.register(Streamed)
    rows = spark.readStream.format("streamed").load()
    counts = _seen_in(noted, rows).groupBy("key").count()

    outcome = rehearsal.rehearse(counts, "update", _here(spark), stops=lambda: False)

    assert (outcome, _rows(noted)) == (rehearsal.RehearsalOutcome(has_run=True, has_rows=False), [0])


def test_a_query_that_joins_a_source_with_rows_and_one_without_has_not_seen_its_rows(
    spark: SparkSession, noted: Path
) -> None:
    spark.dataSource.register(Streamed)
    counted = spark.readStream.format("rate").load().selectExpr("value AS number")
    rows = spark.readStream.format("streamed").load().join(counted, "number")

    outcome = rehearsal.rehearse(_seen_in(noted, rows), "append", _here(spark), stops=lambda: False)

    assert (outcome.has_run, outcome.has_rows) == (True, False), outcome


def test_a_function_that_raises_is_reported_with_its_line(spark: SparkSession) -> None:
    def fail(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        raise ValueError("bad version")

    rows = spark.readStream.format("rate").load().mapInPandas(fail, "value bigint")

    outcome = rehearsal.rehearse(rows, "append", _here(spark), stops=lambda: False)

    assert (outcome.has_run, outcome.has_rows) == (False, True)
    assert "bad version" in (outcome.failure or "")


def test_a_rehearsal_ends_when_it_is_told_to(spark: SparkSession, noted: Path) -> None:
    rows = spark.readStream.format("rate").load()

    outcome = rehearsal.rehearse(_seen_in(noted, rows), "append", _here(spark), stops=lambda: True)

    assert (outcome, _rows(noted)) == (rehearsal.RehearsalOutcome(), [])


class _Waiting(ss.KeyedProcessFunction):
    """Sets a timer for each key, a day from now."""

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterable[object]:
        ctx.timers.set(ctx.processing_time + timedelta(days=1))
        yield (key,)


def test_a_query_with_timers_by_the_clock_ends_when_its_rows_have_been_processed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark runs one batch after the other where there may be such timers, so the query does not end by itself."""
    monkeypatch.setattr(rehearsal, "LIMIT_S", 600.0)
    rows = spark.readStream.format("rate").load()
    waiting = ss.keyed_process(
        rows, key="value", function=_Waiting(), timers="processing-time", uid="waiting", schema="key bigint"
    )

    outcome = rehearsal.rehearse(waiting, "append", _here(spark), stops=lambda: False)

    assert outcome == rehearsal.RehearsalOutcome(has_run=True)


class _Telling(ss.KeyedProcessFunction):
    """Leaves a file that says whether it runs in a rehearsal, by its context and by the property of its task."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterable[object]:
        task = TaskContext.get()
        assert task is not None
        (self.folder / f"{ctx.is_rehearsal} {task.getLocalProperty('statefulspark.rehearsal')}").touch()
        yield (key,)


def test_a_function_knows_a_rehearsal_from_a_batch_that_counts(
    spark: SparkSession, noted: Path, tmp_path: Path
) -> None:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    telling = ss.keyed_process(rows, key="value", function=_Telling(noted), uid="telling", schema="key bigint")

    outcome = rehearsal.rehearse(telling, "update", _here(spark), stops=lambda: False)
    in_rehearsal = [file.name for file in noted.iterdir()]
    (noted / "True true").unlink(missing_ok=True)
    query = (
        telling.writeStream.outputMode("update")
        .foreachBatch(lambda frame, _: frame.collect() and None)
        .option("checkpointLocation", str(tmp_path / "counts"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)

    assert (outcome.has_run, in_rehearsal) == (True, ["True true"])
    assert [file.name for file in noted.iterdir()] == ["False None"]
