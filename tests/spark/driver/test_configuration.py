"""A running driver takes another configuration of checkpoints, and uses it without a restart."""

from __future__ import annotations

from pathlib import Path

import driverprocess
import pytest

pytestmark = pytest.mark.spark

JOB = """
import statefulspark as ss

job = ss.Job("ticks")


@job.query(uid="ticks")
def ticks(spark, ctx):
    return ss.write(spark.readStream.format("rate").load(), sink=ss.sinks.FilesSink(ctx.parameter("output")), uid="out")


job.run()
"""


def completed(driver: driverprocess.Driver) -> int:
    counts = driver.status.checkpoints
    assert counts is not None
    return counts.completed


def test_checkpoints_follow_a_new_interval_and_only_so_many_stay(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (job := tmp_path / "ticks.py").write_text(JOB)
    driver = driverprocess.Driver(
        job,
        state.as_uri(),
        tmp_path / "driver.log",
        *("--allow-local-files", "--checkpoint-interval", "1h", "--parameter", f"output={(tmp_path / 'out').as_uri()}"),
    )
    try:
        driver.start()
        driver.until(lambda: driver.is_up, "it is up")
        before = completed(driver)

        wanted = {"interval": "500ms", "retention": {"count": 2}, "pruneDelay": "0s"}
        code, told = driver.ask("PUT", "/v1/config/checkpoint", wanted)

        assert code == 200, told
        kept = lambda: driver.ask("GET", "/v1/config")[1]["checkpoint"]  # noqa: E731
        driver.until(lambda: kept() == told["checkpoint"], "the change counts from the next turn on")
        driver.until(lambda: completed(driver) > before + 4, "checkpoints are taken at the new interval")
        manifests = lambda: list(state.glob("*/*/checkpoints/*/_metadata.json"))  # noqa: E731
        driver.until(lambda: len(manifests()) <= 3, "two are retained, and the newest may be on its way")
    finally:
        driver.stop()
