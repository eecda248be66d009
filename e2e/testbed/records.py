"""What `bench.downtime` has measured so far, one JSON document a line, so that an interrupted run goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path


def read(runs: Path) -> list[Mapping[str, object]]:
    """Return what was measured so far."""
    return [json.loads(line) for line in runs.read_text().splitlines()] if runs.exists() else []


def seconds(taken: Sequence[Mapping[str, object]], kind: str, state_mb: int) -> list[float]:
    """Return the pauses of a kind."""
    return [
        float(str(record["pause_s"])) for record in taken if (record["kind"], record["state_mb"]) == (kind, state_mb)
    ]


def missing(taken: Sequence[Mapping[str, object]], kinds: Sequence[str], turns: int, state_mb: int) -> list[str]:
    """Return the kinds that have had the fewest turns, while that is fewer than all shall have."""
    turns_of = {kind: len(seconds(taken, kind, state_mb)) for kind in kinds}
    fewest = min(turns_of.values())
    return [kind for kind in kinds if turns_of[kind] == fewest] if fewest < turns else []
