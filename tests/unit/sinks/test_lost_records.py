"""Records of prepared transactions that are lost or damaged: a start never goes on without one, nor ends at one for ever."""

from __future__ import annotations

import pytest
from restores import a_restore
from sinkdrivers import Driver, expected, visible
from snapshots import Clock
from statefulspark import errors
from statefulspark.checkpoint import batch_records
from statefulspark.contract.prepared import OpenedSink, OutputRecord
from statefulspark.recovery.plan import StartMode
from statefulspark.testing import stores

DAMAGES = ("missing", "cut off", "empty", "a bit of its rows flipped", "a bit of its syntax flipped")


@pytest.fixture
def bucket() -> stores.MemoryStore:
    return stores.MemoryStore("memory://bucket", Clock())


def spoil(bucket: stores.MemoryStore, key: str, how: str) -> None:
    """Damage a record."""
    body = bucket.read(key)
    rows, syntax = body.index(b"rows") + 1, body.index(b'"batchId"')
    spoilt = {
        "cut off": body[:-1],
        "empty": b"",
        "a bit of its rows flipped": body[:rows] + bytes([body[rows] ^ 1]) + body[rows + 1 :],
        "a bit of its syntax flipped": body[:syntax] + bytes([body[syntax] ^ 1]) + body[syntax + 1 :],
    }
    if how == "missing":
        bucket.delete_many([key])
    else:
        bucket.write(key, spoilt[how])


def record_key(driver: Driver, batch: int) -> str:
    """Return where the driver has put the record of a batch."""
    name = batch_records.RecordName(batch_records.RecordKind.PREPARED, "out", batch, driver.job.epoch)
    return f"default/flights/{driver.query.path}/{name.key}"


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("batch", [3, 4, 5], ids=["the oldest", "one between two", "the newest"])
def test_a_lost_record_of_batches_after_the_checkpoint_loses_no_row(
    bucket: stores.MemoryStore, batch: int, how: str
) -> None:
    """Committed batches whose transaction is not known cannot be gone on from: they come again."""
    driver = Driver(bucket, Clock())
    driver.batch(3)
    driver.checkpoint()
    driver.batch(3)
    spoil(bucket, record_key(driver, batch), how)

    again = Driver(bucket, Clock())
    again.batch(3)
    again.checkpoint()

    assert (again.plan.mode, again.plan.restored_from) == (StartMode.COPY, "checkpoint 1")
    assert record_key(driver, batch) in (again.plan.fallback or "")
    assert visible(bucket) == expected((1, 3), (2, 3))


@pytest.mark.parametrize("how", DAMAGES)
def test_a_lost_record_of_the_checkpoint_itself_makes_a_start_fall_back(bucket: stores.MemoryStore, how: str) -> None:
    """Also when batches were committed after it."""
    driver = Driver(bucket, Clock())
    driver.batch(2)
    driver.checkpoint()
    driver.batch(2)
    driver.complete()
    driver.batch()
    spoil(bucket, record_key(driver, 2), how)

    again = Driver(bucket, Clock())
    again.batch(3)
    again.checkpoint()

    assert again.plan.restored_from == "checkpoint 1"
    assert visible(bucket) == expected((1, 2), (2, 3))


def test_a_damaged_record_does_not_end_every_start_in_the_same_way(bucket: stores.MemoryStore) -> None:
    driver = Driver(bucket, Clock())
    driver.batch()
    driver.checkpoint()
    driver.batch()
    driver.complete()
    spoil(bucket, record_key(driver, 1), "a bit of its syntax flipped")

    first, second = Driver(bucket, Clock()), Driver(bucket, Clock())

    assert (first.plan.restored_from, first.plan.mode) == ("checkpoint 1", StartMode.COPY)
    assert (second.plan.generation, second.plan.mode) == (2, StartMode.CONTINUE)


def test_a_batch_without_rows_has_a_record_too(bucket: stores.MemoryStore) -> None:
    driver = Driver(bucket, Clock())
    driver.committer.sink(driver.sink.key).record_prepared(0, None)

    assert [name.batch for name in driver.sink.log.list_all(batch_records.RecordKind.PREPARED)] == [0]


def test_a_query_that_has_no_sink_of_ours_any_more_needs_no_records(bucket: stores.MemoryStore) -> None:
    """What has nothing to commit does not keep the sink in the job, either."""
    driver = Driver(bucket, Clock())
    driver.query.run_batch()
    driver.committer.sink(driver.sink.key).record_prepared(0, None)
    driver.checkpoint()
    other = Driver(bucket, Clock(), sinks=False)
    other.query.run_batch()

    plan = Driver(bucket, Clock(), sinks=False).plan

    assert (plan.mode, plan.start_batches, plan.fallback) == (StartMode.CONTINUE, {"delays": 1}, None)


def test_what_a_replaced_driver_says_late_about_its_sinks_does_not_count(bucket: stores.MemoryStore) -> None:
    zombie = Driver(bucket, Clock())
    key = f"default/flights/{zombie.query.path}/output/delays/00000000-00000001.json"
    said = bucket.read(key)
    successor = Driver(bucket, Clock(), sinks=False)
    bucket.write(key, said)
    successor.query.run_batch()

    assert Driver(bucket, Clock(), sinks=False).plan.start_batches == {"delays": 0}


def test_records_travel_with_a_savepoint(bucket: stores.MemoryStore) -> None:
    """Also the one that tells which of them there must be."""
    driver = Driver(bucket, Clock())
    driver.batch(3)
    place = driver.job.savepoint(driver.query)
    driver.batch()

    restored = Driver(bucket, Clock(), a_restore(snapshot=place.uri))
    restored.batch(2)
    bucket.delete_many([record_key(restored, 3)])
    again = Driver(bucket, Clock())

    assert again.plan.start_batches == {"delays": 2}
    assert record_key(restored, 3) in (again.plan.fallback or "")


@pytest.mark.parametrize(
    "record", [OutputRecord(sinks=(OpenedSink(uid="out", kind="KafkaSink"),), batch_id=6, epoch=4)]
)
def test_every_bit_of_a_record_is_covered_by_its_checksum(record: OutputRecord) -> None:
    body = record.sealed()
    assert OutputRecord.parse(body, "here") == record

    for place in range(body.index(b',"crc32"')):
        for bit in range(8):
            flipped = body[:place] + bytes([body[place] ^ 1 << bit]) + body[place + 1 :]
            with pytest.raises(errors.SnapshotCorruptError):
                OutputRecord.parse(flipped, "here")
