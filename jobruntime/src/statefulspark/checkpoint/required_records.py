"""The records of a query's sink or function in a closure: which a batch needs, and which of them are lost.

Each batch of a query with a two-phase sink has a record of what it prepared, each batch of one with a sink function a record
of its state, or one that says which state still holds. They are written before Spark commits the batch; an output record
tells from which batch on that holds. So a record that is not there is lost, and the batch that it belongs to is not whole:
to go on after it would leave its rows out for good, or go on from a state of before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from statefulspark import errors
from statefulspark.checkpoint import batch_records, epochs, listing, small_files
from statefulspark.contract.manifest import PreparedEntry, QueryEntry
from statefulspark.contract.prepared import OutputRecord, PreparedRecord, UnchangedRecord
from statefulspark.storage.port import ObjectInfo, ObjectStore


@dataclass(frozen=True, slots=True)
class States:
    """The records of functions that hold after a batch.

    Attributes:
        names: The state of each function.
        unchanged: What tells that one of them holds although it is of an earlier batch.
    """

    names: tuple[batch_records.RecordName, ...]
    unchanged: tuple[batch_records.RecordName, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """Of all of them, below the query's root."""
        return tuple(name.key for name in (*self.names, *self.unchanged))


class Records:
    """The sinks' and functions' records of one query; each is read once. From one thread at a time."""

    def __init__(self, store: ObjectStore, query_path: str, files: small_files.SmallFiles) -> None:
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
        names = batch_records.between(listed, batch_records.RecordKind.PREPARED, after_batch=-1, to_batch=batch_id)
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
    ) -> tuple[batch_records.Coverage, ...]:
        """Find the output records that hold for the batches that may not be committed, and require what they say of sinks.

        Args:
            listed: See `prepared`.
            batch_id: See `prepared`.
            committed: See `prepared`.
            after_batch: The same for sinks that are not named.

        Returns:
            In the order of batches; the last one, if there is any, holds for the batch that is closed over.

        Raises:
            FilesAbsentError: `ClosureIncomplete`: the record of a prepared transaction is lost.
            SnapshotCorruptError: `DocumentUnreadable`.
        """
        lowest = min([after_batch, *committed.values()])
        names = batch_records.covering(listed, after_batch=lowest, to_batch=batch_id)
        if not names:
            return ()
        bodies = self._files.read(listed, {name.key: name.key for name in names})
        said = ((name, OutputRecord.parse(bodies[name.key], f"{self._root}/{name.key}")) for name in names)
        coverages = tuple(batch_records.Coverage(name, record.sink, record.function) for name, record in said)
        lost = batch_records.lost_records(listed, coverages, committed, after_batch=after_batch, to_batch=batch_id)
        if lost:
            raise self._lost(lost, batch_id)
        return coverages

    def states(self, listed: Mapping[str, ObjectInfo], batch_id: int, held: batch_records.Coverage | None) -> States:
        """Find the newest state of each function, and require that it is the one after this batch.

        Args:
            listed: See `prepared`.
            batch_id: See `prepared`.
            held: The output record that holds for the batch; None for batches of releases that wrote none.

        Raises:
            FilesAbsentError: `ClosureIncomplete`: the record of the batch is lost.
            SnapshotCorruptError: `DocumentUnreadable`.
        """
        found = batch_records.newest(listed, batch_records.RecordKind.OPERATOR_STATE, at_batch=batch_id)
        uid = held.function if held is not None else None
        if held is None or uid is None:
            return States(tuple(found.values()))
        unchanged = batch_records.newest(listed, batch_records.RecordKind.UNCHANGED, at_batch=batch_id)
        newest = batch_records.latest(found.get(uid), unchanged.get(uid))
        if newest is None or newest.batch < batch_id:
            raise self._lost_state(uid, batch_id, held.name.epoch)
        if newest.kind is batch_records.RecordKind.OPERATOR_STATE:
            return States(tuple(found.values()))
        return States(tuple({**found, uid: self._told_by(newest, listed)}.values()), (newest,))

    def _told_by(
        self, unchanged: batch_records.RecordName, listed: Mapping[str, ObjectInfo]
    ) -> batch_records.RecordName:
        """Return the state that still holds, whether it is listed or not."""
        key = unchanged.key
        source = f"{self._root}/{key}"
        told = UnchangedRecord.parse(self._files.read(listed, {key: key})[key], source).record
        name = batch_records.of_key(told)
        if name is None:
            raise errors.SnapshotCorruptError(
                "DocumentUnreadable", f"{source} names {told!r}, which is no record. Start from an older snapshot."
            )
        return name

    def _lost_state(self, uid: str, batch_id: int, since_epoch: int) -> errors.SnapshotCorruptError:
        """Return the error for a lost record of state; any epoch since the output record may have written it."""
        state = batch_records.RecordName(batch_records.RecordKind.OPERATOR_STATE, uid, batch_id, since_epoch)
        epochs_since = range(max(epochs.newest(self._store), since_epoch), since_epoch - 1, -1)
        kinds = (batch_records.RecordKind.OPERATOR_STATE, batch_records.RecordKind.UNCHANGED)
        possible = (replace(state, kind=kind, epoch=epoch) for epoch in epochs_since for kind in kinds)
        return listing.FilesAbsentError(
            "ClosureIncomplete",
            f"Batch {batch_id} cannot be closed over: {self._root}/{state.key}, the state of function {uid!r} after that "
            "batch, does not exist, and no record says that it is the state of before. Start from an older snapshot.",
            tuple(name.key for name in possible),
        )

    def _lost(self, lost: tuple[batch_records.RecordName, ...], batch_id: int) -> errors.SnapshotCorruptError:
        """Return the error for lost records; any epoch since the output record may have written them."""
        newest = epochs.newest(self._store)
        possible = (replace(name, epoch=epoch) for epoch in range(newest, lost[0].epoch, -1) for name in lost)
        return listing.FilesAbsentError(
            "ClosureIncomplete",
            f"Batch {batch_id} cannot be closed over: {self._root}/{lost[0].key}, what sink {lost[0].uid!r} had prepared "
            f"for batch {lost[0].batch}, does not exist. Start from an older snapshot.",
            (*(name.key for name in possible), *(name.key for name in lost)),
        )


def note_unchanged(store: ObjectStore, entry: QueryEntry, *, epoch: int) -> None:
    """Say of the batch after a cut, which no function saw, that it left their state as it was.

    Cost: one PUT per function.

    Args:
        store: The job's root.
        entry: The cut.
        epoch: Of this driver.
    """
    log = batch_records.SideLog(store, entry.path)
    for one in entry.operator_states:
        name = batch_records.RecordName(batch_records.RecordKind.UNCHANGED, one.uid, entry.batch_id + 1, epoch)
        log.write(name, UnchangedRecord(record=one.path).sealed())


def of_base(base: QueryEntry | None) -> tuple[str, ...]:
    """Return the records among a cut's files that every later batch of its generation needs too."""
    names = ((file.path, batch_records.of_key(file.path)) for file in (base.files if base is not None else ()))
    kinds = (batch_records.RecordKind.PREPARED, batch_records.RecordKind.OUTPUT)
    return tuple(path for path, name in names if name is not None and name.kind in kinds)
