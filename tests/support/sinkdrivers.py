"""Drivers of a job with a files sink, on stores in memory: everything that touches storage is real, only Spark is not."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
from manifests import a_manifest
from snapshots import Clock, Job
from sparkroot import FakeQuery
from statefulspark.checkpoint import catalog, closure, epochs, lineage_records, progress, savepoint
from statefulspark.contract import api
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import Manifest, QueryEntry, Trigger
from statefulspark.driver.output import commit, job_sinks
from statefulspark.driver.output.sink_rights import SinkRights
from statefulspark.driver.snapshots import notify
from statefulspark.recovery import generations, history
from statefulspark.sinks import files
from statefulspark.sinks.base import SinkContext, TwoPhaseSink
from statefulspark.sinks.files import commits as files_commits
from statefulspark.sinks.files.sink import FilesMachine
from statefulspark.storage import StorageOptions
from statefulspark.storage.port import ObjectStore

ROWS = 3
JOB = "default/flights"
QUERY, SINK = "delays", "out"
NAMED = (f"{QUERY}/{SINK}",)
"""The right to repeat the output of the sink."""
OUTPUT = "output"

Row = tuple[int, int]
"""A value, and the generation in which it was written."""
Rows = Callable[[int, int], Iterator[pa.RecordBatch]]
"""The rows of a batch of a generation."""


class MemoryFiles(FilesMachine):
    """A files sink whose folder is in memory."""

    def __init__(self, uri: str, *, folder: ObjectStore, **settings: Any) -> None:
        super().__init__(files.FilesSink(uri, **settings))
        self.folder = folder

    def store(self, context: SinkContext) -> ObjectStore:
        return self.folder


class Driver:
    """One start of the job, and what it does then, step by step."""

    def __init__(
        self,
        bucket: ObjectStore,
        clock: Clock,
        restore: RestoreConfig | None = None,
        *,
        sink: TwoPhaseSink | None = None,
        sink_uid: str = SINK,
        root: str = "",
        sinks: bool = True,
        visible: str = "checkpoint",
        output: str = OUTPUT,
        options: StorageOptions | None = None,
        rows: Rows | None = None,
        job: str = JOB,
        beside: str = "",
    ) -> None:
        """Start.

        Args that are not those of a start:
            beside: Folder of a second files sink of the query; none when empty.
        """
        self.rows = rows or _rows
        self.clock = clock
        self.job = Job(clock).on(bucket)
        self.job.store = bucket.child(f"{root}/{job}".lstrip("/"))
        wish = restore or RestoreConfig()
        self.plan = self.job.boot(restore)
        who = job_sinks.DriverAttempt(
            self.job.store,
            options or StorageOptions(),
            job,
            self.job.epoch,
            self.plan.generation,
            self.descent,
            claim_id=self.job.claim_id,
            rights=SinkRights.read(wish, self.plan.carried_out),
            history=history.trace(generations.read_all(self.job.store), self.plan.generation),
            restored=self.plan.restored,
        )

        def in_folder(name: str) -> MemoryFiles:
            folder = bucket.child(name)
            return MemoryFiles(f"memory://bucket/{name}", compression="none", visible=visible, folder=folder)

        self.sink = job_sinks.JobSink(who, QUERY, sink_uid, sink or in_folder(output))
        self.sinks = (self.sink, *([job_sinks.JobSink(who, QUERY, "beside", in_folder(beside))] if beside else []))
        self.committer = commit.Committer(who, self.sinks if sinks else [])
        self.announcer = notify.Announcer(self.committer)
        self.told: list[api.Progress] = []
        self.steps: list[str] = []
        self.committer.start(
            self.plan.queries,
            drop_state=restore.drop_state if restore else (),
            origin="checkpoint 7",
            begin_step=self._at,
        )
        if who.rights.granted:
            generations.remember(who.store, who.generation, who.rights.granted.values())
        self.query = FakeQuery(
            self.job.store,
            self.plan.generation,
            partitions=1,
            seed=self.job.epoch,
            batch=self.plan.start_batches.get(QUERY, -1),
        )

    def _at(self, step: str) -> progress.Report:
        self.steps.append(step)
        return self.told.append

    def prepare(self) -> int:
        """Do everything of a batch that comes before Spark commits it."""
        number = self.query.plan_batch()
        for of_query in self.sinks:
            context = of_query.context(number)
            part = of_query.sink.write_part(self.rows(number, self.plan.generation), context)
            parts = () if part is None else (part,)
            self.committer.sink(of_query.key).record_prepared(number, of_query.sink.prepare(parts, context))
        return number

    def batch(self, count: int = 1) -> None:
        """Run batches to their commit."""
        for _ in range(count):
            number = self.prepare()
            self.query.finish_batch(number, {"0": self.query.attempt(number)})

    def complete(self) -> Manifest:
        """Complete a checkpoint; nobody hears of it yet."""
        store, generation = self.job.store, self.plan.generation
        entry = self.closed_over()
        number = catalog.next_snapshot_id(store)
        self.announcer.snapshot_covers(number, (entry,))
        epochs.require_current(store, self.job.epoch)
        writer = {"generation": generation, "epoch": self.job.epoch, "claim": self.job.claim_id}
        manifest = a_manifest(number, [entry], now=self.clock.now, **writer).model_copy(update=self.origin)
        catalog.write_checkpoint(store, manifest)
        return manifest

    @property
    def descent(self) -> lineage_records.Descent:
        """Where its state comes from."""
        assert self.plan.descent is not None
        return self.plan.descent

    def closed_over(self) -> QueryEntry:
        """Return what a snapshot of the last committed batch says of the query."""
        closer = closure.ClosureBuilder(self.job.store, self.query.path)
        entry = closer.close_over(self.query.batch, self.committer.named_after(QUERY))
        return entry.model_copy(update={"sinks": self.committer.sink_entries(entry)})

    @property
    def origin(self) -> dict[str, object]:
        """Which root the driver's snapshots are of, as their manifests say it."""
        found = self.descent
        return {"lineage": found.lineage, "root": self.job.store.uri, "ancestors": found.ancestors}

    def savepoint(self) -> str:
        """Take a savepoint of the last committed batch, commit nothing, and return its URI."""
        entry = self.closed_over()
        number = catalog.next_snapshot_id(self.job.store)
        request = savepoint.SavepointProperties(
            id=number,
            namespace="default",
            job="flights",
            trigger=Trigger.MANUAL,
            epoch=self.job.epoch,
            generation=self.plan.generation,
            triggered_at=self.clock.now,
            **self.origin,  # type: ignore[arg-type]
        )
        target = savepoint.resolve_target(self.job.store, request)
        savepoint.take_savepoint(self.job.store, [entry], request, target, completed_at=lambda: self.clock.now)
        return target.uri

    def show(self) -> None:
        """Do what the loop does when it sees a committed batch."""
        batches = {QUERY: self.query.batch}
        for sink in self.announcer.due_sinks(batches):
            self.announcer.commit(sink, batches)

    def checkpoint(self) -> Manifest:
        """Complete a checkpoint and announce it."""
        manifest = self.complete()
        self.announce(manifest.id)
        return manifest

    def announce(self, snapshot_id: int) -> None:
        """Do what the loop does when a checkpoint is complete, one lane after the other."""
        self.announcer.snapshot_completed(snapshot_id)
        self.show()
        self.announcer.notify_complete(snapshot_id)


def visible(bucket: ObjectStore, output: str = OUTPUT) -> list[Row]:
    """Return what a reader of the sink's folder sees."""
    folder = bucket.child(output)
    listed = [file for commit in files_commits.read_commits(folder) for file in commit.files]
    return [row for file in listed for row in _read(folder, file.path)]


def expected(*generations: tuple[int, int]) -> list[Row]:
    """Return the rows of so many batches of each generation, one after the other."""
    of_batches = [generation for generation, count in generations for _ in range(count)]
    return [(batch * ROWS + row, generation) for batch, generation in enumerate(of_batches) for row in range(ROWS)]


def _rows(batch: int, generation: int) -> Iterator[pa.RecordBatch]:
    values = list(range(batch * ROWS, (batch + 1) * ROWS))
    yield pa.RecordBatch.from_pydict({"value": values, "generation": [generation] * ROWS})


def _read(folder: ObjectStore, path: str) -> list[Row]:
    table = parquet.read_table(io.BytesIO(folder.read(path)))
    return list(zip(table["value"].to_pylist(), table["generation"].to_pylist(), strict=True))
