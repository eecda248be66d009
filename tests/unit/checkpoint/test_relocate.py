"""Copies of savepoints: as good as the original, never half (A.148, A.173)."""

from __future__ import annotations

import itertools
import json

import pytest
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.checkpoint import catalog, relocate, verify
from statefulspark.contract import layout
from statefulspark.testing import stores


@pytest.fixture
def folder(job: Job) -> str:
    """Take a savepoint with state snapshots and changelogs."""
    query = job.running(batches=4)
    query.upload_snapshots()
    query.run_batch()
    return job.savepoint(query).folder


def test_what_a_newer_release_wrote_into_the_manifest_is_kept(job: Job, folder: str) -> None:
    document = json.loads(job.store.read(f"{folder}/{layout.MANIFEST_NAME}"))
    job.store.write(f"{folder}/{layout.MANIFEST_NAME}", json.dumps({**document, "fromTheFuture": 1}).encode())

    relocate.relocate(job.store, folder, job.bucket.child("archive"), "words")

    assert json.loads(job.bucket.read(f"archive/words/{layout.MANIFEST_NAME}"))["fromTheFuture"] == 1


@pytest.mark.parametrize("body", [b"", b"{}", b"not json"], ids=["nothing", "of another tool", "no JSON"])
def test_a_target_with_a_foreign_manifest_is_refused_as_taken(job: Job, folder: str, body: bytes) -> None:
    archive = job.bucket.child("archive")
    archive.write(f"words/{layout.MANIFEST_NAME}", body)

    with pytest.raises(errors.PreconditionFailedError, match=r"archive/words has a .* name another folder") as caught:
        relocate.relocate(job.store, folder, archive, "words")

    assert caught.value.reason == "SavepointExists"
    assert [info.key for info in archive.list("")] == [f"words/{layout.MANIFEST_NAME}"]


def test_what_is_left_of_a_copy_of_another_savepoint_is_not_taken_for_the_files_of_this_one(
    job: Job, folder: str
) -> None:
    archive = job.bucket.child("archive")
    other = job.on(job.bucket)
    other.store = job.bucket.child("default/other")
    query = FakeQuery(other.store, other.start().generation, seed=2)
    for _ in range(5):
        query.run_batch()
    left = other.savepoint(query).folder
    dying = stores.FaultyStore(archive, stores.Plan(crash_before=1, only=frozenset({"create"})))
    with pytest.raises(stores.CrashPoint):
        relocate.relocate(other.store, left, dying, "words")

    relocate.relocate(job.store, folder, archive, "words")

    assert verify.verify(archive, catalog.read_manifest(archive, "words"), root="words", deep=True).ok


def test_a_copy_that_dies_at_any_write_is_no_savepoint_and_can_be_repeated(job: Job, folder: str) -> None:
    died = 0
    for number in itertools.count(1):
        target = f"words-{number}"
        elsewhere = job.bucket.child("archive")
        dying = stores.FaultyStore(elsewhere, stores.Plan(crash_before=number, only=frozenset({"copy", "create"})))
        try:
            relocate.relocate(job.store, folder, dying, target)
            break
        except stores.CrashPoint:
            died += 1
            with pytest.raises(errors.ObjectNotFoundError):
                catalog.read_manifest(elsewhere, target)
        relocate.relocate(job.store, folder, elsewhere, target)
        assert verify.verify(elsewhere, catalog.read_manifest(elsewhere, target), root=target, deep=True).ok

    assert died > 3
