"""A driver that has stopped and whose process does not end: in time, or after its stop was given up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from jobworld import KEY, JobWorld, Snapshot
from statefulspark.contract.api import JobState
from statefulspark.contract.manifest import SnapshotKind
from statefulspark_operator.api.status import OperationPhase, Phase, UpgradeState
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.storage_reader import StorageTarget
from statefulspark_operator.lifecycle.storage_facts import StorageFacts, StorageUnreadable

NEW_IMAGE: resources.Resource = {"image": "registry.example/flights:2"}
LATE = timedelta(seconds=75)


def lingering(*, stops_in: timedelta = LATE, **spec: resources.Resource | str) -> JobWorld:
    """A job that waits a minute for a stop, and whose driver goes on for good after it."""
    world = JobWorld()
    world.change({"upgrade": {"savepointTimeout": "60s"}})
    world.change(spec)
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    world.driver.lingers, world.driver.savepoints_take = True, stops_in
    return world


def savepoint_of(world: JobWorld) -> Snapshot:
    (only,) = [found for found in world.storage.snapshots if found.kind is SnapshotKind.SAVEPOINT]
    return only


def wait_next(world: JobWorld) -> None:
    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING, within_s=200)


@pytest.mark.parametrize("mode", ["Warm", "Cold"])
def test_a_driver_that_has_stopped_after_all_is_not_asked_again_and_its_savepoint_is_used(mode: str) -> None:
    world = lingering(upgrade={"strategy": mode})
    old = world.driver
    world.change(NEW_IMAGE)

    wait_next(world)

    assert world.driver.restored_from == f"savepoint {savepoint_of(world).id}"
    assert (len(old.operations), world.status.restarts.count) == (2, 0), "once in vain, and once while it was stopping"
    world.run_until(lambda: world.status.upgrade is not None and world.status.upgrade.state is UpgradeState.STABLE)
    assert old.exit_code is not None


@pytest.mark.parametrize("stops_in", [timedelta(0), LATE], ids=["in time", "late"])
def test_a_driver_that_has_stopped_is_deleted_and_the_next_one_starts_from_its_savepoint(stops_in: timedelta) -> None:
    world = lingering(upgrade={"strategy": "Cold"}, stops_in=stops_in)
    old = world.driver
    world.change(NEW_IMAGE)
    world.run_until(lambda: old.state is JobState.STOPPED)

    world.run(25)
    assert (old.exit_code, world.status.epoch) == (None, 1), "it may end by itself"
    wait_next(world)

    assert "DriverDeleted" in world.reasons
    assert world.driver.restored_from == f"savepoint {savepoint_of(world).id}"


def test_a_driver_that_has_stopped_for_a_change_that_was_taken_back_is_started_again() -> None:
    world = lingering(upgrade={"strategy": "Cold"})
    world.change(NEW_IMAGE)
    world.run(65)
    world.change({"image": "registry.example/flights:1"})

    wait_next(world)

    assert world.driver.restored_from == f"savepoint {savepoint_of(world).id}"


def test_a_driver_that_stops_while_it_is_asked_for_a_savepoint_is_started_again() -> None:
    world = lingering(upgrade={"strategy": "Cold"})
    world.change(NEW_IMAGE)
    world.run(65)
    world.change({"image": "registry.example/flights:1"})
    world.ask_for_savepoint("mine")
    world.run(1)
    world.run_until(lambda: world.driver.state is JobState.STOPPED)

    wait_next(world)


def test_a_job_whose_driver_stops_too_late_is_suspended_and_names_its_savepoint() -> None:
    world = lingering()
    world.lost_nodes.add("node-1")
    world.change({"suspend": True})
    world.run_until(
        lambda: world.status.operation is not None and world.status.operation.state is OperationPhase.FAILED
    )

    world.run_until(lambda: world.driver.state is JobState.STOPPED)
    world.run(2)
    world.lost_nodes.clear()
    world.run_until(lambda: world.status.phase is Phase.SUSPENDED)

    assert world.status.operation is not None
    assert world.status.operation.location == savepoint_of(world).location


@pytest.mark.parametrize(
    "stops_in", [timedelta(0), timedelta(minutes=4)], ids=["at once", "after its end was recorded"]
)
def test_a_suspended_job_names_the_savepoint_that_its_driver_made_where_nobody_could_reach_it(
    stops_in: timedelta,
) -> None:
    world = lingering(stops_in=stops_in)
    world.driver.lingers = False
    world.run_until(lambda: world.driver.stop_id is None)
    world.change({"suspend": True})
    world.run_until(lambda: world.driver.stop_id is not None)
    world.lost_nodes.add("node-1")

    world.run_until(lambda: world.status.phase is Phase.SUSPENDED, within_s=300)
    world.run(300)

    operation, savepoint = world.status.operation, savepoint_of(world)
    assert operation is not None
    assert (operation.state, operation.location) == (OperationPhase.COMPLETED, savepoint.location)
    assert world.status.last_savepoint is not None
    assert world.status.last_savepoint.id == savepoint.id
    world.lost_nodes.clear()
    world.change({"suspend": False})
    wait_next(world)


def test_a_stop_that_was_given_up_and_asked_for_again_names_the_savepoint_of_the_first_request() -> None:
    world = lingering(upgrade={"strategy": "Cold"}, stops_in=timedelta(0))
    world.driver.lingers = False
    world.change(NEW_IMAGE)
    world.run_until(lambda: world.status.upgrade is not None)
    world.lost_nodes.add("node-1")

    world.run_until(lambda: world.status.epoch == 2, within_s=400)

    assert world.status.operation is not None
    assert world.status.operation.location == savepoint_of(world).location
    wait_next(world)
    assert world.driver.restored_from == f"savepoint {savepoint_of(world).id}"


def test_a_suspended_job_looks_for_a_savepoint_that_was_given_up_for_minutes_and_not_for_ever() -> None:
    world = lingering(stops_in=timedelta(hours=1))
    world.change({"suspend": True})
    world.run_until(lambda: world.driver.stop_id is not None)
    world.lost_nodes.add("node-1")
    world.run_until(lambda: world.status.phase is Phase.SUSPENDED, within_s=300)
    read, reads = world.storage.read, 0

    async def counted(target: StorageTarget, **asked: Any) -> StorageFacts | StorageUnreadable:
        nonlocal reads
        reads += 1
        return await read(target, **asked)

    world.storage.read = counted  # type: ignore[assignment]
    world.run(400)
    in_minutes, reads = reads, 0
    world.run(3600)

    assert (in_minutes > 0, reads) == (True, 0)


def test_a_deleted_job_waits_half_a_minute_for_a_driver_that_has_its_last_savepoint() -> None:
    world = lingering(deletionPolicy="Savepoint", stops_in=timedelta(0), upgrade={"savepointTimeout": "10m"})

    world.delete()
    world.run_until(lambda: world.driver.state is JobState.STOPPED)
    world.run(25)
    assert world.driver.exit_code is None, "it may end by itself"

    world.run_until(lambda: not world.exists, within_s=20)
    assert savepoint_of(world).location


@pytest.mark.parametrize("newest", [SnapshotKind.CHECKPOINT, None], ids=["with a checkpoint", "without a word"])
def test_a_driver_that_has_stopped_without_a_savepoint_is_not_said_to_have_one(newest: SnapshotKind | None) -> None:
    world = lingering(upgrade={"strategy": "Cold"})
    world.change(NEW_IMAGE)
    world.run(65)
    if newest is not None:
        world.driver.last_checkpoint = world.storage.add(
            newest, rows=1, epoch=1, at=world.time, trigger=world.storage.snapshots[-1].trigger
        )
    world.driver.state = JobState.STOPPED

    world.run(3)

    operation = world.status.operation
    assert operation is not None
    assert (operation.state is OperationPhase.COMPLETED, operation.location) == (False, None)


def test_what_the_driver_of_another_epoch_says_ends_no_stop() -> None:
    world = lingering(upgrade={"strategy": "Cold"})
    world.change(NEW_IMAGE)
    world.run_until(lambda: world.driver.state is JobState.STOPPED)
    status = world.driver.status

    world.driver.status = lambda: status().model_copy(update={"epoch": 7})  # type: ignore[method-assign]
    world.run(20)

    assert world.status.operation is not None
    assert world.status.operation.state is not OperationPhase.COMPLETED
    assert "deletionTimestamp" not in resources.section(
        world.cluster.objects[("Pod", KEY.namespace, world.driver.pod)], "metadata"
    )
