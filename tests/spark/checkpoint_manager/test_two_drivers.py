"""Two live drivers on one checkpoint root: one ends with an error, and the other's sums are right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import s3server
import sparksession
import streams
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.s3]
_PROGRAM = Path(__file__).with_name("second_driver.py")
_SUPPORT = Path(sparksession.__file__).parent


def test_one_of_two_drivers_ends_with_an_error_and_no_row_is_lost_or_repeated(
    spark: SparkSession, s3: s3server.S3Server, s3_bucket: str
) -> None:
    root = f"s3a://{s3_bucket}/q"
    gate = streams.gate(spark)
    gate.register(root, -1, -1)
    first = streams.start_count(spark, root, name="first")
    streams.wait_until(lambda: gate.lastCommitted(root) >= 1, "the first driver has committed two batches")
    gate.close(root)  # until the second JVM is up, so that it starts quickly
    second = subprocess.Popen(
        [sys.executable, str(_PROGRAM), s3.endpoint, root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(_SUPPORT)},
    )
    try:
        assert second.stdout is not None
        assert second.stdout.readline() == "READY\n"
        gate.open(root)
        streams.wait_until(lambda: not first.isActive or second.poll() is not None, "one of the two ends")
        # The other one goes on alone; it is the only one left that writes.
        said = _stop(second, first.isActive)
    finally:
        second.kill()
        second.wait(10)

    if said.startswith("ENDED"):
        assert "Multiple streaming queries are concurrently using" in said or "Concurrent update" in said, said
        committed = gate.lastCommitted(root)
        streams.wait_until(lambda: gate.lastCommitted(root) >= committed + 2, "the first driver goes on")
        gate.close(root)
        assert gate.awaitBoundary(root, 30_000)
        first.stop()
        committed, rows = gate.lastCommitted(root), streams.counted_rows(spark, "first")
    else:
        error = str(first.exception())
        assert "Multiple streaming queries are concurrently using" in error or "Concurrent update" in error, error
        _, committed, rows = (said.split()[0], *map(int, said.split()[1:]))
    gate.unregister(root)
    assert rows == streams.ROWS_PER_BATCH * (committed + 1)


def _stop(second: subprocess.Popen[str], first_survives: bool) -> str:
    """Return the second driver's last words."""
    output, _ = second.communicate(input=None if first_survives else "stop\n", timeout=240)
    return output.strip().splitlines()[-1]
