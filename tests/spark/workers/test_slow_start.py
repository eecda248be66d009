"""Python processes that take longer to start than Spark waits for them, as on a busy node."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import driverprocess
import pytest
from pyarrow import parquet
from statefulspark import storage
from statefulspark.sinks.files import commits as files_commits

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("slow_job.py")
DRAINED = 0
LATE_S = 12  # Spark gives up after ten seconds.
_WRAPPER = """#!/bin/sh
# The first process of each kind that Spark starts on the driver is late.
for kind in transform_with_state_driver_worker python_streaming_source_runner; do
  case "$*" in *"$kind"*) mkdir "{folder}/$kind" 2>/dev/null && sleep {late} ;; esac
done
exec "{python}" "$@"
"""


def test_a_query_whose_python_processes_are_late_starts_all_the_same(tmp_path: Path) -> None:
    late = tmp_path / "late"
    late.mkdir()
    python = tmp_path / "python"
    python.write_text(_WRAPPER.format(folder=late, late=LATE_S, python=sys.executable))
    python.chmod(0o755)
    output = tmp_path / "out"
    driver = driverprocess.Driver(
        JOB,
        (tmp_path / "s").as_uri(),
        tmp_path / "driver.log",
        *("--allow-local-files", "--checkpoint-interval", "1s", "--parameter", f"output={output.as_uri()}"),
        environment={"PYSPARK_PYTHON": str(python)},
        patience_s=300,
    )

    try:
        driver.start()
        driver.until(lambda: sum(_seen(output).values()) >= 10, "every row is visible")
        code = driver.drains()
    finally:
        driver.stop()

    assert code == DRAINED, driver.tail
    assert _seen(output) == {0: 4, 1: 3, 2: 3}
    assert {path.name for path in late.iterdir()} == {
        "transform_with_state_driver_worker",
        "python_streaming_source_runner",
    }
    assert driver.output.count("a python worker was too slow, restarting the query") == 2


def _seen(output: Path) -> dict[int, int]:
    """Return the latest visible count of each key."""
    reader = storage.open_store(output.as_uri(), storage.StorageOptions(allow_local_files=True))
    seen: dict[int, int] = {}
    for commit in files_commits.read_commits(reader):
        for file in commit.files:
            for row in parquet.read_table(io.BytesIO(reader.read(file.path))).to_pylist():
                seen[row["key"]] = max(row["seen"], seen.get(row["key"], 0))
    return seen
