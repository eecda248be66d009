"""Every kind of state on the installed release of Spark: a kill and an upgrade lose nothing, and repeat nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from statefulspark.testing import JobHarness

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("kinds_job.py")
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
BATCHES = 4
COUNTING = (
    "keyed",
    "aggregation",
    "processor",
    "processor-of-spark",
    "group-state",
    "group-state-of-spark",
)
KEYS = range(3)


def at(batch: int) -> datetime:
    return BEGAN + timedelta(seconds=10 * batch)


def rows_of(number: int) -> list[dict[str, object]]:
    return [{"value": 3 * number + key, "timestamp": at(number)} for key in KEYS]


def expected() -> dict[str, list[tuple[int, int]]]:
    """Return the rows (k, n) of each query."""
    counts = [(key, batch + 1) for key in KEYS for batch in range(BATCHES)]
    met = [(key, 3 * batch + key) for key in KEYS for batch in range(1, BATCHES)]
    # The last one is open: no later row has moved the watermark.
    closed = [(key, int(at(batch).timestamp())) for key in KEYS for batch in range(BATCHES - 1)]
    return {
        **dict.fromkeys(COUNTING, counts),
        "deduplication": [(key, 1) for key in KEYS],
        "join": met,
        "sessions": closed,
    }


def feed(job: JobHarness, number: int) -> None:
    for source in job.sources:
        job.add(*rows_of(number), source=source)
    job.run()


@pytest.mark.parametrize("kind", expected())
def test_a_kind_of_state_goes_on_after_a_kill_and_an_upgrade(
    job_harness: Callable[..., JobHarness], tmp_path: Path, kind: str
) -> None:
    job = job_harness(version(1, kind, tmp_path))
    feed(job, 0)
    job.checkpoint()
    feed(job, 1)
    job.kill()
    job.restart()
    feed(job, 2)
    job.checkpoint()
    job.restart(version(2, kind, tmp_path))
    feed(job, 3)
    job.checkpoint()

    assert sorted((row["k"], row["n"]) for row in job.output()) == sorted(expected()[kind])
    assert 2 in {row["version"] for row in job.output()} or kind == "deduplication"


def version(number: int, kind: str, folder: Path) -> Path:
    """Return the job with one kind of state, in a version."""
    file = folder / f"version{number}.py"
    chosen = f'KIND, VERSION = "{kind}", {number}'
    file.write_text(JOB.read_text("utf-8").replace('KIND, VERSION = "keyed", 1', chosen), "utf-8")
    return file
