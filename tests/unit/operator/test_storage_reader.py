"""What the operator makes of a job's folder to which a driver of a later release has written."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import threading

import pytest
from manifests import a_query
from snapshots import a_manifest
from statefulspark import errors
from statefulspark.checkpoint import catalog
from statefulspark.contract import layout
from statefulspark.contract.manifest import Manifest, SnapshotFormat, SnapshotKind, Trigger
from statefulspark.contract.notes import SavepointPointer
from statefulspark.storage import ObjectStore, StorageOptions
from statefulspark.testing import stores
from statefulspark_operator.api.code import ObjectCode
from statefulspark_operator.api.spec import Storage
from statefulspark_operator.api.status import SnapshotStatus
from statefulspark_operator.cluster import storage_reader
from statefulspark_operator.lifecycle.storage_facts import StorageFacts, StorageUnreadable

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
TARGET = storage_reader.StorageTarget(Storage(uri="s3://bucket/state"), "default", "flights", KEYS, "uid")


@pytest.fixture
def bucket() -> stores.MemoryStore:
    """Return a store with two checkpoints of the job."""
    held = stores.MemoryStore("s3://bucket/state")
    for number in (1, 2):
        catalog.write_checkpoint(root_of(held), a_manifest(number))
    return held


def root_of(bucket: ObjectStore) -> ObjectStore:
    return bucket.child(layout.job_prefix("default", "flights"))


def read(bucket: ObjectStore) -> StorageFacts | StorageUnreadable:
    reader = storage_reader.SnapshotStorageReader(lambda _uri, _options: bucket)
    return asyncio.run(reader.read(TARGET, savepoint=None))


def requested(bucket: ObjectStore, request: str) -> str | None:
    reader = storage_reader.SnapshotStorageReader(
        lambda uri, _options: bucket.child(uri.removeprefix(bucket.uri).strip("/"))
    )
    facts = asyncio.run(reader.read(TARGET, savepoint=None, requests=(request,)))
    assert isinstance(facts, StorageFacts)
    return facts.requested.location if facts.requested else None


def a_savepoint_of(request: str, number: int = 3) -> Manifest:
    return a_manifest(number, kind=SnapshotKind.SAVEPOINT, trigger=Trigger.MANUAL, request_id=request)


def test_the_savepoint_of_a_request_is_found_in_the_jobs_folder_if_it_is_complete(bucket: stores.MemoryStore) -> None:
    root = root_of(bucket)
    catalog.write_manifest(root, layout.savepoint(3, "manual"), a_savepoint_of("uid-manual-1"))
    root.write(f"{layout.savepoint(4, 'manual')}/{layout.MANIFEST_NAME}", b"{damaged")

    assert requested(bucket, "uid-manual-1") == f"{root.uri}/savepoints/00000003-manual"
    assert requested(bucket, "uid-manual-2") is None


def test_jobs_that_are_looked_at_together_share_the_store_that_the_first_of_them_opens(
    bucket: stores.MemoryStore,
) -> None:
    opened, together = list[str](), threading.Barrier(2, timeout=0.3)

    def open_store(uri: str, _options: StorageOptions) -> ObjectStore:
        opened.append(uri)
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait()  # For a second thread, which comes here only if none waits for the first.
        return bucket

    async def scene() -> None:
        reader = storage_reader.SnapshotStorageReader(open_store)
        targets = [dataclasses.replace(TARGET, job=f"job-{number}") for number in range(8)]
        await asyncio.gather(*(reader.read(target, savepoint=None) for target in targets))

    asyncio.run(scene())

    assert opened == [TARGET.storage.uri]


def test_no_folder_is_listed_and_no_document_read_twice_for_one_look(bucket: stores.MemoryStore) -> None:
    catalog.write_manifest(root_of(bucket), layout.savepoint(3, "manual"), a_savepoint_of("uid-manual-1"))
    counted = stores.FaultyStore(bucket)
    reader = storage_reader.SnapshotStorageReader(lambda _uri, _options: counted)

    asyncio.run(reader.read(TARGET, savepoint=None, requests=("another, which is looked for everywhere",)))

    asked = [(operation.name, operation.key) for operation in counted.operations]
    assert sorted(set(asked)) == sorted(asked)


def test_the_savepoint_of_a_request_is_found_at_another_location(bucket: stores.MemoryStore) -> None:
    place = f"{bucket.uri}/elsewhere/00000003-manual"
    catalog.write_manifest(bucket.child("elsewhere"), "00000003-manual", a_savepoint_of("uid-manual-1"))
    root_of(bucket).write(layout.savepoint_pointer(3), SavepointPointer(location=place).to_json().encode())

    assert requested(bucket, "uid-manual-1") == place


def latest(facts: StorageFacts | StorageUnreadable) -> int | None:
    assert isinstance(facts, StorageFacts)
    return facts.latest_checkpoint.snapshot.id if facts.latest_checkpoint else None


def test_the_latest_checkpoint_is_the_newest_on_storage(bucket: stores.MemoryStore) -> None:
    assert latest(read(bucket)) == 2


def test_a_damaged_manifest_is_left_to_the_driver(bucket: stores.MemoryStore) -> None:
    root_of(bucket).write(layout.checkpoint_manifest(2), b'{"kind": "check')

    assert latest(read(bucket)) == 1


def test_an_older_checkpoint_is_never_taken_for_one_of_a_later_release(bucket: stores.MemoryStore) -> None:
    root_of(bucket).write(layout.checkpoint_manifest(2), b'{"formatVersion": 2, "kind": "elsewhere"}')

    assert read(bucket) == StorageUnreadable(
        "FormatVersionUnknown",
        "s3://bucket/state/default/flights/checkpoints/00000002/_metadata.json has format version 2; this release reads 1 "
        "for manifests of snapshots. Use the release that wrote it, or a newer one.",
        may_pass=False,
    )


def savepoint_at(bucket: stores.MemoryStore, folder: str, kind: SnapshotKind = SnapshotKind.SAVEPOINT) -> None:
    """Write a savepoint of one file, whole."""
    query = a_query("delays", files=["state/1.zip"], path="files/delays")
    bucket.write(f"{folder}/files/delays/state/1.zip", bytes(10))
    catalog.write_manifest(bucket, folder, a_manifest(7, [query], kind=kind))


def look(bucket: stores.MemoryStore, location: str) -> SnapshotStatus | storage_reader.NoSavepoint | StorageUnreadable:
    reader = storage_reader.SnapshotStorageReader(
        lambda uri, _options: bucket.child(uri.removeprefix("s3://bucket/state").strip("/"))
    )
    return asyncio.run(reader.find_savepoint(TARGET, location))


def test_a_savepoint_outside_of_the_folder_of_the_job_is_found() -> None:
    bucket = stores.MemoryStore("s3://bucket/state")
    savepoint_at(bucket, "archive/7")

    seen = look(bucket, "s3://bucket/state/archive/7/")

    assert isinstance(seen, SnapshotStatus)
    assert (seen.id, seen.location, seen.size_bytes) == (7, "s3://bucket/state/archive/7", 10)


def test_what_is_no_whole_savepoint_is_not_adopted() -> None:
    bucket = stores.MemoryStore("s3://bucket/state")
    savepoint_at(bucket, "archive/broken")
    bucket.delete_many(["archive/broken/files/delays/state/1.zip"])
    savepoint_at(bucket, "archive/checkpoint", SnapshotKind.CHECKPOINT)

    whys = [look(bucket, f"s3://bucket/state/archive/{name}") for name in ("broken", "checkpoint", "absent")]

    assert [isinstance(why, storage_reader.NoSavepoint) for why in whys] == [True, True, True]
    assert isinstance(whys[0], storage_reader.NoSavepoint)
    assert "state/1.zip" in whys[0].why


def named_savepoint(bucket: stores.MemoryStore, number: int, name: str, trigger: Trigger = Trigger.MANUAL) -> None:
    """Write a whole savepoint with a name into the job's folder."""
    root, folder = root_of(bucket), layout.savepoint(number, name)
    root.write(f"{folder}/files/delays/state/1.zip", bytes(10))
    query = a_query("delays", files=["state/1.zip"], path="files/delays")
    manifest = a_manifest(number, [query], kind=SnapshotKind.SAVEPOINT)
    named = {"savepoint_name": name, "trigger": trigger, "namespace": TARGET.namespace, "job": TARGET.job}
    catalog.write_manifest(root, folder, manifest.model_copy(update=named))


def test_the_newest_whole_savepoint_of_a_name_is_found_and_none_of_a_stop_or_of_another_form() -> None:
    bucket = stores.MemoryStore("s3://bucket/state")
    for number in (5, 6, 7):
        named_savepoint(bucket, number, "nightly")
    root_of(bucket).delete_many([f"{layout.savepoint(7, 'nightly')}/files/delays/state/1.zip"])
    named_savepoint(bucket, 8, "upgrade", Trigger.UPGRADE)
    named_savepoint(bucket, 9, "other")
    native = SnapshotFormat.NATIVE
    sought = (
        storage_reader.Sought("nightly", native),
        storage_reader.Sought("upgrade", native),
        storage_reader.Sought("other", SnapshotFormat.CANONICAL),
        storage_reader.Sought("absent", native),
    )
    reader = storage_reader.SnapshotStorageReader(
        lambda uri, _options: bucket.child(uri.removeprefix("s3://bucket/state").strip("/"))
    )

    named = asyncio.run(reader.find_named(TARGET, sought))

    assert isinstance(named, dict)
    assert {name: snapshot.id for name, snapshot in named.items()} == {"nightly": 6}


def test_disposing_deletes_a_savepoint_and_never_a_checkpoint() -> None:
    bucket = stores.MemoryStore("s3://bucket/state")
    savepoint_at(bucket, "archive/7")
    savepoint_at(bucket, "archive/8", SnapshotKind.CHECKPOINT)
    reader = storage_reader.SnapshotStorageReader(
        lambda uri, _options: bucket.child(uri.removeprefix("s3://bucket/state").strip("/"))
    )

    asyncio.run(reader.dispose(TARGET, "s3://bucket/state/archive/7"))
    asyncio.run(reader.dispose(TARGET, "s3://bucket/state/archive/7"))
    with pytest.raises(errors.SpecRejectedError, match="NotASavepoint"):
        asyncio.run(reader.dispose(TARGET, "s3://bucket/state/archive/8"))

    assert {info.key.split("/")[1] for info in bucket.list("archive")} == {"8"}


def test_code_is_kept_once_verified_and_then_the_original_is_not_needed() -> None:
    bucket, body = stores.MemoryStore("s3://bucket"), b"print(1)\n"
    bucket.write("code/flights.py", body)
    source = ObjectCode(uri="s3://bucket/code/flights.py", sha256=hashlib.sha256(body).hexdigest())
    reader = storage_reader.SnapshotStorageReader(
        lambda uri, _options: bucket.child(uri.removeprefix("s3://bucket").strip("/"))
    )

    asyncio.run(reader.keep_code(TARGET, source))
    bucket.delete_many(["code/flights.py"])
    asyncio.run(reader.check_code(TARGET, source, "flights.py"))

    kept = f"state/default/flights/code/{source.sha256}/flights.py"
    assert [info.key for info in bucket.list("")] == [kept]
    asyncio.run(reader.drop_code(TARGET, frozenset({source.sha256})))
    with pytest.raises(errors.SpecRejectedError, match="CodeMissing"):
        asyncio.run(reader.check_code(TARGET, source, "flights.py"))
