"""The operator works on a folder with a million objects within the memory of its container."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "support" / "vastfolder.py"
CONTAINER_MEBIBYTES = 512

pytestmark = pytest.mark.slow  # a million objects take seconds


def outcome_of(work: str) -> str:
    command = [sys.executable, str(SCRIPT), work, str(CONTAINER_MEBIBYTES)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout


def test_it_deletes_the_folder_page_by_page() -> None:
    assert outcome_of("purge") == "deleted 1000000\n"


def test_it_refuses_to_prune_more_than_it_can_hold() -> None:
    outcome = outcome_of("prune")

    assert "has more than 100000 objects" in outcome
    assert outcome.endswith("deleted 0\n")
