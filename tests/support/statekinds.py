"""Rows for the job with every kind of state (`tests/spark/internals/kinds_job.py`), and what it makes of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

JOB = Path(__file__).resolve().parents[1] / "spark" / "internals" / "kinds_job.py"
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_KEYS = range(3)
_COUNTING = (
    "keyed",
    "aggregation",
    "processor",
    "processor-of-spark",
    "lists-of-spark",
    "group-state",
    "group-state-of-spark",
)


def rows_of(batch: int) -> list[dict[str, object]]:
    """Return the rows of a batch: one for each key."""
    return [{"value": 3 * batch + key, "at": _at(batch)} for key in _KEYS]


def expected(batches: int) -> dict[str, list[tuple[int, int]]]:
    """Return the rows (k, n) of each query after some batches, sorted."""
    counts = [(key, batch + 1) for key in _KEYS for batch in range(batches)]
    met = [(key, 3 * batch + key) for key in _KEYS for batch in range(1, batches)]
    # The last one is open: no later row has moved the watermark.
    closed = [(key, int(_at(batch).timestamp())) for key in _KEYS for batch in range(batches - 1)]
    return {
        **dict.fromkeys(_COUNTING, counts),
        "deduplication": [(key, 1) for key in _KEYS if batches],
        "join": met,
        "sessions": closed,
    }


def version(number: int, kind: str, folder: Path) -> Path:
    """Return the job with one kind of state, in a version."""
    file = folder / f"version{number}.py"
    chosen = f'KIND, VERSION = "{kind}", {number}'
    file.write_text(JOB.read_text("utf-8").replace('KIND, VERSION = "all", 1', chosen), "utf-8")
    return file


def _at(batch: int) -> datetime:
    return _BEGAN + timedelta(seconds=10 * batch)
