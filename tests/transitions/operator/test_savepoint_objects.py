"""Savepoints as objects, through the whole operator: whatever dies, each is taken once, and ends once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from jobworld import KEY, JobWorld, OperatorDiedError
from statefulspark.contract.manifest import SnapshotFormat, SnapshotKind, Trigger
from statefulspark.retention.ownership import Ownership, Whose
from statefulspark_operator.api.spark_savepoint import SavepointOrigin, SavepointPhase, SparkSavepointStatus
from statefulspark_operator.api.status import Phase
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.cluster.storage_reader import StorageTarget
from statefulspark_operator.lifecycle.storage_facts import StorageUnreadable

NIGHTLY: Resource = {"savepoint": {"schedule": {"cron": "* * * * *"}, "retention": {"count": 2}}}


def running(change: Resource | None = None) -> JobWorld:
    """A job that runs and has completed a checkpoint."""
    world = JobWorld()
    if change is not None:
        world.change(change)
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    return world


def ask(world: JobWorld, name: str, **spec: object) -> None:
    """Create an object, as a user does."""
    meta: Resource = {"name": name, "namespace": KEY.namespace}
    kind, version = resources.SAVEPOINT.name, resources.SAVEPOINT.api_version
    wanted: Resource = {"jobName": KEY.name, **spec}  # type: ignore[dict-item]
    world.cluster.add({"apiVersion": version, "kind": kind, "metadata": meta, "spec": wanted})


def place(name: str) -> tuple[str, str, str]:
    return (resources.SAVEPOINT.name, KEY.namespace, name)


def discard(world: JobWorld, name: str) -> None:
    """Delete an object, as a user does."""
    world.cluster.remove(place(name))


def found(world: JobWorld) -> dict[str, SparkSavepointStatus]:
    """The status of every object by name."""
    return {
        name: SparkSavepointStatus.model_validate(resources.section(stored, "status"))
        for (kind, _, name), stored in world.cluster.objects.items()
        if kind == resources.SAVEPOINT.name
    }


def is_in(world: JobWorld, phase: SavepointPhase, *wanted: str) -> Callable[[], bool]:
    return lambda: all(name in found(world) and found(world)[name].phase is phase for name in wanted)


def savepoints(world: JobWorld) -> list[str]:
    """The savepoints on storage."""
    return [snapshot.location for snapshot in world.storage.snapshots if snapshot.kind is SnapshotKind.SAVEPOINT]


def test_an_object_is_a_savepoint_and_says_where_it_is() -> None:
    world = running()

    ask(world, "before-the-move", format="Canonical")
    world.run_until(is_in(world, SavepointPhase.COMPLETED, "before-the-move"))

    (location,) = savepoints(world)
    status = found(world)["before-the-move"]
    assert (status.location, status.origin, status.attempt) == (location, SavepointOrigin.MANUAL, 1)
    assert status.size_bytes is not None
    assert list(world.driver.savepoint_formats.values()) == [SnapshotFormat.CANONICAL]
    assert world.status.phase is Phase.RUNNING


def test_two_that_wait_together_share_one_and_a_different_one_waits() -> None:
    world = running()
    for name in ("first", "second"):
        ask(world, name)
    ask(world, "other", format="Canonical")

    world.run_until(is_in(world, SavepointPhase.COMPLETED, "first", "second", "other"))

    status = found(world)
    assert status["first"].location == status["second"].location
    assert status["other"].location != status["first"].location
    assert len(savepoints(world)) == 2


def test_an_object_of_a_job_that_does_not_run_says_what_it_waits_for() -> None:
    world = running()
    world.change({"suspend": True})
    world.run_until(lambda: world.status.phase is Phase.SUSPENDED and world.driver.exit_code is not None)

    ask(world, "later")
    world.run(5)
    waiting = found(world)["later"]
    world.change({"suspend": False})
    world.run_until(is_in(world, SavepointPhase.COMPLETED, "later"))

    assert waiting.phase is SavepointPhase.PENDING
    assert waiting.message == "Waits for the driver of flights, which is Suspended."


def test_a_driver_that_dies_over_it_is_followed_by_another_that_is_asked_anew() -> None:
    world = running()
    world.driver.hangs_since = world.time
    ask(world, "unlucky")
    world.run_until(is_in(world, SavepointPhase.IN_PROGRESS, "unlucky"))

    world.kill_driver()
    world.run_until(is_in(world, SavepointPhase.COMPLETED, "unlucky"))

    status = found(world)["unlucky"]
    assert status.attempt == 2
    assert savepoints(world) == [status.location]


@pytest.mark.parametrize(
    ("change", "name", "origin"),
    [
        pytest.param(
            {"image": "registry.example/flights:2"}, "flights-upgrade-", SavepointOrigin.UPGRADE, id="upgrade"
        ),
        pytest.param({"suspend": True}, "flights-stop-", SavepointOrigin.STOP, id="suspension"),
    ],
)
def test_every_savepoint_of_the_operator_has_an_object(change: Resource, name: str, origin: SavepointOrigin) -> None:
    world = running()

    world.change(change)
    world.run_until(lambda: any(status.phase is SavepointPhase.COMPLETED for status in found(world).values()))
    world.run(30)

    ((made, status),) = found(world).items()
    assert made.startswith(name)
    assert (status.origin, [status.location]) == (origin, savepoints(world))


def test_a_savepoint_whose_name_is_taken_has_another_name_and_is_made_once() -> None:
    """Numbers begin anew when a job is made again with state at another location; the objects of the first one stay."""
    world = running()
    ask(world, "flights-stop-2", jobName="another")

    world.change({"suspend": True})
    world.run_until(lambda: world.status.phase is Phase.SUSPENDED)
    world.run(10)

    (location,) = savepoints(world)
    (name,) = found(world).keys() - {"flights-stop-2"}
    assert name.startswith("flights-stop-2-")
    assert found(world)[name].location == location
    made, passes = [write for write in world.cluster.writes if write.startswith("create SparkSavepoint")], world.passes
    assert made == [f"create SparkSavepoint {name}"]
    world.run(60)
    assert world.passes - passes < 10


def test_a_savepoint_whose_name_is_taken_by_what_cannot_be_read_is_not_tried_without_a_pause() -> None:
    world = running()
    ask(world, "flights-stop-2", format="OfALaterRelease")

    world.change({"suspend": True})
    world.run_until(lambda: world.status.phase is Phase.SUSPENDED)
    passes = world.passes
    world.run(60)

    assert world.passes - passes <= 60


def test_the_last_savepoint_of_a_deleted_job_has_an_object_that_outlives_it() -> None:
    world = running({"deletionPolicy": "Savepoint"})

    world.delete()
    world.run_until(lambda: not world.exists)

    ((name, status),) = found(world).items()
    assert name.startswith("flights-deletion-")
    assert (status.phase, status.origin) == (SavepointPhase.COMPLETED, SavepointOrigin.DELETION)
    assert [status.location] == savepoints(world)


def test_an_object_outlives_its_job_and_its_files_can_still_be_disposed_of() -> None:
    world = running()
    ask(world, "kept", deletionPolicy="Delete")
    world.run_until(is_in(world, SavepointPhase.COMPLETED, "kept"))
    world.delete()
    world.run_until(lambda: not world.exists)

    discard(world, "kept")
    world.reconcile()

    assert found(world) == {}
    assert savepoints(world) == []
    assert (world.reasons[-1], world.cluster.told_about[-1]) == ("SavepointDisposed", "SparkSavepoint kept")


@pytest.mark.parametrize(("policy", "left"), [("Retain", 1), ("Delete", 0)])
def test_deleting_an_object_keeps_or_deletes_its_files(policy: str, left: int) -> None:
    world = running()
    ask(world, "mine", deletionPolicy=policy)
    world.run_until(is_in(world, SavepointPhase.COMPLETED, "mine"))

    discard(world, "mine")
    world.run(5)

    assert found(world) == {}
    assert len(savepoints(world)) == left


def test_bytes_of_a_savepoint_are_told_and_counted_once_however_often_its_object_has_changed_meanwhile() -> None:
    world = running()
    ask(world, "mine", deletionPolicy="Delete")
    world.run_until(is_in(world, SavepointPhase.COMPLETED, "mine"))
    size_bytes = found(world)["mine"].size_bytes
    discard(world, "mine")
    touch = world.cluster._touch
    world.cluster.before_write = lambda what: touch(place("mine"), is_own=False) if what == "patch mine" else None
    world.run(3)
    assert (world.world.freed.disposed, "mine" in found(world)) == (0, True)

    world.cluster.before_write = lambda _what: None
    world.run(10)

    told = [note.message for note in world.cluster.events if note.reason == "SavepointDisposed"]
    assert told == [f"mine: deleted {size_bytes} bytes."]
    assert (world.world.freed.disposed, found(world)) == (size_bytes, {})


def test_files_that_cannot_be_deleted_hold_the_object_which_says_why() -> None:
    world = running()
    ask(world, "mine", deletionPolicy="Delete")
    world.run_until(is_in(world, SavepointPhase.COMPLETED, "mine"))
    world.storage.unreadable = StorageUnreadable("StorageUnreachable", "s3 does not answer.")

    discard(world, "mine")
    world.run(5)
    held = found(world)["mine"]
    world.storage.unreadable = None
    world.run(10)

    assert held.message is not None
    assert held.message.startswith("The operator cannot delete the files: s3 does not answer.")
    assert found(world) == {}
    assert savepoints(world) == []


def test_an_object_that_is_deleted_while_its_savepoint_is_taken_goes_after_it() -> None:
    world = running()
    world.driver.hangs_since = world.time
    ask(world, "mine", deletionPolicy="Delete")
    world.run_until(is_in(world, SavepointPhase.IN_PROGRESS, "mine"))

    discard(world, "mine")
    world.run(3)
    during = set(found(world))
    world.driver.hangs_since = None
    world.run(10)

    assert during == {"mine"}
    assert found(world) == {}
    assert savepoints(world) == []


def test_what_is_on_storage_is_adopted_also_outside_the_folder_of_the_job() -> None:
    world = running()
    elsewhere = world.storage.add(
        SnapshotKind.SAVEPOINT, rows=5, epoch=1, at=world.time - timedelta(days=30), trigger=Trigger.MANUAL
    )
    world.storage.snapshots[-1] = type(elsewhere)(**{**vars(elsewhere), "location": "s3://archive/old/43"})

    ask(world, "old", source={"uri": "s3://archive/old/43/"})
    ask(world, "lost", source={"uri": "s3://archive/old/44"})
    world.run(5)

    status = found(world)
    assert (status["old"].phase, status["old"].location) == (SavepointPhase.COMPLETED, "s3://archive/old/43")
    assert (status["old"].origin, status["old"].size_bytes) == (SavepointOrigin.ADOPTED, 5)
    assert (status["lost"].phase, status["lost"].message) == (
        SavepointPhase.FAILED,
        "s3://archive/old/44 has no savepoint.",
    )


def test_a_restore_may_name_an_object_and_waits_for_it_while_the_job_runs() -> None:
    world = running()
    world.change({"restore": {"source": {"savepointName": "golden"}}})
    world.run(30)
    before = (world.driver.epoch, world.status.phase)

    ask(world, "golden")
    world.run_until(lambda: world.driver.epoch > 1 and world.status.phase is Phase.RUNNING)

    assert before == (1, Phase.RUNNING)
    (location,) = [place for place in savepoints(world) if place == found(world)["golden"].location]
    assert world.status.driver is not None
    assert world.status.driver.restore is not None
    assert world.status.driver.restore.snapshot == location


def test_a_start_from_an_object_that_failed_asks_for_another_one() -> None:
    world = JobWorld()
    ask(world, "lost", source={"uri": "s3://archive/old/44"})
    world.change({"restore": {"source": {"savepointName": "lost"}}})

    world.run_until(lambda: world.status.phase is Phase.STALLED)

    assert world.status.message is not None
    assert world.status.message.endswith("'lost' failed: s3://archive/old/44 has no savepoint. Name another one.")
    assert not world.drivers.running


def test_a_start_that_was_asked_for_in_place_of_a_missing_savepoint_waits_for_the_object_that_it_names() -> None:
    world = running()
    world.change({"restore": {"source": {"uri": "s3://archive/old/44"}}})
    world.run_until(lambda: world.status.phase is Phase.STALLED)
    world.change({"restore": {"source": {"uri": None, "savepointName": "golden"}}})
    world.run(5)
    waits = world.status

    golden = world.storage.add(
        SnapshotKind.SAVEPOINT, rows=5, epoch=1, at=world.time - timedelta(days=30), trigger=Trigger.MANUAL
    )
    ask(world, "golden", source={"uri": golden.location})
    world.run_until(lambda: world.status.phase is Phase.RUNNING)

    assert (waits.phase, waits.stalled) == (Phase.PENDING, None)
    assert waits.message is not None
    assert waits.message.startswith("spec.restore.source.savepointName: There is no SparkSavepoint 'golden'")
    assert world.driver.restored_from == f"savepoint {golden.id}"


def test_a_schedule_whose_savepoints_fail_leaves_as_many_objects_as_it_may_keep() -> None:
    world = running(NIGHTLY)
    world.driver.savepoints_fail = True
    ask(world, "mine")

    world.run(600)

    failed = sorted(name for name, status in found(world).items() if status.phase is SavepointPhase.FAILED)
    assert failed == ["flights-scheduled-202601010009", "flights-scheduled-202601010010", "mine"]
    assert "SavepointPruned" in world.reasons


def test_a_schedule_takes_savepoints_and_keeps_as_many_as_it_says() -> None:
    world = running(NIGHTLY)

    world.run(300)

    kept = found(world)
    assert len(kept) in (2, 3), "the newest may be under way"
    assert len(savepoints(world)) == 2, "what is pruned is deleted"
    assert all(name.startswith("flights-scheduled-2026010100") for name in kept)
    assert {status.origin for status in kept.values()} == {SavepointOrigin.SCHEDULED}
    schedule = world.status.savepoint_schedule
    assert schedule is not None
    assert (schedule.missed, schedule.next_at > world.time - timedelta(seconds=5)) == (0, True)
    assert "SavepointPruned" in world.reasons


def suspend_and_resume(world: JobWorld) -> None:
    world.change({"suspend": True})
    world.run_until(lambda: world.status.phase is Phase.SUSPENDED)
    world.change({"suspend": False})
    world.run_until(lambda: world.status.phase is Phase.RUNNING)


def test_savepoints_of_suspensions_and_upgrades_are_pruned_with_their_files_except_what_the_history_names() -> None:
    world = running({"savepoint": {"retention": {"count": 1}}, "upgrade": {"stableAfterCheckpoints": 1}})
    ask(world, "mine")
    world.run_until(is_in(world, SavepointPhase.COMPLETED, "mine"))
    suspend_and_resume(world)
    first = next(name for name in found(world) if "stop" in name)
    world.change({"image": "registry.example/flights:2"})
    world.run_until(lambda: len(world.status.history) == 2)
    suspend_and_resume(world)
    suspend_and_resume(world)
    world.run(60)

    names, status = sorted(found(world)), world.status.savepoints
    newest = max(name for name in names if "stop" in name)
    upgrade = next(name for name in names if "upgrade" in name)
    assert names == sorted(["mine", newest, upgrade])
    assert first not in names
    assert len(savepoints(world)) == len(names), "what is pruned is deleted, and nothing else"
    assert status is not None
    sizes = [found(world)[name].size_bytes or 0 for name in (newest, upgrade)]
    assert (status.count, status.size_bytes) == (2, sum(sizes))


def test_moments_of_a_job_that_is_suspended_are_missed_and_counted() -> None:
    deadline: Resource = {"savepoint": {"schedule": {"cron": "* * * * *", "startingDeadline": "30s"}}}
    world = running({**deadline, "suspend": False})
    world.change({"suspend": True})
    world.run_until(lambda: world.driver.exit_code is not None)

    world.run(600)

    schedule = world.status.savepoint_schedule
    assert schedule is not None
    assert schedule.missed >= 9
    scheduled = [name for name in found(world) if "scheduled" in name]
    assert len(scheduled) <= 1


def test_the_newest_good_one_outlives_every_limit() -> None:
    limits: Resource = {"maxAge": "1s", "maxSize": 1}
    world = running({"savepoint": {"schedule": {"cron": "* * * * *"}, "retention": limits}})
    world.run_until(lambda: len(savepoints(world)) > 0, within_s=200)
    world.change({"savepoint": {"schedule": {"cron": "0 0 1 1 *"}, "retention": limits}})

    world.run(200)

    assert len(savepoints(world)) == 1


def test_a_cluster_that_does_not_know_savepoints_runs_jobs_as_before() -> None:
    world = JobWorld()
    world.cluster.known.discard(resources.SAVEPOINT.name)
    world.change(NIGHTLY)

    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    world.change({"suspend": True})
    world.run_until(lambda: world.status.last_savepoint is not None)

    assert found(world) == {}


def test_a_job_with_objects_lists_them_only_after_they_have_changed() -> None:
    world = running()
    ask(world, "mine")
    world.run_until(is_in(world, SavepointPhase.COMPLETED, "mine"))
    world.run(5)
    before = world.cluster.lists

    world.run(60)

    assert world.cluster.lists == before


def scenario(world: JobWorld) -> None:
    """A savepoint that is taken, an upgrade, and an object whose files go."""
    ask(world, "mine", deletionPolicy="Delete")
    world.run_until(is_in(world, SavepointPhase.COMPLETED, "mine"))
    world.change({"suspend": True})
    world.run_until(lambda: world.driver.exit_code is not None and len(found(world)) == 2)
    discard(world, "mine")
    world.run_until(lambda: set(found(world)) == {name for name in found(world) if "stop" in name})
    world.run(5)


def moments() -> list[str]:
    world = running()
    before = len(world.cluster.writes)
    scenario(world)
    return world.cluster.writes[before:]


@pytest.mark.parametrize("when", ["before_write", "after_write"])
@pytest.mark.parametrize("number", range(14))
def test_an_operator_that_dies_at_any_write_goes_on_to_the_same_end(number: int, when: str) -> None:
    expected = moments()
    world = running()
    countdown = iter(range(number, -1, -1))

    def die(_what: str) -> None:
        if next(countdown, -1) == 0:
            raise OperatorDiedError

    setattr(world.cluster, when, die)
    reconcile = world.reconcile

    def restarted() -> timedelta | None:
        try:
            return reconcile()
        except OperatorDiedError:
            return timedelta(0)

    world.reconcile = restarted  # type: ignore[method-assign]
    scenario(world)

    assert number < len(expected)
    (stopped,) = found(world).values()
    assert [stopped.location] == savepoints(world)


def lose_status(world: JobWorld, name: str) -> None:
    """Restore an object as backup tools do: without its status."""
    stored = world.cluster.objects[place(name)]
    resources.section(stored, "metadata")["finalizers"] = []
    discard(world, name)
    meta: Resource = {"name": name, "namespace": KEY.namespace}
    world.cluster.add({**{key: stored[key] for key in ("apiVersion", "kind", "spec")}, "metadata": meta})


def correct(world: JobWorld, name: str, change: Resource) -> None:
    """Change the spec of an object, as a user does."""
    stored = world.cluster.objects[place(name)]
    metadata = resources.section(stored, "metadata")
    metadata["generation"] = resources.number(metadata, "generation") + 1
    resources.section(stored, "spec").update(change)
    world.cluster.show(stored)


def reconcile_often(world: JobWorld) -> None:
    """Let the operator work where no job is."""
    for _ in range(5):
        world.reconcile()


def test_an_object_that_comes_back_without_its_status_adopts_its_savepoint_and_none_is_taken() -> None:
    world = running()
    ask(world, "before-the-move", deletionPolicy="Delete")
    world.run_until(is_in(world, SavepointPhase.COMPLETED, "before-the-move"))
    before = found(world)["before-the-move"]
    spec = resources.section(world.cluster.objects[place("before-the-move")], "spec")
    lose_status(world, "before-the-move")
    ask(world, "another", **{**spec, "format": "Canonical"})

    world.run_until(is_in(world, SavepointPhase.COMPLETED, "before-the-move", "another"))

    status = found(world)["before-the-move"]
    assert (status.location, status.completed_at, status.attempt) == (before.location, before.completed_at, 0)
    assert len(savepoints(world)) == 2, "of another name one is taken"
    discard(world, "before-the-move")
    world.run(5)
    assert before.location not in savepoints(world)


def test_a_savepoint_is_requested_only_when_storage_was_searched_for_it() -> None:
    world = running()
    world.storage.unreadable = StorageUnreadable("StorageUnavailable", "s3://state does not answer.")
    ask(world, "mine")
    world.run(10)

    waiting = found(world)["mine"]
    assert (waiting.phase, waiting.attempt) == (SavepointPhase.PENDING, 0)
    assert "does not answer" in (waiting.message or "")

    world.storage.unreadable = None
    world.run_until(is_in(world, SavepointPhase.COMPLETED, "mine"))


@pytest.mark.parametrize("source", [{}, {"source": {"uri": "s3://state/jobs/demo/flights/savepoints/00000002"}}])
def test_without_its_job_an_object_adopts_by_its_own_storage_and_can_be_deleted_with_its_files(
    source: dict[str, object],
) -> None:
    world = running()
    ask(world, "kept")
    world.run_until(is_in(world, SavepointPhase.COMPLETED, "kept"))
    (location,) = savepoints(world)
    assert location.endswith("/00000002")
    world.delete()
    world.run_until(lambda: not world.exists)
    resources.section(world.cluster.objects[place("kept")], "metadata")["finalizers"] = []
    discard(world, "kept")
    storage = {"uri": "s3://state/jobs", "s3": {"credentialsSecretRef": {"name": "s3"}}}

    ask(world, "kept", storage=storage, **source)
    reconcile_often(world)
    assert found(world)["kept"].location == location

    correct(world, "kept", {"deletionPolicy": "Delete"})
    reconcile_often(world)
    discard(world, "kept")
    reconcile_often(world)
    assert (found(world), savepoints(world)) == ({}, [])


def test_without_its_job_nothing_is_adopted_whose_files_would_go_with_the_object() -> None:
    world = running()
    world.delete()
    world.run_until(lambda: not world.exists)

    ask(world, "mine", storage={"uri": "s3://state/jobs"}, deletionPolicy="Delete", source={"uri": "s3://state/b/43"})
    reconcile_often(world)

    status = found(world)["mine"]
    assert (status.phase, status.message) == (
        SavepointPhase.PENDING,
        "Waits for job flights, which does not exist in the namespace.",
    )


def test_an_object_has_the_label_of_its_job_and_a_finalizer_while_its_files_would_go_with_it() -> None:
    world = running()
    ask(world, "mine")
    theirs = ["example.com/backup"]
    resources.section(world.cluster.objects[place("mine")], "metadata")["finalizers"] = list(theirs)
    world.cluster.show(world.cluster.objects[place("mine")])
    world.run_until(is_in(world, SavepointPhase.COMPLETED, "mine"))

    def marks() -> tuple[object, object]:
        metadata = resources.section(world.cluster.objects[place("mine")], "metadata")
        return metadata["labels"], metadata["finalizers"]

    label = {"statefulspark.io/job": "flights"}
    assert marks() == (label, theirs)
    correct(world, "mine", {"deletionPolicy": "Delete"})
    world.run(5)
    assert marks() == (label, [*theirs, "statefulspark.io/delete-files"])
    correct(world, "mine", {"deletionPolicy": "Retain"})
    world.run(5)
    assert marks() == (label, theirs)


def test_a_savepoint_outside_the_folder_is_not_adopted_if_its_files_would_go_with_the_object() -> None:
    """Who may only create objects could delete by one that a pod owns."""
    world = running()
    ask(world, "mine", deletionPolicy="Delete", source={"uri": "s3://state/backups/00000043-x"})

    world.run_until(is_in(world, SavepointPhase.FAILED, "mine"))

    assert "with deletionPolicy Retain only" in (found(world)["mine"].message or "")


def test_as_long_as_no_spec_of_the_job_was_valid_nothing_is_adopted_whose_files_would_go_with_the_object() -> None:
    """The object's own storage does not stand for the job's folder."""
    world = JobWorld()
    world.change({"sparkConf": {"spark.authenticate": "false"}})
    storage = {"uri": "s3://state/backups", "s3": {"credentialsSecretRef": {"name": "s3"}}}
    ask(world, "mine", storage=storage, deletionPolicy="Delete", source={"uri": "s3://state/backups/00000043-x"})
    world.run(5)

    status = found(world)["mine"]
    assert (status.phase, status.message) == (SavepointPhase.PENDING, "Waits for a valid spec of job flights.")

    world.change({"sparkConf": {"spark.authenticate": "true"}})
    world.run_until(is_in(world, SavepointPhase.FAILED, "mine"))
    assert "with deletionPolicy Retain only" in (found(world)["mine"].message or "")


def test_state_of_another_owner_stays_with_its_savepoints_and_the_job_goes() -> None:
    world = running({"deletionPolicy": "Delete"})
    ask(world, "mine", deletionPolicy="Delete")
    world.run_until(is_in(world, SavepointPhase.COMPLETED, "mine"))
    world.storage.standing = Ownership(Whose.ANOTHERS, "demo/flights with uid elsewhere")
    before = savepoints(world)

    world.delete()
    world.run_until(lambda: not world.exists)
    world.reconcile()

    assert "demo/flights with uid elsewhere" in world.cluster.events[-1].message
    assert world.reasons[-1] == "StateKept"
    assert (savepoints(world), list(found(world))) == (before, ["mine"])
    assert world.storage.forgotten[-1:] == [KEY]


def test_of_many_objects_one_is_looked_at_on_storage_in_a_pass_and_each_in_turn() -> None:
    world = running()
    looked: list[str] = []
    find = world.storage.find_savepoint

    async def unreadable(target: StorageTarget, location: str) -> StorageUnreadable:
        looked.append(location)
        return StorageUnreadable("StorageSlow", "It drips.")

    world.storage.find_savepoint = unreadable  # type: ignore[method-assign, assignment]
    for number in range(4):
        ask(world, f"adopted-{number}", source={"uri": f"s3://state/backups/{number}"})
    world.run(1)
    looked.clear()

    for _ in range(4):
        before = len(looked)
        world.reconcile()
        assert len(looked) - before <= 1
    world.run(10)

    assert len(set(looked)) == 4
    world.storage.find_savepoint = find  # type: ignore[method-assign]
