"""Savepoints at other locations: where they are, and whether they can be read now."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import doctor, errors
from statefulspark.checkpoint import catalog, savepoint
from statefulspark.contract import diagnosis, layout
from statefulspark.contract.manifest import Manifest
from statefulspark.recovery import external_savepoints
from statefulspark.retention import rules
from statefulspark.storage.port import ObjectStore

ARCHIVE = "memory://bucket/archive"


def taken(job: Job, location: str | None = ARCHIVE) -> savepoint.SavepointTarget:
    """Run a batch, and take a savepoint."""
    query = FakeQuery(job.store, job.start().generation)
    query.run_batch()
    job.checkpoint(query)
    return job.savepoint(query, location=location)


def unreachable(_: str) -> ObjectStore:
    raise errors.TransientError("StorageUnreachable", "the archive does not answer.")


def test_a_savepoint_at_another_location_is_found_by_the_number_that_the_job_keeps(job: Job) -> None:
    place = taken(job)

    (found,) = external_savepoints.list_all(job.store, job.open_store)

    assert isinstance(found.manifest, Manifest)
    assert (found.id, found.location, found.manifest.id) == (2, place.uri, 2)
    assert external_savepoints.location_of(job.store, 2) == place.uri
    assert external_savepoints.location_of(job.store, 1) is None


def test_a_savepoint_in_the_jobs_folder_is_not_elsewhere(job: Job) -> None:
    taken(job, location=None)

    assert external_savepoints.list_all(job.store, job.open_store) == ()


def test_a_savepoint_in_another_folder_of_the_jobs_root_keeps_its_number_and_is_found(job: Job) -> None:
    """It was in no list, and the next snapshot took its number."""
    place = taken(job, location=f"{job.store.uri}/nightly")

    (found,) = external_savepoints.list_all(job.store, job.open_store)

    assert (found.location, catalog.next_snapshot_id(job.store)) == (place.uri, 3)
    assert isinstance(found.manifest, Manifest)


def disposed(job: Job) -> None:
    place = taken(job)
    savepoint.dispose(place.store, place.folder)


def damaged(job: Job) -> None:
    place = taken(job)
    place.store.write(f"{place.folder}/_metadata.json", b"{")


def with_a_damaged_pointer(job: Job) -> None:
    taken(job)
    job.store.write(layout.savepoint_pointer(2), b"{")


CASES = [
    pytest.param(disposed, None, "SnapshotNotFound", id="it was disposed of"),
    pytest.param(damaged, None, "DocumentUnreadable", id="its manifest is damaged"),
    pytest.param(with_a_damaged_pointer, None, "DocumentUnreadable", id="what names it is damaged"),
    pytest.param(taken, unreachable, "StorageUnreachable", id="its place does not answer"),
]


@pytest.mark.parametrize(("make", "open_store", "reason"), CASES)
def test_why_a_savepoint_cannot_be_read_now_is_the_answer(
    job: Job, make: Callable[[Job], object], open_store: Callable[[str], ObjectStore] | None, reason: str
) -> None:
    make(job)

    (found,) = external_savepoints.list_all(job.store, open_store or job.open_store)

    assert isinstance(found.manifest, errors.StatefulSparkError)
    assert (found.id, found.manifest.reason) == (2, reason)


def examined(job: Job, open_store: Callable[[str], ObjectStore] | None = None) -> diagnosis.JobHealth:
    how = doctor.Examination(job.clock.now, rules.PrunePolicy(), open_store=open_store or job.open_store)
    return doctor.examine_job(job.store, how)


def test_the_doctor_looks_at_savepoints_elsewhere(job: Job) -> None:
    place = taken(job)

    health = examined(job)

    assert [(one.label, one.location, one.ok) for one in health.elsewhere] == [("savepoint 2", place.uri, True)]
    assert (health.savepoints, health.notes, health.problems) == ((), ("There is no owner.json: the next driver claims the "
        "state.",), ())  # fmt: skip


@pytest.mark.parametrize(("make", "open_store", "reason"), CASES)
def test_a_savepoint_elsewhere_that_cannot_be_read_is_a_note_and_no_damage_of_the_job(
    job: Job, make: Callable[[Job], object], open_store: Callable[[str], ObjectStore] | None, reason: str
) -> None:
    make(job)

    health = examined(job, open_store)

    assert [one.ok for one in health.elsewhere] == [False]
    assert any(note.startswith("Savepoint 2 cannot be read: ") for note in health.notes)
    assert health.problems == ()


def test_a_savepoint_elsewhere_with_a_file_missing_is_named_with_the_file(job: Job) -> None:
    place = taken(job)
    lost = next(info.key for info in place.store.list(f"{place.folder}/files") if "/commits/" in info.key)
    place.store.delete_many([lost])

    health = examined(job)

    assert any(lost in note and note.startswith("Savepoint 2 is broken: ") for note in health.notes)
