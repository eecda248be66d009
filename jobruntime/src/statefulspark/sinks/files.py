"""The files sink: Parquet on an object store, visible only when committed.

```
<uri>/data/00000012-<unique>.parquet      written by the workers, one PUT each, no rename
<uri>/_commits/00000012.json              written by the driver: lists the files of batch 12
```
A reader reads the commit files and then only what they list: parts of attempts that failed are never seen. A batch that
runs again writes new parts and replaces the one commit file, so that every record is there once.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as parquet

from statefulspark import clock, storage
from statefulspark.contract import base, layout

if TYPE_CHECKING:
    from statefulspark.storage import ObjectStore, StorageOptions

COMMITS = "_commits"
DATA = "data"


class PartFile(base.WireModel):
    """One Parquet file of a batch."""

    path: str
    """Relative to the sink's uri."""
    rows: int
    size_bytes: int


class BatchCommit(base.StoredDocument):
    """The commit file of a batch: what a reader of that batch reads."""

    batch_id: int
    epoch: int
    """The driver's epoch that committed it last."""
    committed_at: base.UtcDatetime
    files: tuple[PartFile, ...]


@dataclass(frozen=True, slots=True)
class FilesSink:
    """Writes each batch as Parquet files below a folder.

    Attributes:
        uri: The folder, for example `s3://bucket/out`; one query's output only.
        compression: Parquet codec.
    """

    uri: str
    compression: str = "zstd"

    def write_part(self, batches: Iterator[pa.RecordBatch], batch_id: int, options: StorageOptions) -> bytes | None:
        """Write one partition as one Parquet object under a name nobody else uses."""
        rows = [batch for batch in batches if batch.num_rows]
        if not rows:
            return None
        table = pa.Table.from_batches(rows)
        buffer = io.BytesIO()
        parquet.write_table(table, buffer, compression=self.compression)
        body = buffer.getvalue()
        path = f"{DATA}/{layout.number(batch_id)}-{uuid.uuid4().hex}.parquet"
        storage.open_store(self.uri, options).create(path, body)
        return PartFile(path=path, rows=table.num_rows, size_bytes=len(body)).to_json().encode()

    def commit(self, parts: tuple[bytes, ...], batch_id: int, epoch: int, options: StorageOptions) -> None:
        """List the parts in the batch's commit file, with one PUT."""
        files = tuple(sorted((PartFile.model_validate_json(part) for part in parts), key=lambda part: part.path))
        commit = BatchCommit(batch_id=batch_id, epoch=epoch, committed_at=clock.utc_now(), files=files)
        storage.open_store(self.uri, options).write(commit_key(batch_id), commit.to_json().encode())


def commit_key(batch_id: int) -> str:
    """Return the key of a batch's commit file below the sink's uri."""
    return f"{COMMITS}/{layout.number(batch_id)}.json"


def read_commits(store: ObjectStore) -> tuple[BatchCommit, ...]:
    """Return every committed batch in order.

    Args:
        store: Rooted at the sink's uri.

    Raises:
        SnapshotCorruptError: A commit file cannot be read.
    """
    keys = [f"{COMMITS}/{name}" for name in store.list_names(COMMITS) if name.endswith(".json")]
    bodies = store.read_many(keys)
    return tuple(BatchCommit.parse(bodies[key], f"{store.uri}/{key}") for key in keys)
