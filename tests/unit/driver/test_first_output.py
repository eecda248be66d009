"""Output becomes visible with a checkpoint, so the first commit after a start does not wait for the interval."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import cast

from drivenjob import DrivenJob, new_roots, running
from snapshots import Job
from statefulspark.contract.config import CheckpointConfig, JobConfig, StorageConfig
from statefulspark.contract.manifest import Trigger
from statefulspark.driver.starting import assemble, start_parts
from statefulspark.recovery.plan import StartMode, StartPlan

SELDOM = CheckpointConfig(interval=timedelta(days=1))


def test_the_first_commit_after_a_start_is_checkpointed_at_once(job: Job) -> None:
    roots = new_roots(job)
    driver = DrivenJob(job, roots, checkpoint=SELDOM, first_commits=frozenset(roots))

    with running(driver):
        driver.until(lambda: driver.loop.status().checkpoints.completed == 1)
        driver.turns(20)
        assert driver.loop.status().checkpoints.completed == 1, "the next one comes with the interval"

    assert driver.manifests()[-1].trigger is Trigger.PERIODIC


def test_a_driver_that_takes_over_checkpoints_its_own_first_commit(job: Job) -> None:
    with running(DrivenJob(job, new_roots(job), checkpoint=SELDOM)) as dead:
        dead.turns(5)
    successor = DrivenJob(job, dead.roots(), checkpoint=SELDOM, first_commits=frozenset(dead.roots()))
    restored = successor.batches()

    with running(successor):
        successor.until(lambda: successor.loop.status().checkpoints.completed == 1)
        latest = successor.loop.status().last_checkpoint

    assert latest is not None
    assert latest.batches != restored


def parts_of_a_job(*, shows_first_batches: bool = True) -> start_parts.Parts:
    return cast(
        "start_parts.Parts",
        SimpleNamespace(
            job_config=JobConfig(name="flights", storage=StorageConfig(uri="s3://bucket")),
            plan=StartPlan(StartMode.EMPTY, 1, next_snapshot_id=1),
            built=(SimpleNamespace(uid="delays"), SimpleNamespace(uid="counts")),
            shows_first_batches=shows_first_batches,
        ),
    )


def test_every_query_of_the_job_is_meant() -> None:
    assert assemble.build_coordinator(parts_of_a_job()).first_commits == {"delays", "counts"}


def test_no_query_is_meant_where_a_test_says_when_a_checkpoint_is_taken() -> None:
    assert assemble.build_coordinator(parts_of_a_job(shows_first_batches=False)).first_commits == frozenset()
