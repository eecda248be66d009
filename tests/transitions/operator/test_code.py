"""Code outside of the image: another content is an upgrade, what cannot run harms nobody, and the way back has its code."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest
from jobworld import SPEC, FakeDriver, JobWorld
from statefulspark.contract.api import StandbyState, StandbyStatus
from statefulspark.contract.manifest import SnapshotKind
from statefulspark_operator.api.conditions import Condition, ConditionType
from statefulspark_operator.api.status import Phase, UpgradeState
from statefulspark_operator.cluster import resources
from statefulspark_operator.lifecycle import history
from statefulspark_operator.lifecycle.steps import CARRIED_OUT

MAP = ("ConfigMap", "demo", "code")
MODES = pytest.mark.parametrize("mode", ["Warm", "Cold"])
OBJECT = "s3://code/flights.zip"
COMPARED_WITHIN_S = 360
"""Within this time copies are compared with the API server, and then objects that nothing needs are removed."""


def write(world: JobWorld, text: str, key: str = "flights.py") -> None:
    """Write the ConfigMap, as a user does; the operator's watches do not show it."""
    if MAP in world.cluster.objects:
        world.cluster.objects[MAP]["data"] = {key: text}
        return
    meta: resources.Resource = {"name": "code", "namespace": "demo"}
    world.cluster.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {key: text}})


def world_with(job: resources.Resource, mode: str = "Warm", **spec: resources.Resource) -> JobWorld:
    world_spec: resources.Resource = json.loads(json.dumps(SPEC))
    return JobWorld(spec={**world_spec, "job": job, "upgrade": {"strategy": mode}, **spec})


def from_config_map(mode: str = "Warm", **spec: resources.Resource) -> JobWorld:
    """A job whose code is in a ConfigMap, and runs."""
    world = world_with({"source": {"configMap": {"name": "code", "key": "flights.py"}}}, mode, **spec)
    write(world, "first")
    settle(world)
    return world


def settle(world: JobWorld) -> None:
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    world.run(60)


def code_of(world: JobWorld) -> str:
    """Return the code that the newest driver's pod has mounted."""
    pod = world.cluster.objects["Pod", "demo", world.driver.pod]
    volume = next(found for found in resources.items(pod, "spec", "volumes") if found["name"] == "job-code")
    copy = world.cluster.objects["ConfigMap", "demo", resources.text(volume, "configMap", "name")]
    return base64.b64decode(resources.text(copy, "binaryData", "flights.py")).decode()


def image_of(world: JobWorld) -> object:
    """Return the image of the newest driver."""
    pod = world.cluster.objects["Pod", "demo", world.driver.pod]
    return resources.items(pod, "spec", "containers")[0]["image"]


def ready(world: JobWorld) -> Condition:
    return next(found for found in world.status.conditions if found.type is ConditionType.READY)


def upgraded(world: JobWorld, epoch: int) -> bool:
    upgrade = world.status.upgrade
    return upgrade is not None and upgrade.state in CARRIED_OUT and world.status.epoch == epoch


@MODES
def test_an_edited_config_map_upgrades_the_job_with_its_savepoint(mode: str) -> None:
    world = from_config_map(mode)
    generation = world.cluster.objects["StatefulSparkJob", "demo", "flights"]["metadata"]

    write(world, "second")
    world.run_until(lambda: upgraded(world, 2))

    savepoint = world.storage.latest(SnapshotKind.SAVEPOINT)
    assert savepoint is not None
    assert (code_of(world), world.driver.restored_from) == ("second", f"savepoint {savepoint.id}")
    assert resources.number(generation, "generation") == 1
    assert world.status.code == hashlib.sha256(b"second").hexdigest()


def test_an_edited_config_map_is_seen_within_half_a_minute_although_the_job_is_idle() -> None:
    world = from_config_map()
    told = world.driver.status()
    world.driver.status = lambda: told  # type: ignore[method-assign]
    world.run(120)

    write(world, "second")
    world.run(32)

    assert world.status.upgrade is not None


def watched_and_idle() -> JobWorld:
    """A job that runs code of a ConfigMap which is watched, and has no input."""
    world = from_config_map()
    world.code_watches.is_open = True
    told = world.driver.status()
    world.driver.status = lambda: told  # type: ignore[method-assign]
    world.run(120)
    return world


def edit(world: JobWorld, text: str) -> None:
    """Write the ConfigMap, as a user does; a watch shows it."""
    write(world, text)
    world.cluster.show(world.cluster.objects[MAP])


def test_an_edited_config_map_is_seen_at_once_where_it_is_watched() -> None:
    world = watched_and_idle()

    edit(world, "second")
    world.run(1)

    assert world.status.upgrade is not None


def test_a_watched_config_map_is_compared_now_and_then_as_a_watch_does_not_tell_everything() -> None:
    world = watched_and_idle()

    write(world, "second")
    world.run(370)

    assert world.status.upgrade is not None


def test_an_edit_that_is_shown_while_the_config_map_is_being_read_is_not_lost() -> None:
    world = watched_and_idle()
    read = world.cluster.get

    async def get(kind: resources.Kind, namespace: str, name: str) -> resources.Resource | None:
        answer = await read(kind, namespace, name)
        if name == "code":
            world.cluster.get = read  # type: ignore[method-assign]
            edit(world, "second")
        return answer

    world.cluster.get = get  # type: ignore[method-assign]
    edit(world, "first")
    world.run(2)

    assert world.status.upgrade is not None


def test_a_job_waits_for_its_config_map_and_starts_when_it_is_there() -> None:
    world = world_with({"source": {"configMap": {"name": "code", "key": "flights.py"}}})
    world.run(20)
    assert (ready(world).reason, world.drivers.running) == ("CodeMissing", {})

    write(world, "first")
    world.run_until(lambda: world.status.phase is Phase.RUNNING, within_s=60)

    assert code_of(world) == "first"


@MODES
@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "without the key"])
def test_a_running_job_is_not_harmed_when_its_code_goes_missing(mode: str, is_deleted: bool) -> None:
    world = from_config_map(mode)
    before = world.driver

    if is_deleted:
        world.cluster.remove(MAP)
    else:
        write(world, "first", key="renamed.py")
    world.run(60)

    assert (ready(world).reason, world.driver, before.stop_id, before.exit_code) == ("CodeMissing", before, None, None)
    world.kill_driver()
    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)
    assert code_of(world) == "first"
    write(world, "first")
    world.run(60)
    assert (ready(world).status.value, world.status.epoch) == ("True", 2)


@MODES
def test_an_upgrade_that_loses_its_code_for_a_moment_is_carried_out_once_it_is_back(mode: str) -> None:
    world = from_config_map(mode)
    world.change({"image": "registry.example/flights:2"})
    world.run(1)
    lost = world.cluster.objects.pop(MAP)
    world.run(40)
    assert image_of(world) == "registry.example/flights:1", "the job goes on as it is stored"
    world.cluster.objects[MAP] = lost

    world.run_until(lambda: image_of(world) == "registry.example/flights:2")

    assert world.status.upgrade is not None
    assert world.status.upgrade.to_revision == world.status.revision


def test_a_job_whose_code_is_missing_can_be_suspended() -> None:
    world = from_config_map()
    world.cluster.remove(MAP)
    world.run(60)

    world.change({"suspend": True})

    world.run_until(lambda: world.status.phase is Phase.SUSPENDED and world.driver.end_reason == "Stopped")


def refuse(driver: FakeDriver) -> None:
    driver.refusal = StandbyStatus(state=StandbyState.REFUSED, reason="JobFileRaised", message="NameError")


def test_bad_code_is_blocked_and_its_correction_is_tried_without_a_change_of_the_spec() -> None:
    world = from_config_map()
    world.on_start = refuse
    write(world, "bad")
    world.run_until(lambda: world.status.upgrade is not None and world.status.upgrade.state is UpgradeState.BLOCKED)
    assert (code_of(world), world.driver.stop_id) == ("first", None)

    world.on_start = lambda _driver: None
    write(world, "good")
    world.run_until(lambda: upgraded(world, 2))

    assert code_of(world) == "good"


def test_bad_code_of_a_first_start_is_stalled_until_the_code_changes() -> None:
    world = world_with({"source": {"configMap": {"name": "code", "key": "flights.py"}}})
    world.on_start = lambda driver: driver.end(13, "JobFileRaised", "NameError")
    write(world, "bad")
    world.run_until(lambda: world.status.stalled is not None)
    world.run(120)
    assert len(world.drivers.running) == 1

    world.on_start = lambda _driver: None
    write(world, "good")
    world.run_until(lambda: world.status.phase is Phase.RUNNING, within_s=60)

    assert (code_of(world), world.status.stalled) == ("good", None)


@MODES
def test_a_rollback_runs_the_code_of_before_although_the_config_map_has_other_code(mode: str) -> None:
    world = from_config_map(mode)
    write(world, "bad")
    world.run_until(lambda: world.status.epoch == 2 and world.driver.epoch == 2)
    world.fail_driver(14, "NonRestoredState")

    world.run_until(lambda: world.status.epoch == 3 and world.status.phase is Phase.RUNNING)

    assert code_of(world) == "first"
    assert world.status.upgrade is not None
    assert world.status.upgrade.state is UpgradeState.ROLLED_BACK


def test_a_driver_that_ends_after_other_code_was_aborted_is_followed_by_one_with_the_code_of_before() -> None:
    world = from_config_map("Cold", upgrade={"strategy": "Cold", "onSavepointFailure": "Abort"})
    world.driver.savepoints_fail = True
    write(world, "second")
    world.run_until(lambda: world.status.upgrade is not None and world.status.upgrade.state is UpgradeState.ABORTED)

    world.kill_driver()
    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)
    world.run(30)

    assert (code_of(world), world.status.epoch) == ("first", 2)
    assert (ready(world).status.value, ready(world).reason) == ("False", "UpgradeAborted")


def test_a_pinned_content_runs_whatever_the_config_map_has_once_it_is_kept() -> None:
    world = from_config_map("Cold")
    first = hashlib.sha256(b"first").hexdigest()
    write(world, "second")
    world.run_until(lambda: upgraded(world, 2))

    world.change({"job": {"source": {"configMap": {"sha256": first}}}})
    world.run_until(lambda: upgraded(world, 3))

    assert code_of(world) == "first"
    second = hashlib.sha256(b"second").hexdigest()
    assert (ready(world).status.value, ready(world).reason, world.status.ignored_code) == (
        "True",
        "CodeIgnored",
        second,
    )
    assert "ConfigMap code has other code" in (world.status.message or "")
    write(world, "third")
    world.run(60)
    assert (code_of(world), world.reasons.count("CodeIgnored")) == ("first", 2)

    world.change({"job": {"source": {"configMap": {"sha256": None}}}})

    world.run_until(lambda: upgraded(world, 4))
    assert (code_of(world), ready(world).reason, world.status.ignored_code) == ("third", "Running", None)


def test_a_pinned_content_that_nobody_has_is_refused_and_harms_nobody() -> None:
    world = from_config_map("Cold")
    before = world.driver

    world.change({"job": {"source": {"configMap": {"sha256": "ab" * 32}}}})
    world.run(60)

    assert (ready(world).reason, world.driver, before.stop_id) == ("CodeChecksumMismatch", before, None)


def test_code_that_changes_while_its_revision_is_stored_is_decided_again() -> None:
    world = from_config_map("Cold")

    def change_again(what: str) -> None:
        if what.startswith("create ControllerRevision"):
            world.cluster.after_write = lambda _what: None
            write(world, "third")

    world.cluster.after_write = change_again
    write(world, "second")
    world.run_until(lambda: upgraded(world, 3) or upgraded(world, 2))

    assert code_of(world) == "third"


def stored(world: JobWorld, kind: str, marked: str = "") -> int:
    return sum(found == kind and marked in name for found, _, name in world.cluster.objects)


def test_specs_and_code_that_cannot_run_again_are_removed() -> None:
    world = from_config_map("Cold", upgrade={"strategy": "Cold", "stableAfterCheckpoints": 1})
    for number in range(2, history.RUNS_KEPT + 7):
        write(world, f"version {number}")
        world.run_until(lambda: upgraded(world, number))  # noqa: B023 - it is asked within this step
        world.run(20)
    world.run(COMPARED_WITHIN_S)

    kept = stored(world, "ControllerRevision")
    assert kept == history.RUNS_KEPT
    assert stored(world, "ConfigMap", "-code-") == kept


def from_object(mode: str = "Warm") -> JobWorld:
    """A job whose code is an object, and runs."""
    source: resources.Resource = {"s3": {"uri": OBJECT, "sha256": "aa" * 32}}
    world = world_with({"source": source, "file": "flights.py"}, mode)
    world.storage.code[OBJECT] = "aa" * 32
    settle(world)
    return world


def ask_for(world: JobWorld, checksum: str) -> None:
    world.change({"job": {"source": {"s3": {"sha256": checksum}}}})


@MODES
def test_another_checksum_upgrades_the_job_and_keeps_both(mode: str) -> None:
    world = from_object(mode)
    world.storage.code[OBJECT] = "bb" * 32

    ask_for(world, "bb" * 32)
    world.run_until(lambda: upgraded(world, 2))

    savepoint = world.storage.latest(SnapshotKind.SAVEPOINT)
    assert savepoint is not None
    assert world.driver.restored_from == f"savepoint {savepoint.id}"
    assert world.storage.kept_code == {"aa" * 32, "bb" * 32}
    assert set(world.storage.files_asked) == {"flights.py", ""}


@MODES
def test_an_object_with_another_content_is_refused_before_anything_stops(mode: str) -> None:
    world = from_object(mode)
    before = world.driver

    ask_for(world, "bb" * 32)
    world.run(60)
    assert (ready(world).reason, before.stop_id, len(world.drivers.running)) == ("CodeChecksumMismatch", None, 1)

    world.storage.code[OBJECT] = "bb" * 32
    world.run_until(lambda: upgraded(world, 2))
