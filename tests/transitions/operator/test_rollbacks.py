"""A new revision that fails before it is stable: the one before runs again, and no row comes twice without a person's word.

The oracle is the rows that the sink has, in order: each driver commits one a second.
"""

from __future__ import annotations

import pytest
from jobworld import FakeDriver, JobWorld
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import SnapshotKind
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.status import Phase, RevisionOutcome, UpgradeState
from statefulspark_operator.cluster import resources

NEW_IMAGE: resources.Resource = {"image": "registry.example/flights:2"}
OLD_IMAGE = "registry.example/flights:1"
MODES = pytest.mark.parametrize("mode", ["Warm", "Cold"])


def running(mode: str, **upgrade: resources.Resource | str | int) -> JobWorld:
    """A job that runs and has completed a checkpoint; its new revisions do not run yet."""
    world = JobWorld()
    world.change({"upgrade": {"strategy": mode, **upgrade}})  # type: ignore[dict-item]
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


def old_refuses(world: JobWorld, reason: str, *, withdraws: bool = False) -> None:
    """Let every later driver of the old revision refuse the newest state; its sinks may withdraw rows."""

    def starts(driver: FakeDriver) -> None:
        pod = world.cluster.objects[("Pod", "demo", driver.pod)]
        if resources.items(pod, "spec", "containers")[0]["image"] == OLD_IMAGE:
            driver.refuses_newest, driver.withdraws = reason, withdraws

    world.on_start = starts


def rows_of(world: JobWorld) -> list[int]:
    return [row for row, _ in world.storage.output]


def have_each_row_once(world: JobWorld) -> bool:
    rows = rows_of(world)
    return rows == list(range(1, len(rows) + 1))


ENDS = pytest.mark.parametrize(
    ("code", "reason", "after_s"),
    [
        pytest.param(1, "QueryFailed", 7, id="failed after batches"),
        pytest.param(1, "QueryFailed", 0, id="failed before a batch"),
        pytest.param(137, "OOMKilled", 7, id="killed for its memory"),
        pytest.param(13, "BadJob", 0, id="a wrong job file"),
        pytest.param(13, "FunctionInvalid", 7, id="a wrong job file, found later"),
        pytest.param(14, "NonRestoredState", 0, id="state that does not fit"),
        pytest.param(14, "StateIncompatible", 7, id="state that does not fit, found later"),
    ],
)
OF_SURROUNDINGS = pytest.mark.parametrize(
    ("code", "reason"), [(12, "Fenced"), (16, "AccessDenied"), (17, "SegmentDamaged"), (18, "InputLost")]
)
POLICIES = pytest.mark.parametrize("policy", ["Automatic", "Manual"])


@OF_SURROUNDINGS
def test_a_new_revision_is_not_rolled_back_for_what_its_surroundings_do(code: int, reason: str) -> None:
    world = running("Cold")
    world.change(NEW_IMAGE)
    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)

    for _ in range(5):
        world.fail_driver(code, reason)
        world.run(30)

    assert "RolledBack" not in world.reasons
    assert world.status.revision == world.status.update_revision


def fail_and_go_back(world: JobWorld, policy: str, code: int, reason: str, after_s: int) -> int:
    """Let the new revision fail, and give the word that a manual rollback waits for; return the rows before it began."""
    world.change(NEW_IMAGE)
    fail_as_driver(world, code, reason, after_s=after_s)
    if policy == "Manual":
        assert world.status.stalled is not None
        assert world.status.stalled.reason == "RollbackNeeded"
        world.change({"upgrade": {"rollbackPolicy": "Automatic"}})
    savepoint = world.storage.latest(SnapshotKind.SAVEPOINT)
    assert savepoint is not None
    return savepoint.rows


@POLICIES
@ENDS
def test_a_rollback_goes_on_after_what_the_failed_revision_has_committed(
    policy: str, code: int, reason: str, after_s: int
) -> None:
    world = running("Warm", rollbackPolicy=policy)
    fail_and_go_back(world, policy, code, reason, after_s)
    left = world.storage.head

    world.run_until(lambda: world.status.phase is Phase.RUNNING and image_of(world) == OLD_IMAGE)
    world.run_until(lambda: world.status.restore is None)

    assert have_each_row_once(world)
    assert world.storage.head > left
    told = message_of(world, "RolledBack")
    assert "the newest state" in told
    assert f"revision {world.status.history[0].revision} commit" in told.lower()
    assert condition(world, ConditionType.UPGRADE_BLOCKED) is ConditionStatus.TRUE


@POLICIES
@ENDS
def test_state_that_the_old_revision_does_not_fit_asks_unless_nothing_was_committed(
    policy: str, code: int, reason: str, after_s: int
) -> None:
    world = running("Warm", rollbackPolicy=policy)
    old_refuses(world, "NonRestoredState")
    before = fail_and_go_back(world, policy, code, reason, after_s)
    left = world.storage.head

    world.run_until(
        lambda: world.status.phase in (Phase.RUNNING, Phase.STALLED) and is_in(world, UpgradeState.ROLLED_BACK)
    )
    world.run(60)

    assert have_each_row_once(world)
    if left == before:
        assert (world.status.phase, image_of(world), world.status.stalled) == (Phase.RUNNING, OLD_IMAGE, None)
        return
    assert world.status.stalled is not None
    assert (world.status.phase, world.status.stalled.reason) == (Phase.STALLED, "RollbackNeedsDecision")
    assert world.storage.head == left


@POLICIES
@ENDS
def test_sinks_that_withdraw_go_back_to_the_savepoint_without_asking(
    policy: str, code: int, reason: str, after_s: int
) -> None:
    world = running("Warm", rollbackPolicy=policy)
    old_refuses(world, "NonRestoredState", withdraws=True)
    fail_and_go_back(world, policy, code, reason, after_s)

    world.run_until(lambda: world.status.phase is Phase.RUNNING and image_of(world) == OLD_IMAGE)

    savepoint = world.storage.latest(SnapshotKind.SAVEPOINT)
    assert savepoint is not None
    assert world.driver.restored_from == f"savepoint {savepoint.id}"
    assert have_each_row_once(world)


def stalled_for_a_decision() -> JobWorld:
    world = running("Warm")
    old_refuses(world, "NonRestoredState")
    world.change(NEW_IMAGE)
    fail_as_driver(world, 1, "QueryFailed", after_s=7)
    world.run_until(lambda: world.status.stalled is not None)
    return world


def test_the_question_names_the_batches_the_repeated_rows_and_the_command() -> None:
    world = stalled_for_a_decision()
    savepoint = world.storage.latest(SnapshotKind.SAVEPOINT)
    assert savepoint is not None
    assert world.status.stalled is not None
    message = world.status.stalled.message

    assert f"delays {savepoint.rows + 1} to" in message
    assert "NonRestoredState" in message
    assert f"rows {savepoint.rows + 1} to {world.storage.head} would be written once more" in message
    assert (
        "kubectl -n demo patch ssj flights --type merge -p "
        f'\'{{"spec":{{"restore":{{"source":{{"uri":"{savepoint.location}"}}}}}}}}\'' in message
    )
    assert "restore.repeatOutputOf" in message
    assert world.status.message is not None
    assert "restore.repeatOutputOf" in world.status.message


def test_the_command_goes_back_to_the_savepoint_and_rows_come_again_by_a_persons_word() -> None:
    world = stalled_for_a_decision()
    savepoint = world.storage.latest(SnapshotKind.SAVEPOINT)
    assert savepoint is not None

    world.change({"restore": {"source": {"uri": savepoint.location}, "repeatOutputOf": ["delays/out"]}})
    world.run_until(lambda: world.status.phase is Phase.RUNNING)

    assert (image_of(world), world.driver.restored_from) == (OLD_IMAGE, f"savepoint {savepoint.id}")
    assert world.storage.repeated[:1] == [savepoint.rows + 1]


def test_the_rights_of_a_spec_whose_revision_is_rolled_back_are_marked_as_those_of_another_revision() -> None:
    """It may name sinks that only the other revision has, which the driver would refuse otherwise."""
    world = running("Warm")
    marked = [_of_another_revision(world)]
    world.change({**NEW_IMAGE, "restore": {"repeatOutputOf": ["delays/new"]}})
    world.run_until(lambda: world.status.phase is Phase.RUNNING and image_of(world) != OLD_IMAGE)
    marked.append(_of_another_revision(world))
    fail_as_driver(world, 13, "BadJob")
    world.run_until(lambda: world.status.phase is Phase.RUNNING and image_of(world) == OLD_IMAGE)
    marked.append(_of_another_revision(world))

    assert marked == [((), False), (("delays/new",), False), (("delays/new",), True)]


def _of_another_revision(world: JobWorld) -> tuple[tuple[str, ...], bool]:
    restore = RestoreConfig.model_validate(resources.section(dict(world.driver.config), "restore"))
    return restore.repeat_output_of, restore.of_another_revision


def test_a_corrected_revision_goes_on_from_the_newest_state_and_may_have_new_parts() -> None:
    world = stalled_for_a_decision()
    world.on_start = lambda _driver: None

    world.change({"image": "registry.example/flights:3"})
    world.run_until(lambda: world.status.phase is Phase.RUNNING)

    assert image_of(world) == "registry.example/flights:3"
    assert resources.section(dict(world.driver.config), "restore")["rollback"] is False  # type: ignore[arg-type]
    assert have_each_row_once(world)


def test_a_corrected_revision_that_comes_while_the_way_back_is_refused_is_started() -> None:
    world = running("Warm")
    old_refuses(world, "NonRestoredState")
    world.change(NEW_IMAGE)
    fail_as_driver(world, 1, "QueryFailed", after_s=7)
    world.run_until(lambda: world.status.restore is not None and world.status.restore.snapshot is not None)
    world.run_until(lambda: world.driver.exit_code == 14 and world.driver.epoch == world.status.epoch)

    world.change({"image": "registry.example/flights:3"})
    world.run_until(lambda: world.status.phase is Phase.RUNNING)

    assert image_of(world) == "registry.example/flights:3"
    assert have_each_row_once(world)


def test_an_old_revision_that_fails_on_the_newest_state_is_told_the_savepoint_as_the_way_back() -> None:
    world = running("Warm", rollbackPolicy="Manual")
    world.change({"restart": {"maxFailures": 3}})
    world.change(NEW_IMAGE)
    fail_as_driver(world, 1, "QueryFailed", after_s=7)
    world.on_start = lambda driver: driver.end(1, "QueryFailed", "poisoned")
    world.change({"upgrade": {"rollbackPolicy": "Automatic"}})

    world.run_until(lambda: is_in(world, UpgradeState.ROLLED_BACK))
    world.run_until(lambda: world.status.stalled is not None)

    savepoint = world.storage.latest(SnapshotKind.SAVEPOINT)
    assert savepoint is not None
    assert world.status.stalled is not None
    assert world.status.stalled.reason == "BudgetExhausted"
    assert f'"source":{{"uri":"{savepoint.location}"}}' in world.status.stalled.message


def test_without_a_savepoint_the_old_revision_goes_on_from_the_newest_state() -> None:
    world = running("Cold")
    world.change({"upgrade": {"stateFrom": "LatestCheckpoint"}})
    world.change(NEW_IMAGE)
    world.run_until(lambda: is_in(world, UpgradeState.FIRST_CHECKPOINT))
    fail_as_driver(world, 13, "BadJob")

    world.run_until(lambda: world.status.phase is Phase.RUNNING and image_of(world) == OLD_IMAGE)

    assert have_each_row_once(world)


@MODES
@pytest.mark.parametrize(("code", "reason"), [(13, "BadJob"), (14, "NonRestoredState")])
def test_a_state_or_job_file_that_does_not_fit_leads_back_at_once(mode: str, code: int, reason: str) -> None:
    world = running(mode)
    world.change(NEW_IMAGE)
    fail_as_driver(world, code, reason)

    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.epoch == 3)

    assert image_of(world) == "registry.example/flights:1"
    assert world.status.stalled is None
    assert have_each_row_once(world)
    assert world.status.history[0].outcome is RevisionOutcome.ROLLED_BACK
    assert [event for event in world.reasons if event == "RolledBack"] == ["RolledBack"]


@pytest.mark.parametrize(
    ("message", "within_s"),
    [
        pytest.param("i:2: not found", 10, id="no registry has it: at once"),
        pytest.param("dial tcp: i/o timeout", 330, id="no registry answers: after standbyTimeout"),
        pytest.param("pull access denied, repository does not exist or may require login", 330, id="nobody can tell"),
    ],
)
@POLICIES
def test_a_revision_whose_image_cannot_be_pulled_does_not_keep_the_job_down(
    message: str, within_s: int, policy: str
) -> None:
    world = running("Cold", rollbackPolicy=policy)
    world.kubelet_starts_pods = False
    world.change(NEW_IMAGE)
    world.run_until(lambda: world.status.epoch == 2, within_s=30)
    pod = world.cluster.objects[("Pod", "demo", "flights-driver-2")]
    state: resources.Resource = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
    pod["status"] = {"phase": "Pending", "containerStatuses": [{"name": "driver", "state": state}]}
    world.cluster.show(pod)
    begun = world.time
    world.run_until(
        lambda: is_in(world, UpgradeState.ROLLED_BACK) or world.status.stalled is not None, within_s=within_s
    )

    assert (world.time - begun).total_seconds() > within_s - 40
    assert message in (world.status.stalled or world.status.upgrade or world.status).message  # type: ignore[operator]
    world.kubelet_starts_pods = True
    world.run(30)
    if policy == "Manual":
        assert world.status.stalled is not None
        assert world.status.stalled.reason == "RollbackNeeded"
    else:
        assert (world.status.phase, image_of(world)) == (Phase.RUNNING, OLD_IMAGE)


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


def test_checkpoints_of_all_drivers_of_a_revision_make_it_stable() -> None:
    world = running("Warm", stableAfterCheckpoints=4)
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


def test_rollback_by_hand_stalls_with_the_command_that_goes_back() -> None:
    world = running("Warm", rollbackPolicy="Manual")
    world.change(NEW_IMAGE)
    fail_as_driver(world, 13, "BadJob")
    world.run(30)
    assert world.status.stalled is not None
    assert world.status.phase is Phase.STALLED
    assert (
        'kubectl -n demo patch ssj flights --type merge -p \'{"spec":{"upgrade":{"rollbackPolicy":"Automatic"}}}\''
        in world.status.stalled.message
    )

    world.change({"upgrade": {"rollbackPolicy": "Automatic"}})

    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    assert (image_of(world), world.status.stalled) == ("registry.example/flights:1", None)


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

    assert image_of(world) == "registry.example/flights:1"
    assert have_each_row_once(world)


def old_lacks_a_place(world: JobWorld) -> None:
    """Let the new revision add a uid, which no driver or standby of the old one has."""

    def starts(driver: FakeDriver) -> None:
        pod = world.cluster.objects[("Pod", "demo", driver.pod)]
        driver.lacks_place = resources.items(pod, "spec", "containers")[0]["image"] == OLD_IMAGE

    world.on_start = starts


@MODES
@POLICIES
def test_an_old_revision_goes_on_without_the_uid_that_the_failed_one_added(mode: str, policy: str) -> None:
    world = running(mode, rollbackPolicy=policy)
    old_lacks_a_place(world)
    fail_and_go_back(world, policy, 1, "QueryFailed", 7)
    left = world.storage.head

    world.run_until(lambda: world.status.phase is Phase.RUNNING and image_of(world) == OLD_IMAGE)
    world.run_until(lambda: world.status.restore is None)

    assert have_each_row_once(world)
    assert world.storage.head > left
    assert (world.status.kept_aside, world.reasons.count("StateKeptAside")) == ("'added' is kept aside.", 1)


@MODES
@pytest.mark.parametrize("is_stable", [True, False], ids=["stable", "on trial"])
def test_a_person_goes_back_to_a_revision_without_the_uid_that_a_later_one_added(mode: str, is_stable: bool) -> None:
    world = running(mode)
    world.run_until(lambda: world.status.history[0].outcome is RevisionOutcome.STABLE)
    old_lacks_a_place(world)
    world.change(NEW_IMAGE)
    world.run_until(lambda: is_in(world, UpgradeState.STABLE if is_stable else UpgradeState.FIRST_CHECKPOINT))

    world.change({"image": OLD_IMAGE})
    world.run_until(lambda: is_in(world, UpgradeState.STABLE) and image_of(world) == OLD_IMAGE)

    assert have_each_row_once(world)
    assert world.status.kept_aside == "'added' is kept aside."
    assert (world.status.message or "").endswith("'added' is kept aside.")
    world.on_start = lambda _driver: None
    epoch = world.status.epoch or 0
    world.kill_driver()
    world.run_until(lambda: world.status.epoch == epoch + 1 and world.status.phase is Phase.RUNNING)
    assert keeps_aside(world) is False


def test_a_person_goes_back_while_the_job_is_suspended() -> None:
    world = running("Cold")
    world.run_until(lambda: world.status.history[0].outcome is RevisionOutcome.STABLE)
    old_lacks_a_place(world)
    world.change(NEW_IMAGE)
    world.run_until(lambda: is_in(world, UpgradeState.STABLE))
    world.change({"suspend": True})
    world.run_until(lambda: world.status.phase is Phase.SUSPENDED)

    world.change({"suspend": False, "image": OLD_IMAGE})
    world.run_until(lambda: world.status.phase is Phase.RUNNING)

    assert (image_of(world), world.status.kept_aside) == (OLD_IMAGE, "'added' is kept aside.")


def test_a_revision_that_never_ran_is_refused_if_it_lacks_a_uid() -> None:
    world = running("Warm")
    world.on_start = lambda driver: setattr(driver, "lacks_place", True)
    world.change(NEW_IMAGE)

    world.run_until(lambda: is_in(world, UpgradeState.BLOCKED))

    assert world.status.upgrade is not None
    assert world.status.upgrade.reason == "NonRestoredState"


def keeps_aside(world: JobWorld) -> bool:
    return RestoreConfig.model_validate(resources.section(dict(world.driver.config), "restore")).keep_aside
