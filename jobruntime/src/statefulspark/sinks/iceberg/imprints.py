"""The metadata that a sink writes with each commit: properties of the snapshot, and one of the table."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import ancestors_of

from statefulspark.sinks.iceberg import witnesses

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from statefulspark.sinks.base import SinkContext
    from statefulspark.sinks.marker import Marker

_PREFIX = "statefulspark."
_SINK = f"{_PREFIX}sink"
"""Property of a snapshot: the sink that committed it."""
_MARKER = f"{_PREFIX}marker"
"""Property of a snapshot: the sink's marker after it. As a property of the table it has the sink's name behind it."""
_WRITER = f"{_PREFIX}epoch"
"""Property of a batch's snapshot: the epoch that wrote it."""
_BATCH = f"{_PREFIX}batch"
_FIRST_BATCH = f"{_PREFIX}first-batch"
"""Properties of a batch's snapshot: the batch; and the first one, if the snapshot has several."""
_OPENER = f"{_PREFIX}opened-by-epoch"
"""Property of the empty snapshot of `open`."""

_log = logging.getLogger(__name__)


def summary(after: Marker, context: SinkContext, *, wrote: int | None) -> dict[str, str]:
    """Return the properties of a snapshot.

    Args:
        after: The marker after the commit.
        context: Of the batch, or of the opening.
        wrote: The epoch that wrote the batch; None for an opening.
    """
    if wrote is None:
        position = {_OPENER: str(after.epoch)}
    else:
        position = {**_identity(context), _BATCH: str(context.batch_id), _WRITER: str(wrote)}
        if context.merged_from is not None:
            position[_FIRST_BATCH] = str(context.merged_from)
    return {_SINK: context.transactional_id, **position, _MARKER: after.to_json()}


def table_property(after: Marker, snapshot: Snapshot, context: SinkContext) -> dict[str, str]:
    """Return the property of the table with a snapshot."""
    sequence_number, timestamp_ms = _order(snapshot)
    stored = witnesses.TableMarker(
        marker=after, snapshot_id=snapshot.snapshot_id, sequence_number=sequence_number, timestamp_ms=timestamp_ms
    )
    return {property_name(context): stored.to_json()}


def property_name(context: SinkContext) -> str:
    """Return the name of the table's property."""
    return f"{_MARKER}.{context.transactional_id}"


def writer_of(snapshot: Snapshot, context: SinkContext) -> int | None:
    """Return the epoch that wrote the context's batch, if this is its snapshot."""
    said = _said(snapshot)
    if not said.items() >= _identity(context).items() or _WRITER not in said:
        return None
    last = int(said[_BATCH])
    return int(said[_WRITER]) if int(said.get(_FIRST_BATCH, last)) <= context.batch_id <= last else None


def reached(table: Table, context: SinkContext) -> witnesses.Reached:
    """Return how far the sink has committed to the table; see `witnesses`."""
    name = property_name(context)
    stored = table.properties.get(name)
    line = tuple(ancestors_of(table.current_snapshot(), table.metadata))
    in_line = {snapshot.snapshot_id for snapshot in line}
    witnessed = witnesses.reached(
        None if stored is None else witnesses.TableMarker.parse(stored, f"The property {name} of the table"),
        [_witness(snapshot, context) for snapshot in line],
        [_witness(snapshot, context) for snapshot in table.snapshots() if snapshot.snapshot_id not in in_line],
    )
    if witnessed.finding is not witnesses.Finding.EQUAL:
        said = {"sink": context.uid, "table": ".".join(table.name()), "why": witnessed.finding}
        _log.warning("the table's property does not tell what a sink has committed", extra=said)
    return witnessed


def _identity(context: SinkContext) -> dict[str, str]:
    """Return the properties that identify the batches of a generation."""
    return {
        f"{_PREFIX}lineage": context.lineage,
        _SINK: context.transactional_id,
        f"{_PREFIX}generation": str(context.generation),
    }


def _witness(snapshot: Snapshot, context: SinkContext) -> witnesses.Snapshot:
    said = _said(snapshot)
    return witnesses.Snapshot(
        snapshot.snapshot_id,
        snapshot.parent_snapshot_id,
        _order(snapshot),
        said.get(_MARKER) if said.get(_SINK) == context.transactional_id else None,
    )


def _said(snapshot: Snapshot) -> Mapping[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def _order(snapshot: Snapshot) -> tuple[int, int]:
    return snapshot.sequence_number or 0, snapshot.timestamp_ms
