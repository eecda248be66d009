"""The wheel as a stranger gets it: in an environment that has nothing else of this repository."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import processes
import pytest
from driverprocess import own_session
from statefulspark.contract import exit_codes

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[3]
UV = ROOT / "build" / "uv" / "bin" / "uv"
PATIENCE_S = 240.0
_WITH_QUERY_HARNESS = """
import statefulspark as ss
from job import Totals


def totals_of(orders):
    schema = "customer string, orders bigint, total bigint"
    return ss.keyed_process(orders, key="customer", function=Totals(), uid="customer-totals", schema=schema)


def test_totals_of_a_stream_go_on_after_a_kill(query_harness):
    totals = query_harness(totals_of, "customer string, amount int")
    totals.feed({"customer": "ada", "amount": 2})

    totals.restart()

    assert totals.feed({"customer": "ada", "amount": 40}) == [{"customer": "ada", "orders": 2, "total": 42}]
"""
"""A test as docs/testing.md has it: the fixture is imported nowhere."""
_ROW = re.compile(r"^\|\s+ada\|\s+\d+\|", re.MULTILINE)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands of an environment with the wheel, what was locked for it, and pytest."""
    folder = tmp_path_factory.mktemp("stranger")
    python = folder / "venv" / "bin" / "python"
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT / "jobruntime")
    _run(UV, "venv", "--python", sys.executable, folder / "venv")
    _run(UV, "pip", "sync", "--python", python, "--require-hashes", ROOT / "requirements" / "job.txt")
    # Without an index nothing can be added: what the wheel asks for is what was locked, or this fails.
    wheel = next(folder.glob("*.whl"))
    _run(UV, "pip", "install", "--python", python, "--no-index", f"statefulspark[spark] @ {wheel.as_uri()}")
    _run(UV, "pip", "install", "--python", python, "--constraints", ROOT / "requirements" / "dev.txt", "pytest")
    return folder / "venv" / "bin"


@pytest.fixture
def process(programs: Path, tmp_path: Path) -> Iterator[processes.Process]:
    with own_session(tmp_path / "log", PATH=f"{programs}:{os.environ['PATH']}") as started:
        yield started


def test_a_job_that_the_installed_command_made_shows_rows(
    programs: Path, process: processes.Process, tmp_path: Path
) -> None:
    statefulspark = programs / "statefulspark"
    project = tmp_path / "orders"
    _run(statefulspark, "init", project)

    process.launch([str(statefulspark), "run", str(project / "job.py"), "--dev", "--api-port", "0"])
    process.wait_until(lambda: bool(_ROW.search(process.output)), "a row is shown", PATIENCE_S)
    process.send(signal.SIGINT)

    assert process.wait_end(PATIENCE_S) == exit_codes.ExitCode.SUCCESS, process.output


def test_the_fixtures_are_there_where_the_wheel_is_installed(
    programs: Path, process: processes.Process, tmp_path: Path
) -> None:
    """The entry point `pytest11` of the wheel; the three tests are those that `statefulspark init` writes."""
    project = tmp_path / "orders"
    _run(programs / "statefulspark", "init", project)
    (project / "test_query.py").write_text(_WITH_QUERY_HARNESS)

    process.launch([str(programs / "pytest"), "--rootdir", str(project), str(project)])

    assert process.wait_end(PATIENCE_S) == 0, process.output
    assert re.search(r"\b4 passed\b", process.output), process.output
    assert re.search(r"^plugins: .*\bstatefulspark-", process.output, re.MULTILINE), process.output


def _run(*command: str | Path) -> None:
    outcome = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
