"""A stateful source and a buffering sink, killed again and again: an oracle outside sees every number once."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import driverprocess
import pytest

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("crash_job.py")
NUMBERS = 300
EVERYTHING = Counter([*range(NUMBERS), *range(NUMBERS)])
KILLED, DRAINED = -signal.SIGKILL, 0
POINTS = (
    ("emit", 1, 250),  # while the source emits, between two of its steps
    ("cut", 1, 2),  # while its state is taken, before the segment is written
    ("row", 1, 250),  # while the sink takes a row
    ("flush", 1, 10),  # after it wrote outside, before anything of that is kept
    ("snapshot", 1, 2),  # while its state is taken, before the record is written
)


class Driver(driverprocess.Driver):
    """Starts of one job, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.outside, self._storage = folder / "out", folder / "state"
        self.outside.mkdir()
        flags = ("--allow-local-files", "--checkpoint-interval", "1s")
        parameters = ("--parameter", f"output={self.outside}", "--parameter", f"numbers={NUMBERS}")
        super().__init__(JOB, self._storage.as_uri(), folder / "driver.log", *flags, *parameters)

    def lives(self, kill: str = "") -> int:
        """Start it, let it drain once everything is delivered and it has run, and return its exit code.

        A life may find everything delivered already, and must have begun before it is told to end.
        """
        self.start("--parameter", f"kill={kill}")
        self.until(
            lambda: not self.runs or (self.delivered() == EVERYTHING and self.is_up),
            "it is killed or delivers everything",
        )
        return self.drains()

    def delivered(self) -> Counter[int]:
        """Count the numbers written; while a buffer goes from the rest to a file of its own, some count twice."""
        bodies = [path.read_text() for path in self.outside.glob("*.json")]
        return Counter(number for body in bodies for number in json.loads(body))

    def told(self) -> list[int]:
        """Return the checkpoints of whose completion the first subtask heard in the newest life."""
        file = self.outside / f"0-of-{self.pid}.completed"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def checkpoints(self) -> list[int]:
        return sorted(int(path.parent.name) for path in self._storage.glob("*/*/checkpoints/*/_metadata.json"))


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path)
    yield made
    made.stop()


def test_a50_a52_killed_anywhere_every_number_is_delivered_once(driver: Driver) -> None:
    """The source's rows and state, the batch, and the sink's buffer are one cut at every moment."""
    seed = random.randrange(10**6)
    chosen = random.Random(seed)
    plans = [f"{point}:{chosen.randint(low, high)}" for point, low, high in chosen.sample(POINTS, 2)]
    what = f"seed {seed}, killed at {plans}"

    # The second life may find too little left to get to its point; it drains then, as the last one does.
    ended = [driver.lives(plan) for plan in plans]
    assert ended[0] == KILLED, f"{what}: {ended} {driver.tail}"
    assert ended[1] in (KILLED, DRAINED), f"{what}: {ended} {driver.tail}"
    assert driver.lives() == DRAINED, f"{what}: {driver.tail}"
    assert driver.delivered() == EVERYTHING, what
    assert list(driver.outside.glob("*.torn")) == [], what
    told = driver.told()
    assert told == sorted(set(told)), "A.47: a completion stands for all older ones, and comes once"
    assert told[-1] == driver.checkpoints()[-1], "the checkpoint of the stop holds everything, and is announced"
