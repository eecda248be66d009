"""The records of a query's sink or function in a closure: which ones a batch needs, and which of them are lost.

Each batch of a query with a two-phase sink has a record of its prepared transaction, which names the files with the batch's
staged rows: a listing that hides such a file is thereby noticed. Each batch of a query with a sink
function has a record of the function's state, or one that names the state that is still valid. Records are written before
Spark commits the batch; an output record tells the first batch that has them. So a missing record is lost, and its batch
is incomplete: a job that continued after it would lose the batch's rows, or continue with an older state.

Of several attempts at a batch, the one of the driver whose entry is in Spark's commit log counts. A driver that is replaced
may still win the one commit that it had looked at the fence for. Its successor has then run the same batch, left records of
its own, and lost. The state is the winner's, and user code need not give the same rows twice: so the records of sinks and
functions have to be the winner's, too. Where a commit does not tell its driver, the newest attempt counts. `rivals` and
`without_losers` are pure; `Winners` asks storage, and only about batches that were tried twice or more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from statefulspark import errors
from statefulspark.checkpoint import batch_records, checksums, epochs, listing
from statefulspark.checkpoint.batch_records import RecordKind, RecordName
from statefulspark.contract import layout
from statefulspark.contract.manifest import PreparedEntry, QueryEntry
from statefulspark.contract.prepared import OutputRecord, PreparedRecord, UnchangedRecord
from statefulspark.storage.port import ObjectInfo, ObjectStore

_STATE = (RecordKind.OPERATOR_STATE, RecordKind.UNCHANGED)
_OF_AN_ATTEMPT = (RecordKind.PREPARED, *_STATE)
_Info = TypeVar("_Info")


@dataclass(frozen=True, slots=True)
class Prepared:
    """The sinks' transactions that may have to be committed after a batch.

    Attributes:
        entries: One per sink and batch, in the order of batches.
        staged: Keys of the files with their rows, below the query's root.
    """

    entries: tuple[PreparedEntry, ...]
    staged: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of all records and files, below the query's root."""
        return (*(entry.path for entry in self.entries), *self.staged)


@dataclass(frozen=True, slots=True)
class States:
    """The valid state records of functions after a batch.

    Attributes:
        names: The state of each function.
        unchanged: The records that confirm a state of an earlier batch.
    """

    names: tuple[RecordName, ...]
    unchanged: tuple[RecordName, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of all records, below the query's root."""
        return tuple(name.key for name in (*self.names, *self.unchanged))


class Records:
    """The sinks' and functions' records of one query; each is read once. Use from one thread at a time."""

    def __init__(self, store: ObjectStore, query_path: str, files: checksums.SmallFiles) -> None:
        """Open the records below a query's root; read them through `files`."""
        self._store = store
        self._root = f"{store.uri}/{query_path}"
        self._files = files
        self._prepared: dict[str, PreparedRecord] = {}
        self._winners = Winners(store, query_path)

    def valid(
        self, listed: Mapping[str, ObjectInfo], batch_id: int, committed: Mapping[str, int]
    ) -> Mapping[str, ObjectInfo]:
        """Return the files without the records of attempts that have lost a batch which the closure needs.

        Args:
            listed: See `prepared`.
            batch_id: See `prepared`.
            committed: See `prepared`.
        """

        def is_needed(name: RecordName) -> bool:
            is_prepared = name.kind is RecordKind.PREPARED
            return name.batch <= batch_id and name.batch > (
                committed.get(name.uid, -1) if is_prepared else batch_id - 1
            )

        contested = rivals(listed, is_needed)
        return without_losers(listed, self._winners.find(contested)) if contested else listed

    def prepared(self, listed: Mapping[str, ObjectInfo], batch_id: int, committed: Mapping[str, int]) -> Prepared:
        """Find the sinks' transactions that may have to be committed, and the files with their rows.

        Args:
            listed: The files below the query's root.
            batch_id: The batch of the closure.
            committed: By sink uid, the last batch whose transaction is committed.

        Raises:
            SnapshotCorruptError: `DocumentUnreadable`: a record is damaged.
        """
        names = batch_records.between(listed, RecordKind.PREPARED, after_batch=-1, to_batch=batch_id)
        due = [name for name in names if name.batch > committed.get(name.uid, -1)]
        unread = {name.key: name.key for name in due if name.key not in self._prepared}
        for key, body in self._files.read(listed, unread).items():
            self._prepared[key] = PreparedRecord.parse(body, f"{self._root}/{key}")
        self._prepared = {name.key: self._prepared[name.key] for name in due}
        entries = tuple(
            PreparedEntry(
                uid=name.uid,
                path=name.key,
                batch_id=name.batch,
                is_empty=self._prepared[name.key].transaction is None,
            )
            for name in due
        )
        return Prepared(entries, tuple(key for record in self._prepared.values() for key in record.staged))

    def outputs(
        self, listed: Mapping[str, ObjectInfo], batch_id: int, committed: Mapping[str, int], *, after_batch: int
    ) -> tuple[batch_records.Coverage, ...]:
        """Find the output records of the batches that may be uncommitted, and require the sink records that they name.

        Args:
            listed: See `prepared`.
            batch_id: See `prepared`.
            committed: See `prepared`.
            after_batch: The same for sinks that are not named.

        Returns:
            The output records in the order of batches; the last one, if any, applies to the batch of the closure.

        Raises:
            FilesAbsentError: `ClosureIncomplete`: the record of a prepared transaction is lost.
            SnapshotCorruptError: `DocumentUnreadable`.
        """
        lowest = min([after_batch, *committed.values()])
        names = batch_records.covering(listed, after_batch=lowest, to_batch=batch_id)
        if not names:
            return ()
        bodies = self._files.read(listed, {name.key: name.key for name in names})
        records = ((name, OutputRecord.parse(bodies[name.key], f"{self._root}/{name.key}")) for name in names)
        coverages = tuple(
            batch_records.Coverage(name, tuple(sink.uid for sink in record.sinks), record.function)
            for name, record in records
        )
        lost = batch_records.lost_records(listed, coverages, committed, after_batch=after_batch, to_batch=batch_id)
        if lost:
            # Any epoch since the output record may have written them.
            since = range(epochs.newest(self._store), lost[0].epoch, -1)
            possible = (replace(name, epoch=epoch) for epoch in since for name in lost)
            raise listing.FilesAbsentError(
                "ClosureIncomplete",
                f"Batch {batch_id} cannot be closed over: {self._root}/{lost[0].key}, the transaction that sink "
                f"{lost[0].uid!r} prepared for batch {lost[0].batch}, does not exist. Start from an older snapshot.",
                (*(name.key for name in possible), *(name.key for name in lost)),
            )
        return coverages

    def states(self, listed: Mapping[str, ObjectInfo], batch_id: int, output: batch_records.Coverage | None) -> States:
        """Find the newest state of each function, and require that it is the state after this batch.

        Args:
            listed: See `prepared`.
            batch_id: See `prepared`.
            output: The output record that applies to the batch; None if nothing requires a record.

        Raises:
            FilesAbsentError: `ClosureIncomplete`: the record of the batch is lost.
            SnapshotCorruptError: `DocumentUnreadable`.
        """
        states = batch_records.newest(listed, RecordKind.OPERATOR_STATE, at_batch=batch_id)
        uid = output.function if output is not None else None
        if output is None or uid is None:
            return States(tuple(states.values()))
        unchanged = batch_records.newest(listed, RecordKind.UNCHANGED, at_batch=batch_id)
        newest = batch_records.latest(states.get(uid), unchanged.get(uid))
        if newest is None or newest.batch < batch_id:
            since_epoch = output.name.epoch
            state = RecordName(RecordKind.OPERATOR_STATE, uid, batch_id, since_epoch)
            # Any epoch since the output record may have written it.
            epochs_since = range(max(epochs.newest(self._store), since_epoch), since_epoch - 1, -1)
            possible = (replace(state, kind=kind, epoch=epoch) for epoch in epochs_since for kind in _STATE)
            raise listing.FilesAbsentError(
                "ClosureIncomplete",
                f"Batch {batch_id} cannot be closed over: {self._root}/{state.key}, the state of function {uid!r} after "
                "that batch, does not exist, and no record says that the state is unchanged. Start from an older snapshot.",
                tuple(name.key for name in possible),
            )
        if newest.kind is RecordKind.OPERATOR_STATE:
            return States(tuple(states.values()))
        # It names the state that is still valid, listed or not.
        source = f"{self._root}/{newest.key}"
        body = self._files.read(listed, {newest.key: newest.key})[newest.key]
        record_key = UnchangedRecord.parse(body, source).record
        name = batch_records.parse_key(record_key)
        if name is None:
            raise errors.SnapshotCorruptError(
                "DocumentUnreadable",
                f"{source} names {record_key!r}, which is not a record. Start from an older snapshot.",
            )
        return States(tuple({**states, uid: name}.values()), (newest,))


def note_unchanged(store: ObjectStore, entry: QueryEntry, *, epoch: int) -> None:
    """Record that the batch after a snapshot, which no function processed, did not change the functions' state.

    Cost: one PUT per function.

    Args:
        store: The job's root.
        entry: The query in the snapshot.
        epoch: Epoch of this driver.
    """
    log = batch_records.BatchRecordLog(store, entry.path)
    for state in entry.operator_states:
        name = RecordName(RecordKind.UNCHANGED, state.uid, entry.batch_id + 1, epoch)
        log.write(name, UnchangedRecord(record=state.path).sealed())


def inherited_paths(base: QueryEntry | None) -> tuple[str, ...]:
    """Return the records and staged rows in a snapshot that every later batch of its generation needs too."""
    kinds = (RecordKind.PREPARED, RecordKind.OUTPUT)
    paths = []
    for file in base.files if base is not None else ():
        name = batch_records.parse_key(file.path)
        is_needed = name.kind in kinds if name is not None else layout.staged_batch(file.path) is not None
        if is_needed:
            paths.append(file.path)
    return tuple(paths)


def rivals(keys: Iterable[str], needed: Callable[[RecordName], bool]) -> Mapping[int, frozenset[int]]:
    """Return the epochs of each batch that more than one driver has tried.

    Args:
        keys: Keys below the query's root; keys of other files are ignored.
        needed: Tells whether a record matters.
    """
    epochs_of: dict[int, set[int]] = {}
    for key in keys:
        name = batch_records.parse_key(key)
        if name is not None and name.kind in _OF_AN_ATTEMPT and needed(name):
            epochs_of.setdefault(name.batch, set()).add(name.epoch)
    return {batch: frozenset(tried) for batch, tried in epochs_of.items() if len(tried) > 1}


def without_losers(listed: Mapping[str, _Info], winners: Mapping[int, int]) -> dict[str, _Info]:
    """Leave out the records of attempts that lost; one of a uid of which the winner has no record stays.

    Args:
        listed: Files by their key below the query's root.
        winners: The epoch that has committed a batch, for batches that were tried more than once.
    """
    names = {key: name for key in listed if (name := batch_records.parse_key(key)) is not None}
    won = {_subject(name) for name in names.values() if winners.get(name.batch) == name.epoch}
    lost = {
        key
        for key, name in names.items()
        if name.kind in _OF_AN_ATTEMPT and winners.get(name.batch) != name.epoch and _subject(name) in won
    }
    return {key: info for key, info in listed.items() if key not in lost}


def _subject(name: RecordName) -> tuple[bool, str, int]:
    """Return what a batch has one valid record of."""
    return name.kind in _STATE, name.uid, name.batch


class Winners:
    """The drivers that have committed the batches of one query. Answers are cached: a commit never changes."""

    def __init__(self, store: ObjectStore, query_path: str) -> None:
        """Ask the store of a job's root about the query at a path below it."""
        self._store = store
        self._path = query_path
        self._known: dict[int, int | None] = {}

    def find(self, contested: Mapping[int, Collection[int]]) -> dict[int, int]:
        """Return the epoch that has committed each batch, where its commit tells.

        Cost: nothing for batches that were asked about before; else a HEAD each, and what `epochs.life_since` costs.

        Args:
            contested: The epochs that have tried a batch, by batch.
        """
        new = {batch: tried for batch, tried in contested.items() if batch not in self._known}
        if new:
            signed = listing.look_up(self._store, self._path, [f"commits/{batch}" for batch in new])
            life = epochs.life_since(self._store, min(map(min, new.values())))
            claims = life.claims if life is not None else {}
            for batch in new:
                info = signed.get(f"commits/{batch}")
                self._known[batch] = claims.get(info.claim) if info is not None and info.claim is not None else None
        winners = {batch: self._known[batch] for batch in contested}
        return {batch: winner for batch, winner in winners.items() if winner is not None}
