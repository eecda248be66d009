"""A new revision that fails before it is stable: the one before runs again, from the savepoint of its stop."""

from __future__ import annotations

import pytest
from jobworld import FakeDriver, JobWorld
from statefulspark.contract.manifest import SnapshotKind
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.revision_record import RevisionOutcome
from statefulspark_operator.api.status import Phase, UpgradeState
from statefulspark_operator.cluster import resources

NEW_IMAGE: resources.Resource = {"image": "registry.example/flights:2"}
OLD_IMAGE = "registry.example/flights:1"
MODES = pytest.mark.parametrize("mode", ["Warm", "Cold"])


def running(mode: str, **upgrade: resources.Resource | str | int) -> JobWorld:
    """A job that runs and has completed a checkpoint; its new revisions do not run yet."""
    world = JobWorld()
    world.change({"upgrade": {"mode": mode, **upgrade}})  # type: ignore[dict-item]
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    return world


def is_in(world: JobWorld, *states: UpgradeState) -> bool:
    return world.status.upgrade is not None and world.status.upgrade.state in states


def image_of(world: JobWorld) -> object:
    pod = world.cluster.objects[("Pod", "demo", world.driver.pod)]
    return resources.items(pod, "spec", "containers")[0]["image"]


def message_of(world: JobWorld, reason: str) -> str:
    return next(event.message for event in world.cluster.events if event.reason == reason)


def condition(world: JobWorld, kind: ConditionType) -> ConditionStatus:
    return next(found.status for found in world.status.conditions if found.type is kind)


def fail_as_driver(world: JobWorld, code: int, reason: str, *, after_s: int = 0) -> None:
    """Let every driver of the new revision end as soon as it has run for a while; its standbys are well."""
    for _ in range(600):
        driver = world.driver
        pod = world.cluster.objects.get(("Pod", "demo", driver.pod))
        is_new = pod is not None and resources.items(pod, "spec", "containers")[0]["image"] == NEW_IMAGE["image"]
        if is_new and driver.exit_code is None and driver.epoch > 0 and driver.restored_from is not None:
            world.run(after_s)
            driver.end(code, reason, "it failed")
        world.run(1)
        if is_in(world, UpgradeState.ROLLED_BACK) or world.status.stalled is not None:
            return
    raise AssertionError(f"not rolled back: {world.reasons}")


@MODES
def test_three_ends_without_a_checkpoint_lead_back_to_the_savepoint_of_the_stop(mode: str) -> None:
    world = running(mode)
    world.change(NEW_IMAGE)
    fail_as_driver(world, 1, "QueryFailed", after_s=7)

    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.epoch == 5)

    savepoint = world.storage.latest(SnapshotKind.SAVEPOINT)
    assert savepoint is not None
    assert (image_of(world), world.driver.restored_from) == ("registry.example/flights:1", f"savepoint {savepoint.id}")
    assert condition(world, ConditionType.UPGRADE_BLOCKED) is ConditionStatus.TRUE
    assert [record.outcome for record in world.status.history] == [RevisionOutcome.ROLLED_BACK, RevisionOutcome.RUNNING]
    assert world.status.history[0].snapshot == savepoint.location
    message = message_of(world, "RolledBack")
    assert f"delays {savepoint.rows + 1} to" in message


@MODES
@pytest.mark.parametrize(("code", "reason"), [(13, "BadJob"), (14, "NonRestoredState")])
def test_a_state_or_job_file_that_does_not_fit_leads_back_at_once(mode: str, code: int, reason: str) -> None:
    world = running(mode)
    world.change(NEW_IMAGE)
    fail_as_driver(world, code, reason)

    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.epoch == 3)

    assert image_of(world) == "registry.example/flights:1"
    assert world.status.stalled is None
    assert [event for event in world.reasons if event == "RolledBack"] == ["RolledBack"]


def test_a_revision_that_was_rolled_back_is_not_tried_again_until_the_spec_changes() -> None:
    world = running("Warm")
    world.change(NEW_IMAGE)
    fail_as_driver(world, 13, "BadJob")
    world.run(200)
    assert (world.status.epoch, image_of(world)) == (3, "registry.example/flights:1")
    world.kill_driver()
    world.run_until(lambda: world.status.epoch == 4 and world.status.phase is Phase.RUNNING)
    assert image_of(world) == "registry.example/flights:1"

    world.change({"restartNonce": "again"})

    world.run_until(lambda: is_in(world, UpgradeState.FIRST_CHECKPOINT))
    assert image_of(world) == "registry.example/flights:2"
    assert condition(world, ConditionType.UPGRADE_BLOCKED) is ConditionStatus.FALSE


def test_a_stable_revision_is_not_rolled_back() -> None:
    world = running("Warm", stableAfter=2)
    world.change(NEW_IMAGE)
    world.run_until(lambda: is_in(world, UpgradeState.STABLE))
    world.fail_driver(13, "BadJob")

    world.run(10)

    assert world.status.phase is Phase.STALLED
    assert is_in(world, UpgradeState.STABLE)
    assert [record.outcome for record in world.status.history] == [RevisionOutcome.STABLE, RevisionOutcome.REPLACED]


def test_checkpoints_of_all_drivers_of_a_revision_make_it_stable() -> None:
    world = running("Warm", stableAfter=4)
    world.change(NEW_IMAGE)
    for number in (1, 3):
        world.run_until(
            lambda number=number: (
                world.status.upgrade is not None
                and world.status.upgrade.trial is not None
                and world.status.upgrade.trial.checkpoints == number
            )
        )
        world.kill_driver()

    world.run_until(lambda: is_in(world, UpgradeState.STABLE))

    assert world.driver.checkpoints == 1


def test_ends_by_the_cluster_do_not_count_against_a_revision() -> None:
    world = running("Warm")
    world.change(NEW_IMAGE)
    for _ in range(5):
        epoch = world.status.epoch or 0
        world.run_until(lambda epoch=epoch: world.status.phase is Phase.RUNNING and world.driver.epoch > min(epoch, 1))
        world.kill_driver()
        world.run_until(lambda epoch=epoch: (world.status.epoch or 0) > epoch)

    world.run_until(lambda: is_in(world, UpgradeState.FIRST_CHECKPOINT), within_s=300)

    assert image_of(world) == "registry.example/flights:2"


def test_rollback_by_hand_stalls_with_the_command_that_goes_back() -> None:
    world = running("Warm", rollback="Manual")
    world.change(NEW_IMAGE)
    fail_as_driver(world, 13, "BadJob")
    world.run(30)
    assert world.status.stalled is not None
    assert world.status.phase is Phase.STALLED
    assert (
        'kubectl -n demo patch ssj flights --type merge -p \'{"spec":{"upgrade":{"rollback":"Automatic"}}}\''
        in world.status.stalled.message
    )

    world.change({"upgrade": {"rollback": "Automatic"}})

    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    assert (image_of(world), world.status.stalled) == ("registry.example/flights:1", None)


def test_rollback_by_hand_tries_again_when_the_spec_changes() -> None:
    world = running("Warm", rollback="Manual")
    world.change(NEW_IMAGE)
    fail_as_driver(world, 13, "BadJob")

    world.change({"restartNonce": "again"})

    world.run_until(lambda: world.status.phase is Phase.RUNNING and is_in(world, UpgradeState.FIRST_CHECKPOINT))
    assert image_of(world) == "registry.example/flights:2"


def test_a_change_that_follows_a_failing_revision_goes_back_to_the_one_that_worked() -> None:
    world = running("Cold")
    world.change(NEW_IMAGE)

    def fail(driver: FakeDriver) -> None:
        driver.end(1, "QueryFailed", "it failed")

    world.on_start = fail
    world.run_until(lambda: world.status.restarts.consecutive == 1)
    world.on_start = lambda driver: driver.end(13, "BadJob", "it is worse") if driver.epoch == 3 else None
    world.change({"image": "registry.example/flights:3"})

    world.run_until(lambda: is_in(world, UpgradeState.ROLLED_BACK))
    world.run_until(lambda: world.status.phase is Phase.RUNNING)

    savepoint = world.storage.latest(SnapshotKind.SAVEPOINT)
    assert savepoint is not None
    assert (image_of(world), world.driver.restored_from) == ("registry.example/flights:1", f"savepoint {savepoint.id}")


def test_the_history_keeps_the_latest_five_upgrades() -> None:
    world = running("Cold", stableAfter=1)
    for number in range(2, 9):
        world.change({"image": f"registry.example/flights:{number}"})
        world.run_until(
            lambda number=number: bool(world.status.history) and world.status.history[0].image.endswith(f":{number}")
        )

    assert [record.image[-1] for record in world.status.history] == ["8", "7", "6", "5", "4"]


def test_the_history_begins_with_the_first_revision_which_becomes_stable() -> None:
    world = JobWorld()
    world.change({"upgrade": {"stableAfter": 2}})
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    first = world.status.history
    assert [(record.image, record.outcome) for record in first] == [(OLD_IMAGE, RevisionOutcome.RUNNING)]

    world.run_until(lambda: world.status.history != first)

    assert [(record.image, record.outcome) for record in world.status.history] == [(OLD_IMAGE, RevisionOutcome.STABLE)]
    assert world.driver.checkpoints == 2
    world.kill_driver()
    world.run(60)
    assert [record.outcome for record in world.status.history] == [RevisionOutcome.STABLE]


def test_the_first_revision_of_a_job_of_an_earlier_release_is_recorded() -> None:
    world = running("Cold")
    job = world.cluster.objects[("StatefulSparkJob", "demo", "flights")]
    del resources.section(job, "status")["history"]
    world.cluster.show(job)
    assert world.status.history == ()

    world.run(10)

    assert [record.image for record in world.status.history] == [OLD_IMAGE]
