"""Puts the parts of a start together once the state is ready.

It opens the sinks, starts the queries behind their gates, and builds the snapshot writer and the job loop.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from statefulspark import clock, storage
from statefulspark.checkpoint import progress, read_cache, watermarks
from statefulspark.contract import layout, statistics
from statefulspark.contract import manifest as manifests
from statefulspark.coordinator import machine, model
from statefulspark.declaration import QueryOutputs, outputs_of
from statefulspark.driver.loop import JobLoop
from statefulspark.driver.output import commit, job_sinks, writing
from statefulspark.driver.output.sink_rights import SinkRights
from statefulspark.driver.running import queries, quiesce
from statefulspark.driver.snapshots import kafka_offsets, notify, snapshot_writer
from statefulspark.driver.starting import asides
from statefulspark.driver.starting.start_parts import BuiltQuery, Parts
from statefulspark.driver.status import Identity, JobStatusTracker
from statefulspark.engine import jvm, session
from statefulspark.engine.canonical import online
from statefulspark.operators.keyed import packedlog
from statefulspark.planning import carry, describe
from statefulspark.recovery import damage, generations, history, numbers, stored_formats

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from statefulspark.storage import ObjectStore

_log = logging.getLogger(__name__)


def assemble(parts: Parts, *, begin_step: progress.BeginStep = progress.ignore_steps) -> JobLoop:
    """Commit the prepared transactions, start the queries, and build the loop that runs them."""
    store, epoch = parts.root.store, parts.root.epoch
    gate = jvm.Gate(parts.spark)
    committer = _open_sinks(parts, begin_step)
    targets = [target for query in parts.built for target in kafka_offsets.targets(query.uid, query.stream.frame)]
    publish = [kafka_offsets.OffsetPublisher(parts.spark, targets).publish] if targets else []
    # A completed checkpoint is announced to sinks, then to functions, then to consumer groups.
    announcer = notify.Announcer(committer, [parts.declared], publish)
    identity = build_identity(parts)
    planner = quiesce.Planner(store, epoch, lambda: int(clock.utc_now().timestamp() * 1000))
    running = tuple(_start_queries(parts, gate, committer, planner, begin_step=begin_step))
    _log.info("queries started", extra={"queries": len(running)})
    return JobLoop(
        status_tracker=JobStatusTracker(
            identity,
            snapshot_writer.summarise_restored(store, parts.plan.restored),
            config=statistics.EffectiveConfig.describe(parts.job_config),
        ),
        gated_queries=quiesce.GatedQueries(running, gate, planner),
        fence=parts.fence,
        writer=build_writer(parts, identity, running, committer, announcer),
        announcer=announcer,
        note_damage=functools.partial(damage.note, store, generation=parts.plan.generation, epoch=epoch),
        participants={
            **parts.declared.participants,
            **{sink.participant: sink.query_uid for sink in committer.sinks},
        },
        coordinator=build_coordinator(parts),
        master_hooks=parts.master_hooks,
        refusals=parts.declared.refusals,
    )


def _open_sinks(parts: Parts, begin_step: progress.BeginStep) -> commit.Committer:
    """Open every sink of the job, and commit the prepared transactions of the restored snapshot."""
    attempt = job_sinks.DriverAttempt(
        store=parts.root.store,
        options=parts.root.options,
        job=f"{parts.job_config.namespace}/{parts.job_config.name}",
        epoch=parts.root.epoch,
        generation=parts.plan.generation,
        descent=parts.plan.descent,
        claim_id=parts.root.claimed_by.claim_id,
        rights=SinkRights.read(parts.job_config.restore, parts.plan.carried_out),
        restored=parts.plan.restored,
    )
    outputs = outputs_of({query.uid: query.output for query in parts.built})
    if outputs:
        attempt = replace(attempt, history=history.trace(generations.read_all(attempt.store), attempt.generation))
    committer = commit.Committer(
        attempt, [job_sinks.JobSink(attempt, uid, output.uid, writing.two_phase(output)) for uid, output in outputs]
    )
    committer.start(
        parts.plan.queries,
        drop_state=parts.job_config.restore.drop_state,
        functions=parts.declared.recorded,
        origin=parts.plan.restored_from,
        begin_step=begin_step,
    )
    used = attempt.rights.keys_of({opened.name for opened in committer.sinks})
    if used:
        generations.remember(attempt.store, attempt.generation, used)
    return committer


def build_identity(parts: Parts) -> Identity:
    """Return what a driver says of itself."""
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
        kept_aside=asides.sentence(parts.plan),
        other_spark=stored_formats.other_spark(parts.plan.restored),
        claim=parts.root.claimed_by.claim_id,
    )


def build_writer(
    parts: Parts,
    identity: Identity,
    running: tuple[queries.RunningQuery, ...],
    committer: commit.Committer,
    announcer: notify.Announcer,
) -> snapshot_writer.SnapshotWriter:
    """Return the writer of the job's snapshots."""
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
        versions=session.versions(),
        committer=committer,
        announcer=announcer,
        restored=parts.plan.queries,
        canonical_writer=online.CanonicalWriter(parts.spark, root.store, root.options, operators),
    )


def build_coordinator(parts: Parts) -> model.State:
    """Return the coordinator as it begins."""
    return machine.initial(
        model.CoordinatorSettings.read(parts.job_config.checkpoint),
        next_id=parts.plan.next_snapshot_id,
        retained=parts.plan.checkpoint_ids,
        untried=frozenset(parts.plan.untried_ids),
        restored=manifests.restored_batches(parts.plan.queries),
        first_commits=frozenset(query.uid for query in parts.built if parts.shows_first_batches),
    )


class _QueryStart:
    """How a query is started: for the first time, again after a failure, and to read what is left before a drain."""

    def __init__(self, query: BuiltQuery, parts: Parts, gate: jvm.Gate, committer: commit.Committer) -> None:
        store = parts.root.store
        path = layout.query_root(parts.plan.generation, query.uid)
        self.location = queries.CheckpointLocation(query.uid, path, f"{session.hadoop_uri(store.uri)}/{path}")
        self._query, self._parts, self._gate = query, parts, gate
        self._number_offset = numbers.offset(parts.plan.record, query.uid)
        self._participant = None
        if isinstance(query.output, QueryOutputs):
            committers = tuple(committer.sink((query.uid, output.uid)) for output in query.output.outputs)
            self._participant = writing.BatchWriter(committers, query.output.selections, parts.declared.refusals)

    def begin(self, logs: ObjectStore | None = None) -> StreamingQuery:
        """Start the query behind an open gate.

        Args:
            logs: Where Spark's logs are read; the job's root when omitted.
        """
        self._register(logs or self._parts.root.store)
        return self._start(writing.start)

    def hold(self, logs: ObjectStore | None = None) -> StreamingQuery:
        """Start the query behind a closed gate."""
        self._register(logs or self._parts.root.store)
        self._gate.close(self.location.root)
        return self._start(writing.start)

    def catch_up(self) -> StreamingQuery:
        """Start the query on what its sources have now."""
        self._register(self._parts.root.store)
        return self._start(writing.start_available_now, has_steady_clock=False)

    def _register(self, logs: ObjectStore) -> None:
        path, parts = self.location.path, self._parts
        committed = max(parts.plan.start_batches.get(self._query.uid, -1), watermarks.newest(logs, path, "commits"))
        planned = watermarks.newest(logs, path, "offsets")
        self._gate.register(self.location.root, last_offsets=planned, last_committed=committed)
        packed = packedlog.packed_operators(logs, path)
        partitions = carry.state_partitions(parts.spark, logs, path, planned)
        packedlog.tell_tasks(parts.spark, self.location.root, parts.root.epoch, partitions, packed)

    def _start(self, start: Callable[..., StreamingQuery], *, has_steady_clock: bool = True) -> StreamingQuery:
        try:
            handle = start(
                self._query.output,
                uid=self._query.uid,
                checkpoint_root=self.location.root,
                participant=self._participant,
                number_offset=self._number_offset,
            )
        finally:
            packedlog.leave_tasks(self._parts.spark)
        return jvm.install_steady_clock(self._parts.spark, handle) if has_steady_clock else handle


def _start_queries(
    parts: Parts,
    gate: jvm.Gate,
    committer: commit.Committer,
    planner: quiesce.Planner,
    *,
    begin_step: progress.BeginStep,
) -> Iterator[queries.RunningQuery]:
    """Start every query, one after the other."""
    origin = parts.plan.restored_from or "empty state"
    is_started = progress.count_units("queries", len(parts.built), begin_step(f"Starting the queries from {origin}"))
    for query in parts.built:
        start = _QueryStart(query, parts, gate, committer)
        # The plan read these logs before the fence was up; the replaced driver may have written to them since.
        fenced = read_cache.ReadCache(parts.root.store)
        end = watermarks.find_end(fenced, start.location.path)
        is_held = end is not None and not end.is_committed
        if end is not None and end.is_committed:  # A stop had drained the query, but did not end the job.
            planner.plan_return(start.location.path)
            fenced = read_cache.ReadCache(parts.root.store)
        handle = start.hold(fenced) if is_held else start.begin(fenced)
        has_event_time = describe.has_watermark(query.stream.frame)
        yield queries.RunningQuery(
            start.location,
            start.begin,
            handle,
            gate.facts()[start.location.root],
            queries.AlternativeStarts(start.catch_up, start.hold, has_event_time=has_event_time),
            is_held,
            on_lost=functools.partial(committer.leave_lost, query.uid),
            # A function has changed its state with the batch that was lost; only a start gives it the winner's.
            survives_lost_races=query.uid not in parts.declared.recorded,
        )
        is_started()
