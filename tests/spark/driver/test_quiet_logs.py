"""A job without trouble logs a few lines, all of one form: a start, timers by the clock, an upgrade, a drain.

A batch logs nothing, and a checkpoint one line, so an hour of the job is as many lines as it has checkpoints.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import driverprocess
import pytest
from statefulspark.contract import api

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("quiet_job.py")
BATCHES = 20
MOST_LINES = 20
"""Of a start, a rehearsal, an upgrade and an end, beside one for each checkpoint."""
PRINTED = re.compile(
    r"WARNING: Using incubator modules|Picked up JAVA_TOOL_OPTIONS|\[.*\[warning\]\[cds|"
    r"(Starting )?Streaming TransformWithStateInPandas Python worker|$"
)
"""What the JVM and Spark's Python workers print without a logger, at every start."""


def lines(driver: driverprocess.Driver) -> list[dict[str, str]]:
    return [json.loads(line) for line in driver.output.splitlines() if PRINTED.match(line) is None]


def messages(driver: driverprocess.Driver) -> list[str]:
    """Return what it logs, without the line of each checkpoint."""
    return [line["message"] for line in lines(driver) if line["message"] != "snapshot completed"]


def last_batch(driver: driverprocess.Driver) -> int:
    return max((query.batch_id for query in driver.status.queries), default=-1)


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
        standby.stands(api.StandbyState.READY)
        driver.until(lambda: last_batch(driver) >= BATCHES, f"{BATCHES} batches are committed")
        assert driver.drains() == 0
        assert standby.activate(2)[0] == 202
        standby.until(lambda: last_batch(standby) >= BATCHES + 3, "it goes on")
        before, first = messages(standby), last_batch(standby)
        standby.until(lambda: last_batch(standby) >= first + BATCHES, "as many batches again are committed")
        after = messages(standby)
        assert standby.drains() == 0
    finally:
        standby.stop()
        driver.stop()

    assert after == before, "no line for a batch, and none for a timer"
    for one in (driver, standby):
        read = lines(one)
        assert {line["level"] for line in read} == {"INFO"}, [line for line in read if line["level"] != "INFO"]
        assert not [line for line in read if "stack" in line]
        assert all({"time", "logger", "message"} <= line.keys() for line in read)
        assert len(messages(one)) <= MOST_LINES, messages(one)
