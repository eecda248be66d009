"""Roots and savepoints whose etags become others: encrypted anew, copied out of an encrypted bucket or into one.

An etag of SSE-KMS or SSE-C looks like an MD5 and is none. The content is compared with the checksums that were written
beside it, so new etags are no damage, and damage is found whatever the etags say.
"""

from __future__ import annotations

import etags
import pytest
from manifests import a_manifest
from restores import a_restore
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.checkpoint import catalog, closure, content, relocate, verify
from statefulspark.contract import layout
from statefulspark.contract.manifest import FileEntry, QueryEntry
from statefulspark.recovery.plan import StartMode
from statefulspark.storage.port import ObjectStore
from statefulspark.testing import stores

each_life = pytest.mark.parametrize(("written", "verified"), etags.LIVES.values(), ids=etags.LIVES)


def a_job_on(etag_of: etags.EtagOf) -> tuple[Job, FakeQuery]:
    """Return a job with state snapshots and two checkpoints, of which the newer one has packs of changelogs behind it."""
    job = Job(etag_of=etag_of)
    query = FakeQuery(job.store, job.boot().generation)
    for _ in range(2):
        query.run_batch()
        query.run_batch()
        query.upload_snapshots()
        query.run_batch()
        job.checkpoint(query)
    return job, query


def moved(job: Job, etag_of: etags.EtagOf) -> Job:
    """Copy all of a job's bucket into another one, with a tool that does not copy what writers told."""
    target = Job(job.clock, etag_of=etag_of).on(etags.Untold(stores.MemoryStore(job.bucket.uri, job.clock, etag_of)))
    for info in job.bucket.list(""):
        target.bucket.write(info.key, job.bucket.read(info.key))
    return target


@each_life
def test_a_root_in_another_bucket_starts_at_its_newest_checkpoint(
    written: etags.EtagOf, verified: etags.EtagOf
) -> None:
    job, _ = a_job_on(written)

    plan = moved(job, verified).boot()

    assert (plan.restored_from, plan.fallback) == ("checkpoint 2", None)


@each_life
def test_a_start_after_an_encryption_in_place_goes_on(written: etags.EtagOf, verified: etags.EtagOf) -> None:
    changing = etags.Changing(written, verified)
    job, query = a_job_on(changing)
    query.run_batch()
    changing.change()

    plan = job.boot()

    assert (plan.mode, plan.fallback, dict(plan.start_batches)) == (StartMode.CONTINUE, None, {"delays": 6})


@each_life
def test_a_copy_of_a_savepoint_verifies_and_is_restored(written: etags.EtagOf, verified: etags.EtagOf) -> None:
    job, query = a_job_on(written)
    place = job.savepoint(query)
    other = Job(job.clock, etag_of=verified)

    relocate.relocate(place.store, place.folder, other.bucket, "archive/words")
    report = verify.verify(other.bucket, catalog.read_manifest(other.bucket, "archive/words"), root="archive/words")
    plan = other.boot(a_restore(snapshot=f"{other.bucket.uri}/archive/words"))

    assert (report.problems, report.uncompared) == ((), ())
    assert dict(plan.start_batches) == {"delays": 5}
    assert verify.verify_queries(other.store, plan.queries, deep=True).ok


@each_life
@pytest.mark.parametrize("suffix", [".zip", ".sst", ".changelog", "offsets/5"])
def test_damage_in_a_copy_is_found(written: etags.EtagOf, verified: etags.EtagOf, suffix: str) -> None:
    job, query = a_job_on(written)
    place = job.savepoint(query)
    other = Job(job.clock, etag_of=verified)
    relocate.relocate(place.store, place.folder, other.bucket, "words")
    key = next(info.key for info in other.bucket.list("words") if info.key.endswith(suffix))
    body = other.bucket.read(key)
    other.bucket.write(key, bytes([body[0] ^ 1]) + body[1:])

    with pytest.raises(errors.SnapshotCorruptError, match=key) as raised:
        other.boot(a_restore(snapshot=f"{other.bucket.uri}/words"))

    assert raised.value.reason == "SnapshotBroken"


@each_life
def test_everything_that_is_read_is_compared(written: etags.EtagOf, verified: etags.EtagOf) -> None:
    changing = etags.Changing(written, verified)
    job, _ = a_job_on(changing)
    changing.change()
    manifest = catalog.read_manifest(job.store, layout.checkpoint(2))

    report = verify.verify(job.store, manifest, deep=True)

    assert (report.problems, report.uncompared) == ((), ())


def a_cut_without_checksums(store: ObjectStore) -> QueryEntry:
    """Return a cut with a table beside which there is no checksum, as other programs may leave it."""
    query = FakeQuery(store)
    query.run_batch()
    query.upload_snapshots()
    store.delete_many([info.key for info in store.list(query.path) if info.key.endswith(".sst.crc")])
    return closure.close_over(store, query.path, 0)


@pytest.mark.parametrize(
    ("etag_of", "is_compared", "is_found"),
    [
        pytest.param(etags.plain, True, True, id="an etag that is an MD5 proves it"),
        pytest.param(etags.of_parts, False, False, id="an etag of parts proves nothing"),
        pytest.param(etags.Encrypted(), False, False, id="an etag of an encrypted object proves nothing"),
    ],
)
def test_a_file_for_which_nothing_vouches_is_named_and_is_no_damage(
    etag_of: etags.EtagOf, is_compared: bool, is_found: bool
) -> None:
    store = etags.Untold(stores.MemoryStore(etag_of=etag_of))
    entry = a_cut_without_checksums(store)
    key = next(f"{entry.path}/{file.path}" for file in entry.files if file.path.endswith(".sst"))

    sound = verify.verify(store, a_manifest(queries=[entry]), deep=True)
    store.write(key, bytes(len(store.read(key))))
    damaged = verify.verify(store, a_manifest(queries=[entry]), deep=True)

    assert (sound.ok, key not in sound.uncompared) == (True, is_compared)
    assert (key in [problem.path for problem in damaged.problems]) is is_found
    assert (f"{key} and 1 more files" in sound.sentence) is not is_compared


@each_life
def test_what_the_writer_told_vouches_where_nothing_else_does(written: etags.EtagOf, verified: etags.EtagOf) -> None:
    changing = etags.Changing(written, verified)
    store = stores.MemoryStore(etag_of=changing)
    entry = a_cut_without_checksums(store)
    changing.change()

    report = verify.verify(store, a_manifest(queries=[entry]))

    assert (report.problems, report.uncompared) == ((), ())


def test_etags_are_md5s_only_if_those_of_all_files_are_that_are_proven() -> None:
    """Objects of before and after a change of the bucket's encryption lie side by side."""
    bodies = {"metadata": b"a", "offsets/0": b"b"}
    infos = {path: etags.plain(path, body, Job().clock.now) for path, body in bodies.items()}
    files = [_entry(path, bodies[path], etag) for path, etag in infos.items()]
    encrypted = replace_checksum(files[1], "etag:" + "0" * 32)

    assert content.etags_are_md5(files, bodies)
    assert not content.etags_are_md5([files[0], encrypted], bodies)
    assert not content.etags_are_md5([], bodies)


def _entry(path: str, body: bytes, etag: str) -> FileEntry:
    from statefulspark.contract import base

    return FileEntry(path=path, size_bytes=len(body), checksum=f"etag:{etag}", crc32=base.crc32_hex(body))


def replace_checksum(file: FileEntry, checksum: str) -> FileEntry:
    return file.model_copy(update={"checksum": checksum})
