"""Verification: what is missing, cut short or swapped is found, and what was moved is not accused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from manifests import a_manifest
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.checkpoint import checksums, closure, transfer, verify
from statefulspark.checkpoint.verify import ProblemKind
from statefulspark.contract import api
from statefulspark.storage import local_store
from statefulspark.storage.port import ObjectStore
from statefulspark.testing import stores


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    return stores.MemoryStore() if request.param == "memory" else local_store.LocalStore(str(tmp_path / "root"))


def a_cut(store: ObjectStore) -> closure.QueryEntry:
    query = FakeQuery(store)
    query.run_batch()
    query.upload_snapshots()
    query.run_batch()
    return closure.close_over(store, query.path, 1)


def first(entry: closure.QueryEntry, suffix: str) -> str:
    return next(f"{entry.path}/{file.path}" for file in entry.files if file.path.endswith(suffix))


def problems(store: ObjectStore, entry: closure.QueryEntry, *, deep: bool = False) -> list[tuple[str, ProblemKind]]:
    report = verify.verify(store, a_manifest(queries=[entry]), deep=deep)
    return [(problem.path, problem.kind) for problem in report.problems]


def test_a_sound_checkpoint_verifies(store: ObjectStore) -> None:
    entry = a_cut(store)

    report = verify.verify(store, a_manifest(queries=[entry]), deep=True)

    assert report.ok
    assert report.files == len(entry.files)
    assert report.sentence == f"{len(entry.files)} files verified."


def test_it_tells_how_many_files_are_verified_one_by_one_where_they_are_read(store: ObjectStore) -> None:
    entry, told = a_cut(store), list[api.Progress]()
    is_read = [file for file in entry.files if file.crc32 is None]

    verify.verify_queries(store, [entry], deep=True, on_progress=told.append)

    total, done = len(entry.files), [one.done for one in told]
    assert (done[0], done[-1], done) == (0, total, sorted(done))
    assert len(done) == 2 + len([file for file in is_read if file.checksum])
    assert {(one.total, one.total_bytes) for one in told} == {(total, sum(file.size_bytes for file in entry.files))}
    assert told[-1].done_bytes == told[-1].total_bytes


@pytest.mark.parametrize("suffix", [".zip", ".changelog", ".sst", "commits/1", "offsets/0", "metadata"])
def test_a_missing_or_cut_file_is_named(store: ObjectStore, suffix: str) -> None:
    entry = a_cut(store)
    key = first(entry, suffix)
    body = store.read(key)

    store.write(key, body[:-1])
    assert problems(store, entry) == [(key, ProblemKind.SIZE_DIFFERS)]
    store.delete_many([key])
    assert problems(store, entry) == [(key, ProblemKind.MISSING)]


@pytest.mark.parametrize("suffix", [".zip", ".changelog"])
def test_a_swapped_file_of_the_same_size_is_found_by_its_checksum(store: ObjectStore, suffix: str) -> None:
    entry = a_cut(store)
    key = first(entry, suffix)
    body = store.read(key)

    store.write(key, bytes([body[0] ^ 1]) + body[1:])

    assert problems(store, entry) == [(key, ProblemKind.CHECKSUM_DIFFERS)]


def test_a_file_without_a_checksum_beside_it_is_compared_by_its_etag() -> None:
    store = stores.MemoryStore()
    entry = a_cut(store)
    key = first(entry, ".sst")

    store.write(key, bytes(len(store.read(key))))

    assert problems(store, entry) == [(key, ProblemKind.CHECKSUM_DIFFERS)]


def test_hadoops_local_checksum_is_used_where_spark_has_none(tmp_path: Path) -> None:
    store = local_store.LocalStore(str(tmp_path))
    store.write("q/commits/0", b'v2\n{"stateUniqueIds":{}}')
    store.write("q/commits/.0.crc", bytes.fromhex("6372630000000200") + crc32(b'v2\n{"stateUniqueIds":{}}'))
    store.write("q/offsets/0", b"v1\n{}\n-")
    store.write("q/metadata", b"{}")
    entry = closure.close_over(store, "q", 0)
    assert problems(store, entry, deep=True) == []

    store.write("q/commits/0", b'v2\n{"stateUniqueIds":[]}')

    assert problems(store, entry) == [("q/commits/0", ProblemKind.CHECKSUM_DIFFERS)]


def crc32(body: bytes) -> bytes:
    import zlib

    return zlib.crc32(body).to_bytes(4, "big")


def test_a_root_that_was_copied_to_another_disk_still_verifies(tmp_path: Path) -> None:
    entry = a_cut(local_store.LocalStore(str(tmp_path / "old")))
    shutil.copytree(tmp_path / "old", tmp_path / "new")

    assert problems(local_store.LocalStore(str(tmp_path / "new")), entry, deep=True) == []


def test_checksums_of_small_files_are_compared_on_another_disk(tmp_path: Path) -> None:
    store = local_store.LocalStore(str(tmp_path / "old"))
    for name, body in (("commits/0", b'v2\n{"stateUniqueIds":{}}'), ("offsets/0", b"v1\n{}\n-"), ("metadata", b"{}")):
        store.write(f"q/{name}", body)
        store.write(f"q/{checksums.hadoop_sidecar(name)}", bytes.fromhex("6372630000000200") + crc32(body))
    entry = closure.close_over(store, "q", 0)
    shutil.copytree(tmp_path / "old", tmp_path / "new")

    report = verify.verify(local_store.LocalStore(str(tmp_path / "new")), a_manifest(queries=[entry]))

    assert (report.files, report.problems, report.uncompared) == (6, (), ())


def test_a_sound_snapshot_costs_one_listing_per_query_and_a_read_per_small_file() -> None:
    store = stores.MemoryStore()
    entry = a_cut(store)
    faulty = stores.FaultyStore(store)

    assert problems(faulty, entry) == []
    small = [file for file in entry.files if file.crc32 is not None]
    assert [operation.name for operation in faulty.operations] == ["list", *["read"] * len(small)]
    assert len(small) == 7


def test_a_store_that_cannot_be_asked_is_no_broken_snapshot() -> None:
    store = stores.MemoryStore()
    entry = a_cut(store)
    failing = stores.FaultyStore(store, stores.Plan(fail_at=frozenset({1})))

    with pytest.raises(errors.TransientError):
        verify.verify(failing, a_manifest(queries=[entry]))


def test_copies_between_servers_are_read_and_written_and_tell_their_progress() -> None:
    source, target = stores.MemoryStore("memory://a"), stores.MemoryStore("memory://b")
    source.write("x", b"1")
    source.write("y", b"2")
    progress: list[int] = []

    transfer.copy(source, target, [("x", "p/x"), ("y", "p/y")], on_progress=progress.append)

    assert (target.read("p/x"), target.read("p/y"), progress) == (b"1", b"2", [1, 2])
