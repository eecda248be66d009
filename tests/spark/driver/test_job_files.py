"""Job files as people write them: arguments, logging that the file configures, and a session that a module makes."""

from __future__ import annotations

import sys
from pathlib import Path

import driverprocess
import pytest

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("script_job.py")
KEEP = "spark.sql.streaming.minBatchesToRetain"


def checked(tmp_path: Path, conf: str = "") -> tuple[int, str]:
    """Check what the job would do; return its exit code and what it printed."""
    driver = driverprocess.Driver(
        JOB,
        (tmp_path / "state").as_uri(),
        tmp_path / "log",
        *("--allow-local-files", "--log-format", "text", "--check", "--master", "local[1]"),
        *("--parameter", f"output={(tmp_path / 'out').as_uri()}", "--", "--name", "ada"),
        environment={"TEST_CONF": conf},
    )
    try:
        driver.start()
        return driver.ends(), driver.output
    finally:
        driver.stop()


def test_a_script_finds_its_arguments_and_its_session_is_the_jobs(tmp_path: Path) -> None:
    code, told = checked(tmp_path)
    assert (code, "found ada True 3 1000000000" in told) == (0, True), told
    assert "This job can start from empty state." in told


def test_a_session_that_would_break_a_guarantee_is_refused_by_name(tmp_path: Path) -> None:
    code, told = checked(tmp_path, f"{KEEP}=2")
    assert (code, "SessionRefused: " in told) == (13, True), told
    assert f"it sets {KEEP} (Spark would delete files that retained checkpoints need" in told


def test_a_session_in_a_jvm_of_its_own_is_refused_with_the_command_to_run(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB.read_text())
    (tmp_path / "own_session.py").write_text(JOB.with_name("own_session.py").read_text())
    with driverprocess.own_session(tmp_path / "log", STATEFULSPARK_VERBOSE="") as job:
        job.launch([sys.executable, str(tmp_path / "job.py")])
        code = job.wait_end(120)
    assert (code, "statefulspark run FILE" in job.output) == (13, True), job.output
