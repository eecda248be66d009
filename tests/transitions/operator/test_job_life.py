"""Whole lives of a job in a small world: what the operator does when things happen, pass by pass."""

from __future__ import annotations

import itertools
from datetime import timedelta

import jobworld
import pytest
from jobworld import JobWorld
from statefulspark.contract.config import ClaimMode
from statefulspark.contract.manifest import SnapshotKind
from statefulspark_operator.api import names
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.status import DriverState, Phase, StatefulSparkJobStatus
from statefulspark_operator.cluster import resources
from statefulspark_operator.lifecycle.steps import CARRIED_OUT
from statefulspark_operator.lifecycle.storage_facts import StorageUnreadable

NEW_IMAGE: resources.Resource = {"image": "registry.example/flights:2"}


def running(spec: resources.Resource | None = None) -> JobWorld:
    """A job that runs and has completed a checkpoint."""
    world = JobWorld()
    if spec:
        world.change(spec)
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    return world


def answer(status: StatefulSparkJobStatus, kind: ConditionType) -> ConditionStatus:
    return next(found.status for found in status.conditions if found.type is kind)


def has_ended_upgrade(world: JobWorld) -> bool:
    upgrade = world.status.upgrade
    return upgrade is not None and upgrade.state in CARRIED_OUT


def test_an_amount_of_thousands_of_digits_is_refused_and_the_job_runs_on() -> None:
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING)

    world.change({"executor": {"instances": 1, "heap": "9" * 5000}})
    world.run(10)

    stalled = world.status.condition(ConditionType.STALLED)
    assert stalled is not None
    assert (world.status.phase, stalled.reason) == (Phase.RUNNING, "SpecInvalid")


def test_a_new_job_starts_at_epoch_1_with_empty_state() -> None:
    world = JobWorld()

    world.run_until(lambda: world.status.phase is Phase.RUNNING)

    assert (world.status.epoch, world.driver.pod, world.status.restored_from) == (1, "flights-driver-1", None)
    assert answer(world.status, ConditionType.READY) is ConditionStatus.TRUE
    assert world.reasons == ["DriverStarting", "Running"]


def test_a_killed_driver_is_followed_by_the_next_epoch_from_the_latest_checkpoint() -> None:
    world = running()
    world.kill_driver()

    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)

    latest = world.storage.latest(SnapshotKind.CHECKPOINT)
    assert latest is not None
    assert world.driver.restored_from == f"checkpoint {latest.id}"
    assert world.status.restarts.count == 1
    assert "DriverGone" in world.reasons


def test_a_driver_that_went_on_from_older_state_than_the_newest_is_told_of_until_it_ends() -> None:
    world, why = running(), "checkpoint 2 does not verify. Started from checkpoint 1 instead."
    world.on_start = lambda driver: setattr(driver, "fallback", why)
    world.kill_driver()

    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)
    world.run(60)

    assert (world.status.fallback, world.reasons.count("FellBack")) == (why, 1)
    assert (world.status.message or "").endswith(why)
    assert answer(world.status, ConditionType.READY) is ConditionStatus.TRUE
    world.on_start = lambda _driver: None
    world.kill_driver()
    world.run_until(lambda: world.status.epoch == 3 and world.status.phase is Phase.RUNNING)
    assert (world.status.fallback, world.reasons.count("FellBack")) == (None, 1)


def test_another_release_of_spark_is_told_of_until_the_state_is_its_own() -> None:
    world, told = running(), "Checkpoint 2 was written by PySpark 4.2.0, and PySpark 4.3.0 is installed."
    world.on_start = lambda driver: setattr(driver, "other_spark", told)
    world.kill_driver()

    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)
    world.run(60)

    assert (world.status.other_spark, world.reasons.count("SparkChanged")) == (told, 1)
    world.on_start = lambda _driver: None
    world.kill_driver()
    world.run_until(lambda: world.status.epoch == 3 and world.status.phase is Phase.RUNNING)
    assert (world.status.other_spark, world.reasons.count("SparkChanged")) == (None, 1)


def test_a_drained_driver_is_replaced_without_counting_a_failure() -> None:
    world = running()
    world.cluster.remove(("Pod", "demo", "flights-driver-1"))

    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)

    assert world.status.restarts.count == 0


def test_a_driver_on_a_lost_node_is_replaced_while_its_pod_is_still_listed() -> None:
    world = running()
    world.lost_nodes.add("node-1")
    world.cluster.remove(("Pod", "demo", "flights-driver-1"))
    world.on_start = lambda _: world.lost_nodes.clear()

    world.run_until(lambda: world.status.epoch == 2, within_s=200)

    assert "NodeLost" in world.reasons
    assert "flights-driver-1" in [resources.text(pod, "metadata", "name") for pod in world.cluster.pods()]


def test_a_drain_is_told_with_its_cause_and_stays_in_the_status() -> None:
    world = running()
    pod = world.cluster.objects[("Pod", "demo", "flights-driver-1")]
    why: resources.Resource = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    told: resources.Resource = {**why, "message": "Eviction API: evicting"}
    resources.section(pod, "status")["conditions"] = [told]
    world.cluster.show(pod)
    world.cluster.remove(("Pod", "demo", "flights-driver-1"))

    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)

    drained = next(event for event in world.cluster.events if event.reason in ("Drained", "DriverDeleted"))
    assert "Kubernetes ended its pod: EvictionByEvictionAPI: Eviction API: evicting." in drained.message
    disruption = world.status.last_disruption
    assert disruption is not None
    assert (disruption.epoch, disruption.message) == (1, "EvictionByEvictionAPI: Eviction API: evicting")


def test_a_start_says_what_it_begins_from_and_not_what_the_last_one_did() -> None:
    world = running()
    world.run(60)
    newest = world.storage.latest(SnapshotKind.CHECKPOINT)
    world.kubelet_starts_pods = False
    world.kill_driver()
    world.run_until(lambda: world.status.epoch == 2)

    assert newest is not None
    assert world.status.restored_from == f"checkpoint {newest.id}"


def test_the_time_of_a_reason_is_that_of_the_reason() -> None:
    world = JobWorld()
    world.has_room = lambda _pod: False
    world.run_until(lambda: "Unschedulable" in world.reasons)
    began, waiting = world.status.reason_since, world.time
    world.run(300)
    assert world.status.reason_since == began
    world.has_room = lambda _pod: True

    world.run_until(lambda: world.status.phase is Phase.RUNNING)

    assert began is not None
    assert world.status.reason_since is not None
    assert world.status.reason_since > waiting


def test_a_changed_image_means_savepoint_stop_and_a_start_from_it() -> None:
    world = running()
    rows_before = world.driver.rows
    world.change(NEW_IMAGE)

    world.run_until(lambda: has_ended_upgrade(world))

    upgrade = world.status.upgrade
    assert upgrade is not None
    savepoint = world.storage.latest(SnapshotKind.SAVEPOINT)
    assert savepoint is not None
    assert savepoint.rows >= rows_before
    assert world.driver.restored_from == f"savepoint {savepoint.id}"
    assert upgrade.savepoint == savepoint.location
    assert upgrade.pause is not None
    assert upgrade.pause < timedelta(seconds=15)
    assert [reason for reason in world.reasons if reason.startswith(("Upgrade", "Savepoint"))] == [
        "SavepointRequested",
        "UpgradeStarted",
        "SavepointCompleted",
        "UpgradeCompleted",
    ]


def test_a_crash_of_the_new_revision_before_its_first_checkpoint_goes_on_after_what_it_has_committed() -> None:
    world = running()
    world.change(NEW_IMAGE)
    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is not Phase.RESTARTING)
    world.run(6)
    world.kill_driver()

    world.run_until(lambda: world.status.epoch == 3 and has_ended_upgrade(world))

    rows = [row for row, _ in world.storage.output]
    assert rows == list(range(1, len(rows) + 1))


def test_a_driver_that_cannot_get_its_image_shows_why_and_is_replaced_by_a_corrected_spec() -> None:
    world = JobWorld()
    world.kubelet_starts_pods = False
    world.run(2)
    (pod,) = world.cluster.pods()
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    pod["status"] = {"phase": "Pending", "containerStatuses": [{"name": "driver", "state": state}]}
    world.cluster.show(pod)
    world.run(1)

    assert "ImagePullBackOff" in (world.status.message or "")

    world.change(NEW_IMAGE)
    world.kubelet_starts_pods = True
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    assert world.status.epoch == 2


def test_a_job_file_that_raises_stalls_without_a_restart_until_the_spec_changes() -> None:
    world = JobWorld()
    world.on_start = lambda driver: driver.end(13, "BadJob", "flights.py raises NameError: x is not defined")
    world.run(30)

    stalled = world.status.stalled
    assert stalled is not None
    assert stalled.message == "flights.py raises NameError: x is not defined"
    assert (world.status.epoch, world.status.phase) == (1, Phase.STALLED)
    assert answer(world.status, ConditionType.STALLED) is ConditionStatus.TRUE

    world.on_start = lambda _: None
    world.change(NEW_IMAGE)
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    assert world.status.epoch == 2


def test_a_job_whose_rows_kafka_lost_waits_for_a_person_and_starts_again_when_the_spec_changes() -> None:
    world = running()
    world.driver.end(18, "InputLost", "rows that it has not read are no longer in Kafka")
    world.run_until(lambda: world.status.phase is Phase.STALLED)
    world.run(120)
    waited_for = (world.status.epoch, world.status.stalled and world.status.stalled.reason)

    world.change({"restartNonce": "the rows are back"})
    world.run_until(lambda: world.status.phase is Phase.RUNNING)

    assert waited_for == (1, "InputLost")
    assert world.status.epoch == 2


def test_failures_wait_longer_each_time_and_end_when_the_budget_is_used_up() -> None:
    world = JobWorld()
    world.change({"restart": {"maxFailures": 4, "initialBackoff": "4s", "maxBackoff": "1m"}})
    starts: list[float] = []

    def fail(driver: jobworld.FakeDriver) -> None:
        starts.append((world.time - jobworld.START).total_seconds())
        driver.end(1, "QueryFailed", "boom")

    world.on_start = fail
    world.run_until(lambda: world.status.phase is Phase.STALLED, within_s=300)

    gaps = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert gaps == sorted(gaps)
    assert gaps[-1] > 3 * gaps[0]
    assert len(starts) == 5
    assert world.status.stalled is not None
    assert world.status.stalled.reason == "BudgetExhausted"


def test_a_completed_checkpoint_resets_the_budget() -> None:
    world = running()
    world.kill_driver()
    world.run_until(lambda: world.status.epoch == 2 and world.status.restarts.consecutive == 1)

    world.run_until(lambda: world.status.restarts.consecutive == 0)

    assert world.status.restarts.count == 1


def test_unreadable_storage_starts_nothing_and_says_so() -> None:
    world = JobWorld()
    world.storage.unreadable = StorageUnreadable("StorageUnreachable", "s3://state did not answer.")
    world.run(30)

    assert world.cluster.pods() == []
    assert answer(world.status, ConditionType.STORAGE_REACHABLE) is ConditionStatus.FALSE
    assert "s3://state did not answer" in (world.status.message or "")

    world.storage.unreadable = None
    world.run_until(lambda: world.status.phase is Phase.RUNNING)


def test_epochs_go_on_from_what_storage_knows_when_the_status_is_lost() -> None:
    world = JobWorld()
    world.storage.claims[41] = "an earlier cluster"

    world.run_until(lambda: world.status.phase is Phase.RUNNING)

    assert world.status.epoch == 42


def test_a_lost_status_adopts_the_driver_that_runs() -> None:
    world = running()
    job = world.cluster.objects[(resources.JOB.name, "demo", "flights")]
    job["status"] = {}
    world.cluster.show(job)

    world.run(6)

    assert (world.status.epoch, world.status.phase) == (1, Phase.RUNNING)


def test_suspend_takes_a_savepoint_and_resume_goes_on_from_it() -> None:
    world = running()
    world.change({"suspend": True})
    world.run_until(lambda: world.status.phase is Phase.SUSPENDED and world.driver.exit_code is not None)
    world.run(20)

    assert world.driver.end_reason == "Stopped"
    savepoint = world.storage.latest(SnapshotKind.SAVEPOINT)
    assert savepoint is not None

    world.change({"suspend": False})
    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)
    assert world.driver.restored_from == f"savepoint {savepoint.id}"


@pytest.mark.parametrize(
    ("policy", "epoch", "phase"),
    [
        pytest.param("Wait", 1, Phase.UPGRADING, id="Wait keeps the old revision and tries again"),
        pytest.param("Abort", 1, Phase.RUNNING, id="Abort keeps the old revision and gives up"),
        pytest.param("UseLatestCheckpoint", 2, Phase.RUNNING, id="UseLatestCheckpoint goes on from the checkpoint"),
    ],
)
def test_a_failing_savepoint_follows_the_policy(policy: str, epoch: int, phase: Phase) -> None:
    world = running({"upgrade": {"onSavepointFailure": policy}})
    world.driver.savepoints_fail = True
    world.change(NEW_IMAGE)

    world.run(60)

    assert (world.status.epoch, world.status.phase) == (epoch, phase)
    assert "SavepointFailed" in world.reasons


@pytest.mark.parametrize("mode", ["Warm", "Cold"])
def test_a_change_that_wants_no_savepoint_goes_on_from_the_newest_checkpoint(mode: str) -> None:
    world = running({"upgrade": {"strategy": mode, "stateFrom": "LatestCheckpoint"}})
    old = world.driver

    world.change(NEW_IMAGE)
    world.run_until(lambda: has_ended_upgrade(world))

    latest = world.storage.latest(SnapshotKind.CHECKPOINT)
    assert latest is not None
    assert world.storage.latest(SnapshotKind.SAVEPOINT) is None
    assert str(world.driver.restored_from).startswith("checkpoint ")
    assert (world.status.epoch, world.driver is old) == (2, False)
    assert not {"SavepointRequested", "SavepointFailed"} & set(world.reasons)


def _image(world: JobWorld) -> str:
    """The image of the newest driver."""
    (container,) = resources.items(world.cluster.pods()[-1], "spec", "containers")
    return resources.text(container, "image")


@pytest.mark.parametrize("mode", ["Warm", "Cold"])
@pytest.mark.parametrize("end", ["it is killed", "its stop is complete after all"])
def test_a_driver_that_ends_after_its_upgrade_was_aborted_is_followed_by_the_old_revision(mode: str, end: str) -> None:
    world = running({"upgrade": {"strategy": mode, "savepointTimeout": "30s", "onSavepointFailure": "Abort"}})
    world.driver.savepoints_take = timedelta(seconds=45)
    world.change(NEW_IMAGE)
    world.run_until(lambda: "UpgradeAborted" in world.reasons)

    if end == "it is killed":
        world.kill_driver()
    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)

    world.run(30)
    assert (_image(world), world.status.epoch) == ("registry.example/flights:1", 2)
    assert answer(world.status, ConditionType.STALLED) is ConditionStatus.TRUE
    world.change({"restartNonce": "again"})
    world.run_until(lambda: has_ended_upgrade(world))
    assert _image(world) == "registry.example/flights:2"


@pytest.mark.parametrize("mode", ["Warm", "Cold"])
def test_a_stop_that_takes_longer_than_its_time_is_not_repeated_in_vain_and_its_savepoint_is_used(mode: str) -> None:
    world = running({"upgrade": {"strategy": mode, "savepointTimeout": "30s"}})
    world.driver.savepoints_take = timedelta(seconds=45)
    world.change(NEW_IMAGE)

    world.run_until(lambda: has_ended_upgrade(world))

    savepoint, upgrade = world.storage.latest(SnapshotKind.SAVEPOINT), world.status.upgrade
    assert savepoint is not None
    assert upgrade is not None
    assert (world.driver.restored_from, upgrade.savepoint) == (f"savepoint {savepoint.id}", savepoint.location)
    assert "UpgradeWithoutSavepoint" not in world.reasons


def test_a_change_during_the_savepoint_starts_the_newest_spec_from_that_savepoint() -> None:
    world = running()
    world.change(NEW_IMAGE)
    world.reconcile()
    world.change({"image": "registry.example/flights:3"})

    world.run_until(lambda: has_ended_upgrade(world))

    assert world.status.epoch == 2
    assert world.storage.latest(SnapshotKind.SAVEPOINT) is not None
    pod = world.cluster.objects[("Pod", "demo", "flights-driver-2")]
    assert resources.items(pod, "spec", "containers")[0]["image"] == "registry.example/flights:3"


def test_a_savepoint_that_vanished_stalls_instead_of_going_back_to_a_checkpoint() -> None:
    world = running()
    world.change({"suspend": True})
    world.run_until(lambda: world.driver.end_reason == "Stopped")
    world.run(2)
    world.storage.snapshots.pop()
    world.change({"suspend": False})

    world.run(10)

    assert (world.status.phase, world.status.epoch) == (Phase.STALLED, 1)
    assert world.status.stalled is not None
    assert world.status.stalled.reason == "SavepointMissing"

    world.change({"restore": {"source": {"checkpointID": 1}}})
    world.run(5)
    assert world.status.epoch == 2


def test_restore_from_restarts_the_job_from_there_once() -> None:
    world = running()
    first = world.storage.snapshots[0].location
    world.run(30)
    world.change({"restore": {"source": {"uri": first}, "claimMode": "Claim"}})
    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)
    assert world.driver.restored_from == "checkpoint 1"
    assert world.status.restore is not None
    assert world.status.restore.claim_mode is ClaimMode.CLAIM
    world.run(30)
    world.change({"restore": {"source": None}})
    world.run(20)
    assert world.status.epoch == 2


def test_fresh_state_needs_the_word_in_the_spec() -> None:
    world = running()
    world.change({"restore": {"source": {"empty": {}}}})

    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)

    assert world.driver.restored_from is None


def test_deleting_drains_the_driver_and_keeps_the_state() -> None:
    world = running()
    snapshots = len(world.storage.snapshots)
    world.delete()

    assert not world.exists, "nothing holds it"
    world.run_until(lambda: world.cluster.pods() == [])

    assert world.driver.end_reason == "Drained"
    assert len(world.storage.snapshots) == snapshots + 1
    assert world.cluster.pods() == []


def test_deleting_with_policy_delete_removes_the_state() -> None:
    world = running({"deletionPolicy": "Delete"})
    world.delete()

    world.run_until(lambda: not world.exists)

    assert world.storage.snapshots == []


def test_deleting_with_policy_savepoint_takes_one_first() -> None:
    world = running({"deletionPolicy": "Savepoint"})
    world.delete()

    world.run_until(lambda: not world.exists)

    assert world.storage.snapshots[-1].kind is SnapshotKind.SAVEPOINT


@pytest.mark.parametrize("is_held", [False, True], ids=["", "with its finalizer"])
def test_policy_savepoint_of_a_job_that_is_deleted_at_once_needs_its_finalizer_beside_it(is_held: bool) -> None:
    """Kubernetes asks nobody, and the operator has not seen the policy yet."""
    world = running()
    job = world.cluster.objects[(resources.JOB.name, "demo", "flights")]
    resources.section(job, "metadata")["finalizers"] = [names.TAKE_SAVEPOINT] if is_held else []
    world.change({"deletionPolicy": "Savepoint"})
    world.delete()

    world.run_until(lambda: not world.exists)

    assert (world.storage.snapshots[-1].kind is SnapshotKind.SAVEPOINT) is is_held


def deleted_without_storage(policy: str) -> JobWorld:
    """A job that is deleted when its node and its storage are gone."""
    world = running({"deletionPolicy": policy, "upgrade": {"savepointTimeout": "30s"}})
    world.lost_nodes.add("node-1")
    world.driver.answers = False
    world.storage.unreadable = StorageUnreadable("StorageUnreachable", "s3://state did not answer.")
    world.delete()
    return world


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_deleting_ends_when_storage_and_node_are_gone(policy: str) -> None:
    world = deleted_without_storage(policy)

    world.run_until(lambda: not world.exists, within_s=700)


def test_a_job_is_not_deleted_without_the_savepoint_that_it_asks_for_until_a_person_says_so() -> None:
    world = deleted_without_storage("Savepoint")
    world.run(3600)
    assert world.status.phase is Phase.DELETING
    assert "to delete it without one, set deletionPolicy to Retain" in (world.status.message or "")

    world.change({"deletionPolicy": "Retain"})

    world.run_until(lambda: not world.exists, within_s=200)


def test_a_last_savepoint_that_fails_is_taken_again() -> None:
    world = running({"deletionPolicy": "Savepoint"})
    world.driver.savepoints_fail = True
    world.delete()
    world.run(60)
    assert world.exists
    assert world.reasons.count("SavepointFailed") >= 2

    world.driver.savepoints_fail = False

    world.run_until(lambda: not world.exists)
    assert world.storage.snapshots[-1].kind is SnapshotKind.SAVEPOINT


def test_a_job_between_two_drivers_is_started_for_its_last_savepoint() -> None:
    world = running({"deletionPolicy": "Savepoint"})
    world.fail_driver(1)
    world.delete()

    world.run_until(lambda: not world.exists)

    assert world.driver.epoch == 2
    assert world.storage.snapshots[-1].kind is SnapshotKind.SAVEPOINT


def test_a_job_that_was_suspended_with_a_savepoint_goes_without_another() -> None:
    world = running({"deletionPolicy": "Savepoint"})
    world.change({"suspend": True})
    world.run_until(lambda: world.status.phase is Phase.SUSPENDED)
    snapshots = len(world.storage.snapshots)
    world.delete()

    world.run_until(lambda: not world.exists)

    assert len(world.storage.snapshots) == snapshots


@pytest.mark.parametrize("policy", ["Savepoint", "Delete"])
def test_a_job_goes_with_its_namespace_and_what_it_could_not_do_is_told(policy: str) -> None:
    world = running({"deletionPolicy": policy})
    snapshots = len(world.storage.snapshots)
    world.cluster.ending.add("demo")
    for kind, namespace, name in list(world.cluster.objects):
        if kind != "StatefulSparkJob":
            world.cluster.remove((kind, namespace, name))
    world.run(30)
    world.storage.unreadable = StorageUnreadable("StorageUnreachable", "s3://state did not answer.")
    world.delete()

    world.run_until(lambda: not world.exists)

    assert (world.driver.epoch, world.driver.end_reason) == (1, "Drained"), "nothing was started"
    assert len(world.storage.snapshots) == snapshots + 1
    assert "StateKept" in world.reasons


def test_a_pod_that_the_api_server_refuses_stalls_with_its_reason() -> None:
    world = JobWorld()

    def refuse(what: str) -> None:
        if what.startswith("create Pod"):
            from statefulspark import errors

            raise errors.SpecRejectedError("ManifestRejected", "spec.containers[0].image: Required value")

    world.cluster.before_write = refuse
    world.run(10)

    assert world.status.stalled is not None
    assert "Required value" in world.status.stalled.message
    assert world.status.driver is not None
    assert world.status.driver.state is DriverState.ENDED
    assert sum(write.startswith("create ConfigMap") for write in world.cluster.writes) == 1


def test_bounded_input_ends_the_job() -> None:
    world = running()
    world.fail_driver(0, "Finished", "All queries ended.")

    world.run(20)

    assert (world.status.phase, world.status.epoch) == (Phase.STOPPED, 1)


@pytest.mark.parametrize("is_deleted_first", [False, True], ids=["then deleted", "while it is deleted"])
def test_a_job_that_has_finished_is_deleted_without_another_savepoint(is_deleted_first: bool) -> None:
    world = running()
    world.change({"deletionPolicy": "Savepoint"})
    world.run(2)
    if is_deleted_first:
        world.driver.savepoints_fail = True
        world.delete()
        world.run(5)
    world.fail_driver(0, "Finished", "All queries ended.")
    if not is_deleted_first:
        world.run(5)
        world.delete()

    world.run_until(lambda: not world.exists)

    assert (world.driver.epoch, bool(world.storage.snapshots)) == (1, True)


def test_a_start_goes_on_when_the_files_of_its_savepoint_are_back() -> None:
    world = running()
    world.change({"suspend": True})
    world.run_until(lambda: world.status.phase is Phase.SUSPENDED)
    lost, world.storage.snapshots = world.storage.snapshots, []
    world.change({"suspend": False})
    world.run_until(lambda: world.status.phase is Phase.STALLED)

    world.storage.snapshots = lost
    world.run_until(lambda: world.status.phase is Phase.RUNNING, within_s=360)

    assert world.driver.restored_from == f"savepoint {lost[-1].id}"


def test_old_pods_are_kept_for_their_logs_and_not_for_ever() -> None:
    world = running()
    for _ in range(5):
        world.fail_driver(1)
        epoch = world.status.epoch
        world.run_until(lambda epoch=epoch: world.status.epoch != epoch and world.status.phase is Phase.RUNNING)
    world.run(5)

    assert [resources.text(pod, "metadata", "name") for pod in world.cluster.pods()] == [
        "flights-driver-4",
        "flights-driver-5",
        "flights-driver-6",
    ]


def test_a_wrong_spec_keeps_the_last_good_revision_running_through_a_crash() -> None:
    world = running()
    world.change({"checkpoint": {"interval": "soon"}})
    world.kill_driver()

    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)

    assert answer(world.status, ConditionType.STALLED) is ConditionStatus.TRUE
    assert "soon" in (world.status.message or "")


def test_restarting_waits_no_longer_than_a_second_after_the_first_disruption() -> None:
    world = running()
    killed_at = world.time
    world.kill_driver()

    world.run_until(lambda: world.status.epoch == 2)

    assert world.time - killed_at <= timedelta(seconds=1)


def test_a_secret_without_a_key_let_the_operators_own_identity_be_used() -> None:
    world = JobWorld()
    world.cluster.objects[("Secret", "demo", "s3")]["stringData"] = {"AWS_ACCESS_KEY_ID": "a", "SECRET": "b"}

    world.run(30)

    assert world.status.epoch is None
    assert world.status.message is not None
    assert world.status.message.endswith("Secret demo/s3 has no AWS_SECRET_ACCESS_KEY; add what is missing.")
    assert answer(world.status, ConditionType.STORAGE_REACHABLE) is ConditionStatus.FALSE


def test_a_secret_that_a_person_completes_is_read_again_within_a_minute() -> None:
    world = JobWorld()
    secret = world.cluster.objects[("Secret", "demo", "s3")]
    complete = secret["stringData"]
    secret["stringData"] = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_KEY": "b"}
    world.run(30)
    completed_at = world.time

    secret["stringData"] = complete

    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    assert world.time - completed_at <= timedelta(minutes=1)
