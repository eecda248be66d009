"""A stop that drains, in whole drivers: all is read, every timer fires and every window closes, once (A.97, A.163)."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from statefulspark import storage
from statefulspark.contract.manifest import Manifest
from statefulspark.sinks import files_commits

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("drained_job.py")
FAR_MS = 3_600_000  # as in drained_job.py
NUMBERS = 50
STOPPED, DRAINED = 11, 10
PATIENCE_S = 240.0
_END = "watermarkBeforeTheEnd"


class World:
    """One job on local storage: its input, its drivers one after the other, its output."""

    def __init__(self, folder: Path) -> None:
        self.input, self.state, self.output = folder / "input", folder / "state", folder / "out"
        self.input.mkdir()
        self._log = folder / "driver.log"
        self._fed = 0
        self._begun = 0
        self.started: list[subprocess.Popen[bytes]] = []
        self._env = {**os.environ, "STATEFULSPARK_TOKEN": "a-token", "SPARK_LOCAL_IP": "127.0.0.1"}

    def feed(self, *rows: tuple[str, int]) -> None:
        self._fed += 1
        keys, times = zip(*rows, strict=True)
        table = pa.table({"key": pa.array(keys, pa.string()), "at": pa.array(times, pa.int64())})
        part = self.input.parent / "part.parquet"
        parquet.write_table(table, part)
        os.utime(part, (1_600_000_000 + self._fed,) * 2)
        part.rename(self.input / f"{self._fed:04}.parquet")

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        self._begun = len(self.said)
        command = [sys.executable, "-m", "statefulspark.cli.main", "run", str(JOB), "--storage", self.state.as_uri()]
        command += ["--allow-local-files", "--checkpoint-interval", "1s", "--api-port", "0"]
        command += ["--parameter", f"input={self.input}", "--parameter", f"output={self.output.as_uri()}", *arguments]
        with self._log.open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=self._env, start_new_session=True)
        self.started.append(process)
        self.until(lambda: '"api listening"' in self.said[self._begun :], process)
        return process

    def stop(self, process: subprocess.Popen[bytes], *arguments: str) -> None:
        """Ask for a stop that drains, and leave it to the driver."""
        port = re.findall(r'"port": (\d+)', self.said[self._begun :])[-1]
        command = [sys.executable, "-m", "statefulspark.cli.main", "stop", "--drain", "--detach"]
        command += ["--url", f"http://127.0.0.1:{port}", *arguments]
        told = subprocess.run(command, capture_output=True, text=True, env=self._env, check=False)
        assert told.returncode == 0, f"{told.stderr} {self.said[-3000:]}"

    def ends(self, process: subprocess.Popen[bytes]) -> int:
        self.until(lambda: process.poll() is not None, process)
        return process.wait()

    def until(self, holds: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not holds() and process.poll() is None:
            assert time.monotonic() < deadline_s, self.said[-3000:]
            time.sleep(0.02)
        assert holds() or process.poll() is not None, self.said[-3000:]

    @property
    def said(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

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
    for process in made.started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def test_a_drained_job_has_read_everything_fired_every_timer_and_closed_every_window(world: World) -> None:
    """And a job that goes on from its savepoint all the same has its state, no fired timer, and the watermark of before."""
    for at in range(10_000, 50_000, 5_000):
        world.feed(("a", at), ("b", at + 1))
    first = world.start()
    world.until(lambda: len(world.rows("numbers")) == NUMBERS, first)
    world.stop(first, "--name", "the-end")
    assert world.ends(first) == STOPPED, world.said[-3000:]

    read = [row for row in world.rows("timers") if row[0] in ("row", "late")]
    assert sorted(read) == sorted(
        ("row", key, at + more, seen)
        for key, more in (("a", 0), ("b", 1))
        for seen, at in enumerate(range(10_000, 50_000, 5_000), start=1)
    )
    fired = [row for row in world.rows("timers") if row[0] in ("timer", "end")]
    assert sorted(fired) == sorted(
        [
            ("timer", key, at + more + FAR_MS, 8)
            for key, more in (("a", 0), ("b", 1))
            for at in range(10_000, 50_000, 5_000)
        ]
        + [("end", "a", -1, 8), ("end", "b", -1, 8)]
    )
    assert sorted(world.rows("windows")) == [(start, 4) for start in range(10_000, 50_000, 10_000)]
    assert sorted(world.rows("numbers")) == [(number,) for number in range(NUMBERS)]
    assert sorted(world.rows("alarms")) == [
        ("row", at + more) for at in range(10_000, 50_000, 5_000) for more in (0, 1)
    ]
    manifest = Manifest.parse(world.savepoint().read_bytes(), "savepoint")
    assert {query.batch_id for query in manifest.queries if query.uid == "timers"} == {max(world.entries("commits"))}

    before = len(world.rows("timers"))
    world.feed(("a", 60_000))
    second = world.start("--from", world.savepoint().parent.as_uri())
    world.until(lambda: len(world.rows("timers")) > before, second)
    second.send_signal(signal.SIGTERM)
    assert world.ends(second) == DRAINED, world.said[-3000:]
    assert world.rows("timers")[before:] == [("row", "a", 60_000, 9)]


def test_a_driver_that_dies_while_it_drains_fires_every_timer_once(world: World) -> None:
    """Killed when the batch that ends event time is planned, before or after it has run; the next driver goes on."""
    for at in (10_000, 20_000):
        world.feed(("a", at))
    first = world.start()
    world.until(lambda: len(world.rows("numbers")) == NUMBERS, first)
    world.stop(first)
    world.until(lambda: any(_END in str(entry) for entry in world.entries("offsets").values()), first)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()

    world.feed(("a", 30_000))
    second = world.start()
    world.until(lambda: ("row", "a", 30_000, 3) in world.rows("timers"), second)
    world.stop(second)
    assert world.ends(second) == STOPPED, world.said[-3000:]

    rows = world.rows("timers")
    assert [row for row in rows if row[0] == "late"] == []
    assert [row for row in rows if row[0] == "timer"] == [
        ("timer", "a", 10_000 + FAR_MS, 2),
        ("timer", "a", 20_000 + FAR_MS, 2),
        ("timer", "a", 30_000 + FAR_MS, 3),
    ]
    assert sorted(world.rows("numbers")) == [(number,) for number in range(NUMBERS)]
    assert sum(rows for _, rows in world.rows("windows")) == 3  # type: ignore[misc]
