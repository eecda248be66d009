"""A stop that drains, in whole drivers: all is read, every timer fires and every window closes, once (A.97, A.163)."""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import driverprocess
import pyarrow as pa
import pytest
from pyarrow import parquet
from statefulspark import storage
from statefulspark.contract import config
from statefulspark.contract.manifest import Manifest
from statefulspark.sinks.files import commits as files_commits

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("drained_job.py")
FAR_MS = 3_600_000  # as in drained_job.py
NUMBERS = 50
STOPPED = DRAINED = 0
_END = "watermarkBeforeTheEnd"


class World:
    """One job on local storage: its input, its drivers one after the other, its output."""

    def __init__(self, folder: Path) -> None:
        self.input, self.state, self.output = folder / "input", folder / "state", folder / "out"
        self.input.mkdir()
        self._fed = 0
        self.driver = driverprocess.Driver(
            JOB,
            self.state.as_uri(),
            folder / "driver.log",
            *("--allow-local-files", "--checkpoint-interval", "1s"),
            *("--parameter", f"input={self.input}", "--parameter", f"output={self.output.as_uri()}"),
        )

    def feed(self, *rows: tuple[str, int]) -> None:
        self._fed += 1
        keys, times = zip(*rows, strict=True)
        table = pa.table({"key": pa.array(keys, pa.string()), "at": pa.array(times, pa.int64())})
        part = self.input.parent / "part.parquet"
        parquet.write_table(table, part)
        os.utime(part, (1_600_000_000 + self._fed,) * 2)
        part.rename(self.input / f"{self._fed:04}.parquet")

    def start(self, *flags: str) -> None:
        self.driver.start(*flags)
        self.driver.until(lambda: self.driver.is_up, "it is up")

    def stop(self, *arguments: str) -> None:
        """Ask for a stop that drains, and leave it to the driver."""
        url = f"http://127.0.0.1:{self.driver.port}"
        command = [*driverprocess.COMMAND, "stop", "--drain", "--no-wait", "--url", url, *arguments]
        environment = {**os.environ, config.ENV_TOKEN: driverprocess.TOKEN}
        told = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert told.returncode == 0, f"{told.stderr} {self.driver.tail}"

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Return what is visible of a query, in the order of batches."""
        reader = storage.open_store(f"{self.output.as_uri()}/{query}", storage.StorageOptions(allow_local_files=True))
        tables = [
            parquet.read_table(io.BytesIO(reader.read(file.path)))
            for commit in files_commits.read_commits(reader)
            for file in commit.files
        ]
        return [tuple(row.values()) for table in tables for row in table.to_pylist()]

    def entries(self, log: str, query: str = "timers") -> dict[int, dict[str, object]]:
        """Return the metadata of every batch in a log of a query's newest generation."""
        folder = max(self.state.glob(f"*/*/generations/*/{query}")) / log
        return {int(path.name): json.loads(path.read_text().split("\n")[1]) for path in folder.glob("[0-9]*")}

    def savepoint(self) -> Path:
        return max(self.state.glob("*/*/savepoints/*/_metadata.json"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.driver.stop()


def test_a_drained_job_has_read_everything_fired_every_timer_and_closed_every_window(world: World) -> None:
    """Once, although the first driver that drains is killed when the batch that ends event time is planned.

    And a job that goes on from its savepoint all the same has its state, no fired timer, and the watermark of before.
    """
    for at in (10_000, 15_000):
        world.feed(("a", at), ("b", at + 1))
    world.start()
    world.driver.until(lambda: len(world.rows("numbers")) == NUMBERS, "every number is visible")
    world.stop()
    world.driver.until(
        lambda: any(_END in str(entry) for entry in world.entries("offsets").values()), "the end is planned"
    )
    world.driver.stop()
    for at in (20_000, 25_000):
        world.feed(("a", at), ("b", at + 1))
    world.start()
    world.driver.until(lambda: ("row", "a", 25_000, 4) in world.rows("timers"), "the new rows are visible")
    world.stop("--name", "the-end")
    assert world.driver.ends() == STOPPED, world.driver.tail

    times, both = range(10_000, 30_000, 5_000), (("a", 0), ("b", 1))
    rows = world.rows("timers")
    assert sorted(row for row in rows if row[0] in ("row", "late")) == sorted(
        ("row", key, at + more, seen) for key, more in both for seen, at in enumerate(times, start=1)
    )
    fired = [row for row in rows if row[0] == "timer"]
    assert sorted(row[:3] for row in fired) == sorted(
        ("timer", key, at + more + FAR_MS) for key, more in both for at in times
    )
    assert ("end", "a", -1, 4) in rows
    assert sum(counted for _, counted in world.rows("windows")) == 2 * len(times)  # type: ignore[misc]
    assert sorted(world.rows("numbers")) == [(number,) for number in range(NUMBERS)]
    assert sorted(world.rows("alarms")) == [("row", at + more) for at in times for more in (0, 1)]
    manifest = Manifest.parse(world.savepoint().read_bytes(), "savepoint")
    assert {query.batch_id for query in manifest.queries if query.uid == "timers"} == {max(world.entries("commits"))}

    world.feed(("a", 60_000))
    world.start("--restore-uri", world.savepoint().parent.as_uri())
    world.driver.until(lambda: len(world.rows("timers")) > len(rows), "the new row is visible")
    assert world.driver.drains() == DRAINED, world.driver.tail
    assert world.rows("timers")[len(rows) :] == [("row", "a", 60_000, 5)]
