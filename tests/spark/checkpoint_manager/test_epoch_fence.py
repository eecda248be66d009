"""A driver whose job has been taken over, or whose state was deleted, writes no further log entry, and says so."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import s3server
import sparksession
import streams
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from statefulspark import storage
from statefulspark.storage import ObjectStore

pytestmark = [pytest.mark.spark, pytest.mark.s3]
OWN_EPOCH, NEXT_EPOCH = "epochs/00000007.json", "epochs/00000008.json"
SENTENCE = "A newer driver owns the job: this driver has epoch 00000007, and epoch 00000008 exists"


@pytest.fixture
def job(s3: s3server.S3Server, s3_bucket: str) -> ObjectStore:
    return storage.open_store(f"s3://{s3_bucket}/ns/job", s3.options())


@pytest.fixture
def root(spark: SparkSession, job: ObjectStore) -> Iterator[str]:
    location = f"{job.uri.replace('s3://', 's3a://')}/generations/00000001/q"
    streams.gate(spark).register(location, -1, -1)
    job.create(OWN_EPOCH, b"{}")
    streams.fence(spark).configure(f"{job.uri}/{NEXT_EPOCH}")
    yield location
    for query in spark.streams.active:
        query.stop()
    streams.gate(spark).unregister(location)
    streams.fence(spark).disable()


def test_no_batch_begins_under_a_newer_epoch(spark: SparkSession, job: ObjectStore, root: str) -> None:
    gate = streams.gate(spark)
    query = streams.start_count(spark, root, name=_name())
    streams.wait_until(lambda: gate.lastCommitted(root) >= 1, "two batches are committed under the own epoch")
    gate.close(root)
    assert gate.awaitBoundary(root, 30_000)
    boundary = gate.lastCommitted(root)
    fenced_before = streams.fence(spark).fenced()

    job.create(NEXT_EPOCH, b"{}")
    gate.open(root)
    streams.wait_until(lambda: not query.isActive, "the query ends")

    assert not fenced_before
    assert streams.fence(spark).fenced()
    assert SENTENCE in str(query.exception())
    assert SENTENCE in streams.fence(spark).message()
    assert job.info(f"generations/00000001/q/offsets/{boundary + 1}") is None


def test_no_begun_batch_is_committed_under_a_newer_epoch(spark: SparkSession, job: ObjectStore, root: str) -> None:
    gate = streams.gate(spark)
    query = streams.start_count(spark, root, name=_name(), row_pause_ms=100)
    streams.wait_until(lambda: gate.lastOffsets(root) == 0, "the first batch has begun")

    job.create(NEXT_EPOCH, b"{}")
    streams.wait_until(lambda: not query.isActive, "the query ends")

    assert SENTENCE in str(query.exception())
    assert job.info("generations/00000001/q/offsets/0") is not None
    assert job.list("generations/00000001/q/commits") == ()
    assert gate.lastCommitted(root) == -1


def test_an_epoch_that_cannot_be_looked_up_stops_the_write(spark: SparkSession, tmp_path: Path) -> None:
    with s3server.running(tmp_path) as server:
        bucket = server.new_bucket()
        store = storage.open_store(f"s3://{bucket}/q", server.options())
        manager = streams.checkpoint_manager(spark, f"s3a://{bucket}/q", sparksession.s3a_settings(server.endpoint))
        out = _log_entry(manager, spark._jvm.org.apache.hadoop.fs.Path(f"s3a://{bucket}/q/commits/0"))
        out.write(bytearray(b"v1"))
        streams.fence(spark).configure(f"s3a://{bucket}/{NEXT_EPOCH}")
        server.stop()
        try:
            with pytest.raises(Py4JJavaError, match="Could not find out whether a newer driver owns the job"):
                out.close()
        finally:
            streams.fence(spark).disable()
        server.start()

        assert store.list("") == ()


def test_local_folders_are_fenced_too(spark: SparkSession, tmp_path: Path) -> None:
    manager = streams.checkpoint_manager(spark, f"file://{tmp_path}/q", {})
    path = spark._jvm.org.apache.hadoop.fs.Path(f"file://{tmp_path}/q/offsets/0")
    (tmp_path / "epochs").mkdir()
    (tmp_path / OWN_EPOCH).write_text("{}")
    streams.fence(spark).configure(f"file://{tmp_path}/{NEXT_EPOCH}")
    try:
        _log_entry(manager, path).close()
        (tmp_path / NEXT_EPOCH).write_text("{}")
        with pytest.raises(Py4JJavaError, match=SENTENCE):
            _log_entry(manager, path.suffix("1")).close()
    finally:
        streams.fence(spark).disable()

    assert [path.name for path in (tmp_path / "q" / "offsets").iterdir()] == ["0"]


def test_a_driver_whose_state_was_deleted_while_it_slept_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """The deletion leaves the record of a later epoch alone, so the next one is not there either."""
    manager = streams.checkpoint_manager(spark, f"file://{tmp_path}/q", {})
    path = spark._jvm.org.apache.hadoop.fs.Path(f"file://{tmp_path}/q/offsets/0")
    streams.fence(spark).configure(f"file://{tmp_path}/{NEXT_EPOCH}")
    (tmp_path / "epochs").mkdir()
    (tmp_path / "epochs" / "00000012.json").write_text("{}")
    try:
        with pytest.raises(Py4JJavaError, match="The state of the job was deleted: this driver has epoch 00000007"):
            _log_entry(manager, path).close()
        assert streams.fence(spark).fenced()
    finally:
        streams.fence(spark).disable()

    assert not (tmp_path / "q" / "offsets" / "0").exists()


@pytest.mark.parametrize("file", ["sources/0/1", "sources/0/9.compact", "metadata"])
def test_what_a_start_reads_back_is_fenced_as_log_entries_are(spark: SparkSession, tmp_path: Path, file: str) -> None:
    """A replaced driver wrote into the log of its file source, which made its successor's first batch fail."""
    manager = streams.checkpoint_manager(spark, f"file://{tmp_path}/q", {})
    path = spark._jvm.org.apache.hadoop.fs.Path(f"file://{tmp_path}/q/{file}")
    streams.fence(spark).configure(f"file://{tmp_path}/{NEXT_EPOCH}")
    (tmp_path / "epochs").mkdir()
    (tmp_path / NEXT_EPOCH).write_text("{}")
    try:
        with pytest.raises(Py4JJavaError, match=SENTENCE):
            _log_entry(manager, path).close()
    finally:
        streams.fence(spark).disable()

    assert not (tmp_path / "q" / file).exists()


def _log_entry(manager: JavaObject, path: JavaObject) -> JavaObject:
    overwrite_if_possible = False
    return manager.createAtomic(path, overwrite_if_possible)


def _name() -> str:
    return f"q{uuid.uuid4().hex[:8]}"
