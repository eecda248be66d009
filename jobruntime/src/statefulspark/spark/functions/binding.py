"""Gives declared sources their state: the segment that the newest offsets of their query name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from statefulspark import errors
from statefulspark.contract.manifest import QueryEntry
from statefulspark.opstate import record, subtasks
from statefulspark.opstate.model import OperatorState
from statefulspark.snapshot import segments, sparklog
from statefulspark.snapshot.segments import SegmentName
from statefulspark.sources import feed as feeds
from statefulspark.sources.running import RunningSource
from statefulspark.spark.functions.registry import DeclaredSource, SourceRegistry
from statefulspark.storage.options import StorageOptions
from statefulspark.storage.port import ObjectStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Start:
    """Where and as what the sources of a query start.

    Attributes:
        store: The query's root.
        epoch: Of this driver.
        checkpoint_id: Number of the restored snapshot; None if the job starts empty.
        options: How workers reach the store.
        next_checkpoint_id: The number that the next checkpoint will have.
    """

    store: ObjectStore
    epoch: int
    checkpoint_id: int | None
    options: StorageOptions
    next_checkpoint_id: Callable[[], int]


def bind(registry: SourceRegistry, query_uid: str, start: Start) -> None:
    """Restore the sources of a query and offer them to Spark; they begin to run when Spark first asks.

    A batch that was planned and not committed runs again with the segment that its offsets name, so a source goes on
    after the newest offsets, committed or not.

    Cost: a listing and a GET if the query has sources, and a GET per source.

    Raises:
        SnapshotCorruptError: `SegmentMissing`, `SegmentDamaged`, `OperatorStateDamaged`, `SparkLogUnreadable`.
        StatefulSparkError: `StateInitializationFailed`.
    """
    declared = registry.of_query(query_uid)
    positions = _positions(start.store)
    strangers = [name for uid, name in positions.items() if uid not in {one.uid for one in declared}]
    for one in declared:
        position = positions.get(one.uid)
        state = None if position is None else _state_at(start.store, position)
        if position is None:
            # A source that takes the place of a dropped one goes on with its numbers: Spark only compares offsets.
            position = strangers.pop(0) if strangers else segments.beginning(one.uid)
        registry.rendezvous.offer(one.feed_id, _feed(one, start, position, state), start.options)
        _log.info("source bound", extra={"source": one.uid, "segment": position.segment, "restored": state is not None})


def require_place(restored: QueryEntry, uids: Collection[str]) -> None:
    """Refuse a query that lacks a source whose state it would start from.

    Args:
        restored: The query, as it is restored.
        uids: Its stateful sources now.

    Raises:
        SpecRejectedError: `NonRestoredState`.
    """
    lost = [uid for uid in segments.in_offsets(restored.offsets) if uid not in uids]
    if lost:
        named = ", ".join(f"source {uid!r} of query {restored.uid!r}" for uid in lost)
        raise errors.SpecRejectedError(
            "NonRestoredState",
            f"The state on storage holds state of {named}, which the job does not have. Give the job back those uids, or "
            "set allowNonRestoredState to start without that state; it stays in the snapshot.",
        )


def _feed(one: DeclaredSource, start: Start, position: SegmentName, state: OperatorState | None) -> feeds.SourceFeed:
    function = subtasks.Subtasks(one.uid, one.function, one.parallelism)
    function.initialize(state, start.checkpoint_id)
    return feeds.SourceFeed(
        RunningSource(function, columns=tuple(one.schema.names), capacity=one.buffer_rows),
        store=start.store,
        schema=one.schema,
        epoch=start.epoch,
        position=position,
        next_checkpoint_id=start.next_checkpoint_id,
    )


def _positions(store: ObjectStore) -> Mapping[str, SegmentName]:
    """Return the segment that each source has reached, by the newest entry of the offset log."""
    numbers = [int(name) for name in store.list_names("offsets") if name.isdigit()]
    if not numbers:
        return {}
    key = f"offsets/{max(numbers)}"
    return segments.in_offsets(sparklog.parse_offsets(store.read(key), f"{store.uri}/{key}"))


def _state_at(store: ObjectStore, position: SegmentName) -> OperatorState | None:
    if position.segment == 0:
        return None
    body = feeds.read(store, position).state
    return None if body is None else record.decode(body, f"{store.uri}/{position.key}", uid=position.uid)
