"""The records of a query's sinks in a closure: which a batch needs, and which of them are lost.

Each batch of a query with a two-phase sink has a record of what it prepared, written before Spark commits the batch; an
output record tells from which batch on that holds. So a record that is not there is lost, and the batch that it belongs to
is not whole: to go on after it would leave its rows out for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from statefulspark import errors
from statefulspark.contract.manifest import PreparedEntry, QueryEntry
from statefulspark.contract.prepared import OutputRecord, PreparedRecord
from statefulspark.snapshot import epochs, listing, sidelog, smallfiles
from statefulspark.storage.port import ObjectInfo, ObjectStore


class Records:
    """The sinks' records of one query; each is read once. From one thread at a time."""

    def __init__(self, store: ObjectStore, query_path: str, files: smallfiles.SmallFiles) -> None:
        """Look below a query's root, and read through `files`."""
        self._store = store
        self._root = f"{store.uri}/{query_path}"
        self._files = files
        self._empty: dict[str, bool] = {}

    def prepared(
        self, listed: Mapping[str, ObjectInfo], batch_id: int, committed: Mapping[str, int]
    ) -> tuple[PreparedEntry, ...]:
        """Find the sinks' transactions that may not be committed yet.

        Args:
            listed: What is known of the files below the query's root.
            batch_id: The batch that is closed over.
            committed: By uid of a sink the batch through which it is committed.

        Raises:
            SnapshotCorruptError: `DocumentUnreadable`: one is damaged.
        """
        names = sidelog.between(listed, sidelog.RecordKind.PREPARED, after_batch=-1, to_batch=batch_id)
        due = [name for name in names if name.batch > committed.get(name.uid, -1)]
        unread = {name.key: name.key for name in due if name.key not in self._empty}
        for key, body in self._files.read(listed, unread).items():
            self._empty[key] = PreparedRecord.parse(body, f"{self._root}/{key}").transaction is None
        self._empty = {name.key: self._empty[name.key] for name in due}
        return tuple(
            PreparedEntry(uid=name.uid, path=name.key, batch_id=name.batch, is_empty=self._empty[name.key])
            for name in due
        )

    def outputs(
        self, listed: Mapping[str, ObjectInfo], batch_id: int, committed: Mapping[str, int], *, after_batch: int
    ) -> tuple[str, ...]:
        """Find the output records that hold for the batches that may not be committed, and require what they promise.

        Args:
            listed: See `prepared`.
            batch_id: See `prepared`.
            committed: See `prepared`.
            after_batch: The same for sinks that are not named.

        Raises:
            FilesAbsentError: `ClosureIncomplete`: the record of a prepared transaction is lost.
            SnapshotCorruptError: `DocumentUnreadable`.
        """
        lowest = min([after_batch, *committed.values()])
        names = sidelog.covering(listed, after_batch=lowest, to_batch=batch_id)
        if not names:
            return ()
        bodies = self._files.read(listed, {name.key: name.key for name in names})
        coverages = [
            sidelog.Coverage(name, OutputRecord.parse(bodies[name.key], f"{self._root}/{name.key}").sink)
            for name in names
        ]
        lost = sidelog.lost_records(listed, coverages, committed, after_batch=after_batch, to_batch=batch_id)
        if lost:
            raise self._lost(lost, batch_id)
        return tuple(name.key for name in names)

    def _lost(self, lost: tuple[sidelog.RecordName, ...], batch_id: int) -> errors.SnapshotCorruptError:
        """Return the error for lost records; any epoch since the output record may have written them."""
        newest = epochs.newest(self._store)
        possible = (replace(name, epoch=epoch) for epoch in range(newest, lost[0].epoch, -1) for name in lost)
        return listing.FilesAbsentError(
            "ClosureIncomplete",
            f"Batch {batch_id} cannot be closed over: {self._root}/{lost[0].key}, what sink {lost[0].uid!r} had prepared "
            f"for batch {lost[0].batch}, does not exist. Start from an older snapshot.",
            (*(name.key for name in possible), *(name.key for name in lost)),
        )


def of_base(base: QueryEntry | None) -> tuple[str, ...]:
    """Return the records among a cut's files that every later batch of its generation needs too."""
    names = ((file.path, sidelog.of_key(file.path)) for file in (base.files if base is not None else ()))
    kinds = (sidelog.RecordKind.PREPARED, sidelog.RecordKind.OUTPUT)
    return tuple(path for path, name in names if name is not None and name.kind in kinds)
