"""Builders of checkpoints and plans for tests of snapshots, on a store in memory with a clock that the test moves."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import etags
import pytest
from manifests import a_manifest
from sparkroot import FakeQuery
from statefulspark.checkpoint import catalog, closure, epochs, lineage_records, read_cache, savepoint
from statefulspark.contract import layout
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import EpochRecord, Manifest, OwnerRecord, SnapshotKind, Trigger
from statefulspark.recovery import ahead, copies, recovery
from statefulspark.recovery.plan import Author, ReadyState, RecoveryPlan, move_to_new_generation
from statefulspark.recovery.restore import carry_out, settle
from statefulspark.storage.port import ObjectStore
from statefulspark.testing import stores

_CLAIMS = itertools.count(1)


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
    lineages: lineage_records.Lineages = field(default_factory=lineage_records.Lineages)
    etag_of: etags.EtagOf = etags.plain
    claim_id: str = ""
    bucket: ObjectStore = field(init=False)
    store: ObjectStore = field(init=False)

    def __post_init__(self) -> None:
        self.bucket = stores.MemoryStore("memory://bucket", self.clock, self.etag_of)
        self.store = self.bucket.child("default/flights")

    def open_store(self, uri: str) -> ObjectStore:
        return self.bucket.child(uri.removeprefix(self.bucket.uri).strip("/"))

    def author(self) -> Author:
        return Author(
            "default", "flights", max(self.epoch, 1), self.clock.now, lineages=self.lineages, claim_id=self.claim_id
        )

    def plan(
        self,
        restore: RestoreConfig | None = None,
        query_uids: Sequence[str] | None = None,
        store: ObjectStore | None = None,
    ) -> RecoveryPlan:
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
    ) -> ReadyState:
        """Do what a driver does at its start."""
        self.epoch += 1
        self.hold_epoch(store)
        plan = self.plan(restore, query_uids, store)
        where, author = store or self.store, self.author()
        return carry_out(where, settle(where, plan, author), author)

    def hold_epoch(self, store: ObjectStore | None = None) -> None:
        """Make sure that the record of the driver's epoch is there, as it is behind a claim."""
        epoch = max(self.epoch, 1)
        where = store or self.store
        is_first = where.info(layout.epoch(epoch - 1)) is None
        follows = f"start {epoch - 1}" if is_first else epochs.read(where, epoch - 1).claim_id
        record = EpochRecord(
            epoch=epoch,
            claimed_at=self.clock.now,
            holder="pod",
            claim_id=f"start {epoch}",
            follows=follows if epoch > 1 else None,
        )
        if where.info(layout.epoch(epoch)) is None:
            where.write(layout.epoch(epoch), record.to_json().encode())
        self.claim_id = epochs.read(where, epoch).claim_id

    def on(self, bucket: ObjectStore) -> Job:
        """Return the same job as a process sees it that reaches storage through something else."""
        seen = Job(self.clock, self.epoch)
        seen.bucket, seen.store = bucket, bucket.child("default/flights")
        return seen

    def boot(
        self,
        restore: RestoreConfig | None = None,
        *,
        changes: tuple[str, ...] = (),
        carried: copies.Carried | None = None,
    ) -> ReadyState:
        """Do everything on storage that a driver does at its start: owner, epoch, plan, generation.

        Args:
            restore: What was asked for.
            changes: How the job's plan has changed.
            carried: What the driver has carried ahead, if it was a standby.
        """
        where = self.store
        owner = OwnerRecord(namespace="default", job="flights", owner_id="uid", created_at=self.clock.now)
        epochs.ensure_owner(where, owner)
        self.claim_id = f"claim {next(_CLAIMS)}"
        self.epoch = epochs.claim(where, assigned=None, holder="pod", claim_id=self.claim_id, now=self.clock.now)
        cache = read_cache.ReadCache(where)
        self.lineages = lineage_records.ensure(
            where, lineage=uuid.uuid4().hex, epoch=self.epoch, now=self.clock.now, cache=cache
        )
        wish = restore or RestoreConfig()
        author = replace(self.author(), carried=carried)
        plan = recovery.find_start(where, author, restore=wish, open_store=self.open_store, cache=cache)
        return carry_out(where, move_to_new_generation(plan, changes) if changes else plan, author)

    def cargo(self, manifest: Manifest | None = None) -> ahead.Cargo:
        """Return what a standby with a changed plan carries ahead: the newest checkpoint, unless one is given."""
        refs = [ref for ref in catalog.list_snapshots(self.store) if ref.kind is SnapshotKind.CHECKPOINT]
        newest = manifest or catalog.read_manifest(self.store, max(refs, key=lambda ref: ref.id).folder)
        return ahead.Cargo(newest.queries, newest.generation, max(self.epoch, 1), {})

    def running(self, batches: int = 0) -> FakeQuery:
        """Start the job, and run some batches of its query."""
        query = FakeQuery(self.store, self.start().generation)
        for _ in range(batches):
            query.run_batch()
        return query

    def savepoint_request(self, number: int | None = None, **changes: object) -> savepoint.SavepointProperties:
        """Return what a person's wish for a savepoint becomes: the next one, unless a number is given."""
        epoch = max(self.epoch, 1)
        number = number or catalog.next_snapshot_id(self.store)
        request = savepoint.SavepointProperties(number, "default", "flights", Trigger.MANUAL, epoch, 1, self.clock.now)
        return replace(request, **changes)  # type: ignore[arg-type]

    def savepoint(
        self, query: FakeQuery, number: int | None = None, *, location: str | None = None, **changes: object
    ) -> savepoint.SavepointTarget:
        """Do what a driver does for a savepoint: copy ahead, then the difference, then the manifest."""
        where = self.store
        request = self.savepoint_request(number, generation=query.generation, **changes)
        place = savepoint.resolve_target(where, request, location=location, open_store=self.open_store)
        entry = closure.close_over(where, query.path, query.batch)
        savepoint.copy_missing(where, [entry], place)
        savepoint.take_savepoint(where, [entry], request, place, completed_at=self.clock)
        return place

    def checkpoint(
        self,
        *queries: FakeQuery,
        trigger: Trigger = Trigger.PERIODIC,
        number: int | None = None,
        untried: tuple[str, ...] = (),
    ) -> Manifest:
        """Do what a driver does for a checkpoint."""
        where = self.store
        entries = tuple(closure.close_over(where, query.path, query.batch) for query in queries)
        epochs.require_current(where, max(self.epoch, 1))
        manifest = a_manifest(
            number or catalog.next_snapshot_id(where),
            entries,
            now=self.clock.now,
            generation=queries[0].generation,
            epoch=max(self.epoch, 1),
            claim=self.claim_id,
            trigger=trigger,
            untried=untried,
        )
        catalog.write_checkpoint(where, manifest)
        return manifest


@pytest.fixture
def job() -> Job:
    """A job that was never started, on an empty bucket."""
    return Job()
