"""Serves the rows of one source to the stream: answers the requests of the data source and writes segments.

Spark requests the latest offset, logs it, and then reads the rows before it. So a request for the latest offset writes a
segment if there are rows, and returns its name. The same segment is returned until Spark requests offsets from it on,
which it does only after it has logged that offset. If the driver dies before an offset is logged, its segment is garbage
under an unused name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from statefulspark import clock, errors
from statefulspark.contract import layout
from statefulspark.contract.layout import SegmentName
from statefulspark.operatorstate import record
from statefulspark.operatorstate.completion import Completions
from statefulspark.operatorstate.functions import FunctionSnapshotContext
from statefulspark.sources import segmentfile
from statefulspark.sources.running import RunningSource
from statefulspark.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class SegmentLocation:
    """The location of a segment's rows, for workers.

    Attributes:
        uri: URI of the store.
        key: Key of the object.
        uid: The uid of the source.
        subtasks: The subtasks with rows in it; each becomes a partition.
    """

    uri: str
    key: str
    uid: str
    subtasks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _PendingSegment:
    """A segment to write, and the subtasks with rows in it."""

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
        """Start from a position.

        Args:
            source: The source, initialised with the state of that position and not started.
            store: The query's root.
            schema: The schema of the source.
            epoch: The epoch of this driver.
            position: Last segment in Spark's offset log.
            next_checkpoint_id: The number that the next checkpoint will have.
        """
        self._source = source
        self._store = store
        self._schema = schema
        self._epoch = epoch
        self._position = position
        self._next_checkpoint_id = next_checkpoint_id
        self._subtasks_of: dict[SegmentName, tuple[int, ...]] = {}
        self._pending: _PendingSegment | None = None
        self._completions = Completions(next_checkpoint_id() - 1)
        self._lock = threading.Lock()

    @property
    def source(self) -> RunningSource:
        """The function that produces the rows."""
        return self._source

    def initial(self) -> SegmentName:
        """Return the start offset of a query without offsets."""
        return layout.first_position(self._source.uid)

    def latest(self, start: SegmentName, *, wait_s: float) -> SegmentName:
        """Return the latest offset, after writing the rows before it.

        Cost: one PUT if there are new rows.

        Args:
            start: The last offset in Spark's offset log.
            wait_s: Maximum time to wait for rows.

        Raises:
            StatefulSparkError: `SourceFailed`, `SnapshotFailed`, `SourceRowInvalid`, or storage failed.
            StateUnknownError: `SourceOffsetUnknown`.
        """
        with self._lock:
            if start != self._position:
                # Spark has not logged the last returned offset yet, and requests from the one before it.
                if start.uid != self._position.uid or start.segment >= self._position.segment:
                    raise errors.StateUnknownError(
                        "SourceOffsetUnknown",
                        f"Spark requests rows of the source {self._source.uid!r} after segment {start.segment} of epoch "
                        f"{start.epoch}, but its state is that of segment {self._position.segment} of epoch "
                        f"{self._position.epoch}. Restart the job; it starts from the stored state.",
                    )
                return self._position
            self._source.start()
            if self._pending is None and not self._source.wait_for_rows(wait_s):
                return start
            # After a failed write, the next call writes the same segment.
            pending = self._pending = self._pending or self._take(start)
            self._store.write(pending.name.key, pending.body)
            self._pending = None
            self._subtasks_of = {pending.name: pending.subtasks}
            self._position = pending.name
            return self._position

    def locate(self, start: SegmentName, end: SegmentName) -> SegmentLocation | None:
        """Return the location of the rows between two offsets; None if there are none.

        Cost: a GET for a segment that another driver wrote.

        Raises:
            SnapshotCorruptError: `SegmentMissing`, `SegmentDamaged`.
        """
        if end == start or end.segment == 0:
            return None
        with self._lock:
            if end not in self._subtasks_of:
                subtasks = read(self._store, end).header.subtasks
                self._subtasks_of = {**self._subtasks_of, end: subtasks}
            return SegmentLocation(self._store.uri, end.key, end.uid, self._subtasks_of[end])

    def close(self) -> None:
        """Close the source."""
        self._source.close()

    def covers(self, checkpoint_id: int, segment: int) -> None:
        """Record the last segment of a checkpoint."""
        self._completions.covers(checkpoint_id, segment)

    def notify_complete(self, checkpoint_id: int) -> None:
        """Notify the function that a checkpoint is complete; see `operatorstate.completion` for the id that it gets.

        Raises:
            StatefulSparkError: `NotifyFailed`; the job has to fail.
        """
        notified_id = self._completions.complete(checkpoint_id)
        if notified_id is not None:
            self._source.notify_complete(notified_id)

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Notify the function that a checkpoint was aborted.

        Raises:
            StatefulSparkError: `NotifyFailed`; the job has to fail.
        """
        self._source.notify_aborted(checkpoint_id)

    def _take(self, start: SegmentName) -> _PendingSegment:
        name = SegmentName(self._source.uid, start.segment + 1, self._epoch)
        number = self._next_checkpoint_id()
        cut = self._source.cut(FunctionSnapshotContext(number, clock.utc_now()))
        self._completions.taken(number, name.segment)
        state = None if cut.state is None else record.encode(name.uid, cut.state)
        subtasks = tuple(index for index, rows in enumerate(cut.rows) if rows)
        return _PendingSegment(name, segmentfile.encode(name, self._schema, cut.rows, state), subtasks)


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
            f"{store.uri}/{name.key} is missing, and offsets of source {name.uid!r} need it. Start from an older snapshot.",
        ) from error
    return segmentfile.decode(body, f"{store.uri}/{name.key}", uid=name.uid)
