"""docs/howto/poison-records.md, step by step: a row that a table refuses, seen by a worker or at the commit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import driverprocess
import psycopg
import pytest

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("rows_job.py")
REFUSED, RUNS = 2, "yes"


class World:
    """The job, its input, and its table."""

    def __init__(self, dsn: str, folder: Path, column: str) -> None:
        self.dsn, self.input, self.state = dsn, folder / "in", folder / "state"
        self.input.mkdir()
        with psycopg.connect(dsn) as connection:
            connection.execute(f"CREATE TABLE words (id bigint PRIMARY KEY, word {column})".encode())
        self.driver = driverprocess.Driver(
            JOB,
            self.state.as_uri(),
            folder / "log",
            *("--allow-local-files", "--master", "local[1]", "--checkpoint-interval", "300ms"),
            *("--parameter", f"input={self.input.as_uri()}", "--parameter", f"dsn={dsn}"),
        )

    def put(self, number: int, word: str) -> None:
        (self.input / f".{number}").write_text(json.dumps({"id": number, "word": word}) + "\n")
        (self.input / f".{number}").rename(self.input / f"{number}.json")

    def start(self, corrected: str, *flags: str) -> None:
        self.driver.start("--parameter", f"corrected={corrected}", *flags)

    def has(self, count: int) -> None:
        self.driver.until(lambda: len(self.rows) == count, f"{count} rows are in the table")

    @property
    def rows(self) -> list[tuple[int, str]]:
        with psycopg.connect(self.dsn) as connection:
            return connection.execute("SELECT id, word FROM words ORDER BY id").fetchall()

    def checkpoints(self) -> list[dict[str, object]]:
        command = [sys.executable, "-m", "statefulspark.cli.main", "checkpoint", "list", "-o", "json"]
        command += ["--allow-local-files", "--storage", self.state.as_uri(), "--job", "default/words"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        found: list[dict[str, object]] = json.loads(listed.stdout)["snapshots"]
        return found


@pytest.fixture
def world(request: pytest.FixtureRequest, postgres_database: str, tmp_path: Path) -> Iterator[World]:
    world = World(postgres_database, tmp_path, request.param)
    yield world
    world.driver.stop()


@pytest.mark.parametrize("world", ["varchar(5)"], indirect=True)
def test_a_row_that_a_worker_refuses_needs_corrected_code_and_nothing_else(world: World) -> None:
    world.put(1, "right")
    world.start("no")
    world.has(1)
    world.put(2, "much too long")

    assert world.driver.ends() != 0
    assert "RowUnsupported" in world.driver.output
    world.start(RUNS)
    world.put(3, "right")
    world.has(3)

    assert world.rows == [(1, "right"), (2, "much "), (3, "right")]


@pytest.mark.parametrize("world", ["text CHECK (length(word) <= 5)"], indirect=True)
def test_a_row_that_the_server_refuses_needs_the_checkpoint_before_it(world: World) -> None:
    world.put(1, "right")
    world.start("no")
    world.has(1)
    before = world.checkpoints()[0]["id"]
    world.put(2, "much too long")

    assert world.driver.ends() != 0
    assert "PostgresRefused" in world.driver.output
    world.start(RUNS)
    assert world.driver.ends() == REFUSED, world.driver.tail  # The batch is sent as it was staged.
    world.start(RUNS, "--restore-checkpoint-id", str(before))
    world.put(3, "right")
    world.has(3)

    assert world.rows == [(1, "right"), (2, "much "), (3, "right")]
