"""A whole driver on the installed release of Spark: killed, started again, copied by a savepoint, and started from that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import driverprocess
import processes
import pytest
from pyarrow import parquet
from statefulspark import storage
from statefulspark.cli import main
from statefulspark.contract import config, layout
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.sinks.files import commits

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("counted_job.py")
STEP = 2
"""Rows of a key in a batch."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for log in sorted(tmp_path.glob("*.log")):
        print(log.read_text()[-6000:])


def driver(folder: Path, state: str, *flags: str) -> driverprocess.Driver:
    output = (folder / "output").as_uri()
    return driverprocess.Driver(
        JOB,
        (folder / state).as_uri(),
        folder / f"{state}.log",
        *("--allow-local-files", "--parameter", f"output={output}", "--master", "local[2]"),
        *("--checkpoint-interval", "2s", "--checkpoint-min-pause", "100ms", *flags),
    )


def shown(folder: Path) -> list[tuple[int, int]]:
    """Return the rows (k, n) that a reader of the sink sees."""
    store = storage.open_store((folder / "output").as_uri(), storage.StorageOptions(allow_local_files=True))
    return [
        (row["k"], row["n"])
        for batch in commits.read_commits(store)
        for part in batch.files
        for row in parquet.read_table(folder / "output" / part.path).to_pylist()
    ]


def test_a_driver_goes_on_after_a_kill_and_from_a_savepoint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.ENV_TOKEN, driverprocess.TOKEN)
    (folder / "output").mkdir()
    port = processes.free_port()
    first = driver(folder, "state", "--api-port", str(port))
    try:
        first.start()
        first.until(lambda: bool(shown(folder)), "it shows rows")
        first.stop()
        killed_at = len(shown(folder))
        first.start()
        first.until(lambda: len(shown(folder)) > killed_at, "it shows more rows")
        assert main.main(["stop", "--url", f"http://127.0.0.1:{port}", "--savepoint"]) == ExitCode.SUCCESS
        assert first.ends() == ExitCode.SUCCESS
    finally:
        first.stop()
    (savepoint,) = (folder / "state").rglob(f"savepoints/*/{layout.MANIFEST_NAME}")
    saved_at = len(shown(folder))

    second = driver(folder, "moved", "--restore-uri", savepoint.parent.as_uri())
    try:
        second.start()
        second.until(lambda: len(shown(folder)) > saved_at, "it shows rows after those of the savepoint")
        assert second.drains() == ExitCode.SUCCESS
    finally:
        second.stop()

    rows = shown(folder)
    for key in range(10):
        numbers = [n for k, n in rows if k == key]
        assert numbers == list(range(STEP, STEP * (len(numbers) + 1), STEP))
