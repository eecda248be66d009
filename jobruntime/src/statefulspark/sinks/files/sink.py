"""The files sink: Parquet on an object store, visible only when a checkpoint covers it.

```
<uri>/data/00012000/00012345-00000003-00000007-<unique>.parquet    batch, generation, epoch; by the thousand batches
<uri>/_commits/00012345.json                                       lists the files of batch 12345
<uri>/_sink.json                                                   whose folder it is: job, lineage, epoch
```
Workers write the files of a batch, one PUT each, no rename; the transaction names them. Committing it is one conditional PUT
of the batch's commit file. A reader reads the commit files and then only what they list, so what is not committed, or was
written by an attempt that failed, does not exist for it. Every batch has a commit file, also one without rows.

Going back to an older cut makes a new generation and a future that did not happen: when the sink is opened, the commits
of batches after the cut are withdrawn, the newest first, so that a reader at any time sees a history without a gap, and the
batches are produced anew. A folder belongs to one sink of one job; another one is refused. Not guaranteed: that going
forward again, to a savepoint of a future that was left, brings back what was withdrawn.

A commit that was sent before and arrives late must not become visible. Commit files are never deleted: a withdrawn one is
replaced, as it was looked at, by one without files that says `withdrawn`, and opening leaves another such one, the
**fence**, under the first free number. Commits come in order and are creates, so the one that may be under way finds its
name taken. Only the driver that left a fence replaces it, by the batch's commit.

Files of a batch that is given up are deleted. Those of attempts that nobody recorded are orphans: the batch was committed
without them. Opening deletes those that a driver before left in the latest batches, `remove_orphans` all of them.
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
from statefulspark.contract import layout
from statefulspark.sinks.files import commits, orphans
from statefulspark.sinks.files.commits import PartFile, PreparedFiles

if TYPE_CHECKING:
    from statefulspark.sinks.base import SinkContext
    from statefulspark.storage import ObjectStore


@dataclass(frozen=True, slots=True)
class FilesSink:
    """Writes each batch as Parquet files below a folder; a batch is visible when a checkpoint covers it.

    Attributes:
        uri: The folder, for example `s3://bucket/out`; one sink's output only.
        compression: Parquet codec.
    """

    uri: str
    compression: str = "zstd"

    def write_part(self, batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
        """Write one partition as one Parquet object under a name nobody else uses."""
        rows = [batch for batch in batches if batch.num_rows]
        if not rows:
            return None
        table = pa.Table.from_batches(rows)
        buffer = io.BytesIO()
        parquet.write_table(table, buffer, compression=self.compression)
        body = buffer.getvalue()
        path = data_key(context)
        self.store(context).create(path, body)
        return PartFile(path=path, rows=table.num_rows, size_bytes=len(body)).to_json().encode()

    def prepare(self, parts: tuple[bytes, ...], context: SinkContext) -> bytes | None:
        """Name the files of the batch."""
        files = tuple(sorted((PartFile.model_validate_json(part) for part in parts), key=lambda part: part.path))
        return PreparedFiles(files=files).to_json().encode()

    def open(self, context: SinkContext) -> None:
        """Make the folder this driver's, withdraw what was committed after its cut, and delete orphans.

        Cost: a GET, two HEADs, three PUTs and a LIST or two; a GET, a HEAD and a PUT more per batch that is withdrawn.

        Raises:
            SpecRejectedError: `SinkFolderTaken`: it is another sink's. `SinkTaken`: it holds output of state that the
                start does not descend from.
            FencedError: A newer driver has opened it.
        """
        store = self.store(context)
        commits.occupy(store, context)
        commits.withdraw(store, context)
        orphans.sweep(store, through=context.batch_id, now=clock.utc_now())

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        """Make the batch visible with one PUT; does nothing if it is.

        Raises:
            SpecRejectedError: `SinkFolderTaken`.
        """
        store = self.store(context)
        if not commits.is_left_to_another_root(store, context):
            commits.publish(store, transaction, context)

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        """Delete the files of a batch that will never be committed, unless it has been after all."""
        commits.discard(self.store(context), transaction, context)

    def store(self, context: SinkContext) -> ObjectStore:
        """Return the sink's folder."""
        return storage.open_store(self.uri, context.options)


def data_key(context: SinkContext) -> str:
    """Return a new key for a file of the context's batch."""
    numbers = (context.batch_id, context.generation, context.epoch)
    return f"{orphans.folder_of(context.batch_id)}/{'-'.join(map(layout.number, numbers))}-{uuid.uuid4().hex}.parquet"
