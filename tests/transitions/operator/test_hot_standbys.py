"""A standby of the running revision: it takes over when the driver ends, and its own end costs nothing."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
from jobworld import FakeDriver, JobWorld
from statefulspark_operator.api.status import (
    Phase,
    StandbyState,
    UpgradeState,
)
from statefulspark_operator.cluster import resources

NEW_IMAGE: resources.Resource = {"image": "registry.example/flights:2"}


def guarded() -> JobWorld:
    """A job that runs, has completed a checkpoint, and has a standby that is ready."""
    world = JobWorld()
    world.change({"driver": {"standby": True}, "upgrade": {"strategy": "Warm"}})
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    world.run_until(lambda: is_ready(world))
    return world


def is_ready(world: JobWorld) -> bool:
    return world.status.standby is not None and world.status.standby.state is StandbyState.READY


def test_a_standby_is_created_once_the_job_runs_and_prefers_another_node() -> None:
    world = guarded()

    pod = world.cluster.objects[("Pod", "demo", "flights-standby-1")]
    terms = resources.items(
        pod, "spec", "affinity", "podAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution"
    )
    assert resources.text(terms[0], "podAffinityTerm", "topologyKey") == "kubernetes.io/hostname"
    assert world.reasons.count("StandbyCreated") == 1


def test_turning_it_on_does_not_restart_the_job_and_turning_it_off_removes_it() -> None:
    world = guarded()
    assert world.status.epoch == 1

    world.change({"driver": {"standby": False}})
    world.run(10)

    assert (world.standbys, world.status.standby, world.status.epoch) == ([], None, 1)


@pytest.mark.parametrize("end", ["killed", "failed"])
def test_a_driver_that_ends_is_replaced_by_its_standby_at_once(end: str) -> None:
    world = guarded()
    ended_at = world.time
    if end == "killed":
        world.kill_driver()
    else:
        world.fail_driver(1)

    world.run_until(lambda: world.driver.epoch == 2)

    assert world.time - ended_at <= timedelta(seconds=2)
    assert world.driver.pod == "flights-standby-1"
    world.run_until(lambda: is_ready(world))
    assert (world.status.epoch, world.status.standby and world.status.standby.number) == (2, 2)
    assert (world.driver.restored_from or "").startswith("checkpoint")


def test_every_end_of_a_driver_is_followed_by_the_next_standby() -> None:
    world = guarded()
    for epoch in range(2, 6):
        world.kill_driver()
        world.run_until(lambda epoch=epoch: world.driver.epoch == epoch and is_ready(world))
        world.run(15)

    assert world.driver.pod == "flights-standby-4"
    assert world.most_live_pods == 1


def test_a_driver_on_a_lost_node_is_replaced_before_its_grace_period_is_over() -> None:
    world = guarded()
    world.driver.answers = False
    world.lost_nodes.add("node-1")
    world.cluster.remove(("Pod", "demo", "flights-driver-1"))
    lost_at = world.time

    world.run_until(lambda: world.driver.epoch == 2)

    assert world.time - lost_at <= timedelta(seconds=15)
    assert "NodeLost" in world.reasons


def test_a_driver_that_drains_is_left_to_finish_its_checkpoint() -> None:
    world = guarded()
    world.cluster.remove(("Pod", "demo", "flights-driver-1"))

    world.run_until(lambda: world.driver.epoch == 2)

    assert world.drivers.running["flights-driver-1"].end_reason == "Drained"
    assert (world.driver.pod, world.status.restarts.count) == ("flights-standby-1", 0)


def test_a_standby_that_ends_is_replaced_with_growing_delays_and_never_affects_the_job() -> None:
    world = guarded()
    starts: list[float] = []

    def fail(driver: FakeDriver) -> None:
        starts.append(world.time.timestamp())
        driver.end(1, "Failed", "it failed")

    world.on_start = fail
    world.standbys[0].end(1, "Failed", "it failed")
    rows = world.driver.rows

    world.run(200)

    assert world.driver.rows == rows + 200
    assert (world.status.phase, world.status.epoch, world.status.restarts.count) == (Phase.RUNNING, 1, 0)
    gaps = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert gaps == sorted(gaps)
    assert 3 <= len(starts) <= 6
    world.on_start = lambda _: None
    world.run_until(lambda: is_ready(world), within_s=400)


def test_an_upgrade_replaces_the_standby_by_one_of_the_new_revision_and_keeps_one_afterwards() -> None:
    world = guarded()
    world.change(NEW_IMAGE)

    world.run_until(lambda: world.status.upgrade is not None and world.status.upgrade.state is UpgradeState.STABLE)
    world.run_until(lambda: is_ready(world))

    assert (world.driver.pod, world.status.standby and world.status.standby.pod) == (
        "flights-standby-2",
        "flights-standby-3",
    )
    assert world.most_live_pods == 1
