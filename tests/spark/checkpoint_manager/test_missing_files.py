"""Input files that were listed and then gone before their batch was read: they are counted, or they end the job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import streams
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from statefulspark import failures
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.engine import jvm

pytestmark = pytest.mark.spark
FILES, ROWS = 6, 10


class World:
    """A query that reads a file a batch, and waits after the first one until some files are deleted."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.input, self.root = folder / "input", f"file:{folder}/root"
        self.gate = jvm.Gate(spark)
        self.input.mkdir()
        for number in range(FILES):
            lines = "".join(f'{{"v": {number * ROWS + row}}}\n' for row in range(ROWS))
            (self.input / f"{number}.json").write_text(lines)

    def run(self, *missing: int, **options: str) -> StreamingQuery:
        """Run the query to its end without some of the files."""
        self.gate.register(self.root, last_offsets=-1, last_committed=-1)
        source = self.spark.readStream.schema("v long").options(maxFilesPerTrigger="1", **options)
        writer = source.json(str(self.input)).writeStream.format("json").option("checkpointLocation", self.root)
        query = writer.trigger(availableNow=True).start(str(self.folder / "output"))
        streams.wait_until(lambda: self.fact.last_committed >= 0, "the first file is read")
        self.gate.close(self.root)
        streams.wait_until(lambda: self.fact.at_boundary, "no batch runs")
        for number in missing:
            (self.input / f"{number}.json").unlink()
        self.gate.open(self.root)
        query.awaitTermination(120)
        return query

    @property
    def fact(self) -> jvm.GateFact:
        return self.gate.facts()[self.root]

    @property
    def rows(self) -> int:
        return self.spark.read.json(str(self.folder / "output")).count()


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    world = World(spark, tmp_path)
    yield world
    streams.gate(spark).unregister(world.root)


@pytest.mark.parametrize("options", [{}, {"ignoreMissingFiles": "true"}], ids=["by default", "by its word"])
def test_a_job_goes_on_without_them_and_they_are_counted(world: World, options: dict[str, str]) -> None:
    world.run(FILES - 2, FILES - 1, **options)

    assert world.rows == (FILES - 2) * ROWS
    assert world.fact.missing_files == 2
    assert world.fact.missing_file.endswith(f"/input/{FILES - 1}.json")


def test_nothing_is_counted_where_nothing_is_missing(world: World) -> None:
    world.run()

    assert world.rows == FILES * ROWS
    assert world.fact.missing_files == 0


def test_a_job_that_says_so_stops_before_a_batch_without_them_is_committed(world: World) -> None:
    with pytest.raises(StreamingQueryException) as ended:
        world.run(FILES - 1, ignoreMissingFiles="false")

    failure = failures.classify_query("clicks", str(ended.value), fenced=False)
    assert (failure.code, failure.reason) == (ExitCode.INPUT_LOST, "InputLost")
    assert f"/input/{FILES - 1}.json" in failure.message
    assert "ignoreMissingFiles=false" in failure.message
    assert world.fact.last_committed == FILES - 2


def test_the_setting_of_the_session_counts_like_the_option(world: World) -> None:
    world.spark.conf.set("spark.sql.files.ignoreMissingFiles", "false")
    try:
        with pytest.raises(StreamingQueryException, match="INPUT_FILES_GONE"):
            world.run(FILES - 1)
    finally:
        world.spark.conf.unset("spark.sql.files.ignoreMissingFiles")
