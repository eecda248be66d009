"""Staged rows: files of bounded size below the query's root, read back in order."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from sinkcontexts import a_sink_context
from statefulspark import errors, storage
from statefulspark.contract import layout
from statefulspark.sinks import base, staging
from statefulspark.storage import StorageOptions

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


@pytest.fixture
def context(tmp_path: Path) -> base.SinkContext:
    return a_sink_context(
        batch_id=4,
        epoch=2,
        staging_uri=f"file://{tmp_path}/generations/00000001/delays",
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


def test_batches_that_are_merged_count_as_staged_with_the_later_one(context: base.SinkContext) -> None:
    """Else a batch of this minute is in doubt, and skipped, because it is merged with one of last week."""
    old, new = (staged(iter([rows(first, 3)]), context) for first in (0, 3))
    old = old.model_copy(update={"staged_at": new.staged_at - timedelta(days=7)})
    transaction = staging.merge_batches(old.to_json().encode(), new.to_json().encode())
    assert transaction is not None
    merged = staging.parse(transaction, context)

    assert (merged.files, merged.staged_at) == ((*old.files, *new.files), new.staged_at)


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
    storage.open_store(context.staging_uri, context.options).delete_many([merged.files[0].path])
    with pytest.raises(
        errors.StateUnknownError, match=r"(?s)Batch 4 of the sink out .*\(3 rows\) does not exist. Restore"
    ):
        list(staging.read(merged, context))


def test_a_file_is_named_by_its_attempt_and_a_transaction_names_its_files(context: base.SinkContext) -> None:
    first, second = (staged(iter([rows(0, 3)]), replace(context, generation=3, epoch=epoch)) for epoch in (2, 7))
    files = [file.path for one in (first, second) for file in one.files]
    wrapped = json.dumps({"rows": first.to_json(), "and": second.to_json(), "again": first.to_json()})

    assert layout.staged_files_in(wrapped) == tuple(files)
    assert [layout.staged_batch(path) for path in files] == [4, 4]
    assert [path[:37] for path in files] == [f"staged/out/00000003-00000004-0000000{epoch}" for epoch in (2, 7)]


@pytest.mark.parametrize(
    "key",
    ["data/00000000/00000004-00000003-00000002-" + "a" * 32 + ".parquet", "staged/out/notes.json", "staged/out"],
    ids=["a file of a files sink", "not a file of rows", "a folder"],
)
def test_other_files_are_not_taken_for_staged_rows(key: str) -> None:
    assert (layout.staged_batch(key), layout.staged_files_in(key)) == (None, ())


def test_a_record_that_is_none_is_refused_by_name(context: base.SinkContext) -> None:
    with pytest.raises(errors.SnapshotCorruptError, match="the prepared batch 4 of the sink out"):
        staging.parse(b'{"files": 7}', context)


def test_a_workers_context_can_be_sent_to_it() -> None:
    """The context of a driver holds a connection to storage, to look claims up."""
    lock = threading.Lock()
    context = a_sink_context(claim_of=lambda epoch: str((lock, epoch)))
    sent = cloudpickle.loads(cloudpickle.dumps(context.on_worker()))
    assert (sent, sent.claim_of(1)) == (context, None)
