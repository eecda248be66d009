"""The folder of a job without a driver over time: marked, reported, removed, and left alone when a driver may run."""

from __future__ import annotations

import pytest
from jobworld import KEY, JobWorld, OperatorDiedError
from statefulspark_operator.api.status import Phase
from statefulspark_operator.cluster import resources


def suspended(unused: int = 3) -> JobWorld:
    """A job that was suspended, with files that nothing needs."""
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    world.change({"suspend": True})
    world.run_until(lambda: world.status.phase is Phase.SUSPENDED)
    world.storage.unused = unused
    return world


def events(world: JobWorld) -> list[str]:
    return [event.reason for event in world.cluster.events if event.reason in ("UnusedFilesFound", "StoragePruned")]


def test_unused_files_of_a_suspended_job_are_reported_then_removed_then_it_is_left_alone() -> None:
    world = suspended()

    world.run(3600)

    record = world.status.pruning
    assert record is not None
    assert (record.freed_files, record.freed_bytes, record.unused_files, record.remove_at) == (3, 300, 0, None)
    assert events(world) == ["UnusedFilesFound", "StoragePruned"]
    assert world.storage.pruned_as == [1, 1]


def test_a_job_that_runs_again_is_pruned_by_its_driver_only() -> None:
    world = suspended()
    world.change({"suspend": False})
    world.run_until(lambda: world.status.phase is Phase.RUNNING)

    world.run(1800)

    assert world.storage.pruned_as == []


def test_a_folder_that_belongs_to_a_newer_epoch_is_not_pruned() -> None:
    world = suspended()
    world.storage.claims[7] = "somebody else"

    world.run(1800)

    assert (world.storage.pruned_as, world.storage.unused) == ([], 3)


def test_a_driver_whose_end_nobody_saw_may_be_alive_so_nothing_is_pruned() -> None:
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    world.cluster.drop_pod(KEY.namespace, "flights-driver-1")
    world.change({"suspend": True})
    world.storage.unused = 3

    world.run(1800)

    assert world.status.phase is Phase.SUSPENDED
    assert world.storage.pruned_as == []


def test_an_operator_that_dies_after_it_pruned_looks_again_and_comes_to_the_same_end() -> None:
    world = suspended()
    died: list[str] = []

    def die(what: str) -> None:
        if what == "status flights" and world.storage.pruned_as and not died:
            died.append(what)
            raise OperatorDiedError

    world.cluster.before_write = die
    with pytest.raises(OperatorDiedError):
        world.run(1800)
    world.replace_operator()

    world.run(1800)

    record = world.status.pruning
    assert record is not None
    assert (record.unused_files, record.remove_at, world.storage.unused, world.storage.marked) == (0, None, 0, 0)


def test_an_operator_that_leads_no_longer_prunes_nothing() -> None:
    world = suspended()
    world.lead(may_act=False)

    world.run(1800)

    assert world.storage.pruned_as == []


def test_the_size_of_a_state_that_goes_with_its_job_is_told() -> None:
    world = JobWorld()
    world.change({"deletionPolicy": "Delete"})
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)

    world.delete()
    world.run_until(lambda: not world.exists)

    told = [event.message for event in world.cluster.events if event.reason == "StatePurged"]
    assert len(told) == 1
    assert "files" in told[0]
    assert (resources.JOB.name, KEY.namespace, KEY.name) not in world.cluster.objects
