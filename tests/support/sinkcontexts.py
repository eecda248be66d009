"""Builders of the contexts in which sinks write and commit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from statefulspark.contract.manifest import Position
from statefulspark.declaration import Output, QueryOutputs
from statefulspark.sinks import base, marker, standing
from statefulspark.storage import StorageOptions

OWN = "0wn"
"""The lineage of the job."""
CLAIM = "claim of epoch {}"


def a_sink_context(**changes: object) -> base.SinkContext:
    """Build the context of a batch of the job `team/flights`, committed by the driver that prepared it."""
    fields: dict[str, object] = {
        "job": "team/flights",
        "query_uid": "delays",
        "uid": "out",
        "generation": 1,
        "batch_id": 0,
        "epoch": 1,
        "staging_uri": "memory://bucket/delays",
        "notes_uri": "memory://bucket/notes",
        "options": StorageOptions(),
        "lineage": OWN,
        "claim_of": CLAIM.format,
        **changes,
    }
    committing = fields.setdefault("committing_epoch", fields["epoch"])
    fields.setdefault("descent", standing.SinkLineage(OWN))
    return base.SinkContext(**({"claim": CLAIM.format(committing)} | fields))  # type: ignore[arg-type]


def a_written_query(
    sink: object, uid: str = "out", *, frame: object = None, output_mode: str = "update"
) -> QueryOutputs:
    """Build what a query writes to one sink."""
    stream = cast("Any", frame)
    return QueryOutputs(stream, (Output(stream, cast("Any", sink), uid, output_mode, None),), (None,))


def by_epoch(context: base.SinkContext, epoch: int) -> base.SinkContext:
    """Return the context as the driver of another epoch commits the batch."""
    return replace(context, committing_epoch=epoch, claim=CLAIM.format(epoch))


def at(generation: int, batch_id: int, lineage: str = OWN) -> Position:
    """Return a batch of the job."""
    return Position(lineage=lineage, generation=generation, batch_id=batch_id)


def a_marker(*committed: Position, epoch: int = 1, **changes: object) -> marker.Marker:
    """Build the marker of a sink that was opened by a driver of the job."""
    fields = {"lineage": OWN, "origin": OWN, "claim": CLAIM.format(epoch)} | changes
    return marker.Marker(epoch=epoch, committed=committed, **fields)  # type: ignore[arg-type]
