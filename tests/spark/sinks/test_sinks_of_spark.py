"""Sinks of Spark's own, when a job goes back: no row is left out, whatever batches they had counted before."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession
from statefulspark import clock
from statefulspark.contract import api, config
from statefulspark.driver.loop import JobLoop
from statefulspark.driver.snapshots.snapshot_writer import Ending
from statefulspark.driver.starting import claim, start

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = pytest.mark.spark

FILES, ROWS, BEFORE, FASTER = 60, 10, 5, 20
"""Files, rows of each, files that the first life reads, and files of a batch after the job has gone back."""


class World:
    """A job that copies numbers, one file a batch, into a sink of Spark's own."""

    def __init__(self, spark: SparkSession, folder: Path, sink: str) -> None:
        self.spark, self.folder, self.sink = spark, folder, sink
        self.files_per_batch, self.name = 1, "copies"
        self.savepoints: list[str] = []
        self.table: dict[int, list[int]] = {}
        (folder / "in").mkdir()

    def feed(self, files: range) -> None:
        for number in files:
            rows = "\n".join(json.dumps({"n": number * ROWS + row}) for row in range(ROWS))
            file = self.folder / "in" / f"{number:03}.json"
            file.write_text(rows)
            os.utime(file, (1_600_000_000 + number,) * 2)

    def job(self) -> ss.Job:
        job = ss.Job(self.name)

        @job.query(uid="copied")
        def copied(spark: SparkSession, ctx: ss.QueryContext) -> DataStreamWriter:
            rows = spark.readStream.schema("n bigint").option("maxFilesPerTrigger", self.files_per_batch)
            writer = rows.json(str(self.folder / "in")).writeStream
            if self.sink == "foreachBatch":
                return writer.foreachBatch(self.write_once)
            return writer.format(self.sink).option("path", str(self.folder / "out"))

        return job

    def write_once(self, rows: DataFrame, batch: int) -> None:
        """Write as Spark's documentation says: a batch whose number the table has is left out."""
        if batch <= max(self.table, default=-1):
            return
        self.table[batch] = [row.n for row in rows.collect()]

    def live(self, last: int, restore: config.RestoreConfig | None = None) -> None:
        """Run until a batch is committed, and stop with a savepoint in the job's own root."""
        job_config = config.JobConfig(
            name=self.name,
            storage=config.StorageConfig(uri=(self.folder / "state").as_uri(), allow_local_files=True),
            checkpoint=config.CheckpointConfig(interval=timedelta(days=30)),
            restore=restore or config.RestoreConfig(),
        )
        started_at = clock.utc_now()

        def stop_after_last(loop: JobLoop) -> None:
            while any(query.batch_id < last for query in loop.status().queries):
                time.sleep(0.05)
            loop.request_stop(api.StopRequest(request_id="stop", name="stopped"))

        def serve(loop: JobLoop, _: config.JobConfig) -> Ending:
            threading.Thread(target=stop_after_last, args=(loop,), daemon=True).start()
            return loop.run()

        compared = start.up_to_comparison(
            self.job().definition,
            job_config,
            lambda: claim.claim(job_config, started_at),
            session_of=lambda *_: self.spark,
        )
        ending = start.start(start.prepare(job_config, compared, started_at), serve)
        assert ending.is_clean, ending
        assert ending.snapshot is not None
        self.savepoints.append(ending.snapshot.location)

    def written(self) -> Counter[int]:
        """Return how often the sink has each number."""
        if self.sink == "foreachBatch":
            return Counter(number for numbers in self.table.values() for number in numbers)
        rows = self.spark.read.format(self.sink).schema("n bigint").load(str(self.folder / "out"))
        return Counter(row.n for row in rows.collect())


LAST = 20
"""The last batch before the job goes back."""
BACK = {
    "an older savepoint": 4 + 3,
    "an older savepoint, as a rollback": 4 + 3,
    "the savepoint of the stop": 20 + 2,
    "empty state": 2,
    "a savepoint of another root": 4 + 3,
}
"""Where the job goes on from, and the last batch that it comes to then, some files of which it has not read."""


@pytest.mark.parametrize("sink", ["parquet", "foreachBatch"])
@pytest.mark.parametrize("back", BACK)
def test_a_job_that_goes_back_leaves_no_row_out(spark: SparkSession, tmp_path: Path, back: str, sink: str) -> None:
    world = World(spark, tmp_path, sink)
    world.feed(range(BEFORE))
    world.live(BEFORE - 1)
    world.feed(range(BEFORE, LAST + 1))
    world.live(LAST)
    assert world.written() == Counter(range((LAST + 1) * ROWS))

    world.feed(range(LAST + 1, FILES))
    world.files_per_batch = FASTER
    if back == "a savepoint of another root":
        world.name = "renamed"
    snapshot = world.savepoints[1 if back == "the savepoint of the stop" else 0]
    identifier = "uid-rollback-2" if back.endswith("rollback") else None
    fresh = back == "empty state"
    wish = config.RestoreConfig(fresh=True) if fresh else config.RestoreConfig(snapshot=snapshot, id=identifier)
    world.live(BACK[back], wish)
    world.live(BACK[back], wish)

    written = world.written()
    assert set(written) == set(range(FILES * ROWS))
    again = range(0 if fresh else BEFORE * ROWS, (LAST + 1) * ROWS)
    if back == "the savepoint of the stop":
        again = range(0)
    assert {number for number, times in written.items() if times > 1} == set(again)
