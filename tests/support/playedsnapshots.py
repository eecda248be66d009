"""Snapshots of drivers that are played: manifests as real ones write them, of a query with one batch, and summaries."""

from __future__ import annotations

from datetime import UTC, datetime

from manifests import a_manifest, a_query
from statefulspark.checkpoint import catalog
from statefulspark.contract.api import SnapshotSummary
from statefulspark.contract.manifest import Manifest, SnapshotKind, Trigger
from statefulspark.storage import ObjectStore


def next_manifest(
    root: ObjectStore,
    kind: SnapshotKind,
    trigger: Trigger,
    *,
    namespace: str,
    job: str,
    epoch: int,
    request_id: str | None = None,
) -> Manifest:
    """Return the manifest of a job's next snapshot; it is not written."""
    return a_manifest(
        catalog.next_snapshot_id(root),
        [a_query("delays", batch_id=1)],
        now=datetime.now(UTC),
        kind=kind,
        namespace=namespace,
        job=job,
        trigger=trigger,
        epoch=epoch,
        request_id=request_id,
    )


def summary_of(root: ObjectStore, manifest: Manifest, folder: str) -> SnapshotSummary:
    """Return what a driver's API says of a snapshot in a folder of its root."""
    return SnapshotSummary(
        kind=manifest.kind,
        id=manifest.id,
        location=f"{root.uri}/{folder}",
        trigger=manifest.trigger,
        triggered_at=manifest.triggered_at,
        completed_at=manifest.completed_at,
        size_bytes=0,
    )
