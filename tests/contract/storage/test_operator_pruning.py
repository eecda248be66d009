"""Pruning by the operator, in memory and on a real S3 server: what goes, what stays, and whom it leaves alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import cast

import pytest
from s3server import S3Server
from snapshots import Job
from statefulspark import errors
from statefulspark.checkpoint import catalog, epochs, verify
from statefulspark.contract import layout
from statefulspark.contract.manifest import OwnerRecord
from statefulspark.storage import ObjectStore, open_store
from statefulspark_operator.api.spec import Checkpoint, CheckpointRetention, Storage
from statefulspark_operator.cluster import storage_pruning
from statefulspark_operator.cluster.storage_reader import SnapshotStorageReader, StorageTarget
from statefulspark_operator.lifecycle.pruning import Freed, PrunedFolder
from statefulspark_operator.lifecycle.storage_facts import StorageFacts, StorageUnreadable

KEPT = Checkpoint(retention=CheckpointRetention(count=2), prune_delay=timedelta(seconds=60))
KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
TARGET = StorageTarget(Storage(uri="s3://bucket/state"), "default", "flights", KEYS, "uid")


class Folder:
    """The folder of a job that has run for a while, below a store, and the operator's view of it."""

    def __init__(self, bucket: ObjectStore) -> None:
        self.job, self.root = Job(), bucket.child(layout.job_prefix("default", "flights"))
        self._reader = SnapshotStorageReader(lambda _uri, _options: bucket)
        query = self.job.running()
        for _ in range(4):
            query.run_batch(failed_attempts=1)
            query.run_batch()
            query.upload_snapshots()
            self.job.checkpoint(query)
            self.job.clock.forward(120)
        for info in self.job.store.list(""):
            self.root.write(info.key, self.job.store.read(info.key))
        owner = OwnerRecord(namespace="default", job="flights", owner_id="uid", created_at=self.job.clock.now)
        self.root.write(layout.OWNER, owner.to_json().encode())

    def claim(self, number: int) -> None:
        """Claim an epoch, as a driver does that starts."""
        epochs.claim(self.root, assigned=number, holder="d", claim_id=f"claim {number}", now=self.job.clock.now)

    def prune(self, epoch: int = 1) -> PrunedFolder:
        now = self.job.clock.forward(60)
        return asyncio.run(self._reader.prune(TARGET, KEPT, epoch=epoch, now=now))

    def drop_code(self, checksum: str) -> None:
        asyncio.run(self._reader.drop_code(TARGET, frozenset({checksum})))

    def purge(self) -> Freed:
        return asyncio.run(self._reader.purge(TARGET))

    def read(self) -> StorageFacts | StorageUnreadable:
        return asyncio.run(self._reader.read(TARGET, savepoint=None))

    @property
    def size_bytes(self) -> int:
        return sum(info.size_bytes for info in self.root.list(""))


def in_memory(_request: pytest.FixtureRequest) -> ObjectStore:
    return Job().bucket


def on_s3(request: pytest.FixtureRequest) -> ObjectStore:
    server: S3Server = request.getfixturevalue("s3")
    return open_store(f"s3://{server.new_bucket('pruned')}/state", server.options())


@pytest.fixture(params=[pytest.param(in_memory, id="memory"), pytest.param(on_s3, id="s3", marks=pytest.mark.s3)])
def folder(request: pytest.FixtureRequest) -> Folder:
    make: Callable[[pytest.FixtureRequest], ObjectStore] = request.param
    return Folder(make(request))


def test_unused_files_are_counted_first_and_removed_at_the_next_look(folder: Folder) -> None:
    first = folder.prune()
    before = folder.size_bytes
    second = folder.prune()

    assert first.freed == Freed(0, 0)
    assert first.unused.files > 0
    assert second.freed == first.unused
    assert second.unused == Freed(0, 0)
    marks = folder.root.info(layout.PRUNE_MARKS)
    assert marks is not None
    assert before - folder.size_bytes >= second.freed.size_bytes - marks.size_bytes


def test_the_checkpoints_that_are_kept_are_whole_afterwards(folder: Folder) -> None:
    folder.prune()
    folder.prune()

    kept = [catalog.read_manifest(folder.root, ref.folder) for ref in catalog.list_snapshots(folder.root)]
    assert [manifest.id for manifest in kept] == [4, 3]
    assert all(verify.verify(folder.root, manifest, deep=True).ok for manifest in kept)


@pytest.mark.parametrize("epoch", [0, 1], ids=["before any driver", "of a driver that was replaced"])
def test_nothing_is_touched_in_the_name_of_an_epoch_that_is_not_the_newest(folder: Folder, epoch: int) -> None:
    folder.claim(2)
    before = folder.root.list("")

    with pytest.raises(errors.PreconditionFailedError, match=f"is 2 and not {epoch}"):
        folder.prune(epoch)

    assert folder.root.list("") == before


def test_a_driver_that_starts_while_marks_are_written_stops_the_deletion(folder: Folder) -> None:
    folder.prune()
    before = {info.key for info in folder.root.list(layout.GENERATIONS)}
    store = cast("ObjectStore", _ClaimedMeanwhile(folder))

    with pytest.raises(errors.FencedError):
        storage_pruning.prune(store, KEPT, asker=TARGET.asker, epoch=1, now=folder.job.clock.forward(60))

    assert {info.key for info in folder.root.list(layout.GENERATIONS)} == before


class _ClaimedMeanwhile:
    """The folder as a pruner sees it when a driver claims the next epoch after the first look at the fence."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def __getattr__(self, name: str) -> object:
        return getattr(self._folder.root, name)

    def delete_many(self, keys: list[str]) -> None:
        self._folder.claim(2)
        self._folder.root.delete_many(keys)


def test_the_size_of_what_goes_with_a_job_is_told(folder: Folder) -> None:
    size_bytes, files = folder.size_bytes, len(folder.root.list(""))

    assert folder.purge() == Freed(files, size_bytes)
    assert [info.key for info in folder.root.list("")] == [layout.epoch(2)]
    assert folder.purge() == Freed(0, 0)


def test_a_folder_with_the_proof_of_its_deletion_alone_counts_as_empty(folder: Folder) -> None:
    before = folder.read()
    folder.purge()
    after = folder.read()
    folder.claim(3)

    assert isinstance(before, StorageFacts)
    assert isinstance(after, StorageFacts)
    assert (before.is_empty, after.is_empty, after.newest_epoch) == (False, True, 2)
    again = folder.read()
    assert isinstance(again, StorageFacts)
    assert not again.is_empty


def test_a_folder_of_another_owner_is_neither_pruned_nor_does_its_code_go(folder: Folder) -> None:
    body = folder.root.read(layout.OWNER).replace(b'"uid"', b'"of another cluster"')
    folder.root.write(layout.OWNER, body)
    folder.root.write(layout.code("0" * 64, "flights.py"), b"print()")
    before = folder.root.list("")

    with pytest.raises(errors.SpecRejectedError, match="of another cluster"):
        folder.prune()
    with pytest.raises(errors.SpecRejectedError, match="of another cluster"):
        folder.purge()
    folder.drop_code("0" * 64)

    assert folder.root.list("") == before
    facts = folder.read()
    assert isinstance(facts, StorageFacts)
    assert not facts.may_be_purged


@pytest.fixture
def large_folder(s3: S3Server) -> Folder:
    """A folder with more files than a page of a listing has; they lie on the server's disk, which is faster."""
    bucket = s3.new_bucket("purged")
    folder = Folder(open_store(f"s3://{bucket}/state", s3.options()))
    many = s3.objects / bucket / "state" / layout.job_prefix("default", "flights") / layout.generation(1) / "many"
    many.mkdir(parents=True)
    for number in range(2000):
        (many / f"{number:05d}").touch()
    return folder


def listings(s3: S3Server, act: Callable[[], object]) -> list[str]:
    """Return the listings that a call makes."""
    before = len(s3.requests())
    act()
    return [line for line in s3.requests()[before:] if "list-type=2" in line]


@pytest.mark.s3
def test_a_purge_walks_the_folder_once_and_asks_small_questions_beside(large_folder: Folder, s3: S3Server) -> None:
    """It listed the whole folder five times."""
    number = len(large_folder.root.list(""))
    made = listings(s3, large_folder.purge)

    whole = [line for line in made if "delimiter=&" in line and "max-keys=1000" in line]
    assert number > 2000
    assert 3 <= len([line for line in whole if "flights%2F&" in line or "flights/&" in line]) <= 4, "\n".join(made)
    assert len(made) < 30, "\n".join(made)
    assert large_folder.purge() == Freed(0, 0)


@pytest.mark.s3
def test_a_look_at_a_folder_without_snapshots_lists_none_of_it(large_folder: Folder, s3: S3Server) -> None:
    large_folder.root.delete_folder(layout.CHECKPOINTS)

    made = listings(s3, large_folder.read)

    assert [line for line in made if "max-keys=2&" in line]
    assert len(made) < 8, "\n".join(made)
