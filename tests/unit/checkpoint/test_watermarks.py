"""Batches that end event time: planned once, and taken back from, whatever dies in between."""

from __future__ import annotations

import json

import pytest
from statefulspark import errors
from statefulspark.checkpoint import sparklog, watermarks
from statefulspark.contract.watermark import END_OF_TIME_MS
from statefulspark.storage.port import ObjectStore
from statefulspark.testing import stores

_ROOT = "generations/00000001/delays"
_LINES = ('{"logOffset":3}', "-")
_NOW_MS = 1_700_000_000_000


@pytest.fixture
def store() -> ObjectStore:
    return stores.MemoryStore("memory://bucket")


def a_batch(store: ObjectStore, number: int, *, watermark_ms: int, next_ms: int, committed: bool = True) -> None:
    """Write what Spark writes for a batch."""
    metadata = {"batchWatermarkMs": watermark_ms, "batchTimestampMs": 1, "conf": {"spark.sql.shuffle.partitions": "4"}}
    store.write(f"{_ROOT}/offsets/{number}", "\n".join(["v1", json.dumps(metadata), *_LINES]).encode())
    if committed:
        commit(store, number, next_ms)


def commit(store: ObjectStore, number: int, next_ms: int) -> None:
    store.write(f"{_ROOT}/commits/{number}", f'v2\n{{"nextBatchWatermarkMs":{next_ms},"stateUniqueIds":{{}}}}'.encode())


def entry(store: ObjectStore, number: int) -> tuple[dict[str, object], tuple[str, ...]]:
    body = store.read(f"{_ROOT}/offsets/{number}")
    return json.loads(body.decode().split("\n")[1]), sparklog.parse_offsets(body, "test")


def test_a_batch_that_ends_event_time_reads_nothing_and_keeps_what_spark_has_pinned(store: ObjectStore) -> None:
    a_batch(store, 7, watermark_ms=5_000, next_ms=9_000)

    number = watermarks.plan_end(store, _ROOT, now_ms=_NOW_MS)
    metadata, lines = entry(store, 8)

    assert (number, lines) == (8, _LINES)
    assert (metadata["batchWatermarkMs"], metadata["batchTimestampMs"]) == (END_OF_TIME_MS, _NOW_MS)
    assert sparklog.pinned_partitions(store.read(f"{_ROOT}/offsets/8"), "test") == 4
    assert watermarks.find_end(store, _ROOT) == watermarks.End(8, is_committed=False, before_ms=9_000)


def test_the_way_back_leads_to_where_the_data_had_the_watermark(store: ObjectStore) -> None:
    a_batch(store, 7, watermark_ms=5_000, next_ms=9_000)
    watermarks.plan_end(store, _ROOT, now_ms=_NOW_MS)
    commit(store, 8, END_OF_TIME_MS)

    number = watermarks.plan_return(store, _ROOT, now_ms=_NOW_MS)
    metadata, lines = entry(store, 9)

    assert (number, metadata["batchWatermarkMs"], lines) == (9, 9_000, _LINES)
    assert watermarks.find_end(store, _ROOT) is None
    assert watermarks.plan_return(store, _ROOT, now_ms=_NOW_MS) is None


def test_there_is_no_way_back_before_the_end_has_run(store: ObjectStore) -> None:
    a_batch(store, 7, watermark_ms=5_000, next_ms=9_000)
    watermarks.plan_end(store, _ROOT, now_ms=_NOW_MS)

    assert watermarks.plan_return(store, _ROOT, now_ms=_NOW_MS) is None


def test_event_time_ends_again_after_the_way_back(store: ObjectStore) -> None:
    a_batch(store, 7, watermark_ms=5_000, next_ms=9_000)
    watermarks.plan_end(store, _ROOT, now_ms=_NOW_MS)
    commit(store, 8, END_OF_TIME_MS)
    watermarks.plan_return(store, _ROOT, now_ms=_NOW_MS)
    commit(store, 9, 9_000)

    assert watermarks.plan_end(store, _ROOT, now_ms=_NOW_MS) == 10
    assert watermarks.find_end(store, _ROOT) == watermarks.End(10, is_committed=False, before_ms=9_000)


def test_a_query_that_has_committed_nothing_has_nothing_to_end(store: ObjectStore) -> None:
    assert watermarks.plan_end(store, _ROOT, now_ms=_NOW_MS) is None
    assert watermarks.find_end(store, _ROOT) is None
    assert watermarks.plan_return(store, _ROOT, now_ms=_NOW_MS) is None


def test_a_batch_that_is_planned_is_never_overwritten(store: ObjectStore) -> None:
    a_batch(store, 7, watermark_ms=5_000, next_ms=9_000)
    a_batch(store, 8, watermark_ms=9_000, next_ms=0, committed=False)

    with pytest.raises(errors.PreconditionFailedError, match="offsets/8 is planned already"):
        watermarks.plan_end(store, _ROOT, now_ms=_NOW_MS)


def test_a_damaged_entry_is_named(store: ObjectStore) -> None:
    a_batch(store, 7, watermark_ms=5_000, next_ms=9_000)
    store.write(f"{_ROOT}/commits/7", b"v2\n{")

    with pytest.raises(errors.SnapshotCorruptError, match="commits/7 cannot be read"):
        watermarks.plan_end(store, _ROOT, now_ms=_NOW_MS)
