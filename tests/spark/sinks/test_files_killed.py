"""Two files sinks of one query under a real driver that is killed between prepare and commit.

A reader of each sink sees each record once, always.
"""

from __future__ import annotations

import io
import signal
from collections.abc import Iterator
from pathlib import Path

import driverprocess
import pyarrow.parquet as parquet
import pytest
from statefulspark import storage
from statefulspark.checkpoint import catalog
from statefulspark.sinks.files import commits as files_commits

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("files_job.py")
ROWS = 20
KILLED, DRAINED = -signal.SIGKILL, 0
POINTS = ("recorded", "commit")
"""The two moments that need Spark: the transaction is recorded, and Spark has not committed; the checkpoint is complete, and
the commit file is not there. `tests/unit/sinks/test_files_crashes.py` dies at every write of all the others."""

SHOWING = ("recorded", "commit", "committed")
"""The same for a sink that shows each batch, and the moment after its commit."""


class Driver(driverprocess.Driver):
    """Starts of one job, one after the other, and a reader of its output."""

    def __init__(self, folder: Path, *, interval: str = "500ms", visible: str = "checkpoint") -> None:
        output = (folder / "out").as_uri()
        parameters = ("--parameter", f"output={output}", "--parameter", f"visible={visible}")
        flags = ("--allow-local-files", "--checkpoint-interval", interval, *parameters)
        super().__init__(JOB, (folder / "state").as_uri(), folder / "driver.log", *flags)
        options = storage.StorageOptions(allow_local_files=True)
        self._readers = {
            number: storage.open_store(output + beside, options) for number, beside in ((1, ""), (2, "-even"))
        }
        self._state = storage.open_store((folder / "state").as_uri(), options).child("default/files_job")

    def covered(self) -> int:
        """Return how many batches the completed checkpoints cover."""
        names = self._state.list_names("checkpoints")
        manifests = [catalog.read_manifest(self._state, f"checkpoints/{name.rstrip('/')}") for name in names]
        return max((query.batch_id + 1 for manifest in manifests for query in manifest.queries), default=0)

    def visible(self) -> list[list[int]]:
        """Return the values of each visible batch, in order, once those of the other sink are known to be right."""
        even = self._visible(2)
        assert even == expected(len(even), step=2)
        return self._visible(1)

    def _visible(self, step: int) -> list[list[int]]:
        return [
            sorted(value for file in commit.files for value in self._values(step, file.path))
            for commit in files_commits.read_commits(self._readers[step])
        ]

    def _values(self, step: int, path: str) -> list[int]:
        values: list[int] = parquet.read_table(io.BytesIO(self._readers[step].read(path)))["value"].to_pylist()
        return values


def expected(batches: int, step: int = 1) -> list[list[int]]:
    return [list(range(batch * ROWS, (batch + 1) * ROWS, step)) for batch in range(batches)]


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path)
    yield made
    made.stop()


def test_a48_killed_around_prepare_and_commit_each_record_is_read_once(driver: Driver) -> None:
    """A.47, A.101: between prepare, Spark's commit and the sink's, in one job that is killed each time."""
    seen = 0

    for point in POINTS:
        driver.start("--parameter", f"kill={point}:{seen + 2}")
        code = driver.ends()
        visible = driver.visible()
        assert (point, code, visible) == (point, KILLED, expected(len(visible))), driver.tail
        assert len(visible) >= seen, "what was visible stays visible"
        seen = len(visible)
    driver.start("--parameter", "kill=")
    driver.until(lambda: len(driver.visible()) >= seen + 3, "three more batches are visible")

    assert driver.drains() == DRAINED, driver.tail
    visible = driver.visible()
    assert len(visible) >= seen + 3
    assert visible == expected(len(visible))


def test_batches_are_seen_without_a_checkpoint_and_once_when_the_driver_is_killed_at_every_point(
    tmp_path: Path,
) -> None:
    """`visible="batch"`: between prepare, Spark's commit, the sink's, and what the driver notes of it."""
    driver = Driver(tmp_path, interval="1h", visible="batch")
    seen = 0

    try:
        for point in SHOWING:
            driver.start("--parameter", f"kill={point}:{seen + 3}")
            code = driver.ends()
            visible = driver.visible()
            assert (point, code, visible) == (point, KILLED, expected(len(visible))), driver.tail
            assert len(visible) > max(seen, driver.covered()), "they were seen before a checkpoint covered them"
            seen = len(visible)
        driver.start("--parameter", "kill=")
        driver.until(lambda: len(driver.visible()) >= seen + 3, "three more batches are visible")
        assert driver.drains() == DRAINED, driver.tail
    finally:
        driver.stop()
    visible = driver.visible()
    assert len(visible) >= seen + 3
    assert visible == expected(len(visible))
