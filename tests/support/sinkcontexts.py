"""Builders of the contexts in which sinks write and commit."""

from __future__ import annotations

from statefulspark.sinks import base
from statefulspark.storage import StorageOptions


def a_sink_context(**changes: object) -> base.SinkContext:
    """Build the context of a batch of the job `team/flights`, committed by the driver that prepared it."""
    fields: dict[str, object] = {
        "job": "team/flights",
        "query_uid": "delays",
        "uid": "out",
        "generation": 1,
        "batch_id": 0,
        "epoch": 1,
        "staging_uri": "memory://bucket/staging",
        "options": StorageOptions(),
        **changes,
    }
    return base.SinkContext(**({"committing_epoch": fields["epoch"]} | fields))  # type: ignore[arg-type]
