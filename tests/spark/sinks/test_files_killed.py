"""The files sink under a real driver that is killed between prepare and commit: a reader sees each record once, always."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from statefulspark import storage
from statefulspark.sinks import files_commits

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("files_job.py")
ROWS = 20
KILLED, DRAINED = -signal.SIGKILL, 10
PATIENCE_S = 240.0
POINTS = ("recorded", "commit")
"""The two moments that need Spark: the transaction is recorded, and Spark has not committed; the checkpoint is complete, and
the commit file is not there. `tests/unit/sinks/test_files_crashes.py` dies at every write of all the others."""


class Driver:
    """Starts of one job, one after the other, and a reader of its output."""

    def __init__(self, folder: Path) -> None:
        self._storage = folder / "state"
        self._output = folder / "out"
        self._log = folder / "driver.log"
        self._reader = storage.open_store(self._output.as_uri(), storage.StorageOptions(allow_local_files=True))

    def start(self, kill: str = "") -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "statefulspark.cli.main", "run", str(JOB)]
        command += ["--storage", self._storage.as_uri(), "--allow-local-files", "--checkpoint-interval", "500ms"]
        command += ["--api-port", "0", "--parameter", f"output={self._output.as_uri()}", "--parameter", f"kill={kill}"]
        with self._log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def ends(self, process: subprocess.Popen[bytes]) -> int:
        try:
            return process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"did not end: {self.tail()}") from None

    def tail(self) -> str:
        return self._log.read_text()[-3000:]

    def visible(self) -> list[list[int]]:
        """Return the values of each visible batch, in order."""
        return [
            sorted(value for file in commit.files for value in self._values(file.path))
            for commit in files_commits.read_commits(self._reader)
        ]

    def _values(self, path: str) -> list[int]:
        values: list[int] = parquet.read_table(io.BytesIO(self._reader.read(path)))["value"].to_pylist()
        return values


def expected(batches: int) -> list[list[int]]:
    return [list(range(batch * ROWS, (batch + 1) * ROWS)) for batch in range(batches)]


def test_a48_killed_around_prepare_and_commit_each_record_is_read_once(tmp_path: Path) -> None:
    """A.47, A.101: between prepare, Spark's commit and the sink's, in one job that is killed each time."""
    driver = Driver(tmp_path)
    seen = 0

    for point in POINTS:
        code = driver.ends(driver.start(f"{point}:{seen + 2}"))
        visible = driver.visible()
        assert (point, code, visible) == (point, KILLED, expected(len(visible))), driver.tail()
        assert len(visible) >= seen, "what was visible stays visible"
        seen = len(visible)
    last = driver.start()
    deadline_s = time.monotonic() + PATIENCE_S
    while len(driver.visible()) < seen + 3 and last.poll() is None and time.monotonic() < deadline_s:
        time.sleep(0.2)
    last.send_signal(signal.SIGTERM)

    assert driver.ends(last) == DRAINED, driver.tail()
    visible = driver.visible()
    assert len(visible) >= seen + 3
    assert visible == expected(len(visible))
