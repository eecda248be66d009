"""The parts of a start, and the function that puts them together once the state is ready.

It opens the sinks, starts the queries behind their gates, and builds the snapshot writer and the job loop.
"""

from __future__ import annotations

import functools
import logging
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

import pyspark

from statefulspark import clock, errors, storage
from statefulspark._version import __version__
from statefulspark.checkpoint import lineage_records, plans, progress, read_cache, watermarks
from statefulspark.contract import config, layout, statistics
from statefulspark.coordinator import machine, model
from statefulspark.declaration import Output
from statefulspark.driver.api.status import Identity, JobStatusTracker
from statefulspark.driver.loop import JobLoop
from statefulspark.driver.output import commit, job_sinks, writing
from statefulspark.driver.running import drain, hooks, queries, quiesce
from statefulspark.driver.snapshots import kafka_offsets, notify, snapshot_writer
from statefulspark.driver.starting import sink_word
from statefulspark.engine import jvm, session
from statefulspark.engine.canonical import online
from statefulspark.operators import functions
from statefulspark.operators.keyed import packplaces, registry
from statefulspark.planning import carry, describe
from statefulspark.recovery import generations, history, numbers, restore
from statefulspark.recovery.plan import Author

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from statefulspark.evolution.comparison import Evolution
    from statefulspark.recovery.plan import StartPlan
    from statefulspark.storage import ObjectStore, StorageOptions

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobRoot:
    """The location of the job's state, and the driver that may write it.

    Attributes:
        store: The job's root.
        options: How workers reach it.
        author: The epoch of the claim and who holds it; None for a reader.
        seen: What was read from the root since the claim; dropped before the job is built.
    """

    store: ObjectStore
    options: StorageOptions
    author: Author | None = None
    seen: read_cache.ReadCache | None = None

    @property
    def claimed_by(self) -> Author:
        """The author; only writers ask for it."""
        if self.author is None:
            raise errors.InternalError(
                "NotClaimed", f"{self.store.uri} was not claimed; this process must not write to it."
            )
        return self.author

    @property
    def epoch(self) -> int:
        """The epoch under which it was claimed."""
        return self.claimed_by.epoch


@dataclass(frozen=True, slots=True)
class BuiltQuery:
    """A query as its function returned it, not started yet."""

    uid: str
    output: DataStreamWriter | Output
    stream: carry.Stream
    """What it writes."""
    planned: plans.PlannedQuery
    """Its state, as its plan describes it."""
    operators: tuple[registry.Operator, ...] = ()
    """Its keyed operators, as declared."""


@dataclass(frozen=True, slots=True)
class Built:
    """What the job file's functions returned.

    Attributes:
        queries: Its queries, not started yet.
        functions: Its functions and sources on the driver.
        master_hooks: Its master hooks, none of them called yet.
    """

    queries: tuple[BuiltQuery, ...]
    functions: functions.JobFunctions
    master_hooks: hooks.JobHooks


@dataclass(frozen=True, slots=True)
class Comparison:
    """A job whose queries can restore all of its state.

    Attributes:
        root: Where the state is.
        spark: The session.
        start_plan: Where the job continues.
        built: The job.
        changes: How the state of each restored query changes, by uid.
    """

    root: JobRoot
    spark: SparkSession
    start_plan: StartPlan
    built: Built
    changes: Mapping[str, Evolution]


@dataclass(frozen=True, slots=True)
class Parts:
    """What a start has read and built so far.

    Attributes:
        job_config: How to run the job.
        root: The location of its state, and the epoch.
        plan: What was restored, in which generation.
        built: Its queries, bound to what their functions restore.
        spark: The session.
        fence: The fence, which is up.
        started_at: When the driver started.
        declared: Functions and sources of the job that have state.
        master_hooks: Hooks that take part in its checkpoints.
        shows_first_batches: Whether a checkpoint is taken as soon as each query has committed a batch; a test of a job says
            when one is taken.
    """

    job_config: config.JobConfig
    root: JobRoot
    plan: StartPlan
    built: tuple[BuiltQuery, ...]
    spark: SparkSession
    fence: jvm.Fence
    started_at: datetime
    declared: functions.JobFunctions
    master_hooks: hooks.JobHooks = field(default_factory=hooks.JobHooks)
    shows_first_batches: bool = True

    @property
    def descent(self) -> lineage_records.Descent:
        """Where the state of the generation comes from; every plan that was carried out has it."""
        if self.plan.descent is None:
            raise errors.InternalError("Unexpected", f"Generation {self.plan.generation} has no descent.")
        return self.plan.descent


def versions() -> dict[str, str]:
    """Return the versions of the software that writes the state, for manifests."""
    return {
        "statefulspark": __version__,
        "pyspark": pyspark.__version__,
        "python": platform.python_version(),
    }


def assemble(parts: Parts, *, begin_step: progress.BeginStep = progress.ignore_steps) -> JobLoop:
    """Commit the prepared transactions, start the queries, and build the loop that runs them."""
    gate = jvm.Gate(parts.spark)
    committer = _open_sinks(parts, begin_step)
    announcer = _announcer(parts, committer)
    identity = _identity(parts)
    planner = drain.Planner(parts.root.store, parts.root.epoch, _now_ms)
    running = tuple(_started(parts, gate, committer, planner, begin_step=begin_step))
    _log.info("queries started", extra={"queries": len(running)})
    return JobLoop(
        status_tracker=JobStatusTracker(
            identity,
            snapshot_writer.summarise_restored(parts.root.store, parts.plan.restored),
            config=statistics.EffectiveConfig.of(parts.job_config),
        ),
        gated_queries=quiesce.GatedQueries(running, gate, planner),
        fence=parts.fence,
        writer=_writer(parts, identity, running, committer, announcer),
        announcer=announcer,
        participants={
            **parts.declared.participants,
            **{f"sink:{sink.uid}": sink.query_uid for sink in committer.sinks},
        },
        coordinator=_coordinator(parts),
        master_hooks=parts.master_hooks,
        refusals=parts.declared.refusals,
    )


def _started(
    parts: Parts, gate: jvm.Gate, committer: commit.Committer, planner: drain.Planner, *, begin_step: progress.BeginStep
) -> Iterator[queries.RunningQuery]:
    """Start every query, one after the other."""
    origin = parts.plan.restored_from or "empty state"
    is_started = progress.count_units("queries", len(parts.built), begin_step(f"Starting the queries from {origin}"))
    for query in parts.built:
        yield _start_query(query, parts, gate, committer, planner)
        is_started()


def _open_sinks(parts: Parts, begin_step: progress.BeginStep) -> commit.Committer:
    """Open every sink of the job, and commit the prepared transactions of the restored snapshot."""
    attempt = job_sinks.DriverAttempt(
        store=parts.root.store,
        options=parts.root.options,
        job=f"{parts.job_config.namespace}/{parts.job_config.name}",
        epoch=parts.root.epoch,
        generation=parts.plan.generation,
        descent=parts.descent,
        claim_id=parts.root.claimed_by.claim_id,
        takes_over_sinks=parts.job_config.restore.may_take_over_sinks(parts.plan.carried_out),
    )
    outputs = [(query.uid, query.output) for query in parts.built if isinstance(query.output, Output)]
    if outputs:
        attempt = replace(attempt, history=history.of(generations.read_all(attempt.store), attempt.generation))
    committer = commit.Committer(
        attempt, [job_sinks.JobSink(attempt, uid, output.uid, writing.two_phase(output)) for uid, output in outputs]
    )
    with sink_word.explaining(parts.job_config.restore, parts.plan):
        committer.start(
            parts.plan.queries,
            allow_non_restored=parts.job_config.restore.allow_non_restored_state,
            functions=parts.declared.recorded,
            origin=parts.plan.restored_from,
            begin_step=begin_step,
        )
    if outputs and attempt.takes_over_sinks:
        generations.remember(attempt.store, attempt.generation, parts.job_config.restore.sinks_key)
    return committer


def _announcer(parts: Parts, committer: commit.Committer) -> notify.Announcer:
    """Return what notifies sinks, then functions, then consumer groups of a completed checkpoint."""
    targets = [target for query in parts.built for target in kafka_offsets.targets(query.uid, query.stream.frame)]
    publish = [kafka_offsets.OffsetPublisher(parts.spark, targets).publish] if targets else []
    return notify.Announcer(committer, [parts.declared], publish)


def _identity(parts: Parts) -> Identity:
    return Identity(
        job=parts.job_config.name,
        namespace=parts.job_config.namespace,
        epoch=parts.root.epoch,
        generation=parts.plan.generation,
        revision=parts.job_config.revision,
        started_at=parts.started_at,
        restored_from=parts.plan.restored_from,
        fallback=parts.plan.fallback,
        descent=parts.plan.descent,
        restore_skipped=parts.plan.restore_skipped,
        claim=parts.root.claimed_by.claim_id,
    )


def _writer(
    parts: Parts,
    identity: Identity,
    running: tuple[queries.RunningQuery, ...],
    committer: commit.Committer,
    announcer: notify.Announcer,
) -> snapshot_writer.SnapshotWriter:
    root = parts.root
    operators = tuple(operator for query in parts.built for operator in query.operators)
    return snapshot_writer.SnapshotWriter(
        root.store,
        identity=identity,
        locations=tuple(query.location for query in running),
        plans={query.uid: query.planned for query in parts.built},
        settings=parts.job_config.checkpoint,
        savepoint_location=parts.job_config.savepoint_location,
        open_store=lambda uri: storage.open_store(uri, root.options),
        versions=versions(),
        committer=committer,
        announcer=announcer,
        restored=parts.plan.queries,
        canonical_writer=online.CanonicalWriter(parts.spark, root.store, root.options, operators),
    )


def _coordinator(parts: Parts) -> model.State:
    checkpoint = parts.job_config.checkpoint
    return machine.initial(
        model.CoordinatorSettings(
            interval_s=checkpoint.interval.total_seconds(),
            timeout_s=checkpoint.timeout.total_seconds(),
            min_pause_s=checkpoint.min_pause.total_seconds(),
            max_concurrent=checkpoint.max_concurrent,
            tolerable_failures=checkpoint.tolerable_failures,
            retained=checkpoint.retained,
        ),
        next_id=parts.plan.next_snapshot_id,
        retained=parts.plan.checkpoint_ids,
        untried=frozenset(parts.plan.untried_ids),
        restored=restore.restored_batches(parts.plan.queries),
        first_commits=frozenset(query.uid for query in parts.built if parts.shows_first_batches),
    )


def _start_query(
    query: BuiltQuery, parts: Parts, gate: jvm.Gate, committer: commit.Committer, planner: drain.Planner
) -> queries.RunningQuery:
    store = parts.root.store
    path = layout.query_root(parts.plan.generation, query.uid)
    location = queries.CheckpointLocation(query.uid, path, f"{session.hadoop_uri(store.uri)}/{path}")
    number_offset = numbers.offset(parts.plan.record, query.uid) if parts.plan.record else 0
    participant = None
    if isinstance(query.output, Output):
        participant = writing.SinkParticipant(
            committer.sink(query.uid, query.output.uid), committer, parts.declared.refusals
        )

    def register(logs: ObjectStore = store) -> None:
        committed = max(parts.plan.start_batches.get(query.uid, -1), watermarks.newest(logs, path, "commits"))
        planned = watermarks.newest(logs, path, "offsets")
        gate.register(location.root, last_offsets=planned, last_committed=committed)
        packed = packplaces.packed_operators(logs, path)
        packplaces.tell_tasks(parts.spark, location.root, parts.root.epoch, packed)

    def started() -> StreamingQuery:
        handle = writing.start(
            query.output,
            uid=query.uid,
            checkpoint_root=location.root,
            participant=participant,
            number_offset=number_offset,
        )
        return jvm.with_steady_clock(parts.spark, handle)

    def begin(logs: ObjectStore = store) -> StreamingQuery:
        register(logs)
        return started()

    def catch_up() -> StreamingQuery:
        register()
        return writing.start_available_now(
            query.output,
            uid=query.uid,
            checkpoint_root=location.root,
            participant=participant,
            number_offset=number_offset,
        )

    def held(logs: ObjectStore = store) -> StreamingQuery:
        register(logs)
        gate.close(location.root)
        return started()

    # The plan read these logs before the fence was up; the replaced driver may have written to them since.
    fenced = read_cache.ReadCache(store)
    end = watermarks.find_end(fenced, path)
    is_held = end is not None and not end.is_committed
    if end is not None and end.is_committed:  # A stop had drained the query, but did not end the job.
        planner.plan_return(path)
        fenced = read_cache.ReadCache(store)
    handle = held(fenced) if is_held else begin(fenced)
    alternatives = queries.AlternativeStarts(catch_up, held, has_event_time=describe.has_watermark(query.stream.frame))
    return queries.RunningQuery(
        location,
        begin,
        handle,
        gate.facts()[location.root],
        alternatives,
        is_held,
        on_lost=functools.partial(committer.leave_lost, query.uid),
        # A function has changed its state with the batch that was lost; only a start gives it the winner's.
        survives_lost_races=query.uid not in parts.declared.recorded,
    )


def _now_ms() -> int:
    return int(clock.utc_now().timestamp() * 1000)
