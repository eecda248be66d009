"""Restores declared functions with their state at the point where their query continues.

A source continues after the segment that the newest offsets name, committed or not, because a planned batch runs again
with the same offsets. A sink continues after the last committed batch, because later batches run again.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from statefulspark.checkpoint import batch_records, sparklog
from statefulspark.contract import layout, lost_state
from statefulspark.contract.layout import SegmentName
from statefulspark.contract.manifest import QueryEntry
from statefulspark.declaration import Output
from statefulspark.operators.functions.registry import SourceRegistry
from statefulspark.operators.functions.sink import BoundSink, Noting
from statefulspark.operatorstate import record, subtasks
from statefulspark.operatorstate.batches import SinkRun
from statefulspark.operatorstate.sink import DriverSink
from statefulspark.sources import feed as feeds
from statefulspark.sources.running import RunningSource
from statefulspark.storage.options import StorageOptions
from statefulspark.storage.port import ObjectStore

_log = logging.getLogger(__name__)


class JobStorage(Protocol):
    """The storage of the job state, and the epoch under which this driver may write it."""

    @property
    def store(self) -> ObjectStore:
        """The job's root."""
        ...

    @property
    def options(self) -> StorageOptions:
        """Storage options for workers."""
        ...

    @property
    def epoch(self) -> int:
        """The epoch of this driver."""
        ...


@dataclass(frozen=True, slots=True)
class Start:
    """The start of the functions of a query.

    Attributes:
        store: The query's root.
        epoch: The epoch of this driver.
        checkpoint_id: Number of the restored snapshot; None if the job starts empty.
        options: Storage options for workers.
        next_checkpoint_id: The number that the next checkpoint will have.
    """

    store: ObjectStore
    epoch: int
    checkpoint_id: int | None
    options: StorageOptions
    next_checkpoint_id: Callable[[], int]


def bind_sources(registry: SourceRegistry, query_uid: str, start: Start) -> None:
    """Restore the sources of a query and offer them to Spark; they start when Spark first asks for offsets.

    A batch that was planned and not committed runs again with the segment that its offsets name, so a source continues
    after the newest offsets, committed or not.

    Cost: a listing and a GET if the query has sources, and a GET per source.

    Raises:
        SnapshotCorruptError: `SegmentMissing`, `SegmentDamaged`, `OperatorStateDamaged`, `SparkLogUnreadable`.
        StatefulSparkError: `StateInitializationFailed`.
    """
    declared = registry.sources_of(query_uid)
    positions = _positions(start.store)
    unclaimed = [name for uid, name in positions.items() if uid not in {source.uid for source in declared}]
    for source in declared:
        position = positions.get(source.uid)
        state = None
        if position is not None and position.segment > 0:
            body = feeds.read(start.store, position).state
            if body is not None:
                state = record.decode(body, f"{start.store.uri}/{position.key}", uid=position.uid)
        if position is None:
            # A source that replaces a dropped one continues its numbers, because Spark only compares offsets.
            position = unclaimed.pop(0) if unclaimed else layout.first_position(source.uid)
        function = subtasks.Subtasks(source.uid, source.function, source.parallelism)
        function.initialize(state, start.checkpoint_id)
        feed = feeds.SourceFeed(
            RunningSource(function, columns=tuple(source.schema.names), capacity=source.buffer_rows),
            store=start.store,
            schema=source.schema,
            epoch=start.epoch,
            position=position,
            next_checkpoint_id=start.next_checkpoint_id,
        )
        registry.rendezvous.offer(source.feed_id, feed, start.options)
        _log.info(
            "source bound", extra={"source": source.uid, "segment": position.segment, "restored": state is not None}
        )


def bind_sink(
    output: Output, start: Start, restored: QueryEntry | None, noting: Noting = contextlib.nullcontext
) -> BoundSink:
    """Restore the sink function of a query, with its state after the last committed batch.

    Cost: a listing, and a GET if it has state.

    Args:
        output: What the query function returned, with a `DriverSink`.
        start: Where the query starts.
        restored: The restored query; None if it starts empty.
        noting: See `BoundSink`.

    Raises:
        SnapshotCorruptError: `OperatorStateDamaged`.
        StatefulSparkError: `StateInitializationFailed`, `FunctionFailed`.
    """
    assert isinstance(output.sink, DriverSink)  # noqa: S101 - the caller has checked this
    log = batch_records.BatchRecordLog(start.store, "")
    committed = restored.batch_id if restored is not None else -1
    # What the snapshot names is valid; a listing may lag, and has the attempts that lost a batch, too.
    named = (entry.path for entry in (restored.operator_states if restored else ()) if entry.uid == output.uid)
    newest = batch_records.parse_key(next(named, "")) or log.newest(
        batch_records.RecordKind.OPERATOR_STATE, output.uid, at_batch=committed
    )
    state = None
    if newest is not None:
        state = record.decode(log.read(newest), f"{start.store.uri}/{newest.key}", uid=output.uid)
    heard = start.next_checkpoint_id() - 1
    run = SinkRun(
        output.uid,
        output.sink,
        restored=state,
        checkpoint_id=start.checkpoint_id,
        heard=heard,
        committed=committed,
    )
    _log.info("sink function bound", extra={"sink": output.uid, "batch": committed, "restored": state is not None})
    return BoundSink(run, output.uid, log, start.epoch, start.next_checkpoint_id, noting)


def require_place(
    restored: QueryEntry, *, sources: Collection[str], sinks: Collection[str], drop_state: Collection[str]
) -> None:
    """Reject a query that lacks a function with restored state.

    Args:
        restored: The restored query.
        sources: Its stateful sources now.
        sinks: Its sink functions now.
        drop_state: Uids of state that may be dropped.

    Raises:
        SpecRejectedError: `NonRestoredState`.
    """
    written = [entry.uid for entry in restored.operator_states]
    query = f"of query {restored.uid!r}"
    lost = [("source", uid) for uid in layout.parse_source_offsets(restored.offsets) if uid not in sources]
    lost += [("function", uid) for uid in written if uid not in sinks]
    lost_state.require_permission(
        [lost_state.LostState(uid, f"{kind} {uid!r} {query}") for kind, uid in lost],
        drop_state,
        holds="The restored snapshot has state of",
        remedy="Restore these uids in the job",
    )


def _positions(store: ObjectStore) -> Mapping[str, SegmentName]:
    """Return the last segment of each source, from the newest entry of the offset log."""
    numbers = [int(name) for name in store.list_names("offsets") if name.isdigit()]
    if not numbers:
        return {}
    key = f"offsets/{max(numbers)}"
    return layout.parse_source_offsets(sparklog.parse_offsets(store.read(key), f"{store.uri}/{key}"))
