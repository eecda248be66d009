"""Side records: what travels with a batch and is not Spark's. Names and choice are pure; `SideLog` reads and writes them.

```
<query root>/operator-state/<uid>/<batch:08d>-<epoch:08d>.json    state of a function without keys, when it changed
<query root>/unchanged/<uid>/<batch:08d>-<epoch:08d>.json         when it did not: which of those holds
<query root>/prepared/<uid>/<batch:08d>-<epoch:08d>.json          a transaction of a two-phase sink
<query root>/output/<query uid>/<batch:08d>-<epoch:08d>.json      from this batch on: who has a record of each
```
A record is written before Spark commits its batch, so that a committed batch has its records. Of several attempts at a
batch the one of the highest epoch counts: all of them had the same input, and only the newest driver goes on.
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
    """State of a function; a cut needs the newest one."""
    UNCHANGED = "unchanged"
    """A batch left a function's state as it was; a cut needs the one of its own batch."""
    PREPARED = "prepared"
    """A sink's transaction; a cut needs every one that may be uncommitted."""
    OUTPUT = "output"
    """Which sink or function the query writes to; it says which records of the kinds above must be there."""


class _OperatorState(SealedDocument):
    """A record of operator state as far as storage alone goes: its version and its checksum (`operatorstate.record`)."""

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
    """A record, as its key names it.

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


def of_key(key: str) -> RecordName | None:
    """Read a key below a query's root; None if it is not a record's."""
    match = _KEY.match(key)
    return (
        RecordName(RecordKind(match["kind"]), match["uid"], int(match["batch"]), int(match["epoch"])) if match else None
    )


def all_of(keys: Iterable[str], kind: RecordKind) -> tuple[RecordName, ...]:
    """Return every record of a kind, also those that do not count, ordered by batch, uid and epoch."""
    found = (name for key in keys if (name := of_key(key)) is not None and name.kind is kind)
    return tuple(sorted(found, key=lambda name: (name.batch, name.uid, name.epoch)))


def between(keys: Iterable[str], kind: RecordKind, *, after_batch: int, to_batch: int) -> tuple[RecordName, ...]:
    """Return the record that counts of each uid and batch, in the order of batches.

    Args:
        keys: Keys below the query's root, others among them.
        kind: Of the records.
        after_batch: Leave out this batch and those before it; -1 for none.
        to_batch: The last batch.
    """
    chosen = {(name.batch, name.uid): name for name in all_of(keys, kind) if after_batch < name.batch <= to_batch}
    return tuple(chosen.values())


def newest(keys: Iterable[str], kind: RecordKind, *, at_batch: int) -> dict[str, RecordName]:
    """Return the record that holds after a batch, by uid."""
    return {name.uid: name for name in between(keys, kind, after_batch=-1, to_batch=at_batch)}


def covering(keys: Iterable[str], *, after_batch: int, to_batch: int) -> tuple[RecordName, ...]:
    """Return the output records that hold for batches in (after, to], in order; the newest one if the range is empty."""
    by_epoch = sorted(all_of(keys, RecordKind.OUTPUT), key=lambda name: (name.batch, name.epoch))
    chosen = {name.batch: name for name in by_epoch if name.batch <= to_batch}
    first = max((batch for batch in chosen if batch <= after_batch + 1), default=-1)
    return tuple(name for batch, name in chosen.items() if batch >= first)


@dataclass(frozen=True, slots=True)
class Coverage:
    """From which batch on which sink or function has a record of each batch.

    Attributes:
        name: The output record.
        sink: Uid of the sink that it names; None if none of ours takes the batches.
        function: Uid of the sink function that it names; None if none with state takes the batches.
    """

    name: RecordName
    sink: str | None
    function: str | None = None


def lost_records(
    keys: Iterable[str], coverages: Sequence[Coverage], committed: Mapping[str, int], *, after_batch: int, to_batch: int
) -> tuple[RecordName, ...]:
    """Return the records of prepared transactions that must be there and are not.

    Args:
        keys: Keys below the query's root, others among them.
        coverages: From `covering`, in its order; at least one.
        committed: By uid of a sink the batch through which its records are not needed any more.
        after_batch: The same for all others.
        to_batch: The last batch.

    Returns:
        One name per sink and batch, under the epoch that the output record names; another epoch's would do as well.
    """
    names = all_of(keys, RecordKind.PREPARED)
    held = {(name.uid, name.batch) for name in names}
    ends = [*(one.name.batch for one in coverages[1:]), to_batch + 1]
    lost = []
    for one, end in zip(coverages, ends, strict=True):
        if one.sink is None:
            continue
        first = max(one.name.batch, committed.get(one.sink, after_batch) + 1)
        batches = [batch for batch in range(first, end) if (one.sink, batch) not in held]
        lost += [RecordName(RecordKind.PREPARED, one.sink, batch, one.name.epoch) for batch in batches]
    return tuple(lost)


def latest(*names: RecordName | None) -> RecordName | None:
    """Return the record of the highest batch, of those the one of the highest epoch, of those the first one given."""
    return max((name for name in names if name is not None), key=lambda name: (name.batch, name.epoch), default=None)


def require_readable(key: str, body: bytes, source: str) -> None:
    """Check that a record is what was written, as far as it can tell; a file that is no record passes.

    Raises:
        SnapshotCorruptError: `DocumentUnreadable`.
        FormatVersionError: It is of a version that this release cannot read.
    """
    name = of_key(key)
    if name is not None:
        _DOCUMENTS[name.kind].parse(body, source)


class SideLog:
    """The side records of one query on storage. Safe from any thread."""

    def __init__(self, store: ObjectStore, query_path: str) -> None:
        """Read and write below a query's root.

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
        """Remove records; those already gone are fine."""
        self._store.delete_many([name.key for name in names])

    def all_of(self, kind: RecordKind) -> tuple[RecordName, ...]:
        """Return every record of a kind. Cost: one LIST per 1,000."""
        return all_of((info.key for info in self._store.list(kind.value)), kind)

    def newest(self, kind: RecordKind, uid: str, *, at_batch: int) -> RecordName | None:
        """Return the record that holds after a batch. Cost: one LIST."""
        return newest(self._keys(kind, uid), kind, at_batch=at_batch).get(uid)

    def between(self, kind: RecordKind, uid: str, *, after_batch: int, to_batch: int) -> tuple[RecordName, ...]:
        """Return the records that count, of batches in (after, to]. Cost: one LIST."""
        return between(self._keys(kind, uid), kind, after_batch=after_batch, to_batch=to_batch)

    def _keys(self, kind: RecordKind, uid: str) -> list[str]:
        return [f"{kind.value}/{uid}/{name}" for name in self._store.list_names(f"{kind.value}/{uid}")]
