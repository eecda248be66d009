"""A whole driver that an operator starts: it answers from its first moment, and says which step it is at."""

from __future__ import annotations

import re
from pathlib import Path

import driverprocess
import pytest
from statefulspark.contract import api, config
from statefulspark.contract.exit_codes import ExitCode

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("standby_job.py")
STEPS_OF_A_START = (
    "Claiming the job",
    "Finding the job's state",
    "Waiting for Spark",
    "Planning the queries",
    "Preparing to go on from empty state",
    "Preparing the functions of the job to go on from empty state",
    "Opening the sinks, and committing what the state had prepared for them",
    "Starting the queries from empty state",
)


def test_a_driver_answers_while_it_starts_and_then_for_its_queries(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    driver = driverprocess.Driver(
        JOB,
        (tmp_path / "state").as_uri(),
        tmp_path / "log",
        *(
            "--allow-local-files",
            "--conf",
            "spark.sql.shuffle.partitions=2",
            "--parameter",
            f"input={tmp_path / 'input'}",
        ),
        *("--parameter", f"output={(tmp_path / 'out').as_uri()}", "--parameter", "version=good"),
        environment={config.ENV_EPOCH: "1"},
    )
    steps: list[str] = []
    try:
        driver.start()
        driver.until(lambda: driver.is_up, "it serves")

        def runs() -> bool:
            status = driver.status
            if status.state is api.JobState.STARTING:
                steps.append(re.split(r": \d+ of |, since ", status.message or "")[0])
            return status.state is api.JobState.RUNNING

        driver.until(runs, "its queries run")
        assert driver.status.epoch == 1
        assert steps, "it answers before its queries run"
        assert list(dict.fromkeys(steps)) == [step for step in STEPS_OF_A_START if step in steps], "by name, in order"
        assert driver.drains() == ExitCode.SUCCESS
    finally:
        driver.stop()
