"""Python processes that take longer to start than Spark waits for them, as on a busy node."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyarrow import parquet
from statefulspark import storage
from statefulspark.sinks import files_commits

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("slow_job.py")
DRAINED = 10
LATE_S = 12  # Spark gives up after ten seconds.
PATIENCE_S = 300.0
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
    log, output = tmp_path / "driver.log", tmp_path / "out"
    command = [sys.executable, "-m", "statefulspark.cli.main", "run", str(JOB), "--storage", (tmp_path / "s").as_uri()]
    command += ["--allow-local-files", "--checkpoint-interval", "1s", "--api-port", "0"]
    command += ["--parameter", f"output={output.as_uri()}"]
    env = {**os.environ, "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}

    with log.open("wb") as said:
        driver = subprocess.Popen(command, stdout=said, stderr=said, env=env)
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while sum(_seen(output).values()) < 10 and driver.poll() is None and time.monotonic() < deadline_s:
            time.sleep(0.2)
        driver.send_signal(signal.SIGTERM)
        code = driver.wait(PATIENCE_S)
    finally:
        driver.kill()

    told = log.read_text()
    assert code == DRAINED, told[-3000:]
    assert _seen(output) == {0: 4, 1: 3, 2: 3}
    assert {path.name for path in late.iterdir()} == {
        "transform_with_state_driver_worker",
        "python_streaming_source_runner",
    }
    assert told.count("a python worker was too slow, starting the query again") == 2


def _seen(output: Path) -> dict[int, int]:
    """Return the latest visible count of each key."""
    reader = storage.open_store(output.as_uri(), storage.StorageOptions(allow_local_files=True))
    seen: dict[int, int] = {}
    for commit in files_commits.read_commits(reader):
        for file in commit.files:
            for row in parquet.read_table(io.BytesIO(reader.read(file.path))).to_pylist():
                seen[row["key"]] = max(row["seen"], seen.get(row["key"], 0))
    return seen
