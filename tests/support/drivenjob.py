"""A driver of several queries on storage in memory: everything is real but Spark, which is a gate that runs batches.

The claim, the recovery, the loop, the coordinator, the writer of snapshots and the announcer are the product's. Every look
of the loop at its queries commits one batch of each whose gate is open, until the test says that its input ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from looprig import LoopRig, SparkHandle
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import clock, errors, storage
from statefulspark.checkpoint import catalog, lineage_records
from statefulspark.contract.config import CheckpointConfig, JobConfig, StorageConfig
from statefulspark.contract.manifest import Manifest
from statefulspark.driver.loop import JobLoop
from statefulspark.driver.output import commit, job_sinks
from statefulspark.driver.running import queries, quiesce
from statefulspark.driver.snapshots import notify, snapshot_writer
from statefulspark.driver.starting import assemble, start_parts
from statefulspark.driver.status import JobStatusTracker
from statefulspark.engine import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from statefulspark.engine.canonical import online
    from statefulspark.operators import functions

NEVER = CheckpointConfig(interval=timedelta(days=1), min_pause=timedelta(days=1))
"""No periodic checkpoint comes while a test runs."""


@dataclass
class SimulatedQuery(SparkHandle):
    """One query, and Spark's handle of it."""

    root: FakeQuery
    ends_after: int | None = None
    """Its last batch, if its input ends."""
    is_open: bool = True
    is_stopped: bool = False
    failure: str | None = None
    last_commit_at: datetime | None = None
    """Of this driver."""

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        return not self.is_stopped and self.failure is None and not self.has_ended

    @property
    def has_ended(self) -> bool:
        return self.ends_after is not None and self.root.batch >= self.ends_after

    def stop(self) -> None:
        self.is_stopped = True

    def turn(self) -> jvm.GateFact:
        """Commit a batch if there is one to commit, and say where the query is."""
        if self.is_open and self.isActive:
            self.root.run_batch()
            self.last_commit_at = clock.utc_now()
        batch = self.root.batch
        return jvm.GateFact(batch, batch, self.last_commit_at, at_boundary=not self.is_open)


@dataclass
class SimulatedGate:
    """The gate of every query, by its uid."""

    queries: Mapping[str, SimulatedQuery]
    looks: int = 0

    def close(self, root: str) -> None:
        self.queries[root].is_open = False

    def open(self, root: str) -> None:
        self.queries[root].is_open = True

    def facts(self) -> dict[str, jvm.GateFact]:
        self.looks += 1
        return {uid: query.turn() for uid, query in self.queries.items()}


@dataclass
class Hearer:
    """Hears of snapshots, and may keep the announcement of one waiting."""

    before_complete: Callable[[], None] = lambda: None
    heard: list[str] = field(default_factory=list)

    def snapshot_begun(self, snapshot_id: int) -> None:
        self.heard.append(f"begun {snapshot_id}")

    def snapshot_covers(self, snapshot_id: int, queries: Sequence[object]) -> None:
        pass

    def notify_complete(self, checkpoint_id: int) -> None:
        self.before_complete()
        self.heard.append(f"complete {checkpoint_id}")

    def notify_aborted(self, checkpoint_id: int) -> None:
        self.heard.append(f"aborted {checkpoint_id}")


class DrivenJob(LoopRig):
    """One driver; `running` starts it."""

    def __init__(
        self,
        job: Job,
        roots: Mapping[str, FakeQuery],
        *,
        checkpoint: CheckpointConfig = NEVER,
        ends: Mapping[str, int] | None = None,
        canonical_writer: object = None,
        hearer: Hearer | None = None,
        first_commits: frozenset[str] = frozenset(),
    ) -> None:
        self.job = job
        self.hearer = hearer or Hearer()
        self.plan = job.boot()
        batches = {entry.uid: entry.batch_id for entry in self.plan.queries}
        self.queries = {
            uid: SimulatedQuery(
                root.continue_in(self.plan.generation, batches[uid])
                if uid in batches
                else FakeQuery(job.store, self.plan.generation, uid),
                (ends or {}).get(uid),
            )
            for uid, root in roots.items()
        }
        self.gate = SimulatedGate(self.queries)
        super().__init__(self._assembled(checkpoint, canonical_writer, first_commits))

    def _assembled(
        self, checkpoint: CheckpointConfig, canonical_writer: object, first_commits: frozenset[str]
    ) -> JobLoop:
        parts = start_parts.Parts(
            job_config=JobConfig(name="flights", storage=StorageConfig(uri="s3://bucket"), checkpoint=checkpoint),
            root=start_parts.JobRoot(self.job.store, storage.StorageOptions(), self.job.author()),
            plan=self.plan,
            built=(),
            spark=cast("SparkSession", None),
            fence=cast("jvm.Fence", SimpleNamespace(fenced=False)),
            started_at=self.job.clock.now,
            declared=cast("functions.JobFunctions", None),
        )
        descent = lineage_records.Descent("0wn", self.plan.generation)
        who = job_sinks.DriverAttempt(
            self.job.store, parts.root.options, "default/flights", self.job.epoch, self.plan.generation, descent
        )
        committer = commit.Committer(who, [])
        committer.start(self.plan.queries)
        announcer = notify.Announcer(committer, [self.hearer])
        identity = assemble.build_identity(parts)
        running = tuple(self._running(uid) for uid in self.queries)
        writer = assemble.build_writer(parts, identity, running, committer, announcer)
        if canonical_writer is not None:
            writer._canonical_writer = cast("online.CanonicalWriter", canonical_writer)
        return JobLoop(
            status_tracker=JobStatusTracker(
                identity, snapshot_writer.summarise_restored(self.job.store, self.plan.restored)
            ),
            gated_queries=quiesce.GatedQueries(running, cast("jvm.Gate", self.gate), None),
            fence=parts.fence,
            writer=writer,
            announcer=announcer,
            participants={},
            note_damage=lambda *_: None,
            coordinator=replace(assemble.build_coordinator(parts), first_commits=first_commits),
        )

    def _running(self, uid: str) -> queries.RunningQuery:
        query = self.queries[uid]
        place = queries.CheckpointLocation(uid, query.root.path, uid)
        handle = cast("StreamingQuery", query)
        fact = jvm.GateFact(query.root.batch, query.root.batch, last_commit_at=None, at_boundary=False)
        return queries.RunningQuery(place, lambda: handle, handle, fact)

    def turns(self, count: int = 10) -> None:
        """Let a query whose input has no end commit some batches."""
        endless = next(query.root for query in self.queries.values() if query.ends_after is None)
        aim = endless.batch + count
        self.until(lambda: endless.batch >= aim)

    def looks(self, count: int) -> None:
        """Let the loop look at its queries some times."""
        aim = self.gate.looks + count
        self.until(lambda: self.gate.looks >= aim)

    def close(self) -> None:
        self.hearer.before_complete = lambda: None
        self.drained()

    def manifests(self) -> list[Manifest]:
        """Every snapshot on storage, newest first; one that is retired meanwhile is left out."""
        found = []
        for ref in catalog.list_snapshots(self.job.store):
            with contextlib.suppress(errors.ObjectNotFoundError):
                found.append(catalog.read_manifest(self.job.store, ref.folder))
        return found

    def batches(self) -> dict[str, int]:
        return {uid: query.root.batch for uid, query in self.queries.items()}

    def roots(self) -> dict[str, FakeQuery]:
        """The queries' roots, for the driver that follows this one."""
        return {uid: query.root for uid, query in self.queries.items()}


def cut_of(manifest: Manifest) -> dict[str, int]:
    """Return the committed batch of every query in a snapshot."""
    return {query.uid: query.batch_id for query in manifest.queries}


def new_roots(job: Job, *uids: str) -> dict[str, FakeQuery]:
    return {uid: FakeQuery(job.store, uid=uid) for uid in uids or ("delays", "counts")}


@contextmanager
def running(driver: DrivenJob) -> Iterator[DrivenJob]:
    """Run a driver while the block runs; it drains afterwards, if it has not ended."""
    driver.start()
    try:
        yield driver
    finally:
        driver.close()
