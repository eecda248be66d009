"""Sinks of Spark's own, when a job goes back: no row is left out, whatever batches they had counted before."""

from __future__ import annotations

import functools
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession
from restores import a_restore
from statefulspark import clock
from statefulspark.contract import api, config
from statefulspark.driver.loop import JobLoop
from statefulspark.driver.starting import claim, start
from statefulspark.driver.status import Ending
from statefulspark.operators.keyed import cleaning

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = pytest.mark.spark

FILES, ROWS, BEFORE, FASTER = 60, 10, 5, 20
"""Files, rows of each, files that the first life reads, and files of a batch after the job has gone back."""
LAST = 12
"""The last batch before the job goes back; Spark compacts the log of a folder with each tenth."""
WARNING = "rows that a sink of spark's own has of later batches may be written again"


class Count(ss.KeyedProcessFunction[int]):
    """Counts the rows of each key."""

    def open(self, ctx: ss.KeyedContext[int]) -> None:
        self.count = ctx.value_state("count", int)

    def process(self, key: int, rows: Sequence[Any], ctx: ss.KeyedContext[int]) -> Iterator[tuple[int, int]]:
        count = (self.count.get() or 0) + len(rows)
        self.count.update(count)
        yield key, count


class World:
    """A job that copies numbers, one file a batch, into sinks of Spark's own: a query for each."""

    def __init__(self, spark: SparkSession, folder: Path, sinks: Sequence[str] = ("parquet", "foreachBatch")) -> None:
        self.spark, self.folder, self.sinks = spark, folder, sinks
        self.files_per_batch, self.name, self.root = 1, "copies", "state"
        self.savepoints: list[str] = []
        self.table: dict[int, list[int]] = {}
        self.counts: dict[int, int] = {}
        (folder / "in").mkdir()

    def feed(self, files: range) -> None:
        for number in files:
            rows = "\n".join(json.dumps({"n": number * ROWS + row}) for row in range(ROWS))
            file = self.folder / "in" / f"{number:03}.json"
            file.write_text(rows)
            os.utime(file, (1_600_000_000 + number,) * 2)

    def job(self) -> ss.Job:
        job = ss.Job(self.name)
        for sink in self.sinks:
            job.query(uid=sink.lower())(functools.partial(self.copied, sink))
        return job

    def copied(self, sink: str, spark: SparkSession, ctx: ss.QueryContext) -> DataStreamWriter:
        rows = spark.readStream.schema("n bigint").option("maxFilesPerTrigger", self.files_per_batch)
        if sink == "counts":
            keyed = rows.json(str(self.folder / "in")).selectExpr(f"n % {ROWS} AS key")
            counted = ss.keyed_process(
                keyed, key="key", function=Count(), uid="count", schema="key bigint, count bigint"
            )
            return counted.writeStream.outputMode("update").foreachBatch(self.note_with_other_settings)
        writer = rows.json(str(self.folder / "in")).writeStream
        if sink == "foreachBatch":
            return writer.foreachBatch(self.write_once)
        return writer.format(sink).option("path", str(self.folder / sink))

    def write_once(self, rows: DataFrame, batch: int) -> None:
        """Write as Spark's documentation says: a batch whose number the table has is left out."""
        if batch <= max(self.table, default=-1):
            return
        self.table[batch] = [row.n for row in rows.collect()]

    def note_with_other_settings(self, rows: DataFrame, batch: int) -> None:
        """Change the number of partitions before the batch is used, as a person does who wants fewer output files."""
        rows.sparkSession.conf.set("spark.sql.shuffle.partitions", str(3 + batch % 2))
        self.counts |= {row.key: row["count"] for row in rows.collect()}

    def live(self, last: int, restore: config.RestoreConfig | None = None) -> None:
        """Run until a batch is committed, and stop with a savepoint in the job's own root."""
        ending = self.run(last, restore)
        assert ending.is_clean, ending
        assert ending.snapshot is not None
        self.savepoints.append(ending.snapshot.location)

    def run(self, last: int, restore: config.RestoreConfig | None = None) -> Ending:
        """Run until a batch is committed, or the job fails."""
        job_config = config.JobConfig(
            name=self.name,
            storage=config.StorageConfig(uri=(self.folder / self.root).as_uri(), allow_local_files=True),
            checkpoint=config.CheckpointConfig(interval=timedelta(days=30)),
            restore=restore or config.RestoreConfig(),
        )
        started_at = clock.utc_now()
        ended = threading.Event()

        def stop_after_last(loop: JobLoop) -> None:
            while any(query.batch_id < last for query in loop.status().queries):
                if ended.wait(0.05):
                    return
            loop.request_stop(api.StopRequest(request_id="stop", name="stopped"))

        def serve(loop: JobLoop, _: config.JobConfig) -> Ending:
            threading.Thread(target=stop_after_last, args=(loop,), daemon=True).start()
            try:
                return loop.run()
            finally:
                ended.set()

        compared = start.up_to_comparison(
            self.job().definition,
            job_config,
            lambda: claim.claim(job_config, started_at),
            session_of=lambda *_: self.spark,
        )
        return start.start(start.prepare(job_config, compared, started_at), serve)

    def written(self) -> dict[str, Counter[int]]:
        """Return how often each sink has each number."""
        return {sink: self.written_to(sink) for sink in self.sinks}

    def each(self, rows: Counter[int]) -> dict[str, Counter[int]]:
        """Return the same of each sink."""
        return dict.fromkeys(self.sinks, rows)

    def written_to(self, sink: str) -> Counter[int]:
        if sink == "foreachBatch":
            return Counter(number for numbers in self.table.values() for number in numbers)
        rows = self.spark.read.format(sink).schema("n bigint").load(str(self.folder / sink))
        return Counter(row.n for row in rows.collect())

    def copy_root(self) -> None:
        """Copy the state as any tool would; the job of the copy is another one in front of the same sinks."""
        shutil.copytree(self.folder / "state", self.folder / "copy")

    def lose_sinks(self) -> None:
        """Delete the folders and the table, with what they know of batches."""
        self.table.clear()
        for sink in self.sinks:
            shutil.rmtree(self.folder / sink, ignore_errors=True)

    def two_lives(self) -> None:
        """Live to a savepoint, of which a copy of the root is made, and go further."""
        self.feed(range(BEFORE))
        self.live(BEFORE - 1)
        self.copy_root()
        self.feed(range(BEFORE, LAST + 1))
        self.live(LAST)
        assert self.written() == self.each(Counter(range((LAST + 1) * ROWS)))


BACK = {
    "the savepoint of the stop": LAST + 3,
    "the savepoint of the stop, without the sinks": LAST + 3,
    "an older savepoint": 4 + 3,
    "empty state": 2,
    "a savepoint of another root": 4 + 3,
    "a copy of the root": 4 + 3,
}
"""Where the job goes on from, and the last batch that it comes to then. The rest of the ways to begin differ in nothing that
Spark decides: see the unit tests."""


def wish(world: World, back: str) -> config.RestoreConfig:
    """Return what the start is asked for; set the world up for it."""
    if back == "a copy of the root":
        world.root = "copy"
        return config.RestoreConfig()
    if back == "a savepoint of another root":
        world.name = "renamed"
    if back.endswith("without the sinks"):
        world.lose_sinks()
    if back == "empty state":
        return a_restore(empty=True)
    return a_restore(snapshot=world.savepoints[1 if "of the stop" in back else 0])


@pytest.mark.parametrize("back", BACK)
def test_a_job_that_goes_back_leaves_no_row_out(
    spark: SparkSession, tmp_path: Path, back: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(spark, tmp_path)
    world.two_lives()
    world.feed(range(LAST + 1, FILES))
    world.files_per_batch = FASTER
    restore = wish(world, back)
    caplog.clear()
    last = BACK[back]

    world.live(last, restore)

    warned = {record.query for record in caplog.records if record.getMessage() == WARNING}  # type: ignore[attr-defined]
    goes_on = "of the stop" in back
    assert warned == (set() if goes_on else {sink.lower() for sink in world.sinks})
    before = 0 if back == "empty state" else BEFORE
    again = Counter() if goes_on else Counter(range(before * ROWS, (LAST + 1) * ROWS))
    first = LAST + 1 if back.endswith("without the sinks") else 0
    assert world.written() == world.each(Counter(range(first * ROWS, FILES * ROWS)) + again)


def test_a_job_whose_folder_of_files_another_one_has_taken_fails_and_leaves_no_batch_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = World(spark, tmp_path, ["parquet"])
    world.two_lives()
    world.root = "copy"
    world.live(LAST)
    world.root = "state"
    world.feed(range(LAST + 1, LAST + 2))

    refused = world.run(LAST + 1)

    assert "another query has begun to write there" in refused.message
    everything = Counter(range((LAST + 1) * ROWS)) + Counter(range(BEFORE * ROWS, (LAST + 1) * ROWS))
    assert world.written() == {"parquet": everything}


def test_a_function_of_foreach_batch_that_changes_the_number_of_partitions_finds_all_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = World(spark, tmp_path, ["counts"])
    world.feed(range(BEFORE))
    world.live(BEFORE - 1)
    world.feed(range(BEFORE, LAST))

    world.live(LAST - 1)

    assert world.counts == dict.fromkeys(range(ROWS), LAST)
    told = spark.sparkContext.getLocalProperty(cleaning.PARTITIONS_PROPERTY)
    assert told is None, "what else this thread starts has a number of its own"
