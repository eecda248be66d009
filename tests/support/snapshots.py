"""Builders of checkpoints and plans for tests of snapshots, on a store in memory with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sparkroot import FakeQuery
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import Manifest, QueryEntry, SnapshotKind, Trigger
from statefulspark.snapshot import catalog, closure, recovery
from statefulspark.storage.port import ObjectStore
from statefulspark.testing import stores


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now


@dataclass
class Job:
    """A job on storage: its store, its clock, and the driver that runs now."""

    clock: Clock = field(default_factory=Clock)
    epoch: int = 0
    bucket: stores.MemoryStore = field(init=False)
    store: ObjectStore = field(init=False)

    def __post_init__(self) -> None:
        self.bucket = stores.MemoryStore("memory://bucket", self.clock)
        self.store = self.bucket.child("default/flights")

    def open_store(self, uri: str) -> ObjectStore:
        prefix = uri.removeprefix("memory://bucket").strip("/")
        return self.bucket.child(prefix)

    def author(self) -> recovery.Author:
        return recovery.Author("default", "flights", max(self.epoch, 1), self.clock.now)

    def plan(
        self,
        restore: RestoreConfig | None = None,
        query_uids: Sequence[str] | None = None,
        store: ObjectStore | None = None,
    ) -> recovery.StartPlan:
        return recovery.plan_recovery(
            store or self.store,
            restore=restore or RestoreConfig(),
            query_uids=query_uids,
            open_store=self.open_store,
        )

    def start(
        self,
        restore: RestoreConfig | None = None,
        query_uids: Sequence[str] | None = None,
        store: ObjectStore | None = None,
    ) -> recovery.StartPlan:
        """Do what a driver does at its start."""
        self.epoch += 1
        plan = self.plan(restore, query_uids, store)
        return recovery.carry_out(store or self.store, plan, self.author())

    def checkpoint(self, *queries: FakeQuery, trigger: Trigger = Trigger.PERIODIC) -> Manifest:
        """Do what a driver does for a checkpoint."""
        entries = tuple(closure.close_over(self.store, query.path, query.batch) for query in queries)
        manifest = a_manifest(
            catalog.next_snapshot_id(self.store),
            entries,
            now=self.clock.now,
            generation=queries[0].generation,
            trigger=trigger,
        )
        catalog.write_checkpoint(self.store, manifest)
        return manifest


def a_manifest(
    number: int = 1,
    queries: Sequence[QueryEntry] = (),
    *,
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC),
    generation: int = 1,
    trigger: Trigger = Trigger.PERIODIC,
    kind: SnapshotKind = SnapshotKind.CHECKPOINT,
) -> Manifest:
    """Build a manifest that names only what matters."""
    return Manifest(
        kind=kind,
        id=number,
        namespace="default",
        job="flights",
        trigger=trigger,
        epoch=1,
        generation=generation,
        triggered_at=now,
        completed_at=now,
        queries=tuple(queries),
    )
