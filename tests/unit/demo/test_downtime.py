"""The benchmark of downtimes goes on where it was interrupted, and lets every kind have as many turns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from testbed import records


def test_what_was_measured_is_read_back_and_only_what_is_missing_is_done(tmp_path: Path) -> None:
    runs = tmp_path / "runs.jsonl"
    assert records.missing(records.read(runs), ["warm", "cold"], 1, 0) == ["warm", "cold"]
    measured = [{"kind": "warm", "state_mb": 0, "pause_s": 2.5}, {"kind": "cold", "state_mb": 1000, "pause_s": 20}]
    runs.write_text("\n".join(json.dumps(record) for record in measured) + "\n")

    found = records.read(runs)

    assert (records.seconds(found, "warm", 0), records.seconds(found, "cold", 0)) == ([2.5], [])
    assert records.missing(found, ["warm", "cold"], 1, 0) == ["cold"]
    assert records.missing(found, ["warm"], 1, 0) == []


@pytest.mark.parametrize("turns", [1, 3])
def test_kinds_take_turns(turns: int) -> None:
    taken: list[dict[str, object]] = []
    while todo := records.missing(taken, ["warm", "hot"], turns, 0):
        taken.append({"kind": todo[0], "state_mb": 0, "pause_s": 1.0})

    assert [record["kind"] for record in taken] == ["warm", "hot"] * turns
