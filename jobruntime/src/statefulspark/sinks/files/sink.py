"""The files sink: Parquet on an object store, visible only once its batch is committed.

```
<uri>/data/00012000/00012345-00000003-00000007-<unique>.parquet    batch, generation, epoch, root; by the thousand batches
<uri>/_commits/00012345.json                                       lists the files of batch 12345
<uri>/_withdrawn/00012345/00000003-00000007-<lineage>.json         commit files that were withdrawn or replaced
<uri>/_sink.json                                                   the owner of the folder: job, lineage, epoch
```
Workers write the files of a batch, one PUT each, no rename; the transaction names them. Committing it is one conditional PUT
of the batch's commit file. A reader reads the commit files and then only the files that they list, so it never sees
files that are uncommitted or belong to a failed attempt. Every batch has a commit file, even without rows.

A restore from an older snapshot starts a new generation: when the sink is opened, the commits of batches after that snapshot
are withdrawn, the newest first, so that a reader always sees a history without gaps, and these batches are produced again. A
folder belongs to one sink of one job; others are rejected. What is withdrawn is kept beside the commit files: a start from a
snapshot of the history that was left brings back what that snapshot contains.

A late commit of an older driver must not become visible. Commit files are never deleted: a withdrawn one is replaced
conditionally by one without files that is marked `withdrawn`, and opening writes another such file, the **fence**, under the
first free number. Commits are ordered creates, so a late commit finds its name taken. Only the driver that wrote a fence
replaces it, by the commit of the batch.

Files of an aborted batch are deleted. Files of attempts that were not recorded are orphans: their generation has committed
the batch without them. Opening deletes those that earlier drivers left in the latest batches. Files of other generations and
roots stay: a savepoint may name them, and a start from it lists them.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import pyarrow as pa
import pyarrow.parquet as parquet

from statefulspark import clock, storage
from statefulspark.contract import layout
from statefulspark.sinks import kinds, visibility
from statefulspark.sinks.base import Machine, Sink
from statefulspark.sinks.files import commits, orphans, publishing
from statefulspark.sinks.files.commits import PartFile, PreparedFiles

if TYPE_CHECKING:
    from statefulspark.sinks.base import SinkContext, TwoPhaseSink
    from statefulspark.sinks.marker import Marker
    from statefulspark.storage import ObjectStore


@dataclass(frozen=True, slots=True)
class FilesSink(Sink):
    """Writes each batch as Parquet files below a folder; a batch is visible when it is committed.

    Attributes:
        uri: The folder, for example `s3://bucket/out`; used by one sink only.
        compression: Parquet codec.
        visible: `checkpoint`: a batch is visible when a checkpoint covers it; `batch`: as soon as Spark has committed it.
    """

    uri: str
    _: KW_ONLY
    compression: str = "zstd"
    visible: visibility.Visibility | Literal["checkpoint", "batch"] = visibility.Visibility.CHECKPOINT

    def __post_init__(self) -> None:
        """Reject an unknown visibility.

        Raises:
            InvalidArgumentError: `SinkSettingRefused`.
        """
        visibility.parse(self.visible, kinds.FILES.name)

    def _machine(self) -> TwoPhaseSink:
        return FilesMachine(self)


class FilesMachine(Machine[FilesSink]):
    """Writes, lists and withdraws the files of a folder."""

    takes_batches_again: ClassVar = True
    """It withdraws what the restored state does not contain."""
    withdraws: ClassVar[bool] = True

    def write_part(self, batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
        """Write one partition as one Parquet object under a unique name."""
        rows = [batch for batch in batches if batch.num_rows]
        if not rows:
            return None
        table = pa.Table.from_batches(rows)
        buffer = io.BytesIO()
        parquet.write_table(table, buffer, compression=self.settings.compression)
        body = buffer.getvalue()
        path = data_key(context)
        self.store(context).create(path, body)
        return PartFile(path=path, rows=table.num_rows, size_bytes=len(body)).to_json().encode()

    def prepare(self, parts: tuple[bytes, ...], context: SinkContext) -> bytes | None:
        """Return the list of files of the batch."""
        files = tuple(sorted((PartFile.model_validate_json(part) for part in parts), key=lambda part: part.path))
        return PreparedFiles(files=files).to_json().encode()

    @property
    def target(self) -> str:
        """The folder."""
        return self.settings.uri

    def stored_marker(self, context: SinkContext) -> Marker | None:
        """Read who opened the folder last, and what it shows. Cost: a few GETs, and a HEAD per doubling of the last batches.

        Raises:
            SpecRejectedError: `SinkFolderTaken`.
        """
        return commits.stored_marker(self.store(context), context)

    def open(self, context: SinkContext) -> None:
        """Take ownership of the folder, withdraw commits after the restored batch, bring others back, and delete orphans.

        Cost: two GETs, three HEADs, three PUTs and one or two LISTs; per withdrawn batch another GET, HEAD and two PUTs; per
        batch that comes back also a LIST, a GET, and a HEAD for each file.

        Raises:
            SpecRejectedError: `SinkFolderTaken`: it belongs to another sink. `SinkTaken`: it has output of state that the
                start does not descend from.
            FencedError: A newer driver has opened it.
        """
        store = self.store(context)
        commits.claim_folder(store, context)
        publishing.withdraw(store, context)
        prepared = context.expected.written
        orphans.sweep(store, through=context.batch_id, prepared=prepared, now=clock.utc_now())

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        """Make the batch visible with one PUT, after two GETs and a HEAD for each of its files; no effect if it is visible.

        Raises:
            SpecRejectedError: `SinkFolderTaken`.
            FencedError: Another driver has opened the folder.
            StateUnknownError: `SinkMarkerMissing`, `SinkBehind`, `StagedRowsMissing`.
        """
        publishing.publish(self.store(context), transaction, context)

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        """Delete the files of a batch that will never be committed, unless it was committed."""
        publishing.discard(self.store(context), transaction, context)

    def store(self, context: SinkContext) -> ObjectStore:
        """Return the store of the sink's folder."""
        return storage.open_store(self.settings.uri, context.options)


def data_key(context: SinkContext) -> str:
    """Return a new key for a file of the context's batch."""
    numbers = (context.batch_id, context.generation, context.epoch)
    unique = f"{orphans.root_in_name(context.lineage)}{uuid.uuid4().hex[8:]}"
    return f"{orphans.folder_of(context.batch_id)}/{'-'.join(map(layout.number, numbers))}-{unique}.parquet"
