"""Savepoints that move: between buckets and folders of a real S3 server and the local disk, with any tool.

And what passes the driver on the way: nothing that grows with the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from restores import a_restore
from s3server import S3Server, encrypted
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import storage
from statefulspark.checkpoint import verify
from statefulspark.recovery.plan import StartMode
from statefulspark.storage import ObjectStore, StorageOptions
from statefulspark.storage.port import MOST_BYTES
from statefulspark.testing import stores

pytestmark = pytest.mark.s3
STATE_BYTES = 3 * 2**20


class Passed(stores.FaultyStore):
    """A store that counts the bytes of bodies that pass this process."""

    def __init__(self, wrapped: ObjectStore, counted: list[int] | None = None) -> None:
        super().__init__(wrapped)
        self.counted = [] if counted is None else counted

    def read(self, key: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        body = super().read(key, most_bytes=most_bytes)
        self.counted.append(len(body))
        return body

    def write(self, key: str, body: bytes) -> None:
        self.counted.append(len(body))
        super().write(key, body)

    def create(self, key: str, body: bytes) -> None:
        self.counted.append(len(body))
        super().create(key, body)

    def child(self, prefix: str) -> Passed:
        return Passed(self.wrapped.child(prefix), self.counted)


class S3Job(Job):
    """A job in a bucket, which opens other places on the same server."""

    opener: Callable[[str], ObjectStore]

    def open_store(self, uri: str) -> ObjectStore:
        return self.opener(uri)


@pytest.fixture(params=["etags that are MD5s", "etags of SSE-KMS"])
def options(request: pytest.FixtureRequest, s3: S3Server) -> Iterator[StorageOptions]:
    plain = nullcontext(s3.endpoint)
    with encrypted(s3) if request.param == "etags of SSE-KMS" else plain as endpoint:
        yield replace(s3.options(), endpoint=endpoint, allow_local_files=True)


@pytest.fixture
def counted() -> list[int]:
    return []


@pytest.fixture
def job(s3_bucket: str, options: StorageOptions, counted: list[int]) -> Job:
    found = S3Job()
    found.opener = lambda uri: Passed(storage.open_store(uri, options), counted)
    found.bucket = found.opener(f"s3://{s3_bucket}")
    found.store = found.bucket.child("state/default/flights")
    return found


@pytest.fixture
def query(job: Job) -> FakeQuery:
    """Return a query whose state is in a few SST files."""
    running = FakeQuery(job.store, job.boot().generation, sst_bytes=STATE_BYTES)
    for _ in range(3):
        running.run_batch()
        running.upload_snapshots()
    return running


def move(source: ObjectStore, target: ObjectStore) -> None:
    """Copy a folder as any tool does, body by body, and delete the original."""
    for info in source.list(""):
        target.write(info.key, source.read(info.key))
    source.delete_many([info.key for info in source.list("")])


@pytest.mark.parametrize("where", ["another bucket", "another prefix", "the root of a bucket", "the local disk"])
def test_a_savepoint_that_was_moved_with_any_tool_restores_although_the_original_job_is_gone(
    job: Job, query: FakeQuery, s3: S3Server, options: StorageOptions, tmp_path: Path, where: str
) -> None:
    """A.148, A.173: pointers are relative, so a savepoint may be moved or copied anywhere."""
    place = job.savepoint(query)
    target = {
        "another bucket": f"s3://{s3.new_bucket()}/some/where else",
        "another prefix": f"{job.bucket.uri}/moved",
        "the root of a bucket": f"s3://{s3.new_bucket()}",
        "the local disk": f"file://{tmp_path}/moved",
    }[where]
    move(storage.open_store(place.uri, options), storage.open_store(target, options))
    job.store.delete_many([info.key for info in job.store.list("") if "/moved/" not in info.key])

    plan = job.boot(a_restore(snapshot=target))

    assert (plan.mode, plan.restored_from) == (StartMode.COPY, target)
    assert dict(plan.start_batches) == {"delays": 2}
    assert verify.verify_queries(job.store, plan.queries, deep=True).ok
    metadata = job.store.read(f"{plan.queries[0].path}/state/0/_metadata/v2/0").decode()
    assert f"{job.store.uri.replace('s3://', 's3a://')}/{plan.queries[0].path}/state/0/_stateSchema" in metadata
    assert "somewhere" not in metadata


@pytest.mark.parametrize("where", ["the job's own folder", "another bucket"])
def test_no_byte_of_the_state_passes_the_driver(
    job: Job, query: FakeQuery, s3: S3Server, counted: list[int], where: str
) -> None:
    """A savepoint of any size needs no memory and no disk of the driver: what passes is its metadata."""
    location = None if where == "the job's own folder" else f"s3://{s3.new_bucket()}/backups"
    counted.clear()

    place = job.savepoint(query, location=location)
    job.store.delete_many([info.key for info in job.store.list("generations") if "delays" in info.key])
    plan = job.boot(a_restore(snapshot=place.uri))

    state = sum(file.size_bytes for entry in plan.queries for file in entry.files)
    assert state > 2 * STATE_BYTES
    assert sum(counted) < 64 * 1024
    assert verify.verify_queries(job.store, plan.queries).ok
