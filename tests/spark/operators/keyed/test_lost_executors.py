"""An executor that is lost between two keyed operators never leaves the state of one attempt and the rows of another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import lostexecutors
import pytest
from statefulspark import failures

pytestmark = pytest.mark.spark


def test_a_stage_that_ran_again_with_other_rows_is_not_committed_with_the_state_of_its_first_attempt(
    tmp_path: Path,
) -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-m", "lostexecutors", str(tmp_path)]

    ended = subprocess.run(command, check=False, env=env, capture_output=True, text=True, timeout=300)

    assert ended.returncode == 0, ended.stderr[-3000:]
    ran = json.loads(ended.stdout.splitlines()[-1])
    assert [failures.is_stage_repeated(failure) for failure in ran["failures"]] == [True], ran["failures"]
    assert len(ran["emitted"]) == lostexecutors.BATCHES
    kept = [row[1:] for rows in ran["emitted"][1:] for row in rows]
    assert len(kept) == (lostexecutors.BATCHES - 1) * lostexecutors.KEYS
    assert all(first == second is not None for first, second in kept)
