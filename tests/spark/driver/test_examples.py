"""The examples on real flights, run by their command: what they show is what the flights' own file says."""

from __future__ import annotations

import json
import re
import runpy
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import processes
import pytest
from driverprocess import COMMAND, own_session

pytestmark = pytest.mark.spark

FLIGHTS = Path(__file__).resolve().parents[3] / "examples" / "flights"
NOTEBOOK = FLIGHTS.parent / "notebook" / "first_job.ipynb"
PATIENCE_S = 240.0
DAYS = 2


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, str]]]:
    """The folder with the first days' files, as prepare.py writes them, and their flights."""
    example = runpy.run_path(str(FLIGHTS / "prepare.py"))
    folder = tmp_path_factory.mktemp("flights")
    flights = example["read_flights"](example["raw_file"]())
    first = [flight for flight in flights if flight["month"] == "1" and int(flight["day"]) <= DAYS]
    for name, body in example["daily_files"](first):
        (folder / name).write_bytes(body)
    return folder, first


@pytest.fixture
def process(tmp_path: Path) -> Iterator[processes.Process]:
    with own_session(tmp_path / "log", PYSPARK_PYTHON=sys.executable) as started:
        yield started


def test_the_vectorised_statistics_are_those_of_the_flights(
    prepared: tuple[Path, list[dict[str, str]]], process: processes.Process, tmp_path: Path
) -> None:
    folder, flights = prepared

    rows = _rows_shown(process, tmp_path, "delay_statistics.py", folder)

    for dest, count, mean, deviation, earliest, latest in rows:
        delays = [
            int(flight["arr_delay"]) for flight in flights if flight["dest"] == dest and flight["arr_delay"] != "NA"
        ]
        assert (int(count), int(earliest), int(latest)) == (len(delays), min(delays), max(delays)), dest
        assert float(mean) == pytest.approx(statistics.fmean(delays)), dest
        assert float(deviation) == pytest.approx(statistics.pstdev(delays)), dest


def test_a_repeated_flight_is_shown_once_with_the_name_of_its_airline(
    prepared: tuple[Path, list[dict[str, str]]], process: processes.Process, tmp_path: Path
) -> None:
    folder, flights = prepared

    rows = _rows_shown(process, tmp_path, "first_arrivals.py", folder)

    by_id = {flight["flight_id"]: flight for flight in flights}
    names = dict(runpy.run_path(str(FLIGHTS / "first_arrivals.py"))["AIRLINES"])
    assert len({flight_id for flight_id, *_ in rows}) == len(rows)
    for flight_id, airline, dest in rows:
        assert (airline, dest) == (names[by_id[flight_id]["carrier"]], by_id[flight_id]["dest"])


def _rows_shown(process: processes.Process, tmp_path: Path, example: str, folder: Path) -> list[list[str]]:
    """Run an example until its first batch, which takes all files, has been shown; return the rows of the table."""
    job = tmp_path / example
    job.write_text((FLIGHTS / example).read_text(encoding="utf-8"), encoding="utf-8")  # its state is beside it
    process.launch([*COMMAND, "run", str(job), "--dev", "--api-port", "0", "--parameter", f"input={folder.as_uri()}"])
    table = re.compile(r"^\+[-+]+\+\n\|.*\|\n\+[-+]+\+\n((?:\|.*\|\n)+)\+", re.MULTILINE)
    process.wait_until(lambda: table.search(process.output) is not None, "a batch is shown", PATIENCE_S)
    shown = table.search(process.output)
    assert shown is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in shown.group(1).splitlines()]


def test_the_cells_of_the_notebook_run_twice_and_the_totals_go_on(process: processes.Process, tmp_path: Path) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    (tmp_path / "cells.py").write_text(f"{code}\n\n{code}", encoding="utf-8")

    # A kernel runs cells as a session that is typed does: `job.run()` comes back.
    process.launch(["sh", "-c", 'cd "$1" && exec "$0" -i cells.py < /dev/null', sys.executable, str(tmp_path)])
    process.wait_end(PATIENCE_S)

    counted = [int(line.split()[-1]) for line in re.findall(r"^\d +\w+ +\d+$", process.output, re.MULTILINE)]
    assert (sum(counted[:3]), sum(counted[3:])) == (1000, 2000), process.output
