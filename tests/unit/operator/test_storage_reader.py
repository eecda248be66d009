"""What the operator makes of a job's folder to which a driver of a later release has written."""

from __future__ import annotations

import asyncio

import pytest
from snapshots import a_manifest
from statefulspark.checkpoint import catalog
from statefulspark.contract import layout
from statefulspark.contract.manifest import Manifest, SnapshotKind, Trigger
from statefulspark.contract.notes import SavepointPointer
from statefulspark.storage import ObjectStore
from statefulspark.testing import stores
from statefulspark_operator.api.spec import Storage
from statefulspark_operator.cluster import storage_reader
from statefulspark_operator.lifecycle.situation import StorageFacts, StorageUnreadable

TARGET = storage_reader.StorageTarget(Storage(uri="s3://bucket/state"), "default", "flights", None)


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
    facts = asyncio.run(reader.read(TARGET, savepoint=None, request=request))
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
