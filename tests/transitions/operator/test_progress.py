"""A job that makes no progress: people are told, it is restarted, and a change gets past it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from jobworld import FakeDriver, JobWorld
from statefulspark_operator.api.conditions import Condition, ConditionStatus, ConditionType
from statefulspark_operator.api.status import Phase, UpgradeState
from statefulspark_operator.cluster import resources


def running(**spec: resources.Resource) -> JobWorld:
    """A job that runs and has completed a checkpoint."""
    world = JobWorld()
    world.change({"upgrade": {"savepointTimeout": "60s"}})
    world.change(spec)
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    return world


def hang(world: JobWorld) -> FakeDriver:
    driver = world.driver
    driver.hangs_since = world.time
    return driver


def condition(world: JobWorld, kind: ConditionType) -> Condition:
    return next(found for found in world.status.conditions if found.type is kind)


def test_a_job_whose_batch_does_not_end_says_which_and_since_when_and_is_not_ready() -> None:
    world = running()
    assert condition(world, ConditionType.AVAILABLE).status is ConditionStatus.TRUE
    driver = hang(world)
    since = world.time

    world.run(290)
    assert condition(world, ConditionType.READY).status is ConditionStatus.TRUE
    world.run(20)

    told = condition(world, ConditionType.AVAILABLE)
    assert (told.status, told.reason) == (ConditionStatus.FALSE, "BatchRunning")
    assert told.message == f"Batch {driver.rows + 1} of query delays has been running since {since:%H:%M:%S} UTC."
    assert condition(world, ConditionType.READY).status is ConditionStatus.FALSE
    assert (world.status.phase, world.status.epoch) == (Phase.RUNNING, 1)


def test_a_job_whose_batch_hangs_is_restarted_after_the_restart_after() -> None:
    world = running(health={"restartAfter": "15m"})
    hang(world)

    world.run(890)
    assert world.status.epoch == 1
    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING, within_s=60)

    assert (world.status.restarts.count, world.status.restarts.last_reason) == (1, "BatchRunning")
    assert world.reasons.count("BatchRunning") == 1
    assert (world.driver.restored_from or "").startswith("checkpoint")
    world.run(10)
    assert condition(world, ConditionType.READY).status is ConditionStatus.TRUE


def test_input_counts_as_processed_at_every_moment_of_a_warm_upgrade_that_goes_well() -> None:
    world = running(upgrade={"strategy": "Warm"})
    world.change({"image": "registry.example/flights:2"})
    seen: set[tuple[str, str]] = set()

    def is_stable() -> bool:
        seen.add((condition(world, ConditionType.AVAILABLE).status, condition(world, ConditionType.READY).status))
        return world.status.upgrade is not None and world.status.upgrade.state is UpgradeState.STABLE

    world.run_until(is_stable, within_s=200)

    assert seen == {(ConditionStatus.TRUE, ConditionStatus.FALSE), (ConditionStatus.TRUE, ConditionStatus.TRUE)}


def test_a_job_between_two_drivers_is_not_available_and_again_when_its_input_is_processed() -> None:
    world = running()
    world.kill_driver()

    world.run_until(lambda: condition(world, ConditionType.AVAILABLE).status is ConditionStatus.FALSE, within_s=5)
    world.run_until(lambda: condition(world, ConditionType.AVAILABLE).status is ConditionStatus.TRUE, within_s=60)

    assert (world.status.epoch, condition(world, ConditionType.AVAILABLE).reason) == (2, "InputProcessed")


@pytest.mark.parametrize("mode", ["Warm", "Cold"])
@pytest.mark.parametrize("policy", ["Wait", "UseLatestCheckpoint"])
def test_a_corrected_revision_gets_past_a_batch_that_hangs(mode: str, policy: str) -> None:
    world = running(upgrade={"strategy": mode, "savepointTimeout": "60s", "onSavepointFailure": policy})
    hang(world)
    world.run(5)
    world.change({"image": "registry.example/flights:2"})

    world.run_until(
        lambda: world.status.upgrade is not None and world.status.upgrade.state is UpgradeState.STABLE, within_s=200
    )

    assert (world.driver.restored_from or "").startswith("checkpoint")
    assert "UpgradeWithoutSavepoint" in world.reasons


def test_a_job_whose_batch_hangs_is_suspended_from_its_checkpoint_and_goes_on() -> None:
    world = running()
    checkpoint = hang(world).last_checkpoint
    world.run(5)

    world.change({"suspend": True})
    world.run_until(lambda: world.status.phase is Phase.SUSPENDED and world.driver.exit_code is not None, within_s=200)
    world.change({"suspend": False})
    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)

    assert checkpoint is not None
    assert (world.driver.restored_from, world.reasons.count("SavepointFailed")) == (f"checkpoint {checkpoint.id}", 1)


@pytest.mark.parametrize("policy", ["Retain", "Savepoint"])
def test_a_job_whose_batch_hangs_can_be_deleted(policy: str) -> None:
    world = running(deletionPolicy=policy)
    hang(world)
    world.run(5)

    world.delete()

    if policy == "Savepoint":  # No driver that hangs can take one.
        world.run(200)
        assert world.exists
        world.change({"deletionPolicy": "Retain"})
    world.run_until(lambda: not world.exists, within_s=200)
    assert world.storage.snapshots != []


def test_a_driver_with_input_runs_once_its_first_batch_is_committed() -> None:
    world = JobWorld()
    world.on_start = lambda driver: setattr(driver, "hangs_since", world.time)
    world.run(30)
    world.driver.state, told = type(world.driver.state).RUNNING, world.status.phase
    world.run(10)
    assert (told, world.status.phase) == (Phase.STARTING, Phase.STARTING)
    assert "Batch 1 of query delays" in (world.status.message or "")

    world.driver.hangs_since = None

    world.run_until(lambda: world.status.phase is Phase.RUNNING, within_s=10)


def test_a_checkpoint_before_the_first_batch_is_no_success_of_a_new_revision() -> None:
    world = running(upgrade={"strategy": "Cold", "stableAfterCheckpoints": 1})
    world.change({"image": "registry.example/flights:2"})
    world.on_start = lambda driver: setattr(driver, "has_committed", False)
    world.run_until(lambda: world.driver.epoch == 2 and world.driver.restored_from is not None)
    driver = hang(world)
    driver.has_committed = False
    driver._checkpoint(world.time + timedelta(seconds=1), driver.storage.snapshots[0].trigger)

    world.run(20)

    assert world.status.upgrade is not None
    assert world.status.upgrade.state is UpgradeState.STARTING


def test_an_outage_of_hours_is_outlasted_without_a_person() -> None:
    world = running()
    world.on_start = lambda driver: driver.end(16, "StorageUnavailable", "s3://state does not answer.")
    world.kill_driver()

    world.run(7200)
    assert world.status.stalled is None
    assert world.status.restarts.consecutive > 10
    world.on_start = lambda _driver: None

    world.run_until(lambda: world.status.phase is Phase.RUNNING, within_s=400)
