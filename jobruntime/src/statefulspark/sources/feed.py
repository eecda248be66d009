"""Feeds one source's rows to the stream: answers what Spark asks a data source, writing segments on the way.

Spark asks for the latest offset, writes it down, and then reads what lies before it. So a segment is written when the
latest offset is asked for and there are rows; the answer is its name. The same segment is answered until Spark asks
from there on, which it only does when that offset is written down. Segments that were answered and never written down,
because the driver died in between, are garbage under a name that nobody uses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from statefulspark import clock, errors
from statefulspark.checkpoint import segments
from statefulspark.checkpoint.segments import SegmentName
from statefulspark.operatorstate import record
from statefulspark.operatorstate.completion import Completions
from statefulspark.operatorstate.functions import FunctionSnapshotContext
from statefulspark.sources import segmentfile
from statefulspark.sources.running import RunningSource
from statefulspark.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """Where a worker finds a segment's rows.

    Attributes:
        uri: Store to open.
        key: Object in it.
        uid: The source.
        subtasks: Those that have rows in it; each becomes a partition.
    """

    uri: str
    key: str
    uid: str
    subtasks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Taken:
    """A segment as it is to be written, and the subtasks that have rows in it."""

    name: SegmentName
    body: bytes
    subtasks: tuple[int, ...]


class SourceFeed:
    """One source of one query, in one epoch. Called by the query's thread, through the data source."""

    def __init__(
        self,
        source: RunningSource,
        *,
        store: ObjectStore,
        schema: pa.Schema,
        epoch: int,
        position: SegmentName,
        next_checkpoint_id: Callable[[], int],
    ) -> None:
        """Feed from a position on.

        Args:
            source: Initialised with the state of that position, not started yet.
            store: The query's root.
            schema: Of the source.
            epoch: Of this driver.
            position: Last segment that Spark has written down.
            next_checkpoint_id: The number that the next checkpoint will have.
        """
        self._source = source
        self._store = store
        self._schema = schema
        self._epoch = epoch
        self._position = position
        self._next_checkpoint_id = next_checkpoint_id
        self._filled: dict[SegmentName, tuple[int, ...]] = {}
        self._unwritten: _Taken | None = None
        self._completions = Completions(next_checkpoint_id() - 1)
        self._guard = threading.Lock()

    @property
    def source(self) -> RunningSource:
        """The function that produces the rows."""
        return self._source

    def initial(self) -> SegmentName:
        """Return where a query without any offsets begins."""
        return segments.beginning(self._source.uid)

    def latest(self, start: SegmentName, *, wait_s: float) -> SegmentName:
        """Return the offset up to which there are rows, after writing what lies before it.

        Cost: one PUT if there are new rows.

        Args:
            start: The last offset that Spark has written down.
            wait_s: How long to wait for rows if there are none.

        Raises:
            StatefulSparkError: `SourceFailed`, `SnapshotFailed`, `SourceRowInvalid`, or storage failed.
            StateUnknownError: `SourceOffsetUnknown`.
        """
        with self._guard:
            if start != self._position:
                self._require_known(start)
                return self._position
            self._source.start()
            if self._unwritten is None and not self._source.wait_for_rows(wait_s):
                return start
            self._position = self._write_next(start)
            return self._position

    def place(self, start: SegmentName, end: SegmentName) -> SegmentPlace | None:
        """Return where the rows between two offsets are; None if there are none.

        Cost: a GET for a segment that another driver wrote.

        Raises:
            SnapshotCorruptError: `SegmentMissing`, `SegmentDamaged`.
        """
        if end == start or end.segment == 0:
            return None
        with self._guard:
            if end not in self._filled:
                found = read(self._store, end).header.subtasks
                self._filled = {**self._filled, end: found}
            return SegmentPlace(self._store.uri, end.key, end.uid, self._filled[end])

    def close(self) -> None:
        """End the source."""
        self._source.close()

    def covers(self, checkpoint_id: int, segment: int) -> None:
        """Note at which segment a checkpoint ends."""
        self._completions.covers(checkpoint_id, segment)

    def notify_complete(self, checkpoint_id: int) -> None:
        """Tell the function that a checkpoint is complete; see `operatorstate.completion` for the number that it is told.

        Raises:
            StatefulSparkError: `NotifyFailed`; the job has to fail.
        """
        told = self._completions.complete(checkpoint_id)
        if told is not None:
            self._source.notify_complete(told)

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Tell the function that a checkpoint was given up.

        Raises:
            StatefulSparkError: `NotifyFailed`; the job has to fail.
        """
        self._source.notify_aborted(checkpoint_id)

    def _write_next(self, start: SegmentName) -> SegmentName:
        """Write the next segment; rows that were taken and could not be written are written by the next call."""
        taken = self._unwritten or self._take(start)
        self._unwritten = taken
        self._store.write(taken.name.key, taken.body)
        self._unwritten = None
        self._filled = {taken.name: taken.subtasks}
        return taken.name

    def _take(self, start: SegmentName) -> _Taken:
        name = SegmentName(self._source.uid, start.segment + 1, self._epoch)
        number = self._next_checkpoint_id()
        cut = self._source.cut(FunctionSnapshotContext(number, int(clock.utc_now().timestamp() * 1000)))
        self._completions.taken(number, name.segment)
        state = None if cut.state is None else record.encode(name.uid, cut.state)
        filled = tuple(index for index, rows in enumerate(cut.rows) if rows)
        return _Taken(name, segmentfile.encode(name, self._schema, cut.rows, state), filled)

    def _require_known(self, start: SegmentName) -> None:
        """Accept the offset before the one that was answered last: Spark has not written that one down yet."""
        if start.uid != self._position.uid or start.segment >= self._position.segment:
            raise errors.StateUnknownError(
                "SourceOffsetUnknown",
                f"Spark asks the source {self._source.uid!r} to go on after segment {start.segment} of epoch "
                f"{start.epoch}, and its state is that of segment {self._position.segment} of epoch "
                f"{self._position.epoch}. Restart the job; it starts from what is stored.",
            )


def read(store: ObjectStore, name: SegmentName) -> segmentfile.Segment:
    """Read a segment.

    Args:
        store: The query's root.
        name: The segment.

    Raises:
        SnapshotCorruptError: `SegmentMissing`, `SegmentDamaged`.
    """
    try:
        body = store.read(name.key)
    except errors.ObjectNotFoundError as error:
        raise errors.SnapshotCorruptError(
            "SegmentMissing",
            f"{store.uri}/{name.key} is gone, which offsets of source {name.uid!r} name. Start from an older snapshot.",
        ) from error
    return segmentfile.decode(body, f"{store.uri}/{name.key}", uid=name.uid)
