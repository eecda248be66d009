"""One start of a driver: claim the epoch, find the state, start Spark and the queries, run until the end.

The order is the protocol: nothing is read from the job's state before the epoch is claimed, and no generation is made or
started before the fence is up and the job is known to fit its state. What a dead driver had committed is completed as a
checkpoint when it is found. Spark starts beside the reads of storage, since both take seconds.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from types import FrameType
from typing import TYPE_CHECKING

from statefulspark import clock, errors, launch, storage
from statefulspark.contract import config, layout, statistics
from statefulspark.contract.manifest import OwnerRecord, SnapshotKind
from statefulspark.coordinator import machine, model
from statefulspark.job import Output, QueryContext
from statefulspark.server.http import ApiServer
from statefulspark.snapshot import catalog, epochs, parallelism
from statefulspark.spark import (
    announcing,
    committing,
    functions,
    jobsinks,
    jvm,
    kafka_offsets,
    keyed,
    preparing,
    queries,
    session,
    settings,
    snapshots,
    writing,
)
from statefulspark.spark.board import Board, Identity
from statefulspark.spark.canonical import taking
from statefulspark.spark.evolution import carry, describe
from statefulspark.spark.loop import JobLoop
from statefulspark.spark.preparing import BuiltQuery, Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from statefulspark.job import Job
    from statefulspark.snapshot.recovery import StartPlan
    from statefulspark.storage import ObjectStore, StorageOptions

_log = logging.getLogger(__name__)


def run(job: Job, job_config: config.JobConfig) -> int:
    """Run a job until it ends.

    Args:
        job: What the job file declares.
        job_config: How to run it.

    Returns:
        One of `contract.exit_codes`; how the job ended is logged and written to the termination log.

    Raises:
        StatefulSparkError: It could not be started; the job's state is what it was before.
    """
    require_queries(job)
    session.check_settings(job_config.engine.conf)
    started_at = clock.utc_now()
    options = settings.storage_options(job_config.storage)
    with ThreadPoolExecutor(1, thread_name_prefix="session") as beside:
        coming = beside.submit(session.build, job_config, options)
        place = claim(job_config, options, started_at)
        author = preparing.author_of(job_config, place, started_at)
        found = preparing.find_state(job, job_config, place, author)
        spark = coming.result()
    session.activate(spark)
    fence = jvm.Fence(spark)
    fence.configure(f"{session.hadoop_uri(place.store.uri)}/{layout.epoch(place.epoch + 1)}")
    declared = functions.JobFunctions()
    built = build_queries(job, job_config, spark, declared)
    if not job_config.restore.allow_non_restored_state:
        declared.require_place(found.queries)
    plan = preparing.make_ready(job_config, place, found, built, spark, author)
    bound = declared.bind(place, plan)
    built = tuple(replace(one, output=bound.get(one.uid, one.output)) for one in built)
    loop = start(job_config, place, plan, built, spark, fence, started_at, declared)
    ending = serve(loop, job_config)
    declared.close()
    location = ending.snapshot.location if ending.snapshot else None
    return launch.finish(ending.code, ending.reason, ending.message, location)


def require_queries(job: Job) -> None:
    """Refuse a job without queries.

    Raises:
        SpecRejectedError: `NoQueries`.
    """
    if not job.queries:
        raise errors.SpecRejectedError(
            "NoQueries", f"The job {job.name} declares no query; decorate one with @job.query."
        )


def claim(job_config: config.JobConfig, options: StorageOptions, now: datetime) -> Place:
    """Make the job's state ours to write, under a new epoch.

    Raises:
        FencedError: A newer driver has claimed it.
        SpecRejectedError: The state belongs to another resource.
        TransientError, StateUnknownError: The object store cannot be reached, or refuses.
    """
    root = storage.open_store(job_config.storage.uri, options)
    store = root.child(layout.job_prefix(job_config.namespace, job_config.name))
    owner = OwnerRecord(
        namespace=job_config.namespace, job=job_config.name, owner_id=job_config.owner_id, created_at=now
    )
    epochs.ensure_owner(store, owner, take_over=job_config.take_over)
    assigned = os.environ.get(config.ENV_EPOCH)
    holder = os.environ.get(config.ENV_HOLDER) or f"{socket.gethostname()}/{os.getpid()}"
    epoch = epochs.claim(
        store, assigned=int(assigned) if assigned else None, holder=holder, claim_id=uuid.uuid4().hex, now=now
    )
    _log.info("epoch claimed", extra={"epoch": epoch, "holder": holder, "root": store.uri})
    return Place(store, options, epoch)


def build_queries(
    job: Job,
    job_config: config.JobConfig,
    spark: SparkSession,
    functions_of_job: functions.JobFunctions,
) -> tuple[BuiltQuery, ...]:
    """Call every query function, and plan what it returned without running it."""
    context = QueryContext(job_config.name, job_config.namespace, job_config.parameters)
    registry = keyed.OperatorRegistry()
    partitions = parallelism.asked_for(job_config.engine.conf)
    built = []
    for query in job.queries:
        with keyed.collecting(registry, query_uid=query.uid), functions_of_job.collecting(query.uid):
            output = query.function(spark, context)
        functions_of_job.declare(query.uid, output)
        stream = carry.stream_of(output, query.uid)
        if isinstance(output, Output):
            writing.check_schema(output, settings.storage_options(job_config.storage))
        operators = registry.of_query(query.uid)
        planned = describe.describe(query.uid, stream, operators, partitions=partitions)
        built.append(BuiltQuery(query.uid, output, stream, planned, operators))
    return tuple(built)


def start(
    job_config: config.JobConfig,
    place: Place,
    plan: StartPlan,
    built: tuple[BuiltQuery, ...],
    spark: SparkSession,
    fence: jvm.Fence,
    started_at: datetime,
    declared: functions.JobFunctions,
) -> JobLoop:
    """Commit what was prepared, start the queries behind their gates, and make the loop that runs them."""
    gate = jvm.Gate(spark)
    committer = open_sinks(job_config, place, plan, built)
    targets = [target for one in built for target in kafka_offsets.targets(one.uid, one.stream.frame)]
    announcer = announcing.Announcer(
        committer, [declared], [kafka_offsets.OffsetPublisher(spark, targets).publish] if targets else []
    )
    running = tuple(_start_query(one, place, plan, gate, committer) for one in built)
    identity = Identity(
        job=job_config.name,
        namespace=job_config.namespace,
        epoch=place.epoch,
        generation=plan.generation,
        revision=job_config.revision,
        started_at=started_at,
        restored_from=plan.restored_from,
        fallback=plan.fallback,
    )
    writer = snapshots.SnapshotWriter(
        place.store,
        identity=identity,
        places=tuple(query.place for query in running),
        plans={one.uid: one.planned for one in built},
        settings=job_config.checkpoint,
        savepoint_location=job_config.savepoint_location,
        open_store=lambda uri: storage.open_store(uri, place.options),
        versions=preparing.versions(),
        committer=committer,
        announcer=announcer,
        restored=plan.queries,
        taker=taking.Taker(
            spark, place.store, place.options, tuple(operator for one in built for operator in one.operators)
        ),
    )
    refs = catalog.list_snapshots(place.store)
    retained = tuple(sorted(ref.id for ref in refs if ref.kind is SnapshotKind.CHECKPOINT))
    return JobLoop(
        board=Board(
            identity,
            snapshots.summarise_restored(place.store, plan.restored),
            config=statistics.EffectiveConfig.of(job_config),
        ),
        running=running,
        gate=gate,
        fence=fence,
        writer=writer,
        announcer=announcer,
        participants={**declared.participants, **{f"sink:{one.uid}": one.query_uid for one in committer.sinks}},
        coordinator=machine.initial(
            coordinator_settings(job_config.checkpoint), next_id=plan.next_snapshot_id, retained=retained
        ),
    )


def open_sinks(
    job_config: config.JobConfig, place: Place, plan: StartPlan, built: tuple[BuiltQuery, ...]
) -> committing.Committer:
    """Open every sink of the job, and commit what the restored cut had prepared."""
    who = jobsinks.Driver(
        store=place.store,
        options=place.options,
        job=f"{job_config.namespace}/{job_config.name}",
        epoch=place.epoch,
        generation=plan.generation,
    )
    outputs = [(one.uid, one.output) for one in built if isinstance(one.output, Output)]
    committer = committing.Committer(
        who, [jobsinks.JobSink(who, uid, output.uid, writing.two_phase(output)) for uid, output in outputs]
    )
    committer.start(plan.queries, allow_non_restored=job_config.restore.allow_non_restored_state)
    return committer


def coordinator_settings(checkpoint: config.CheckpointConfig) -> model.Settings:
    """Return the coordinator's settings, in seconds."""
    return model.Settings(
        interval_s=checkpoint.interval.total_seconds(),
        timeout_s=checkpoint.timeout.total_seconds(),
        min_pause_s=checkpoint.min_pause.total_seconds(),
        max_concurrent=checkpoint.max_concurrent,
        tolerable_failures=checkpoint.tolerable_failures,
        retained=checkpoint.retained,
    )


def _start_query(
    one: BuiltQuery, place: Place, plan: StartPlan, gate: jvm.Gate, committer: committing.Committer
) -> queries.RunningQuery:
    path = layout.query_root(plan.generation, one.uid)
    where = queries.QueryPlace(one.uid, path, f"{session.hadoop_uri(place.store.uri)}/{path}")

    participant = None
    if isinstance(one.output, Output):
        participant = writing.SinkParticipant(committer.sink(one.uid, one.output.uid), committer)

    def begin() -> StreamingQuery:
        committed = max(plan.start_batches.get(one.uid, -1), _newest_entry(place.store, f"{path}/commits"))
        gate.register(where.root, last_offsets=_newest_entry(place.store, f"{path}/offsets"), last_committed=committed)
        return writing.start(one.output, uid=one.uid, checkpoint_root=where.root, participant=participant)

    return queries.RunningQuery(where, begin, begin(), gate.facts()[where.root])


def _newest_entry(store: ObjectStore, log: str) -> int:
    return max((int(name) for name in store.list_names(log) if name.isdigit()), default=-1)


def serve(loop: JobLoop, job_config: config.JobConfig) -> snapshots.Ending:
    """Run the loop with the API in front of it, until the job ends."""
    token = os.environ.get(config.ENV_TOKEN)
    if not token:
        _log.warning(
            "the API below /v1 is closed to everybody; set a token to use it", extra={"variable": config.ENV_TOKEN}
        )
    server = ApiServer(
        loop,
        token=token or secrets.token_urlsafe(24),
        # Without a token of its own the API is for this machine only.
        host="0.0.0.0" if token else "127.0.0.1",  # noqa: S104 - the operator calls from another pod
        port=job_config.api_port,
    )
    _log.info("api listening", extra={"port": server.port})

    def on_signal(number: int, _: FrameType | None) -> None:
        _log.info("signal received, draining", extra={"signal": signal.Signals(number).name})
        loop.drain()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    try:
        return loop.run()
    finally:
        server.close()
