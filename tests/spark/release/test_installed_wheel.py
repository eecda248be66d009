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
_ROW = re.compile(r"^\|\s+ada\|\s+\d+\|", re.MULTILINE)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands of an environment with the wheel, and what was locked for it."""
    folder = tmp_path_factory.mktemp("stranger")
    python = folder / "venv" / "bin" / "python"
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT / "jobruntime")
    _run(UV, "venv", "--python", sys.executable, folder / "venv")
    _run(UV, "pip", "sync", "--python", python, "--require-hashes", ROOT / "requirements" / "job.txt")
    # Without an index nothing can be added: what the wheel asks for is what was locked, or this fails.
    wheel = next(folder.glob("*.whl"))
    _run(UV, "pip", "install", "--python", python, "--no-index", f"statefulspark[spark] @ {wheel.as_uri()}")
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

    assert process.wait_end(PATIENCE_S) == exit_codes.ExitCode.DRAINED, process.output


def _run(*command: str | Path) -> None:
    outcome = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
