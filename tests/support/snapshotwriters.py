"""Builders of what writes a driver's snapshots, and of its orders."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from manifests import NEW_YEAR
from statefulspark.contract import api, config
from statefulspark.contract.manifest import SnapshotKind, Trigger
from statefulspark.coordinator import model
from statefulspark.driver import status
from statefulspark.driver.running import queries
from statefulspark.driver.snapshots import snapshot_writer

if TYPE_CHECKING:
    from snapshots import Job
    from sparkroot import FakeQuery
    from statefulspark.driver.output import commit
    from statefulspark.driver.snapshots import notify


def a_writer(job: Job, query: FakeQuery, **changes: object) -> snapshot_writer.SnapshotWriter:
    """Build the writer of a driver with one query, whose sinks have nothing to commit unless a committer is given."""
    driver = ("flights", "default", job.epoch, query.generation, None, job.clock.now, None, None)
    identity = status.Identity(*driver, claim=job.claim_id)
    given: dict[str, object] = {
        "identity": identity,
        "locations": (queries.CheckpointLocation(query.uid, query.path, "root"),),
        "plans": {},
        "settings": config.CheckpointConfig(),
        "savepoint_location": None,
        "open_store": job.open_store,
        "versions": {},
        "committer": cast("commit.Committer", SimpleNamespace(named_after=lambda _: {}, sink_entries=lambda _: ())),
        "announcer": cast("notify.Announcer", SimpleNamespace(snapshot_covers=None, forget=lambda _: None)),
    }
    return snapshot_writer.SnapshotWriter(job.store, **(given | changes))  # type: ignore[arg-type]


def an_order(
    number: int = 1, kind: SnapshotKind = SnapshotKind.CHECKPOINT, *, now: datetime = NEW_YEAR
) -> snapshot_writer.SnapshotOrder:
    """Build the order of a snapshot that somebody has asked for."""
    asked = api.SavepointRequest if kind is SnapshotKind.SAVEPOINT else api.CheckpointRequest
    return snapshot_writer.SnapshotOrder(
        number, model.Request("a", kind, Trigger.MANUAL, 0.0), now, asked(request_id="a")
    )
