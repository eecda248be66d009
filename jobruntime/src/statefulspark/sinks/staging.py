"""Staged rows of uncommitted batches: Parquet on the job's object store, written by workers and read by the driver.

```
<query root>/staged/<sink uid>/00000003-00000012-00000007-<unique>.parquet      generation, batch, epoch
```
A worker writes several files instead of one large file, and the driver reads them one after the other by row group:
memory is limited to one file and one row group for any batch size. The files are part of the state: a snapshot that names a
prepared transaction holds the files that the transaction names, so a savepoint has copies of them, and a restore brings
them into its generation. Sinks delete none: retention deletes the files that no snapshot needs.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.parquet as parquet

from statefulspark import clock, errors, rowvalues, storage
from statefulspark.contract import base, formats, layout

if TYPE_CHECKING:
    from statefulspark.sinks.base import SinkContext
    from statefulspark.storage import ObjectStore

FILE_BYTES = 32 * 2**20
"""A file is closed when it is larger than this, which limits the memory of readers."""
MERGED_FILES = 500
"""Batches with more files, or more than `FILE_BYTES`, are committed apart: a transaction has a limited time."""
ROW_GROUP_ROWS = 20_000
ROW_GROUP_BYTES = 8 * 2**20
"""A row group ends at the first of both limits; a row is never divided."""


class StagedFile(base.WireModel):
    """One file of staged rows."""

    path: str
    """Relative to the query's root."""
    rows: int
    size_bytes: int


class StagedColumn(base.WireModel):
    """A staged column."""

    name: str
    type: str
    """As pyarrow prints it, for example `timestamp[us, tz=UTC]`."""


class StagedRows(base.StoredDocument):
    """The staged rows of one partition or a whole batch: the body of a prepared transaction."""

    FORMAT: ClassVar = formats.STAGED_ROWS
    format_version: int = formats.STAGED_ROWS.writes

    files: tuple[StagedFile, ...]
    columns: tuple[StagedColumn, ...]
    staged_at: base.UtcDatetime

    @property
    def rows(self) -> int:
        """Sum over the files."""
        return sum(file.rows for file in self.files)


def columns_of(schema: pa.Schema) -> tuple[StagedColumn, ...]:
    """Return the columns of a schema."""
    return tuple(StagedColumn(name=field.name, type=str(field.type)) for field in schema)


def stage(batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
    """Write the rows of one partition; called on a worker.

    Args:
        batches: The rows, all with one schema.
        context: The batch and the query's root.

    Returns:
        The part for `merge`; None if there were no rows.
    """
    store = _store(context)
    staged: list[StagedFile] = []
    rolling: _RollingFile | None = None
    columns: tuple[StagedColumn, ...] = ()
    for batch in batches:
        row_bytes = max(1, batch.nbytes // max(1, batch.num_rows))
        group_rows = max(1, min(ROW_GROUP_ROWS, ROW_GROUP_BYTES // row_bytes))
        for start in range(0, batch.num_rows, group_rows):
            rolling = rolling or _RollingFile(batch.schema)
            columns = columns or columns_of(batch.schema)
            rolling.add(batch.slice(start, group_rows))
            if rolling.size_bytes >= FILE_BYTES:
                staged.append(rolling.finish(store, context))
                rolling = None
    if rolling is not None:
        staged.append(rolling.finish(store, context))
    if not staged:
        return None
    return StagedRows(files=tuple(staged), columns=columns, staged_at=clock.utc_now()).to_json().encode()


def merge(parts: Sequence[bytes]) -> StagedRows | None:
    """Combine the parts of a batch, in their order; None if there are none."""
    staged = [StagedRows.parse(part, "a part of a sink's batch") for part in parts]
    if not staged:
        return None
    files = tuple(file for part in staged for file in part.files)
    return StagedRows(files=files, columns=staged[0].columns, staged_at=staged[-1].staged_at)


def merge_batches(earlier: bytes, later: bytes) -> bytes | None:
    """Combine the transactions of two batches; None if they differ in columns, or are too large together."""
    first, second = (StagedRows.parse(transaction, "a prepared batch") for transaction in (earlier, later))
    files = (*first.files, *second.files)
    is_large = len(files) > MERGED_FILES or sum(file.size_bytes for file in files) > FILE_BYTES
    if is_large or first.columns != second.columns:
        return None
    # The commit of both comes after the later one was staged. That is what tells whether a lost marker may have had it.
    return second.model_copy(update={"files": files}).to_json().encode()


def parse(transaction: bytes, context: SinkContext) -> StagedRows:
    """Read the body of a prepared transaction.

    Raises:
        SnapshotCorruptError: It is not a valid transaction.
    """
    return StagedRows.parse(transaction, f"the prepared batch {context.batch_id} of the sink {context.uid}")


def read(staged: StagedRows, context: SinkContext) -> Iterator[pa.RecordBatch]:
    """Read staged rows in order, one file and one row group at a time.

    Raises:
        StateUnknownError: `StagedRowsMissing` or `StagedRowsUnreadable`: a file is missing, or is not the one that was
            written, before its rows were committed.
    """
    store = _store(context)
    for file in staged.files:
        where = f"Batch {context.batch_id} of the sink {context.uid} is prepared and not committed, but its rows are"
        remedy = (
            "Restore the object, for example from a version of the bucket, or restore the job from an older snapshot."
        )
        try:
            body = store.read(file.path)
        except errors.ObjectNotFoundError as error:
            raise errors.StateUnknownError(
                "StagedRowsMissing",
                f"{where} missing: {store.uri}/{file.path} ({file.rows} rows) does not exist. {remedy}",
            ) from error
        try:
            yield from batches(body)
        except rowvalues.PARQUET_ERRORS as error:
            raise errors.StateUnknownError(
                "StagedRowsUnreadable",
                f"{where} unreadable: {store.uri}/{file.path} is no Parquet file: {error}. {remedy}",
            ) from error


def batches(body: bytes) -> Iterator[pa.RecordBatch]:
    """Read the rows of one file, one row group at a time."""
    with parquet.ParquetFile(io.BytesIO(body)) as opened:
        for group in range(opened.num_row_groups):
            yield from opened.iter_batches(ROW_GROUP_ROWS, [group])


def _store(context: SinkContext) -> ObjectStore:
    return storage.open_store(context.staging_uri, context.options)


class _RollingFile:
    """A Parquet file that is being filled in memory."""

    def __init__(self, schema: pa.Schema) -> None:
        self._buffer = io.BytesIO()
        self._writer = parquet.ParquetWriter(self._buffer, schema, compression="zstd")
        self._rows = 0

    @property
    def size_bytes(self) -> int:
        return self._buffer.tell()

    def add(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)
        self._rows += batch.num_rows

    def finish(self, store: ObjectStore, context: SinkContext) -> StagedFile:
        self._writer.close()
        body = self._buffer.getvalue()
        path = layout.staged_file(
            context.uid,
            generation=context.generation,
            batch_id=context.batch_id,
            epoch=context.epoch,
            unique=uuid.uuid4().hex,
        )
        store.create(path, body)
        return StagedFile(path=path, rows=self._rows, size_bytes=len(body))
