"""The table of destructive paths, and how whose something is gets found out."""

from __future__ import annotations

import itertools

import pytest
from snapshots import Job, a_manifest
from statefulspark import errors
from statefulspark.checkpoint import catalog
from statefulspark.contract import layout
from statefulspark.contract.manifest import OwnerRecord, SnapshotKind
from statefulspark.contract.notes import CLAIM_NAME, ClaimRecord
from statefulspark.retention import disposal, owners, ownership
from statefulspark.retention.ownership import Deletion, Ownership, Whose
from statefulspark.storage import ObjectStore
from statefulspark.testing import stores

MINE = owners.Asker("default", "flights", "uid")
TABLE = {
    Whose.OWN: {Deletion.JOB: True, Deletion.SAVEPOINT: True, Deletion.PRUNE: True, Deletion.COMMAND: True},
    Whose.ANOTHERS: {Deletion.JOB: False, Deletion.SAVEPOINT: False, Deletion.PRUNE: False, Deletion.COMMAND: False},
    Whose.NOBODYS: {Deletion.JOB: False, Deletion.SAVEPOINT: False, Deletion.PRUNE: False, Deletion.COMMAND: True},
    Whose.UNREADABLE: {Deletion.JOB: False, Deletion.SAVEPOINT: False, Deletion.PRUNE: False, Deletion.COMMAND: False},
}


@pytest.mark.parametrize(("whose", "deletion"), list(itertools.product(Whose, Deletion)), ids=str)
def test_the_table(whose: Whose, deletion: Deletion) -> None:
    assert ownership.may_delete(whose, deletion) is TABLE[whose][deletion]


@pytest.mark.parametrize("whose", [Whose.ANOTHERS, Whose.NOBODYS, Whose.UNREADABLE])
def test_a_refusal_says_whose_it_is(whose: Whose) -> None:
    standing = Ownership(whose, "team-b/billing" if whose is Whose.ANOTHERS else "")

    with pytest.raises(errors.SpecRejectedError) as kept:
        ownership.require(standing, Deletion.JOB, "s3://bucket/x")

    assert kept.value.reason == "StateKept"
    assert standing.sentence in kept.value.message


@pytest.fixture
def bucket() -> stores.MemoryStore:
    return stores.MemoryStore("s3://bucket")


def root_of(bucket: ObjectStore) -> ObjectStore:
    return bucket.child("state/default/flights")


def owned_by(root: ObjectStore, job: Job, *, owner_id: str = "uid", name: str = "flights") -> None:
    record = OwnerRecord(namespace="default", job=name, owner_id=owner_id, created_at=job.clock.now)
    root.write(layout.OWNER, record.to_json().encode())


def savepoint_in(store: ObjectStore, folder: str, *, author: str = "flights", namespace: str = "default") -> None:
    manifest = a_manifest(7, kind=SnapshotKind.SAVEPOINT).model_copy(update={"namespace": namespace, "job": author})
    store.write(f"{folder}/files/delays/1.zip", b"x")
    catalog.write_manifest(store, folder, manifest)


@pytest.mark.parametrize(
    ("owner", "asker", "whose"),
    [
        pytest.param("uid", MINE, Whose.OWN, id="the resource"),
        pytest.param("other", MINE, Whose.ANOTHERS, id="another resource of the same name"),
        pytest.param("other", owners.Asker("default", "flights", None), Whose.OWN, id="a resource that is gone"),
        pytest.param("uid", owners.Asker("default", "words", None), Whose.ANOTHERS, id="one of another name"),
    ],
)
def test_a_folder_is(bucket: stores.MemoryStore, job: Job, owner: str, asker: owners.Asker, whose: Whose) -> None:
    root = root_of(bucket)
    owned_by(root, job, owner_id=owner)

    assert owners.root_ownership(root, asker).whose is whose


def dispose(bucket: ObjectStore, folder: str, job: Job, asker: owners.Asker = MINE) -> int:
    return disposal.dispose(bucket, folder, root=root_of(bucket), asker=asker, now=job.clock.now)


@pytest.mark.parametrize(
    ("namespace", "author"), [("team-b", "flights"), ("default", "billing")], ids=["of a namespace", "of a job"]
)
@pytest.mark.parametrize("folder", ["backups/7", "state/default/flights/savepoints/00000007-x"])
def test_a_savepoint_of_another_stays(
    bucket: stores.MemoryStore, job: Job, folder: str, namespace: str, author: str
) -> None:
    owned_by(root_of(bucket), job)
    savepoint_in(bucket, folder, namespace=namespace, author=author)
    before = bucket.list("")

    with pytest.raises(errors.SpecRejectedError, match=f"It belongs to {namespace}/{author}"):
        dispose(bucket, folder, job)

    assert bucket.list("") == before


def test_in_a_folder_of_another_resource_a_savepoint_of_the_same_name_stays(
    bucket: stores.MemoryStore, job: Job
) -> None:
    owned_by(root_of(bucket), job, owner_id="of the other cluster")
    savepoint_in(root_of(bucket), "savepoints/00000007-x")

    with pytest.raises(errors.SpecRejectedError, match="of the other cluster"):
        dispose(bucket, "state/default/flights/savepoints/00000007-x", job)


def test_a_savepoint_that_another_job_has_claimed_stays(bucket: stores.MemoryStore, job: Job) -> None:
    savepoint_in(bucket, "backups/7")
    claim = ClaimRecord(root="s3://other/root", owner_id="x", claimed_at=job.clock.now)
    bucket.write(f"backups/7/{CLAIM_NAME}", claim.to_json().encode())

    with pytest.raises(errors.SpecRejectedError, match="the job at s3://other/root"):
        dispose(bucket, "backups/7", job)
    assert owners.named_savepoint_ownership(bucket, "backups/7").whose is Whose.ANOTHERS


@pytest.mark.parametrize("folder", ["backups/7", "state/default/flights/savepoints/00000007-x"])
def test_a_disposal_that_dies_anywhere_is_ended_by_the_next(job: Job, folder: str) -> None:
    for number in itertools.count(1):
        bucket = stores.MemoryStore("s3://bucket")
        owned_by(root_of(bucket), job)
        savepoint_in(bucket, folder)
        plan = stores.Plan(crash_before=number, only=frozenset({"create", "delete"}))
        try:
            dispose(stores.FaultyStore(bucket, plan), folder, job)
        except stores.CrashPoint:
            dispose(bucket, folder, job)
            assert bucket.list(folder) == ()
            continue
        break
    assert number > 3
    assert dispose(bucket, folder, job) == 0


def test_files_without_a_manifest_elsewhere_are_nobodys(bucket: stores.MemoryStore, job: Job) -> None:
    bucket.write("backups/7/files/delays/1.zip", b"x")

    with pytest.raises(errors.SpecRejectedError, match="no document that tells whose"):
        dispose(bucket, "backups/7", job)
    assert owners.named_savepoint_ownership(bucket, "backups/7").whose is Whose.NOBODYS
