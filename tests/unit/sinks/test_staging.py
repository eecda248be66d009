"""Staged rows: files of bounded size, read back in order, and swept when they are of no more use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from sinkcontexts import a_sink_context, at
from statefulspark import errors, storage
from statefulspark.sinks import base, staging
from statefulspark.storage import StorageOptions

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


@pytest.fixture
def context(tmp_path: Path) -> base.SinkContext:
    return a_sink_context(
        batch_id=4,
        epoch=2,
        staging_uri=f"file://{tmp_path}/sinks/delays/out",
        options=StorageOptions(allow_local_files=True),
    )


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.RecordBatch.from_pydict({"id": list(numbers), "text": [f"row {one}" for one in numbers]}, schema=SCHEMA)


def staged(batches: Iterator[pa.RecordBatch], context: base.SinkContext) -> staging.StagedRows:
    part = staging.stage(batches, context)
    assert part is not None
    merged = staging.merge([part])
    assert merged is not None
    return merged


def names(context: base.SinkContext) -> tuple[str, ...]:
    return storage.open_store(context.staging_uri, context.options).list_names("")


def test_rows_come_back_in_order_across_parts_and_files(
    context: base.SinkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "FILE_BYTES", 1)
    parts = [
        staging.stage(iter([rows(0, 10), rows(10, 0), rows(10, 5)]), context),
        staging.stage(iter([rows(15, 5)]), context),
    ]
    merged = staging.merge([part for part in parts if part is not None])
    assert merged is not None
    read = [number for batch in staging.read(merged, context) for number in batch.column("id").to_pylist()]
    assert (read, merged.rows, len(merged.files)) == (list(range(20)), 20, 3)


def test_no_rows_stage_nothing(context: base.SinkContext) -> None:
    assert staging.stage(iter([rows(0, 0)]), context) is None
    assert staging.merge([]) is None


def test_a_large_batch_is_read_without_holding_it(context: base.SinkContext) -> None:
    rows_of_10_kb = {"id": list(range(1000)), "text": [f"{number}".ljust(10_000) for number in range(1000)]}
    merged = staged((pa.RecordBatch.from_pydict(rows_of_10_kb, schema=SCHEMA) for _ in range(10)), context)
    before = pa.total_allocated_bytes()
    held = [pa.total_allocated_bytes() - before for _ in staging.read(merged, context)]
    assert max(held) < 3 * staging.ROW_GROUP_BYTES < 100_000_000


def test_a_lost_file_is_named_with_what_can_be_done(context: base.SinkContext) -> None:
    merged = staged(iter([rows(0, 3)]), context)
    staging.discard(merged, context)
    with pytest.raises(
        errors.StateUnknownError, match=r"(?s)Batch 4 of the sink out .*\(3 rows\) does not exist. Restore"
    ):
        list(staging.read(merged, context))


def test_a_sweep_takes_everything_up_to_the_position_and_nothing_else(context: base.SinkContext) -> None:
    positions = [(1, 3), (1, 4), (1, 5), (2, 0)]
    for generation, batch_id in positions:
        staged(iter([rows(0, 1)]), replace(context, generation=generation, batch_id=batch_id))
    storage.open_store(context.staging_uri, context.options).write("marker.json", b"{}")
    staging.sweep(context, at(1, 4))
    staging.sweep(context, at(9, 9, "another root's"))
    assert [name[:17] for name in names(context)] == ["00000001-00000005", "00000002-00000000", "marker.json"]


def test_discarding_twice_is_fine(context: base.SinkContext) -> None:
    merged = staged(iter([rows(0, 3)]), context)
    staging.discard(merged, context)
    staging.discard(merged, context)
    assert names(context) == ()


def test_a_record_that_is_none_is_refused_by_name(context: base.SinkContext) -> None:
    with pytest.raises(errors.SnapshotCorruptError, match="the prepared batch 4 of the sink out"):
        staging.parse(b'{"files": 7}', context)
