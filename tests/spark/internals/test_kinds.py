"""Every kind of state on the installed release of Spark: a kill and an upgrade lose nothing, and repeat nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import statekinds
from statefulspark.testing import JobHarness

pytestmark = pytest.mark.spark


def feed(job: JobHarness, number: int) -> None:
    for source in job.sources:
        job.add(*statekinds.rows_of(number), source=source)
    job.run()


@pytest.mark.parametrize("kind", statekinds.expected(1))
def test_a_kind_of_state_goes_on_after_a_kill_and_an_upgrade(
    job_harness: Callable[..., JobHarness], tmp_path: Path, kind: str
) -> None:
    folder = tmp_path.as_uri()
    job = job_harness(statekinds.version(1, kind, tmp_path), parameters={"input": folder, "output": folder})
    feed(job, 0)
    job.checkpoint()
    feed(job, 1)
    job.kill()
    job.restart()
    feed(job, 2)
    job.checkpoint()
    job.restart(statekinds.version(2, kind, tmp_path))
    feed(job, 3)
    job.checkpoint()

    assert sorted((row["k"], row["n"]) for row in job.output()) == statekinds.expected(4)[kind]
    assert 2 in {row["version"] for row in job.output()} or kind == "deduplication"
