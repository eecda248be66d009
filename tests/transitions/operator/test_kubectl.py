"""`kubectl statefulspark` with the whole operator behind it: what it says has come of a request is what has come of it."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator

import pytest
from jobworld import KEY, JobWorld
from kubectlworld import Screen
from statefulspark.contract.manifest import SnapshotFormat
from statefulspark_operator.api.spec import SavepointForm
from statefulspark_operator.api.status import Phase, UpgradeState
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Kind, Resource
from statefulspark_operator.kubectl import commands, reports
from statefulspark_operator.kubectl.codes import PluginExit
from statefulspark_operator.kubectl.commands import Command
from statefulspark_operator.kubectl.terminal import Terminal

NEW_IMAGE: Resource = {"image": "registry.example/flights:2"}


class WorldCluster:
    """The world of one job, as a person's API server."""

    def __init__(self, world: JobWorld) -> None:
        self.world = world

    def get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        return copy.deepcopy(self.world.cluster.objects.get((kind.name, namespace, name)))

    def list(self, kind: Kind, namespace: str | None, *, labels: str = "", fields: str = "") -> tuple[Resource, ...]:
        stored = self.world.cluster.objects.items()
        return tuple(
            copy.deepcopy(found) for (name, place, _), found in stored if (name, place) == (kind.name, namespace)
        )

    def patch_job(self, namespace: str, name: str, patch: Resource) -> Resource:
        self.world.change(resources.section(patch, "spec"))
        return self.world.cluster.objects[(resources.JOB.name, namespace, name)]

    def create_savepoint(self, namespace: str, manifest: Resource) -> str:
        metadata = resources.section(manifest, "metadata")
        name = resources.text(metadata, "name") or f"{resources.text(metadata, 'generateName')}x7k2p"
        assert (resources.SAVEPOINT.name, namespace, name) not in self.world.cluster.objects
        self.world.cluster.add({**manifest, "metadata": {**metadata, "name": name}})
        return name

    def log(self, namespace: str, pod: str, *, container: str, follow: bool, tail: int | None) -> Iterator[bytes]:
        return iter(())


def at(world: JobWorld) -> tuple[Command, Screen]:
    """Return a person's command, during whose waits the operator and the drivers work."""
    screen = Screen()
    terminal = Terminal(
        screen.out, screen.err, lambda: world.time, lambda seconds: world.run(round(seconds)), lambda _name: None
    )
    return Command(WorldCluster(world), terminal, KEY.namespace, KEY.name), screen


def running(**upgrade: Resource | str | int) -> JobWorld:
    world = JobWorld()
    if upgrade:
        world.change({"upgrade": dict(upgrade)})  # type: ignore[dict-item]
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    return world


def blocked() -> JobWorld:
    world = running(strategy="Warm")
    world.on_start = lambda driver: driver.end(13, "BadJob", "line 7") if driver.standby is not None else None
    world.change(NEW_IMAGE)
    world.run_until(lambda: world.status.upgrade is not None and world.status.upgrade.state is UpgradeState.BLOCKED)
    world.on_start = lambda _driver: None
    return world


def test_a_job_is_suspended_with_a_savepoint_and_goes_on_from_it() -> None:
    world = running()
    command, screen = at(world)

    assert commands.suspend(command) is PluginExit.DONE
    assert [driver for driver in world.drivers.running.values() if driver.exit_code is None] == []
    assert screen.out.getvalue().startswith("Suspended with savepoint s3://")
    assert commands.resume(command) is PluginExit.DONE
    assert (world.status.phase, world.status.epoch) == (Phase.RUNNING, 2)


def test_after_a_rollback_the_old_version_runs_with_the_state_of_now() -> None:
    world = running()
    old = world.status.revision
    world.change(NEW_IMAGE)
    world.run_until(lambda: world.status.upgrade is not None and world.status.upgrade.state is UpgradeState.STABLE)
    rows = world.driver.rows
    command, screen = at(world)

    assert commands.rollback(command, None) is PluginExit.DONE

    assert world.status.revision == old
    assert world.driver.rows >= rows
    assert f"Running as epoch 3, revision {old}" in screen.out.getvalue()


def test_a_savepoint_with_a_name_is_an_object_that_is_waited_for() -> None:
    world = running()
    command, screen = at(world)

    assert commands.create_savepoint(command, "before-the-move", SavepointForm.CANONICAL) is PluginExit.DONE

    assert world.status.last_savepoint is not None
    assert screen.out.getvalue() == f"Savepoint complete: {world.status.last_savepoint.location}\n"
    assert list(world.driver.savepoint_formats.values()) == [SnapshotFormat.CANONICAL]
    job = world.cluster.objects[(resources.JOB.name, KEY.namespace, KEY.name)]
    assert resources.number(job, "metadata", "generation") == 1, "the job is not changed"


def test_a_rollback_of_a_blocked_upgrade_makes_the_job_ready_again_without_a_restart() -> None:
    world = blocked()
    command, _ = at(world)
    assert commands.why(command) is PluginExit.FAILED

    assert commands.rollback(command, None) is PluginExit.DONE

    assert world.status.epoch == 1
    assert reports.is_ready(command.read())
    assert commands.why(command) is PluginExit.DONE


def test_a_job_that_waits_for_a_person_goes_back_on_the_newest_state() -> None:
    world = running(strategy="Cold", rollbackPolicy="Manual")
    old = world.status.revision
    world.change(NEW_IMAGE)
    world.run_until(lambda: world.status.epoch == 2 and world.driver.epoch == 2)
    world.driver.end(13, "BadJob", "line 7")
    world.run_until(lambda: world.status.stalled is not None)
    command, screen = at(world)

    assert commands.rollback(command, None) is PluginExit.DONE

    assert world.status.revision == old
    assert world.storage.repeated == []
    assert f"Revision {old} runs again, from checkpoint 1." in screen.out.getvalue()


@pytest.mark.parametrize("policy", ["Automatic", "Manual"])
def test_a_rollback_that_would_repeat_output_fails_with_the_command_that_does_it_all_the_same(policy: str) -> None:
    world = running(strategy="Cold", rollbackPolicy=policy)
    world.change(NEW_IMAGE)
    world.run_until(lambda: world.status.epoch == 2 and world.driver.epoch == 2)
    world.run(6)
    world.on_start = lambda driver: setattr(driver, "refuses_newest", "NonRestoredState")
    world.driver.end(13, "BadJob", "line 7")
    world.run_until(lambda: world.status.stalled is not None)
    command, screen = at(world)

    assert commands.rollback(command, None) is PluginExit.FAILED

    assert world.storage.repeated == []
    assert world.status.last_savepoint is not None
    shown = screen.out.getvalue() + screen.err.getvalue()
    assert f'"source":{{"uri":"{world.status.last_savepoint.location}"}}' in shown


def write_code(world: JobWorld, text: str) -> None:
    """Write the ConfigMap with the job's code."""
    place = ("ConfigMap", KEY.namespace, "code")
    meta: Resource = {"name": "code", "namespace": KEY.namespace}
    if place in world.cluster.objects:
        world.cluster.objects[place]["data"] = {"flights.py": text}
    else:
        world.cluster.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"flights.py": text}})


def test_a_rollback_goes_back_to_code_that_the_config_map_has_no_longer() -> None:
    world = JobWorld()
    write_code(world, "first")
    source: Resource = {"configMap": {"name": "code", "key": "flights.py"}}
    world.change({"job": {"file": None, "source": source}})
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    first = world.status.revision
    write_code(world, "second")
    world.run_until(lambda: world.status.upgrade is not None and world.status.upgrade.state is UpgradeState.STABLE)
    command, screen = at(world)

    assert commands.rollback(command, None) is PluginExit.DONE, screen.out.getvalue()

    assert world.status.revision == first
    job = world.cluster.objects[(resources.JOB.name, KEY.namespace, KEY.name)]
    pinned = resources.text(job, "spec", "job", "source", "configMap", "sha256")
    assert pinned == hashlib.sha256(b"first").hexdigest()
