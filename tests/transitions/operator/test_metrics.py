"""What a scraper finds of a job over its life: as fresh as the latest look at its driver, and nothing of what is gone."""

from __future__ import annotations

import everymetric
from jobworld import JobWorld
from statefulspark_operator.api.status import Phase
from statefulspark_operator.telemetry import metrics

JOB = (("job_name", "flights"), ("job_namespace", "demo"))
ROWS, TOOK = "statefulspark_query_input_rows_total", "statefulspark_last_checkpoint_duration_seconds"


def running() -> JobWorld:
    """A job that runs and has completed a checkpoint."""
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    return world


def scraped(world: JobWorld, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    return everymetric.values(metrics.render(world.gauges.families()), name)


def test_rows_are_newer_than_the_status_says_although_nothing_is_written_for_them() -> None:
    world = running()
    world.run(60)

    (read,) = scraped(world, ROWS).values()

    (asked,) = world.driver.status().queries
    assert 0 < read <= asked.input_rows
    assert list(scraped(world, TOOK)) == [JOB]


def test_a_driver_that_does_not_answer_has_no_lag_and_the_job_its_other_metrics() -> None:
    world = running()
    world.driver.answers = False

    world.run(60)

    assert scraped(world, ROWS) == {}
    assert len(scraped(world, "statefulspark_last_checkpoint_completed_timestamp_seconds")) == 1


def test_a_suspended_job_has_no_rates() -> None:
    world = running()
    world.change({"suspend": True})

    world.run_until(lambda: world.status.phase is Phase.SUSPENDED and world.driver.exit_code is not None)
    world.run(60)

    assert scraped(world, ROWS) == {}


def test_a_job_that_is_gone_has_no_metrics() -> None:
    world = running()
    world.delete()

    world.run_until(lambda: not world.exists)
    world.reconcile()  # woken by the event of its deletion

    assert scraped(world, "statefulspark_job_ready") == {}
    assert scraped(world, ROWS) == {}
