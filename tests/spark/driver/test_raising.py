"""What a driver prints at a terminal when the job's code raises: the job's calls once, the cause last, and no more."""

from __future__ import annotations

import re
from pathlib import Path

import driverprocess
import processes
import pytest

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("raising_job.py")
_INFO = re.compile(r"^\d\d:\d\d:\d\d INFO .*\n", re.MULTILINE)
_TIME = re.compile(r"^\d\d:\d\d:\d\d ", re.MULTILINE)
_OF_JAVA = "WARNING: Using incubator modules: jdk.incubator.vector\n"
_OF_ITS_OPTIONS = f"Picked up JAVA_TOOL_OPTIONS: {processes.SHORT_LIVED}\n"
_RAISES = '    raise ValueError("this row is bad")\n'


def line_of(code: str) -> int:
    """Return the line of the job that begins with some code."""
    return next(number for number, line in enumerate(JOB.read_text().splitlines(), 1) if line.strip().startswith(code))


def printed(tmp_path: Path, where: str, *flags: str) -> tuple[int, str]:
    """Run the job until it ends; return its exit code and what it printed but for what changed in the world."""
    rows = tmp_path / "input"
    rows.mkdir()
    (rows / "one.json").write_text('{"k": "a"}\n')
    driver = driverprocess.Driver(
        JOB,
        (tmp_path / "state").as_uri(),
        tmp_path / "log",
        *("--allow-local-files", "--log-format", "text", "--master", "local[1]"),
        *("--conf", "spark.sql.shuffle.partitions=1", "--parameter", f"input={rows}", "--parameter", f"where={where}"),
        *("--parameter", f"output={(tmp_path / 'out').as_uri()}", *flags),
    )
    try:
        driver.start()
        code = driver.ends()
    finally:
        driver.stop()
    told = _TIME.sub("", _INFO.sub("", driver.output.replace(_OF_JAVA, "").replace(_OF_ITS_OPTIONS, "")))
    return code, told.replace(str(JOB), "JOB")


@pytest.mark.parametrize("where", ["keyed", "foreach_batch"])
def test_a_function_that_raises_in_a_batch_is_told_once_and_last(tmp_path: Path, where: str) -> None:
    code, told = printed(tmp_path, where)

    lines = told.splitlines()
    raised_at = line_of("raise ValueError")
    assert (code, lines[-2]) == (1, "ERROR launch: driver ends code=FAILED reason=QueryFailed")
    assert lines[-1].startswith("error: The query 'counts' failed")
    assert "ValueError: this row is bad" in lines[-1]
    assert re.search(rf"JOB(:| line ){raised_at}\b", lines[-1])
    assert told.count(_RAISES) == 1
    assert len(lines) <= 12, told


def test_a_typo_in_a_key_is_told_by_its_line_and_nothing_of_workers(tmp_path: Path) -> None:
    code, told = printed(tmp_path, "key", "--check")

    first, last = told.splitlines()
    line = line_of('return ss.keyed_process(rows, key="kk"')
    assert (code, first) == (13, "This job cannot start.")
    assert last.startswith("KeyColumnUnknown: ")
    assert last.endswith(f"(JOB line {line})")
