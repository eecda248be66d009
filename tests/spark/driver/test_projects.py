"""What a new user does: make a project, run it, kill it, and go on in another way."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import processes
import pytest
from driverprocess import COMMAND, own_session
from statefulspark.cli import main
from statefulspark.contract import config

pytestmark = pytest.mark.spark

PATIENCE_S = 240.0
_ROW = re.compile(r"^\|\s+ada\|\s+(\d+)\|", re.MULTILINE)
"""A row of the output, at the terminal."""
_WITH_LARGEST = re.compile(r"^\|\s+ada\|\s+(\d+)\|\s+\d+\|\s+\d+\|", re.MULTILINE)
"""The same after the change of the tutorial, which adds a column."""
_TUTORIAL = Path(__file__).resolve().parents[3] / "docs" / "tutorial.md"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a folder whose name has a blank."""
    monkeypatch.delenv(config.ENV_CONFIG, raising=False)
    folder = tmp_path / "my jobs" / "orders"
    assert main.main(["init", str(folder)]) == 0
    return folder


@pytest.fixture
def process(project: Path) -> Iterator[processes.Process]:
    with own_session(project / "log", PYSPARK_PYTHON=sys.executable) as started:
        yield started


def test_the_change_of_the_tutorial_fits_and_goes_on_with_the_totals(project: Path, process: processes.Process) -> None:
    command = [*COMMAND, "run", str(project / "job.py"), "--dev", "--checkpoint-interval", "1s", "--api-port", "0"]
    process.launch(command)
    process.wait_until(lambda: _checkpoint_after_a_row(process.output), "a checkpoint covers a row", PATIENCE_S)
    seen = _orders(process.output)
    process.send_to_family(signal.SIGKILL)
    process.wait_end(PATIENCE_S)

    _change_as_the_tutorial_says(project / "job.py")
    process.launch([*command, "--check"])
    checked = process.wait_end(PATIENCE_S)
    process.launch(command)
    process.wait_until(lambda: _WITH_LARGEST.search(process.output) is not None, "a row has the new column", PATIENCE_S)

    assert checked == 0
    assert int(_WITH_LARGEST.findall(process.output)[-1]) > seen


def _change_as_the_tutorial_says(job_file: Path) -> None:
    """Put the last block of the page into the job, and use its class and schema."""
    blocks = re.findall(r"^```python\n(.*?)^```$", _TUTORIAL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    source = job_file.read_text(encoding="utf-8")
    source = source.replace("def orders(", f"{blocks[-1]}\n\ndef orders(", 1)
    source = source.replace("function=Totals()", "function=TotalsAndLargest()")
    source = source.replace("orders BIGINT, total BIGINT", "orders BIGINT, total BIGINT, largest BIGINT")
    job_file.write_text(source, encoding="utf-8")


def _checkpoint_after_a_row(output: str) -> bool:
    row = _ROW.search(output)
    return row is not None and any(
        json.loads(line)["message"] == "snapshot completed"
        for line in output[row.end() :].splitlines()
        if line.startswith("{")
    )


def _orders(output: str) -> int:
    """Return how many orders of a customer were counted, by the newest row."""
    return int(_ROW.findall(output)[-1])
