"""A running driver takes another configuration of checkpoints, and uses it without a restart."""

from __future__ import annotations

import http.client
import json
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
TOKEN = "a-token"


def ask(driver: driverprocess.Driver, path: str, body: dict[str, object] | None = None) -> dict[str, object]:
    connection = http.client.HTTPConnection("127.0.0.1", driver.port, timeout=30)
    data = None if body is None else json.dumps(body)
    connection.request("PUT" if body else "GET", path, data, {"Authorization": f"Bearer {TOKEN}"})
    response = connection.getresponse()
    told: dict[str, object] = json.loads(response.read())
    connection.close()
    assert response.status == 200, told
    return told


def completed(driver: driverprocess.Driver) -> int:
    counts = ask(driver, "/v1/status")["checkpoints"]
    assert isinstance(counts, dict)
    return int(counts["completed"])


def test_checkpoints_follow_a_new_interval_and_only_so_many_stay(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (job := tmp_path / "ticks.py").write_text(JOB)
    driver = driverprocess.Driver(
        job,
        state.as_uri(),
        tmp_path / "driver.log",
        *("--allow-local-files", "--checkpoint-interval", "1h", "--parameter", f"output={(tmp_path / 'out').as_uri()}"),
        environment={"STATEFULSPARK_TOKEN": TOKEN},
    )
    try:
        driver.start()
        driver.until(lambda: driver.is_up, "it is up")
        before = completed(driver)

        told = ask(
            driver, "/v1/config/checkpoint", {"interval": "500ms", "retention": {"count": 2}, "pruneDelay": "0s"}
        )

        assert told["checkpoint"] == ask(driver, "/v1/config")["checkpoint"]
        driver.until(lambda: completed(driver) > before + 4, "checkpoints are taken at the new interval")
        manifests = lambda: list(state.glob("*/*/checkpoints/*/_metadata.json"))  # noqa: E731
        driver.until(lambda: len(manifests()) <= 3, "two are retained, and the newest may be on its way")
    finally:
        driver.stop()
