"""Copies of savepoints: as good as the original, never half (A.148, A.173)."""

from __future__ import annotations

import itertools
import json

import pytest
from snapshots import Job
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


def test_a_copy_verifies_and_names_the_same_files(job: Job, folder: str) -> None:
    elsewhere = job.bucket.child("archive")

    copied = relocate.relocate(job.store, folder, elsewhere, "words")

    manifest = catalog.read_manifest(elsewhere, "words")
    assert manifest == copied.manifest == catalog.read_manifest(job.store, folder)
    assert verify.verify(elsewhere, manifest, root="words", deep=True).ok
    assert copied.copied_files == copied.files == len(elsewhere.list("words/files"))


def test_a_copy_tells_its_progress_in_bytes(job: Job, folder: str) -> None:
    seen: list[tuple[int, int]] = []

    copied = relocate.relocate(
        job.store,
        folder,
        job.bucket.child("archive"),
        "words",
        on_progress=lambda done, total: seen.append((done, total)),
    )

    assert seen[0] == (0, copied.size_bytes)
    assert seen[-1] == (copied.size_bytes, copied.size_bytes)
    assert seen == sorted(seen)


def test_what_a_newer_release_wrote_into_the_manifest_is_kept(job: Job, folder: str) -> None:
    document = json.loads(job.store.read(f"{folder}/{layout.MANIFEST_NAME}"))
    job.store.write(f"{folder}/{layout.MANIFEST_NAME}", json.dumps({**document, "fromTheFuture": 1}).encode())

    relocate.relocate(job.store, folder, job.bucket.child("archive"), "words")

    assert json.loads(job.bucket.read(f"archive/words/{layout.MANIFEST_NAME}"))["fromTheFuture"] == 1


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


def test_copying_again_copies_nothing(job: Job, folder: str) -> None:
    elsewhere = job.bucket.child("archive")

    relocate.relocate(job.store, folder, elsewhere, "words")
    again = relocate.relocate(job.store, folder, elsewhere, "words")

    assert again.copied_files == 0
