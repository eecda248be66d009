"""Tasks that Spark repeats within a batch, because a worker died or was too slow, change nothing of the results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import repeatedtasks
import standalone

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Ran:
    """What a query emitted in each batch, the attempts of the task that came to its place, and copies that were refused."""

    emitted: list[list[list[object]]]
    attempts: list[list[int]]
    refusals: list[int]


def _run(folder: Path, master: str, places: Sequence[str]) -> Ran:
    env = os.environ | {"PYTHONPATH": str(Path(repeatedtasks.__file__).parent), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-m", "repeatedtasks", str(folder), master, *places]
    ended = subprocess.run(command, check=False, env=env, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return Ran(**json.loads(ended.stdout.splitlines()[-1]))


def _sums(batches: int) -> list[list[list[object]]]:
    sums: dict[str, int] = {}
    emitted = []
    for number in range(batches):
        rows = repeatedtasks.batch(number)
        for key, value in rows:
            sums[key] = sums.get(key, 0) + value
        emitted.append(sorted([key, sums[key]] for key in {key for key, _ in rows}))
    return emitted


def _twice(places: Sequence[str]) -> list[list[int]]:
    """Return the attempts where the first one of each place was followed by another."""
    return [[]] * repeatedtasks.BEFORE + [[0, 1] for _ in places] + [[]] * repeatedtasks.AFTER


def test_a_task_that_is_retried_because_its_worker_died_changes_nothing(tmp_path: Path) -> None:
    ran = _run(tmp_path, "local[2,4]", repeatedtasks.PLACES)
    assert ran.attempts == _twice(repeatedtasks.PLACES)
    assert ran.emitted == _sums(len(ran.attempts))


def test_a_task_that_is_overtaken_by_a_speculative_copy_changes_nothing(tmp_path: Path) -> None:
    """The next batches' tasks go to the executor of the copy, and back to that of the attempt which lost."""
    with standalone.running(tmp_path, hosts=("127.0.0.2", "127.0.0.3"), memory="700m") as master:
        ran = _run(tmp_path, master, repeatedtasks.PLACES)
    assert ran.attempts == _twice(repeatedtasks.PLACES)
    assert ran.emitted == _sums(len(ran.attempts))
    assert sum(ran.refusals) > 0, "no worker had a copy of an attempt that lost: nothing was shown"
