"""The files sink: Parquet on an object store, visible only when a checkpoint covers it.

```
<uri>/data/00012000/00012345-00000003-00000007-<unique>.parquet    batch, generation, epoch; by the thousand batches
<uri>/_commits/00012345.json                                       lists the files of batch 12345
```
Workers write the files of a batch, one PUT each, no rename; the transaction names them. Committing it is one conditional PUT
of the batch's commit file. A reader reads the commit files and then only what they list, so what is not committed, or was
written by an attempt that failed, does not exist for it. Every batch has a commit file, also one without rows.

Going back to an older cut makes a new generation and a future that did not happen: when the sink is opened, the commit files
of batches after the cut are withdrawn, the newest first, so that a reader at any time sees a history without a gap, and the
batches are produced anew. A folder belongs to one sink of one job; another one is refused. Not guaranteed: that going
forward again, to a savepoint of a future that was left, brings back what was withdrawn.

Files of a batch that is given up are deleted. Those of attempts that nobody recorded are orphans: the batch was committed
without them. Opening deletes those that a driver before left in the latest batches, `remove_orphans` all of them.
"""

from __future__ import annotations

import io
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as parquet

from statefulspark import clock, errors, storage
from statefulspark.contract import base, layout
from statefulspark.snapshot import listing

if TYPE_CHECKING:
    from statefulspark.sinks.base import SinkContext
    from statefulspark.storage import ObjectStore
    from statefulspark.storage.port import ObjectInfo

COMMITS = "_commits"
DATA = "data"
ORPHAN_GRACE = timedelta(hours=1)
"""A file younger than this may still be read by somebody who has seen a commit that was withdrawn."""
_BATCHES_PER_FOLDER = 1000
_SWEPT_BATCHES = 100
"""How far back opening looks for orphans."""
_FILE = re.compile(r"^(?P<batch>\d{8,})-(?P<attempt>(?P<generation>\d{8,})-\d{8,}-)?[0-9a-f]{32}\.parquet$")


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
    """Of the driver that wrote the rows."""
    committed_at: base.UtcDatetime
    files: tuple[PartFile, ...]
    generation: int = 0
    """In which the batch ran; 0 in files of releases that committed with every batch."""
    sink: str | None = None
    """Whose folder it is: the sink's transactional id; absent in those files too."""


class PreparedFiles(base.StoredDocument):
    """The transaction of a batch: the files that its commit will list."""

    files: tuple[PartFile, ...]


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
        """Withdraw what was committed after the cut that the job goes on from, and delete orphans.

        Cost: a HEAD and a LIST or two; for a rollback a GET and a DELETE per batch that is withdrawn.

        Raises:
            SpecRejectedError: `SinkFolderTaken`.
        """
        store = self.store(context)
        withdraw(store, context)
        sweep(store, through=context.batch_id, now=clock.utc_now())

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        """Make the batch visible with one PUT; does nothing if it is.

        Raises:
            SpecRejectedError: `SinkFolderTaken`.
        """
        publish(self.store(context), transaction, context)

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        """Delete the files of a batch that will never be committed, unless it has been after all."""
        discard(self.store(context), transaction, context)

    def store(self, context: SinkContext) -> ObjectStore:
        """Return the sink's folder."""
        return storage.open_store(self.uri, context.options)


def commit_key(batch_id: int) -> str:
    """Return the key of a batch's commit file below the sink's uri."""
    return f"{COMMITS}/{layout.number(batch_id)}.json"


def data_key(context: SinkContext) -> str:
    """Return a new key for a file of the context's batch."""
    numbers = (context.batch_id, context.generation, context.epoch)
    return f"{_folder(context.batch_id)}/{'-'.join(map(layout.number, numbers))}-{uuid.uuid4().hex}.parquet"


def read_commits(store: ObjectStore) -> tuple[BatchCommit, ...]:
    """Return every committed batch in order.

    Args:
        store: Rooted at the sink's uri.

    Raises:
        SnapshotCorruptError: A commit file cannot be read.
    """
    keys = [f"{COMMITS}/{name}" for name in store.list_names(COMMITS) if name.endswith(".json")]
    bodies = store.read_many(keys)
    return tuple(_parse(store, key, bodies[key]) for key in keys)


def publish(store: ObjectStore, transaction: bytes, context: SinkContext) -> None:
    """Write a batch's commit file unless the batch is committed, by this generation or a newer one.

    Of two drivers that commit at once the create lets one win; a driver that was replaced never overwrites its
    successor's commit.

    Raises:
        SpecRejectedError: `SinkFolderTaken`.
    """
    prepared = PreparedFiles.parse(transaction, f"the prepared batch {context.batch_id} of the sink {context.uid}")
    key = commit_key(context.batch_id)
    commit = BatchCommit(
        batch_id=context.batch_id,
        epoch=context.epoch,
        committed_at=clock.utc_now(),
        files=prepared.files,
        generation=context.generation,
        sink=context.transactional_id,
    )
    while True:
        try:
            store.create(key, commit.to_json().encode())
        except errors.ObjectExistsError:
            present = _read(store, context.batch_id)
            if present is not None and _is_ours(present, store, context).generation >= context.generation:
                return
            store.delete_many([key])
        else:
            return


def withdraw(store: ObjectStore, context: SinkContext) -> tuple[int, ...]:
    """Remove the commits of a future that did not happen: of older generations, after the batch of the context.

    Commits follow each other without a gap, so the first number without one ends the search; the newest goes first.

    Returns:
        The batches withdrawn.

    Raises:
        SpecRejectedError: `SinkFolderTaken`.
    """
    last = listing.highest(store, context.batch_id, commit_key)
    withdrawn = []
    for batch in range(last, context.batch_id, -1):
        present = _read(store, batch)
        if present is None or _is_ours(present, store, context).generation >= context.generation:
            continue
        if present.sink is None and context.batch_id < 0:
            continue  # An old release's, and a job that starts anew: replaced batch by batch, as that release did.
        store.delete_many([commit_key(batch)])
        withdrawn.append(batch)
    return tuple(withdrawn)


def discard(store: ObjectStore, transaction: bytes, context: SinkContext) -> None:
    """Delete the files of a transaction, unless the batch's commit lists them."""
    prepared = PreparedFiles.parse(transaction, f"the prepared batch {context.batch_id} of the sink {context.uid}")
    present = _read(store, context.batch_id)
    listed = {file.path for file in present.files} if present is not None else set()
    store.delete_many([file.path for file in prepared.files if file.path not in listed])


def orphans(
    files: Iterable[ObjectInfo], commits: Mapping[int, BatchCommit], *, now: datetime, grace: timedelta = ORPHAN_GRACE
) -> tuple[str, ...]:
    """Find the files that no commit will ever list: their batch was committed without them. Pure.

    Files of batches that are not committed stay, since they may be prepared; so do files of generations newer than the
    commit, which is about to be replaced, and what is not understood.

    Args:
        files: Objects below the sink's uri, with keys relative to it.
        commits: The commits of their batches, as far as there are any.
        now: UTC.
        grace: Files younger than this stay.

    Returns:
        Their keys.
    """
    found = []
    for info in files:
        match = _FILE.match(info.key.rpartition("/")[2])
        commit = commits.get(int(match["batch"])) if match else None
        if match is None or commit is None or now - info.modified_at < grace:
            continue
        is_newer = int(match["generation"] or 0) > commit.generation
        if not is_newer and info.key not in {file.path for file in commit.files}:
            found.append(info.key)
    return tuple(found)


def sweep(store: ObjectStore, *, through: int, now: datetime, grace: timedelta = ORPHAN_GRACE) -> tuple[str, ...]:
    """Delete the orphans of the latest batches up to one, as far as they are of another driver than the batch's other files.

    Cost: a LIST or two; a GET per batch that several drivers have written files for.
    """
    first = max(0, through - _SWEPT_BATCHES)
    folders = sorted({_folder(first), _folder(max(through, 0))})
    attempts: dict[int, set[str]] = {}
    latest = []
    for info in (info for folder in folders for info in store.list(folder)):
        match = _FILE.match(info.key.rpartition("/")[2])
        if match and first <= int(match["batch"]) <= through:
            attempts.setdefault(int(match["batch"]), set()).add(match["attempt"] or "")
            latest.append(info)
    return _remove(store, [info for info in latest if len(attempts[_batch_of(info.key)]) > 1], now, grace)


def remove_orphans(store: ObjectStore, *, now: datetime, grace: timedelta = ORPHAN_GRACE) -> tuple[str, ...]:
    """Delete every orphan below a sink's uri. Cost: a LIST per 1,000 files, a GET per batch."""
    return _remove(store, store.list(DATA), now, grace)


def _remove(store: ObjectStore, files: Iterable[ObjectInfo], now: datetime, grace: timedelta) -> tuple[str, ...]:
    old = [info for info in files if now - info.modified_at >= grace]
    found = {batch: _read(store, batch) for batch in sorted({_batch_of(info.key) for info in old}) if batch >= 0}
    keys = orphans(old, {batch: commit for batch, commit in found.items() if commit}, now=now, grace=grace)
    store.delete_many(list(keys))
    return keys


def _read(store: ObjectStore, batch_id: int) -> BatchCommit | None:
    key = commit_key(batch_id)
    try:
        return _parse(store, key, store.read(key))
    except errors.ObjectNotFoundError:
        return None


def _parse(store: ObjectStore, key: str, body: bytes) -> BatchCommit:
    return BatchCommit.parse(body, f"{store.uri}/{key}")


def _is_ours(commit: BatchCommit, store: ObjectStore, context: SinkContext) -> BatchCommit:
    """Return a commit that is this sink's own, or an old release's, which did not say whose it was."""
    if commit.sink not in (None, context.transactional_id):
        raise errors.SpecRejectedError(
            "SinkFolderTaken",
            f"{store.uri} holds batch {commit.batch_id} of {commit.sink}, so the sink {context.uid!r} of {context.job} must "
            "not write there; give it a folder of its own.",
        )
    return commit


def _folder(batch_id: int) -> str:
    return f"{DATA}/{layout.number(batch_id - batch_id % _BATCHES_PER_FOLDER)}"


def _batch_of(key: str) -> int:
    match = _FILE.match(key.rpartition("/")[2])
    return int(match["batch"]) if match else -1
