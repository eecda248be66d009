"""Upgrades with a standby, pass by pass: the running driver is stopped only for a revision that can take over."""

from __future__ import annotations

from datetime import timedelta

import pytest
from jobworld import KEY, FakeDriver, JobWorld
from statefulspark import errors
from statefulspark.contract.api import Operation, OperationState, StandbyStatus
from statefulspark.contract.api import StandbyState as Preparation
from statefulspark.contract.manifest import SnapshotKind
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.status import (
    Phase,
    RevisionOutcome,
    StandbyState,
    StatefulSparkJobStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.cluster import driver_api, resources

NEW_IMAGE: resources.Resource = {"image": "registry.example/flights:2"}
REFUSAL = StandbyStatus(
    state=Preparation.REFUSED, reason="BadJob", message="flights.py, line 7: NameError: name 'x' is not defined"
)


def running(spec: resources.Resource | None = None) -> JobWorld:
    """A job with warm upgrades that runs and has completed a checkpoint."""
    world = JobWorld()
    world.change({"upgrade": {"strategy": "Warm"}, **(spec or {})})
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    return world


def upgrade_of(world: JobWorld) -> UpgradeStatus:
    upgrade = world.status.upgrade
    assert upgrade is not None
    return upgrade


def is_in(world: JobWorld, *states: UpgradeState) -> bool:
    return world.status.upgrade is not None and world.status.upgrade.state in states


def answer(status: StatefulSparkJobStatus, kind: ConditionType) -> tuple[ConditionStatus, str]:
    return next((found.status, found.reason) for found in status.conditions if found.type is kind)


def pods(world: JobWorld) -> list[str]:
    return [resources.text(pod, "metadata", "name") for pod in world.cluster.pods()]


def refuse(world: JobWorld) -> None:
    """Let every new standby refuse its job."""

    def set_refusal(driver: FakeDriver) -> None:
        driver.refusal = REFUSAL

    world.on_start = set_refusal


def test_the_running_driver_goes_on_until_the_standby_is_ready_and_hands_over_its_savepoint() -> None:
    world = running()
    old, seen = world.driver, list[UpgradeState]()
    world.change(NEW_IMAGE)
    while not is_in(world, UpgradeState.STABLE):
        world.run(1)
        state = upgrade_of(world).state
        if seen[-1:] != [state]:
            seen.append(state)
        assert len(seen) < 10
        if state is UpgradeState.PREPARE:
            assert (world.status.phase, old.stop_id) == (Phase.RUNNING, None)
            assert answer(world.status, ConditionType.UPGRADING)[0] is ConditionStatus.TRUE
            assert answer(world.status, ConditionType.READY)[0] is ConditionStatus.FALSE

    savepoint = world.storage.latest(SnapshotKind.SAVEPOINT)
    assert savepoint is not None
    assert savepoint.rows == old.rows
    assert world.driver.restored_from == f"savepoint {savepoint.id}"
    assert (world.driver.pod, world.driver.epoch) == ("flights-standby-1", 2)
    assert seen[0] is UpgradeState.PREPARE
    assert seen[-1] is UpgradeState.STABLE
    assert (upgrade_of(world).pause or timedelta(99)) <= timedelta(
        seconds=4
    )  # From batch to batch, looked at once a second.
    assert [reason for reason in world.reasons if reason.startswith(("Upgrade", "Standby"))] == [
        "StandbyCreated",
        "UpgradeStarted",
        "StandbyReady",
        "UpgradeReady",
        "StandbyActivated",
        "UpgradeCompleted",
        "UpgradeStable",
    ]


def test_the_standby_takes_over_while_the_pod_of_the_old_driver_still_exists() -> None:
    world = running()
    world.driver.lingers = True
    world.lost_nodes.add("node-1")
    world.change(NEW_IMAGE)

    world.run_until(lambda: is_in(world, UpgradeState.FIRST_CHECKPOINT), within_s=60)

    assert "flights-driver-1" in pods(world)
    assert (upgrade_of(world).pause or timedelta(99)) <= timedelta(seconds=2)
    world.run(40)
    deleted = world.cluster.objects[("Pod", "demo", "flights-driver-1")]
    assert "deletionTimestamp" in resources.section(deleted, "metadata")


def test_a_stop_that_a_standby_waits_for_is_awaited_at_the_driver() -> None:
    """The driver exits when it has stopped; whoever asks a moment later has to wait for the kubelet's word of that."""
    world = running()
    world.change(NEW_IMAGE)

    world.run_until(lambda: is_in(world, UpgradeState.FIRST_CHECKPOINT))

    assert world.drivers.waits_s == [driver_api.LONGEST_WAIT_S] * len(world.drivers.waits_s)
    assert world.drivers.waits_s


def test_a_driver_that_says_only_once_that_it_has_stopped_is_heard() -> None:
    """A pass may look twice, and the process is gone the second time; its pod's end comes much later."""
    world = running()
    world.driver.lingers = True
    world.change(NEW_IMAGE)
    world.run_until(lambda: is_in(world, UpgradeState.SAVEPOINT_PRE_COPY))
    old, say = world.driver, world.drivers.operation

    async def say_once(*asked: object, wait_s: int = 0) -> object:
        said = await say(*asked, wait_s=wait_s)  # type: ignore[arg-type]
        old.answers = not isinstance(said, Operation) or said.state is OperationState.IN_PROGRESS
        return said

    world.drivers.operation = say_once  # type: ignore[method-assign,assignment]
    world.run_until(lambda: is_in(world, UpgradeState.ACTIVATING), within_s=4)

    assert old.exit_code is None, "its pod still runs"
    assert "UpgradeHandedOver" in world.reasons


def test_other_stops_and_savepoints_are_looked_at_in_passing() -> None:
    world = running()

    world.change({"suspend": True})
    world.run_until(lambda: world.status.phase is Phase.SUSPENDED)

    assert set(world.drivers.waits_s) <= {0}


def test_the_service_leads_to_the_pod_that_took_over() -> None:
    world = running()
    world.change(NEW_IMAGE)

    world.run_until(lambda: is_in(world, UpgradeState.FIRST_CHECKPOINT))

    service = world.cluster.objects[("Service", KEY.namespace, "flights-driver")]
    selector = resources.section(service, "spec", "selector")
    labels = resources.section(world.cluster.objects[("Pod", "demo", "flights-standby-1")], "metadata", "labels")
    assert selector.items() <= labels.items()


def test_a_revision_that_refuses_costs_nothing_and_is_not_tried_in_a_loop() -> None:
    world = running()
    refuse(world)
    world.change(NEW_IMAGE)
    world.run_until(lambda: is_in(world, UpgradeState.BLOCKED))
    rows, created = world.driver.rows, world.status.standby_count

    world.run(300)

    assert world.driver.rows == rows + 300
    assert (world.status.phase, world.status.epoch, world.status.standby_count) == (Phase.RUNNING, 1, created)
    assert answer(world.status, ConditionType.UPGRADE_BLOCKED) == (ConditionStatus.TRUE, "BadJob")
    assert answer(world.status, ConditionType.STALLED)[0] is ConditionStatus.TRUE
    assert "flights.py, line 7" in (world.status.message or "")
    assert world.status.standby is not None
    assert (world.status.standby.state, pods(world)) == (StandbyState.REFUSED, ["flights-driver-1"])
    assert world.reasons.count("UpgradeBlocked") == 1
    assert [record.outcome for record in world.status.history] == [RevisionOutcome.BLOCKED, RevisionOutcome.STABLE]


def test_what_a_standby_rehearses_changes_no_running_job_and_is_told_to_the_next_standby() -> None:
    world = running()
    before = pods(world)

    world.change({"upgrade": {"rehearsal": "PlanOnly"}})
    world.run(30)
    after = pods(world)
    world.change(NEW_IMAGE)
    world.run_until(lambda: bool(world.standbys))

    (standby,) = world.standbys
    assert (after, standby.config["rehearsal"]) == (before, "PlanOnly")


@pytest.mark.parametrize(
    ("code", "reason"), [(13, "BadJob"), (14, "NonRestoredState"), (1, "Failed"), (137, "OOMKilled")]
)
def test_a_standby_that_ends_blocks_its_revision(code: int, reason: str) -> None:
    world = running()
    world.on_start = lambda driver: driver.end(code, reason, "it ended")
    world.change(NEW_IMAGE)

    world.run_until(lambda: is_in(world, UpgradeState.BLOCKED))
    world.run(30)

    assert upgrade_of(world).reason == reason
    assert (world.status.epoch, world.status.standby_count, world.driver.exit_code) == (1, 1, None)


def test_an_image_that_cannot_be_pulled_blocks_its_revision() -> None:
    world = running()
    world.kubelet_starts_pods = False
    world.change(NEW_IMAGE)
    world.run(2)
    pod = world.cluster.objects[("Pod", "demo", "flights-standby-1")]
    state = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    pod["status"] = {"phase": "Pending", "containerStatuses": [{"name": "driver", "state": state}]}
    world.run(3)
    assert is_in(world, UpgradeState.PREPARE)

    state["waiting"]["reason"] = "ImagePullBackOff"
    world.cluster.show(pod)
    world.run(5)

    assert answer(world.status, ConditionType.UPGRADE_BLOCKED) == (ConditionStatus.TRUE, "ImagePullBackOff")
    assert pods(world) == ["flights-driver-1"]


def test_a_manifest_that_the_api_server_refuses_blocks_its_revision() -> None:
    world = running()

    def reject(what: str) -> None:
        if what.startswith("create Pod"):
            raise errors.SpecRejectedError("ManifestRejected", "spec.containers[0].image: Required value")

    world.cluster.before_write = reject
    world.change(NEW_IMAGE)
    world.run(30)

    assert answer(world.status, ConditionType.UPGRADE_BLOCKED) == (ConditionStatus.TRUE, "ManifestRejected")
    assert (world.status.phase, world.driver.exit_code) == (Phase.RUNNING, None)


def test_a_standby_that_never_gets_ready_blocks_its_revision() -> None:
    world = running({"upgrade": {"strategy": "Warm", "standbyTimeout": "30s"}})

    def stick(driver: FakeDriver) -> None:
        driver.warming_takes = timedelta(hours=1)

    world.on_start = stick
    world.change(NEW_IMAGE)
    world.run_until(lambda: is_in(world, UpgradeState.BLOCKED), within_s=60)

    assert upgrade_of(world).reason == "StandbyNotReady"
    assert world.driver.exit_code is None


def waits(world: JobWorld, why: str) -> bool:
    """Tell whether the old revision runs on, and the job says why the new one does not."""
    runs = (world.status.phase, world.driver.stop_id, upgrade_of(world).state) == (
        Phase.RUNNING,
        None,
        UpgradeState.PREPARE,
    )
    return (
        runs and why in (world.status.message or "") and answer(world.status, ConditionType.READY)[1] == "UpgradeWaits"
    )


def test_without_room_for_a_standby_the_upgrade_waits_and_says_what_to_do() -> None:
    world = running({"upgrade": {"strategy": "Warm", "standbyTimeout": "30s"}})
    world.has_room = lambda pod: "standby" not in pod
    world.change(NEW_IMAGE)
    world.run(3600)
    assert waits(world, "0/2 nodes fit")
    assert "set spec.upgrade.strategy to Cold" in (world.status.message or "")
    assert world.reasons.count("StandbyWaits") == 1

    world.has_room = lambda _pod: True

    world.run_until(lambda: is_in(world, UpgradeState.FIRST_CHECKPOINT))
    assert world.driver.pod == "flights-standby-1"


def test_an_upgrade_that_waits_for_room_goes_on_cold_by_a_persons_word() -> None:
    world = running()
    world.has_room = lambda pod: "standby" not in pod
    world.change(NEW_IMAGE)
    world.run(30)

    world.change({"upgrade": {"strategy": "Cold"}})

    world.run_until(lambda: is_in(world, UpgradeState.FIRST_CHECKPOINT))
    assert world.driver.pod == "flights-driver-2"
    assert "flights-standby-1" not in pods(world)
    assert (world.driver.restored_from or "").startswith("savepoint")


def test_a_standby_that_storage_refuses_says_so_at_once_blocks_nothing_and_is_replaced() -> None:
    world = running({"upgrade": {"strategy": "Warm", "standbyTimeout": "30s"}})

    def refuse(driver: FakeDriver) -> None:
        driver.warming_takes = timedelta(hours=1)
        refused = {"reason": "AccessDenied", "message": "S3 refused the keys."}
        driver.standby = driver.standby.model_copy(update=refused) if driver.standby is not None else None

    world.on_start = refuse
    world.change(NEW_IMAGE)
    world.run(8)
    assert waits(world, "S3 refused the keys.")
    world.run(600)
    assert waits(world, "S3 refused the keys.")

    world.on_start = lambda _driver: None

    world.run_until(lambda: is_in(world, UpgradeState.FIRST_CHECKPOINT), within_s=700)


def test_a_new_revision_that_storage_fails_is_not_rolled_back() -> None:
    world = running()
    world.change({**NEW_IMAGE, "restart": {"maxFailures": 3}})
    world.run_until(lambda: is_in(world, UpgradeState.ACTIVATING))
    world.on_start = lambda driver: driver.end(16, "AccessDenied", "S3 refused the keys.")
    world.fail_driver(16, "AccessDenied", "S3 refused the keys.")

    world.run(3600)

    assert (world.status.stalled, world.status.restarts.charged) == (None, 0)
    assert world.status.restarts.consecutive > 5
    assert "S3 refused the keys." in (world.status.message or "")
    world.on_start = lambda _driver: None
    world.run_until(lambda: is_in(world, UpgradeState.FIRST_CHECKPOINT), within_s=700)
    assert "RolledBack" not in world.reasons


def test_the_present_trouble_is_told_beside_a_withheld_upgrade() -> None:
    world = running()
    world.on_start = lambda driver: driver.end(13, "JobFileRaised", "NameError in line 3.")
    world.change(NEW_IMAGE)
    world.run_until(lambda: is_in(world, UpgradeState.BLOCKED))
    world.on_start = lambda driver: driver.end(16, "AccessDenied", "S3 refused the keys.")
    world.fail_driver(16, "AccessDenied", "S3 refused the keys.")

    world.run(120)

    ready = next(one for one in world.status.conditions if one.type is ConditionType.READY)
    assert "S3 refused the keys." in ready.message
    assert answer(world.status, ConditionType.UPGRADE_BLOCKED) == (ConditionStatus.TRUE, "JobFileRaised")


def test_an_activation_that_gets_lost_is_repeated() -> None:
    world = running()
    world.change(NEW_IMAGE)
    lost = []

    def lose(what: str) -> None:
        if what.startswith("activate") and len(lost) < 3:
            lost.append(what)
            world.drivers.running["flights-standby-1"].answers = False

    world.drivers.before_request = lose
    for _ in range(60):
        world.run(1)
        for driver in world.drivers.running.values():
            driver.answers = True
    assert len(lost) == 3
    assert is_in(world, UpgradeState.FIRST_CHECKPOINT, UpgradeState.STABLE)
    assert world.driver.pod == "flights-standby-1"


@pytest.mark.parametrize("strategy", ["Warm", "Cold"])
def test_state_from_nothing_starts_every_revision_empty_and_takes_no_savepoint(strategy: str) -> None:
    world = running()
    world.change({"upgrade": {"strategy": strategy, "stateFrom": "Empty"}})
    world.run(15)
    assert world.status.epoch == 1  # The running revision is not a new one.
    world.change(NEW_IMAGE)

    world.run_until(lambda: is_in(world, UpgradeState.FIRST_CHECKPOINT))

    assert (world.driver.restored_from, world.storage.latest(SnapshotKind.SAVEPOINT)) == (None, None)


def test_a_standby_that_a_quota_forbids_is_waited_for() -> None:
    world = running({"upgrade": {"strategy": "Warm", "standbyTimeout": "30s"}})

    def forbid(what: str) -> None:
        if what.startswith("create Pod flights-standby"):
            raise errors.StateUnknownError("QuotaExceeded", "exceeded quota: pods=1")

    world.cluster.before_write = forbid
    world.change(NEW_IMAGE)
    world.run(1200)
    assert waits(world, "exceeded quota: pods=1")
    assert (world.reasons.count("StandbyCreated"), world.reasons.count("QuotaExceeded")) == (1, 1)

    world.cluster.before_write = lambda _what: None

    world.run_until(lambda: is_in(world, UpgradeState.FIRST_CHECKPOINT), within_s=400)
