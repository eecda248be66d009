"""The parts of a start, and how they are put together once the state is ready.

Sinks are opened, queries start behind their gates, and the writer of snapshots and the loop get what they need.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import pyspark

from statefulspark import clock, errors, storage
from statefulspark._version import __version__
from statefulspark.checkpoint import plans, read_cache, watermarks
from statefulspark.contract import config, layout, statistics
from statefulspark.coordinator import machine, model
from statefulspark.declaration import Output
from statefulspark.driver import (
    commit,
    drain,
    hooks,
    job_sinks,
    kafka_offsets,
    notify,
    queries,
    snapshot_writer,
    writing,
)
from statefulspark.driver.loop import JobLoop
from statefulspark.driver.status import Board, Identity
from statefulspark.engine import jvm, session
from statefulspark.engine.canonical import online
from statefulspark.operators import functions
from statefulspark.operators.keyed import registry
from statefulspark.planning import carry, describe
from statefulspark.recovery.plan import Author

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from statefulspark.evolution.comparison import Evolution
    from statefulspark.recovery.plan import StartPlan
    from statefulspark.storage import ObjectStore, StorageOptions


@dataclass(frozen=True, slots=True)
class JobRoot:
    """Where the job's state is, and who may write it.

    Attributes:
        store: The job's root.
        options: How workers reach it.
        author: Under which epoch it was claimed, and by whom; None for somebody who only reads.
        seen: What has been read of it since the claim, until the job is built.
    """

    store: ObjectStore
    options: StorageOptions
    author: Author | None = None
    seen: read_cache.Look | None = None

    @property
    def claimed_by(self) -> Author:
        """The author; only asked for by what writes."""
        if self.author is None:
            raise errors.InternalError("NotClaimed", f"{self.store.uri} was not claimed, and is not ours to write.")
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
    """What its plan says about its state."""
    operators: tuple[registry.Operator, ...] = ()
    """Its keyed operators, as they were declared."""


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
    """A job that has a place for all of its state.

    Attributes:
        root: Where the state is.
        spark: The session.
        found: What the job goes on with.
        built: The job.
        changes: What becomes of each restored query, by uid.
    """

    root: JobRoot
    spark: SparkSession
    found: StartPlan
    built: Built
    changes: Mapping[str, Evolution]


@dataclass(frozen=True, slots=True)
class Parts:
    """What a start has found and made so far.

    Attributes:
        job_config: How to run the job.
        root: Where its state is, and the epoch.
        plan: What was restored, in which generation.
        built: Its queries, bound to what their functions restore.
        spark: The session.
        fence: It is up.
        started_at: When the driver started.
        declared: Functions and sources of the job that have state.
        master_hooks: Hooks that take part in its checkpoints.
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


def versions() -> dict[str, str]:
    """Return what writes the state, for manifests."""
    return {
        "statefulspark": __version__,
        "pyspark": pyspark.__version__,
        "python": platform.python_version(),
    }


def assemble(parts: Parts) -> JobLoop:
    """Commit what was prepared, start the queries, and make the loop that runs them."""
    gate = jvm.Gate(parts.spark)
    committer = _open_sinks(parts)
    announcer = _announcer(parts, committer)
    identity = _identity(parts)
    planner = drain.Planner(parts.root.store, parts.root.epoch, _now_ms)
    running = tuple(_start_query(one, parts, gate, committer, planner) for one in parts.built)
    return JobLoop(
        board=Board(
            identity,
            snapshot_writer.summarise_restored(parts.root.store, parts.plan.restored),
            config=statistics.EffectiveConfig.of(parts.job_config),
        ),
        running=running,
        gate=gate,
        fence=parts.fence,
        writer=_writer(parts, identity, running, committer, announcer),
        announcer=announcer,
        participants={**parts.declared.participants, **{f"sink:{one.uid}": one.query_uid for one in committer.sinks}},
        coordinator=_coordinator(parts),
        master_hooks=parts.master_hooks,
        refusals=parts.declared.refusals,
        planner=planner,
    )


def _open_sinks(parts: Parts) -> commit.Committer:
    """Open every sink of the job, and commit what the restored cut had prepared."""
    who = job_sinks.Driver(
        store=parts.root.store,
        options=parts.root.options,
        job=f"{parts.job_config.namespace}/{parts.job_config.name}",
        epoch=parts.root.epoch,
        generation=parts.plan.generation,
        descent=parts.plan.descent,
        takes_over_sinks=parts.job_config.restore.take_over_sinks,
    )
    outputs = [(one.uid, one.output) for one in parts.built if isinstance(one.output, Output)]
    committer = commit.Committer(
        who, [job_sinks.JobSink(who, uid, output.uid, writing.two_phase(output)) for uid, output in outputs]
    )
    committer.start(
        parts.plan.queries,
        allow_non_restored=parts.job_config.restore.allow_non_restored_state,
        functions=parts.declared.recorded,
    )
    return committer


def _announcer(parts: Parts, committer: commit.Committer) -> notify.Announcer:
    """Return who is told of a completed checkpoint: sinks, then functions, then consumer groups."""
    targets = [target for one in parts.built for target in kafka_offsets.targets(one.uid, one.stream.frame)]
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
    )


def _writer(
    parts: Parts,
    identity: Identity,
    running: tuple[queries.RunningQuery, ...],
    committer: commit.Committer,
    announcer: notify.Announcer,
) -> snapshot_writer.SnapshotWriter:
    place = parts.root
    operators = tuple(operator for one in parts.built for operator in one.operators)
    return snapshot_writer.SnapshotWriter(
        place.store,
        identity=identity,
        places=tuple(query.place for query in running),
        plans={one.uid: one.planned for one in parts.built},
        settings=parts.job_config.checkpoint,
        savepoint_location=parts.job_config.savepoint_location,
        open_store=lambda uri: storage.open_store(uri, place.options),
        versions=versions(),
        committer=committer,
        announcer=announcer,
        restored=parts.plan.queries,
        taker=online.Taker(parts.spark, place.store, place.options, operators),
    )


def _coordinator(parts: Parts) -> model.State:
    checkpoint = parts.job_config.checkpoint
    return machine.initial(
        model.Settings(
            interval_s=checkpoint.interval.total_seconds(),
            timeout_s=checkpoint.timeout.total_seconds(),
            min_pause_s=checkpoint.min_pause.total_seconds(),
            max_concurrent=checkpoint.max_concurrent,
            tolerable_failures=checkpoint.tolerable_failures,
            retained=checkpoint.retained,
        ),
        next_id=parts.plan.next_snapshot_id,
        retained=parts.plan.checkpoint_ids,
        first_commits=frozenset(query.uid for query in parts.built),
    )


def _start_query(
    one: BuiltQuery, parts: Parts, gate: jvm.Gate, committer: commit.Committer, planner: drain.Planner
) -> queries.RunningQuery:
    store = parts.root.store
    path = layout.query_root(parts.plan.generation, one.uid)
    where = queries.QueryPlace(one.uid, path, f"{session.hadoop_uri(store.uri)}/{path}")
    participant = None
    if isinstance(one.output, Output):
        participant = writing.SinkParticipant(
            committer.sink(one.uid, one.output.uid), committer, parts.declared.refusals
        )

    def register(logs: ObjectStore = store) -> None:
        committed = max(parts.plan.start_batches.get(one.uid, -1), watermarks.newest(logs, path, "commits"))
        planned = watermarks.newest(logs, path, "offsets")
        gate.register(where.root, last_offsets=planned, last_committed=committed)

    def begin(logs: ObjectStore = store) -> StreamingQuery:
        register(logs)
        return writing.start(one.output, uid=one.uid, checkpoint_root=where.root, participant=participant)

    def catch_up() -> StreamingQuery:
        register()
        return writing.start_catching_up(one.output, uid=one.uid, checkpoint_root=where.root, participant=participant)

    def held(logs: ObjectStore = store) -> StreamingQuery:
        register(logs)
        gate.close(where.root)
        return writing.start(one.output, uid=one.uid, checkpoint_root=where.root, participant=participant)

    # The plan saw these logs before the fence was up, and whoever was replaced may have written to them since.
    fenced = read_cache.Look(store)
    end = watermarks.find_end(fenced, path)
    is_held = end is not None and not end.is_committed
    if end is not None and end.is_committed:  # A stop that drained did not end the job.
        planner.plan_return(path)
        fenced = read_cache.Look(store)
    handle = held(fenced) if is_held else begin(fenced)
    further = queries.FurtherStarts(catch_up, held, has_event_time=describe.has_watermark(one.stream.frame))
    return queries.RunningQuery(where, begin, handle, gate.facts()[where.root], further, is_held)


def _now_ms() -> int:
    return int(clock.utc_now().timestamp() * 1000)
