"""A job without trouble logs a few lines, all of one form: a start, timers by the clock, a rehearsal beside it, a drain."""

from __future__ import annotations

import http.client
import json
import re
from pathlib import Path

import driverprocess
import pytest
from statefulspark.contract import api

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("quiet_job.py")
MOST_LINES = 20
"""Of a start, a rehearsal and an end, beside one for each checkpoint."""
PRINTED = re.compile(
    r"WARNING: Using incubator modules|Picked up JAVA_TOOL_OPTIONS|\[.*\[warning\]\[cds|"
    r"(Starting )?Streaming TransformWithStateInPandas Python worker|$"
)
"""What the JVM and Spark's Python workers print without a logger, at every start."""


def status(driver: driverprocess.Driver) -> api.JobStatus:
    connection = http.client.HTTPConnection("127.0.0.1", driver.port, timeout=60)
    try:
        connection.request("GET", "/v1/status")
        return api.JobStatus.model_validate_json(connection.getresponse().read())
    finally:
        connection.close()


def is_ready(standby: driverprocess.Driver) -> bool:
    beside = status(standby).standby if standby.is_up else None
    return beside is not None and beside.state is api.StandbyState.READY


def last_batch(driver: driverprocess.Driver) -> int:
    return max(query.batch_id for query in status(driver).queries)


def test_driver_and_standby_log_one_form_no_stack_and_nothing_for_each_batch(tmp_path: Path) -> None:
    def process(name: str) -> driverprocess.Driver:
        return driverprocess.Driver(
            JOB,
            (tmp_path / "state").as_uri(),
            tmp_path / f"{name}.log",
            *("--allow-local-files", "--checkpoint-interval", "2s", "--conf", "spark.sql.shuffle.partitions=2"),
            *("--parameter", f"output={(tmp_path / 'out').as_uri()}"),
        )

    driver, standby = process("driver"), process("standby")
    try:
        driver.start()
        driver.until(lambda: driver.is_up, "it is up")
        standby.start("--standby")
        standby.until(lambda: is_ready(standby), "it is ready")
        driver.until(lambda: last_batch(driver) >= 20, "20 batches are committed")
        assert standby.drains() == 0
        assert driver.drains() == 0
    finally:
        standby.stop()
        driver.stop()

    for one in (driver, standby):
        lines = [line for line in one.output.splitlines() if PRINTED.match(line) is None]
        read = [json.loads(line) for line in lines]
        assert {line["level"] for line in read} == {"INFO"}, [line for line in read if line["level"] != "INFO"]
        assert not [line for line in read if "stack" in line]
        assert all({"time", "logger", "message"} <= line.keys() for line in read)
        messages = [line["message"] for line in read if line["message"] != "snapshot completed"]
        assert len(messages) <= MOST_LINES, messages
