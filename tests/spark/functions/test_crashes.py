"""A stateful source and a buffering sink, killed again and again: an oracle outside sees every number once."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("crash_job.py")
NUMBERS = 300
EVERYTHING = Counter([*range(NUMBERS), *range(NUMBERS)])
KILLED, DRAINED = -signal.SIGKILL, 10
PATIENCE_S = 240.0
POINTS = (
    ("emit", 1, 250),  # while the source emits, between two of its steps
    ("cut", 1, 2),  # while its state is taken, before the segment is written
    ("row", 1, 250),  # while the sink takes a row
    ("flush", 1, 10),  # after it wrote outside, before anything of that is kept
    ("snapshot", 1, 2),  # while its state is taken, before the record is written
)


class Driver:
    """Starts of one job, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.output = folder / "out"
        self.output.mkdir()
        self._storage = folder / "state"
        self._log = folder / "driver.log"

    def start(self, kill: str = "") -> subprocess.Popen[bytes]:
        self._before = self._log.stat().st_size if self._log.exists() else 0
        command = [sys.executable, "-m", "statefulspark.cli.main", "run", str(JOB)]
        command += ["--storage", self._storage.as_uri(), "--allow-local-files", "--checkpoint-interval", "1s"]
        command += ["--api-port", "0"]
        for parameter in (f"output={self.output}", f"numbers={NUMBERS}", f"kill={kill}"):
            command += ["--parameter", parameter]
        with self._log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def ends(self, process: subprocess.Popen[bytes]) -> int:
        try:
            return process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"did not end: {self.tail()}") from None

    def lives(self, process: subprocess.Popen[bytes]) -> int:
        """Wait until it has ended, or everything is delivered and it has run, and is told to drain; return its exit code.

        A life may find everything delivered already, and must have begun before it is told to end.
        """
        deadline_s = time.monotonic() + PATIENCE_S
        while process.poll() is None and time.monotonic() < deadline_s:
            if self.delivered() == EVERYTHING and self.runs():
                break
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        return self.ends(process)

    def runs(self) -> bool:
        """Tell whether the newest start is done: a signal is then answered by a last checkpoint."""
        return b'"api listening"' in self._log.read_bytes()[self._before :]

    def delivered(self) -> Counter[int]:
        """Count the numbers written; while a buffer goes from the rest to a file of its own, some count twice."""
        bodies = [path.read_text() for path in self.output.glob("*.json")]
        return Counter(number for body in bodies for number in json.loads(body))

    def told(self, process: subprocess.Popen[bytes]) -> list[int]:
        """Return the checkpoints of whose completion the first subtask heard in one driver."""
        file = self.output / f"0-of-{process.pid}.completed"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def checkpoints(self) -> list[int]:
        return sorted(int(path.parent.name) for path in self._storage.glob("*/*/checkpoints/*/_metadata.json"))

    def tail(self) -> str:
        return self._log.read_text()[-3000:]


def test_a50_a52_killed_anywhere_every_number_is_delivered_once(tmp_path: Path) -> None:
    """The source's rows and state, the batch, and the sink's buffer are one cut at every moment."""
    seed = random.randrange(10**6)
    chosen = random.Random(seed)
    plans = [f"{point}:{chosen.randint(low, high)}" for point, low, high in chosen.sample(POINTS, 2)]
    what = f"seed {seed}, killed at {plans}"
    driver = Driver(tmp_path)

    # The second life may find too little left to get to its point; it drains then, as the last one does.
    ended = [driver.lives(driver.start(plan)) for plan in plans]
    assert ended[0] == KILLED, f"{what}: {ended} {driver.tail()}"
    assert ended[1] in (KILLED, DRAINED), f"{what}: {ended} {driver.tail()}"
    last = driver.start()
    assert driver.lives(last) == DRAINED, f"{what}: {driver.tail()}"
    assert driver.delivered() == EVERYTHING, what
    assert list(driver.output.glob("*.torn")) == [], what
    told = driver.told(last)
    assert told == sorted(set(told)), "A.47: a completion stands for all older ones, and comes once"
    assert told[-1] == driver.checkpoints()[-1], "the checkpoint of the stop holds everything, and is announced"
