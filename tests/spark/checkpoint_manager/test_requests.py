"""What a batch costs in requests to S3, counted in the server's own log."""

from __future__ import annotations

import collections
import time

import pytest
import s3server
import streams
from pyspark.sql import SparkSession
from statefulspark import storage

pytestmark = [pytest.mark.spark, pytest.mark.s3]
BATCHES = 20
PER_BATCH = {
    "PutObject offsets": 1,
    "PutObject commits": 1,
    "PutObject state *.changelog": 2,
    "PutObject state *.changelog.crc": 2,
}
# Spark's maintenance thread uploads a snapshot of the state store now and then, by the clock and not by the batch.
OF_MAINTENANCE = {
    "ListObjectsV2 -",
    "HeadObject state *.sst",
    "PutObject state *.sst",
    "PutObject state *.sst.crc",
    "PutObject state *.zip",
    "PutObject state *.zip.crc",
}
PARTITIONS, BATCHES_PER_SNAPSHOT = 2, 10


def test_a_stateful_batch_needs_six_requests_and_two_looks_at_the_epoch(
    spark: SparkSession, s3: s3server.S3Server, s3_bucket: str
) -> None:
    root = f"s3a://{s3_bucket}/generations/00000001/q"
    gate = streams.gate(spark)
    gate.register(root, -1, -1)
    storage.open_store(f"s3://{s3_bucket}", s3.options()).create("epochs/00000001.json", b"{}")
    streams.fence(spark).configure(f"s3a://{s3_bucket}/epochs/00000002.json")
    query = streams.start_count(spark, root, name="requests", sink="noop")
    streams.wait_until(lambda: gate.lastCommitted(root) >= 5, "the query is warm")
    gate.close(root)
    assert gate.awaitBoundary(root, 30_000)
    before = len(s3.requests())
    started_s = time.monotonic()
    gate.open(root)
    start = gate.lastCommitted(root)
    streams.wait_until(lambda: gate.lastCommitted(root) >= start + BATCHES, "twenty batches are committed")
    gate.close(root)
    assert gate.awaitBoundary(root, 30_000)
    batches = gate.lastCommitted(root) - start
    elapsed_s = time.monotonic() - started_s
    lines = s3.requests()[before:]
    query.stop()
    streams.fence(spark).disable()
    gate.unregister(root)

    per_batch = collections.Counter(_kind(line) for line in lines)
    print(f"{batches} batches, {1000 * elapsed_s / batches:.0f} ms each")
    for kind, count in sorted(per_batch.items()):
        print(f"{count / batches:6.2f} {kind}")
    looks = per_batch.pop("HeadObject epochs")
    assert 2 * batches <= looks <= 2 * batches + 2
    assert {kind: per_batch[kind] / batches for kind in PER_BATCH} == PER_BATCH
    assert set(per_batch) - set(PER_BATCH) <= OF_MAINTENANCE
    snapshots = PARTITIONS * (batches // BATCHES_PER_SNAPSHOT + 1)
    assert all(per_batch[kind] <= snapshots for kind in OF_MAINTENANCE)


def _kind(line: str) -> str:
    operation, key = line.split(" s3_", 1)[1].split()[:2]
    parts = key.removeprefix("generations/00000001/q/").split("/")
    name = parts[-1].rpartition(".")
    suffix = "" if not name[1] else f" *.{name[2] if name[2] != 'crc' else name[0].rpartition('.')[2] + '.crc'}"
    return f"{operation} {parts[0]}{suffix}" if parts[0] != "epochs" else f"{operation} epochs"
