"""Native savepoints: copied ahead, completed by the manifest, relocatable, disposed manifest first."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping, Sequence

import pytest
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.checkpoint import catalog, closure, savepoint, transfer, verify
from statefulspark.contract.manifest import Manifest, SnapshotKind
from statefulspark.recovery import external_savepoints
from statefulspark.storage.port import MOST_BYTES, ObjectInfo, ObjectStore
from statefulspark.testing import stores


@pytest.fixture
def query(job: Job) -> FakeQuery:
    running = FakeQuery(job.store, job.start().generation)
    for _ in range(3):
        running.run_batch()
    running.upload_snapshots()
    return running


def a_request(job: Job, name: str | None = None) -> savepoint.SavepointProperties:
    return job.savepoint_request(name=name)


def entry_of(job: Job, query: FakeQuery) -> closure.QueryEntry:
    return closure.close_over(job.store, query.path, query.batch)


def take(
    job: Job, query: FakeQuery, place: savepoint.SavepointTarget, request: savepoint.SavepointProperties
) -> Manifest:
    return savepoint.take_savepoint(
        job.store,
        [entry_of(job, query)],
        request,
        place,
        completed_at=lambda: job.clock.forward(1),
    )


class PatientStore(stores.FaultyStore):
    """Gives the first file at once, and the others once it may."""

    def __init__(self, wrapped: ObjectStore) -> None:
        super().__init__(wrapped)
        self.may = threading.Event()

    def read(self, key: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        assert key == "0" or self.may.wait(10)
        return super().read(key, most_bytes=most_bytes)


def test_a_copy_between_two_servers_ends_when_nobody_wants_it_any_more() -> None:
    """Files that were not begun are not copied: what is told of each file says so."""
    count = 5_000
    source, target = PatientStore(stores.MemoryStore("memory://here")), stores.MemoryStore("memory://there")
    for number in range(count):
        source.write(str(number), b"x")
    pairs = [(str(number), str(number)) for number in range(count)]

    def refuse(done: int) -> None:
        # The other files go on only when this refusal has been heard, however busy the machine is.
        threading.Timer(0.5, source.may.set).start()
        raise errors.StatefulSparkError("SnapshotGivenUp", f"It is given up after {done}.")

    with pytest.raises(errors.StatefulSparkError, match="given up after 1"):
        transfer.copy(source, target, pairs, on_progress=refuse)

    assert len(target.list("")) < count


def test_a_savepoint_is_self_contained_with_relative_paths_sizes_and_checksums(job: Job, query: FakeQuery) -> None:
    request = a_request(job, "nightly")
    place = savepoint.resolve_target(job.store, request)

    manifest = take(job, query, place, request)

    assert place.folder == "savepoints/00000001-nightly"
    assert (manifest.kind, manifest.queries[0].path) == (SnapshotKind.SAVEPOINT, "files/delays")
    assert all(file.checksum for file in manifest.queries[0].files)
    assert catalog.read_manifest(job.store, place.folder) == manifest
    job.store.delete_many([info.key for info in job.store.list("generations")])
    assert verify.verify(job.store, manifest, root=place.folder, deep=True).ok


def test_the_difference_after_copying_ahead_does_not_grow_with_the_state(job: Job, query: FakeQuery) -> None:
    place = savepoint.resolve_target(job.store, a_request(job))
    ahead = savepoint.copy_missing(job.store, [entry_of(job, query)], place)
    query.run_batch()

    rest = savepoint.copy_missing(job.store, [entry_of(job, query)], place)

    assert ahead > rest
    # offsets/3, commits/3, and per partition a changelog with its checksum.
    assert rest == 2 + 2 * query.partitions
    assert savepoint.copy_missing(job.store, [entry_of(job, query)], place) == 0


def test_what_was_copied_ahead_in_vain_is_not_part_of_the_savepoint(job: Job, query: FakeQuery) -> None:
    request = a_request(job)
    place = savepoint.resolve_target(job.store, request)
    savepoint.copy_missing(job.store, [entry_of(job, query)], place)
    query.run_batch()
    query.upload_snapshots()

    manifest = take(job, query, place, request)

    names = {info.key[len(place.folder) + 1 :] for info in job.store.list(place.folder)}
    assert names == {
        "_metadata.json",
        "_writer.json",
        *(f"files/delays/{file.path}" for file in manifest.queries[0].files),
    }


@pytest.mark.parametrize(
    ("name", "folder"), [(None, "savepoints/00000001"), ("before-upgrade", "savepoints/00000001-before-upgrade")]
)
def test_a_savepoint_goes_into_the_folder_of_its_job_under_its_number_and_name(
    job: Job, query: FakeQuery, name: str | None, folder: str
) -> None:
    """A.80, A.154, A.155: nothing has to be set for it."""
    request = a_request(job, name)
    place = savepoint.resolve_target(job.store, request)

    take(job, query, place, request)

    assert place.uri == f"{job.store.uri}/{folder}"
    assert [ref.folder for ref in catalog.list_snapshots(job.store)] == [folder]


@pytest.mark.parametrize("location", ["memory://bucket/backups", "memory://bucket/default/flights/mine/"])
def test_a_savepoint_goes_where_it_is_asked_to(job: Job, query: FakeQuery, location: str) -> None:
    request = a_request(job)
    place = savepoint.resolve_target(job.store, request, location=location, open_store=job.open_store)

    manifest = take(job, query, place, request)

    assert place.uri.startswith(location.rstrip("/") + "/")
    assert verify.verify(place.store, manifest, root=place.folder, deep=True).ok


def test_the_manifests_of_many_savepoints_are_looked_up_side_by_side(job: Job, query: FakeQuery) -> None:
    class OneByOne(stores.FaultyStore):
        def info(self, key: str) -> ObjectInfo | None:
            raise AssertionError(f"a start waits for one after the other: {key}")

        def info_many(self, keys: Sequence[str]) -> Mapping[str, ObjectInfo | None]:
            return self.wrapped.info_many(keys)

    for number in (7, 8):
        job.savepoint(query, number)
    job.store.write("savepoints/00000009/files/delays/metadata", b"{}")

    listed = catalog.list_all(OneByOne(job.store))

    assert ([ref.id for ref in listed.completed], listed.unfinished) == ([8, 7], ("savepoints/00000009",))


def test_two_jobs_never_share_a_folder_at_a_location_of_both(job: Job) -> None:
    folders = {
        savepoint.resolve_target(
            job.store,
            dataclasses.replace(a_request(job), namespace=namespace, job=name),
            location="memory://bucket/backups",
            open_store=job.open_store,
        ).folder
        for namespace, name in (("team", "a-b"), ("team-a", "b"))
    }

    assert len(folders) == 2


@pytest.mark.parametrize("folder", ["checkpoints", "generations/00000001", "scratch", "sinks/words"])
def test_a_location_among_the_jobs_own_files_is_refused_by_name(job: Job, folder: str) -> None:
    """A start would take it for a checkpoint or a generation, and pruning would delete it."""
    with pytest.raises(errors.SpecRejectedError, match=f"{job.store.uri}/{folder}") as raised:
        savepoint.resolve_target(job.store, a_request(job), location=f"{job.store.uri}/{folder}")

    assert raised.value.reason == "SavepointLocationInvalid"


def test_the_number_of_a_savepoint_below_the_folder_of_savepoints_is_not_used_again(job: Job, query: FakeQuery) -> None:
    location = f"{job.store.uri}/savepoints/nightly"

    number = catalog.next_snapshot_id(job.store)
    place = job.savepoint(query, location=location)

    assert catalog.next_snapshot_id(job.store) == number + 1
    (listed,) = external_savepoints.list_all(job.store, job.open_store)
    assert (listed.id, listed.location, listed.is_gone) == (number, place.uri, False)


def test_a_location_that_cannot_be_opened_is_refused_by_name(job: Job) -> None:
    with pytest.raises(errors.SpecRejectedError, match="s3://elsewhere/x"):
        savepoint.resolve_target(job.store, a_request(job), location="s3://elsewhere/x")


@pytest.mark.parametrize("number", [1, 5, 20, 25, 26, 27])
def test_a_savepoint_that_dies_on_the_way_is_none_and_its_number_is_not_used_again(
    job: Job, query: FakeQuery, number: int
) -> None:
    request = a_request(job)
    dying = stores.FaultyStore(
        job.store, stores.Plan(crash_before=number, only=frozenset({"copy", "create", "delete", "list"}))
    )
    place = savepoint.resolve_target(dying, request)
    try:
        savepoint.take_savepoint(dying, [entry_of(job, query)], request, place, completed_at=job.clock)
    except stores.CrashPoint:
        assert catalog.list_snapshots(job.store) == ()
        assert catalog.next_snapshot_id(job.store) == (2 if job.store.list(place.folder) else 1)


def test_disposing_deletes_the_manifest_first_and_then_everything(job: Job, query: FakeQuery) -> None:
    request = a_request(job)
    place = savepoint.resolve_target(job.store, request)
    take(job, query, place, request)
    dying = stores.FaultyStore(job.store, stores.Plan(crash_after=1, only=frozenset({"delete"})))
    with pytest.raises(stores.CrashPoint):
        savepoint.dispose(dying, place.folder)
    assert catalog.list_snapshots(job.store) == ()

    savepoint.dispose(job.store, place.folder)

    assert job.store.list(place.folder) == ()
    assert savepoint.dispose(job.store, place.folder) == 0


def test_a_second_manifest_of_the_same_number_is_refused(job: Job, query: FakeQuery) -> None:
    manifest = job.checkpoint(query)

    with pytest.raises(errors.PreconditionFailedError) as raised:
        catalog.write_checkpoint(job.store, manifest)

    assert raised.value.reason == "CheckpointExists"
