"""A driver that has stopped and whose process does not end: in time, or after its stop was given up."""

from __future__ import annotations

from datetime import timedelta

import pytest
from jobworld import JobWorld, Snapshot
from statefulspark.contract.api import JobState
from statefulspark.contract.manifest import SnapshotKind
from statefulspark_operator.api.status import Phase
from statefulspark_operator.cluster import resources

NEW_IMAGE: resources.Resource = {"image": "registry.example/flights:2"}
LATE = timedelta(seconds=75)


def lingering(*, stops_in: timedelta = LATE, **spec: resources.Resource | str) -> JobWorld:
    """A job that waits a minute for a stop, and whose driver goes on for good after it."""
    world = JobWorld()
    world.change({"savepoint": {"timeout": "60s"}, **spec})
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    world.driver.lingers, world.driver.savepoints_take = True, stops_in
    return world


def savepoint_of(world: JobWorld) -> Snapshot:
    (only,) = [found for found in world.storage.snapshots if found.kind is SnapshotKind.SAVEPOINT]
    return only


def wait_next(world: JobWorld) -> None:
    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING, within_s=200)


@pytest.mark.parametrize("stops_in", [timedelta(0)], ids=["in time"])
def test_a_driver_that_has_stopped_is_deleted_and_the_next_one_starts_from_its_savepoint(stops_in: timedelta) -> None:
    world = lingering(upgrade={"mode": "Cold"}, stops_in=stops_in)
    old = world.driver
    world.change(NEW_IMAGE)
    world.run_until(lambda: old.state is JobState.STOPPED)

    world.run(25)
    assert (old.exit_code, world.status.epoch) == (None, 1), "it may end by itself"
    wait_next(world)

    assert "DriverDeleted" in world.reasons
    assert world.driver.restored_from == f"savepoint {savepoint_of(world).id}"
