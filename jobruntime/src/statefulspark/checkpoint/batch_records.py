"""Batch records: what this runtime stores with a batch beside Spark's own files.

The functions on names and keys are pure; `BatchRecordLog` reads and writes the records.

```
<query root>/operator-state/<uid>/<batch:08d>-<epoch:08d>.json    state of a function without keys, when it changed
<query root>/unchanged/<uid>/<batch:08d>-<epoch:08d>.json         when it did not change: which of those is valid
<query root>/prepared/<uid>/<batch:08d>-<epoch:08d>.json          a transaction of a two-phase sink
<query root>/output/<query uid>/<batch:08d>-<epoch:08d>.json      which sinks or function have a record of each later batch
```
A record is written before Spark commits its batch, so that a committed batch has its records. Of several attempts at a
batch the one of the highest epoch is valid, unless another driver has won the batch: `attempts` leaves out who lost it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from statefulspark.contract import formats, layout
from statefulspark.contract.base import SealedDocument
from statefulspark.contract.prepared import OutputRecord, PreparedRecord, UnchangedRecord
from statefulspark.storage.port import ObjectStore


class RecordKind(StrEnum):
    """What a record holds; the name of its folder."""

    OPERATOR_STATE = "operator-state"
    """State of a function; a snapshot needs the newest one."""
    UNCHANGED = "unchanged"
    """A batch did not change a function's state; a snapshot needs the record of its own batch."""
    PREPARED = "prepared"
    """A sink's transaction; a snapshot needs every one that may be uncommitted."""
    OUTPUT = "output"
    """Which sink or function the query writes to; it tells which records of the kinds above must exist."""


class _OperatorState(SealedDocument):
    """A record of operator state: only its version and checksum are read here (see `operatorstate.record`)."""

    FORMAT: ClassVar = formats.OPERATOR_STATE
    format_version: int = formats.OPERATOR_STATE.writes


_DOCUMENTS: Mapping[RecordKind, type[SealedDocument]] = {
    RecordKind.OPERATOR_STATE: _OperatorState,
    RecordKind.UNCHANGED: UnchangedRecord,
    RecordKind.PREPARED: PreparedRecord,
    RecordKind.OUTPUT: OutputRecord,
}
_KINDS = "|".join(kind.value for kind in RecordKind)
_KEY = re.compile(rf"^(?P<kind>{_KINDS})/(?P<uid>[^/]+)/(?P<batch>\d{{8,}})-(?P<epoch>\d{{8,}})\.json$")


@dataclass(frozen=True, slots=True)
class RecordName:
    """Name of a record, parsed from its key.

    Attributes:
        kind: What it holds.
        uid: The function or sink.
        batch: The batch it belongs to.
        epoch: The driver's epoch that wrote it.
    """

    kind: RecordKind
    uid: str
    batch: int
    epoch: int

    @property
    def key(self) -> str:
        """Its key below the query's root."""
        return f"{self.kind.value}/{self.uid}/{layout.number(self.batch)}-{layout.number(self.epoch)}.json"


def parse_key(key: str) -> RecordName | None:
    """Parse a key below a query's root; None if it is not the key of a record."""
    match = _KEY.match(key)
    return (
        RecordName(RecordKind(match["kind"]), match["uid"], int(match["batch"]), int(match["epoch"])) if match else None
    )


def records_of_kind(keys: Iterable[str], kind: RecordKind) -> tuple[RecordName, ...]:
    """Return every record of a kind, replaced ones too, ordered by batch, uid and epoch."""
    names = (name for key in keys if (name := parse_key(key)) is not None and name.kind is kind)
    return tuple(sorted(names, key=lambda name: (name.batch, name.uid, name.epoch)))


def between(keys: Iterable[str], kind: RecordKind, *, after_batch: int, to_batch: int) -> tuple[RecordName, ...]:
    """Return the valid record of each uid and batch, in the order of batches.

    Args:
        keys: Keys below the query's root; keys of other files are ignored.
        kind: Kind of the records.
        after_batch: Leave out this batch and those before it; -1 for none.
        to_batch: The last batch.
    """
    chosen = {
        (name.batch, name.uid): name for name in records_of_kind(keys, kind) if after_batch < name.batch <= to_batch
    }
    return tuple(chosen.values())


def newest(keys: Iterable[str], kind: RecordKind, *, at_batch: int) -> dict[str, RecordName]:
    """Return the valid record after a batch, by uid."""
    return {name.uid: name for name in between(keys, kind, after_batch=-1, to_batch=at_batch)}


def covering(keys: Iterable[str], *, after_batch: int, to_batch: int) -> tuple[RecordName, ...]:
    """Return the output records that apply to batches in (after, to], in order; the newest one if the range is empty."""
    by_epoch = sorted(records_of_kind(keys, RecordKind.OUTPUT), key=lambda name: (name.batch, name.epoch))
    chosen = {name.batch: name for name in by_epoch if name.batch <= to_batch}
    first = max((batch for batch in chosen if batch <= after_batch + 1), default=-1)
    return tuple(name for batch, name in chosen.items() if batch >= first)


@dataclass(frozen=True, slots=True)
class Coverage:
    """From which batch on which sinks, or which function, have a record of each batch.

    Attributes:
        name: The output record.
        sinks: Uids of the sinks that it names; empty if the query does not write to a two-phase sink.
        function: Uid of the sink function that it names; None if the query does not write to a stateful sink function.
    """

    name: RecordName
    sinks: tuple[str, ...]
    function: str | None = None


def lost_records(
    keys: Iterable[str], coverages: Sequence[Coverage], committed: Mapping[str, int], *, after_batch: int, to_batch: int
) -> tuple[RecordName, ...]:
    """Return the records of prepared transactions that must exist and are missing.

    Args:
        keys: Keys below the query's root; keys of other files are ignored.
        coverages: From `covering`, in its order; at least one.
        committed: By sink uid, the last batch whose records are not needed any more.
        after_batch: The same for all other sinks.
        to_batch: The last batch.

    Returns:
        One name per sink and batch, with the epoch of the output record; a record of another epoch is valid too.
    """
    names = records_of_kind(keys, RecordKind.PREPARED)
    held = {(name.uid, name.batch) for name in names}
    ends = [*(coverage.name.batch for coverage in coverages[1:]), to_batch + 1]
    lost = []
    for coverage, end in zip(coverages, ends, strict=True):
        for uid in coverage.sinks:
            first = max(coverage.name.batch, committed.get(uid, after_batch) + 1)
            batches = [batch for batch in range(first, end) if (uid, batch) not in held]
            lost += [RecordName(RecordKind.PREPARED, uid, batch, coverage.name.epoch) for batch in batches]
    return tuple(lost)


def latest(*names: RecordName | None) -> RecordName | None:
    """Return the record with the highest batch, then the highest epoch; the first given one of equals."""
    return max((name for name in names if name is not None), key=lambda name: (name.batch, name.epoch), default=None)


def require_readable(key: str, body: bytes, source: str) -> None:
    """Check the version and the checksum of a record; a file that is not a record passes.

    Raises:
        SnapshotCorruptError: `DocumentUnreadable`.
        FormatVersionError: It is of a version that this release cannot read.
    """
    name = parse_key(key)
    if name is not None:
        _DOCUMENTS[name.kind].parse(body, source)


class BatchRecordLog:
    """The batch records of one query on storage. Thread-safe."""

    def __init__(self, store: ObjectStore, query_path: str) -> None:
        """Open the records below a query's root.

        Args:
            store: The job's root.
            query_path: The query's checkpoint root below it.
        """
        self._store = store.child(query_path)

    def write(self, name: RecordName, body: bytes) -> None:
        """Make a record durable; a later attempt of the same epoch replaces an earlier one. Cost: one PUT."""
        self._store.write(name.key, body)

    def read(self, name: RecordName) -> bytes:
        """Return a record's body. Cost: one GET.

        Raises:
            ObjectNotFoundError: There is none.
        """
        return self._store.read(name.key)

    def delete(self, names: Iterable[RecordName]) -> None:
        """Delete records; records that do not exist are ignored."""
        self._store.delete_many([name.key for name in names])

    def list_all(self, kind: RecordKind) -> tuple[RecordName, ...]:
        """Return every record of a kind. Cost: one LIST per 1,000."""
        return records_of_kind((info.key for info in self._store.list(kind.value)), kind)

    def newest(self, kind: RecordKind, uid: str, *, at_batch: int) -> RecordName | None:
        """Return the valid record after a batch. Cost: one LIST."""
        return newest(self._keys(kind, uid), kind, at_batch=at_batch).get(uid)

    def between(self, kind: RecordKind, uid: str, *, after_batch: int, to_batch: int) -> tuple[RecordName, ...]:
        """Return the valid records of batches in (after, to]. Cost: one LIST."""
        return between(self._keys(kind, uid), kind, after_batch=after_batch, to_batch=to_batch)

    def _keys(self, kind: RecordKind, uid: str) -> list[str]:
        return [f"{kind.value}/{uid}/{name}" for name in self._store.list_names(f"{kind.value}/{uid}")]
