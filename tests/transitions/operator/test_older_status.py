"""The resource is older than storage: the API server is restored from a backup, or the resource is made anew."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from jobworld import KEY, JobWorld
from statefulspark_operator.api.status import Phase, UpgradeState
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.engine import observe

JOB = (resources.JOB.name, KEY.namespace, KEY.name)
STATES = {
    "Cold": (
        UpgradeState.SAVEPOINT,
        UpgradeState.STOPPING,
        UpgradeState.STARTING,
        UpgradeState.FIRST_CHECKPOINT,
        UpgradeState.STABLE,
    ),
    "Warm": (
        UpgradeState.PREPARE,
        UpgradeState.READY,
        UpgradeState.SAVEPOINT_PRE_COPY,
        UpgradeState.STOPPING,
        UpgradeState.ACTIVATING,
        UpgradeState.FIRST_CHECKPOINT,
        UpgradeState.STABLE,
    ),
}
"""The states in which the backup is made, by the mode of the upgrade."""


def backups_of(world: JobWorld, change: Callable[[], None]) -> dict[UpgradeState, list[Resource]]:
    """Return every resource that the operator writes until an upgrade is stable, by the state of the upgrade."""
    backups: dict[UpgradeState, list[Resource]] = {}
    shown = world.cluster.on_event

    def watch(event: str, resource: Resource) -> None:
        if resources.text(resource, "kind") == JOB[0]:
            upgrade = observe.read_status(resource).upgrade
            if upgrade is not None:
                backups.setdefault(upgrade.state, []).append(copy.deepcopy(resource))
        shown(event, resource)

    world.cluster.on_event = watch
    change()
    world.cluster.on_event = shown
    return backups


def upgraded(world: JobWorld, image: int) -> None:
    world.change({"image": f"registry.example/flights:{image}"})
    world.run_until(
        lambda: (
            world.status.upgrade is not None
            and world.status.upgrade.state is UpgradeState.STABLE
            and world.status.phase is Phase.RUNNING
            and world.driver.config["revision"] == world.status.revision
        )
    )


def put_back(world: JobWorld, saved: Resource, *, with_spec: bool) -> None:
    """Put the backup in the place of the resource, without its pods, for an operator that starts then."""
    now = world.cluster.objects[JOB]
    now["status"] = saved["status"]
    if with_spec:
        now["spec"] = saved["spec"]
    for kind, namespace, name in [key for key in world.cluster.objects if key[0] == "Pod"]:
        del world.cluster.objects[(kind, namespace, name)]
    for driver in world.drivers.running.values():
        driver.exit_code = 137 if driver.exit_code is None else driver.exit_code
    world.replace_operator()


@pytest.mark.parametrize("with_spec", [False, True], ids=["status", "status and spec"])
@pytest.mark.parametrize("write", [0, -1], ids=["first write", "last write"])
@pytest.mark.parametrize(("mode", "state"), [(mode, state) for mode, states in STATES.items() for state in states])
def test_an_older_status_does_not_lead_back_to_the_savepoint_of_an_older_stop(
    mode: str, state: UpgradeState, write: int, with_spec: bool
) -> None:
    world = JobWorld()
    world.change({"upgrade": {"strategy": mode, "stableAfterCheckpoints": 2}})
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    backups = backups_of(world, lambda: upgraded(world, 2))
    upgraded(world, 3)
    upgraded(world, 4)
    world.run(25)
    newest = world.storage.snapshots[-1]

    put_back(world, backups[state][write], with_spec=with_spec)
    epoch = world.storage.newest_epoch
    world.run_until(lambda: world.storage.newest_epoch > epoch and world.driver.restored_from is not None)
    first = world.driver.restored_from
    world.run(60)

    assert first == f"{newest.kind.value} {newest.id}"
    assert (world.status.phase, world.driver.rows > newest.rows) == (Phase.RUNNING, True)


@pytest.mark.parametrize("is_empty", [False, True], ids=["a checkpoint", "empty state"])
def test_a_resource_that_is_made_anew_does_not_restore_again_and_says_so(is_empty: bool) -> None:
    """Git still asks for a restore of the spring; the resource is pruned and synced."""
    world = JobWorld()
    world.run_until(lambda: world.status.last_checkpoint is not None)
    source: Resource = {"empty": {}} if is_empty else {"uri": world.storage.snapshots[0].location}
    asked: Resource = {"source": source}
    world.change({"restore": asked})
    world.run_until(lambda: len(world.storage.restored) > 0 and world.status.phase is Phase.RUNNING)
    upgraded(world, 2)
    assert (world.status.restore_skipped, world.reasons.count("RestoreSkipped")) == (None, 0)
    world.delete()
    world.run_until(lambda: not world.exists and world.cluster.pods() == [])
    newest = world.storage.snapshots[-1]
    storage: Resource = {**resources.section(world.spec, "storage"), "ownership": "TakeOver"}
    world.spec = {**world.spec, "restore": asked, "storage": storage}

    world.apply()
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    world.run(30)

    assert world.driver.restored_from == f"{newest.kind.value} {newest.id}"
    assert (world.status.restore_skipped or "").endswith("was done before.")
    assert world.reasons.count("RestoreSkipped") == 1
