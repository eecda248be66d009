"""One start of a driver: claim the epoch, find the state, start Spark and the queries, run until the end.

The order is the protocol: nothing is read from the job's state before the epoch is claimed, and nothing is written to it
before the fence is up. Spark starts beside the reads of storage, since both take seconds.
"""

from __future__ import annotations

import logging
import os
import platform
import secrets
import signal
import socket
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from types import FrameType
from typing import TYPE_CHECKING

import pyspark

import statefulspark
from statefulspark import clock, errors, launch, storage
from statefulspark.contract import config, layout, statistics
from statefulspark.contract.manifest import OwnerRecord, QueryEntry, SnapshotKind
from statefulspark.coordinator import machine, model
from statefulspark.job import QueryContext
from statefulspark.server.http import ApiServer
from statefulspark.snapshot import catalog, epochs, parallelism, recovery, uids
from statefulspark.spark import functions, jvm, keyed, queries, session, settings, snapshots, writing
from statefulspark.spark.board import Board, Identity
from statefulspark.spark.loop import JobLoop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from statefulspark.job import Job, Output
    from statefulspark.snapshot.recovery import StartPlan
    from statefulspark.storage import ObjectStore, StorageOptions

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the job's state is, and the epoch under which this driver may write it."""

    store: ObjectStore
    options: StorageOptions
    epoch: int


@dataclass(frozen=True, slots=True)
class BuiltQuery:
    """A query as its function returned it, not started yet."""

    uid: str
    output: DataStreamWriter | Output
    operators: Mapping[str, int]
    """Key groups by uid of its keyed operators."""


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
    if not job.queries:
        raise errors.SpecRejectedError(
            "NoQueries", f"The job {job.name} declares no query; decorate one with @job.query."
        )
    session.check_settings(job_config.engine.conf)
    started_at = clock.utc_now()
    options = settings.storage_options(job_config.storage)
    with ThreadPoolExecutor(1, thread_name_prefix="session") as beside:
        starting = beside.submit(session.build, job_config, options)
        place = claim(job_config, options, started_at)
        plan = make_ready(job, job_config, place, started_at)
        spark = starting.result()
    fence = jvm.Fence(spark)
    fence.configure(f"{session.hadoop_uri(place.store.uri)}/{layout.epoch(place.epoch + 1)}")
    declared = functions.JobFunctions()
    built = build_queries(job, job_config, spark, plan, declared)
    allow_non_restored = job_config.restore.allow_non_restored_state
    declared.bind(place.store, plan, epoch=place.epoch, options=options, allow_non_restored=allow_non_restored)
    loop = start(job_config, place, plan, built, spark, fence, started_at)
    ending = serve(loop, job_config)
    declared.close()
    location = ending.snapshot.location if ending.snapshot else None
    return launch.finish(ending.code, ending.reason, ending.message, location)


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


def make_ready(job: Job, job_config: config.JobConfig, place: Place, now: datetime) -> StartPlan:
    """Find out where to start and prepare the generation for it."""
    author = recovery.Author(
        job_config.namespace,
        job_config.name,
        place.epoch,
        now,
        job_config.revision,
        versions(),
        owner_id=job_config.owner_id,
    )
    hadoop_root = session.hadoop_uri(place.store.uri)

    def opener(uri: str) -> ObjectStore:
        return storage.open_store(uri, place.options)

    plan = recovery.find_start(
        place.store,
        author,
        restore=job_config.restore,
        query_uids=[query.uid for query in job.queries],
        open_store=opener,
    )
    ready = recovery.carry_out(place.store, plan, author, hadoop_root=hadoop_root)
    _log.info(
        "state found",
        extra={"restored_from": ready.restored_from or "nothing: first start", "generation": ready.generation},
    )
    if ready.fallback is not None:
        _log.warning("fell back to an older snapshot", extra={"why": ready.fallback})
    return ready


def versions() -> dict[str, str]:
    """Return what writes the state, for manifests."""
    return {
        "statefulspark": statefulspark.__version__,
        "pyspark": pyspark.__version__,
        "python": platform.python_version(),
    }


def build_queries(
    job: Job,
    job_config: config.JobConfig,
    spark: SparkSession,
    plan: StartPlan,
    functions_of_job: functions.JobFunctions,
) -> tuple[BuiltQuery, ...]:
    """Call every query function, and refuse a job that has no place for the state it would start from."""
    context = QueryContext(job_config.name, job_config.namespace, job_config.parameters)
    registry = keyed.OperatorRegistry()
    built = []
    for query in job.queries:
        with keyed.collecting(registry, query_uid=query.uid), functions_of_job.collecting(query.uid):
            output = query.function(spark, context)
        declared = {operator.uid: operator.max_parallelism for operator in registry.of_query(query.uid)}
        built.append(BuiltQuery(query.uid, output, declared))
    if not job_config.restore.allow_non_restored_state:
        restored = {entry.uid: entry for entry in plan.queries}
        uids.require_place(
            plan.queries,
            plan.restored_from or "The state on storage",
            query_uids=[query.uid for query in built],
            operator_uids={one.uid: {*one.operators, *_engine_operators(restored.get(one.uid))} for one in built},
        )
    parallelism.require_unchanged(plan.queries, {one.uid: one.operators for one in built})
    return tuple(built)


def _engine_operators(entry: QueryEntry | None) -> frozenset[str]:
    """Return Spark's own stateful operators of a query; they have no uid, and Spark itself checks that they fit."""
    operators = entry.operators if entry is not None else ()
    return frozenset(one.uid for one in operators if one.uid == f"{one.name}-{one.operator_id}")


def start(
    job_config: config.JobConfig,
    place: Place,
    plan: StartPlan,
    built: tuple[BuiltQuery, ...],
    spark: SparkSession,
    fence: jvm.Fence,
    started_at: datetime,
) -> JobLoop:
    """Start the queries behind their gates, and make the loop that runs them."""
    gate = jvm.Gate(spark)
    running = tuple(_start_query(one, place, plan, gate) for one in built)
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
        operators={one.uid: one.operators for one in built},
        settings=job_config.checkpoint,
        savepoint_location=job_config.savepoint_location,
        open_store=lambda uri: storage.open_store(uri, place.options),
        versions=versions(),
        restored=plan.queries,
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
        coordinator=machine.initial(
            coordinator_settings(job_config.checkpoint), next_id=plan.next_snapshot_id, retained=retained
        ),
    )


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


def _start_query(one: BuiltQuery, place: Place, plan: StartPlan, gate: jvm.Gate) -> queries.RunningQuery:
    path = layout.query_root(plan.generation, one.uid)
    committed = plan.start_batches.get(one.uid, -1)
    where = queries.QueryPlace(one.uid, path, f"{session.hadoop_uri(place.store.uri)}/{path}")
    offsets = [int(name) for name in place.store.list_names(f"{path}/offsets") if name.isdigit()]
    gate.register(where.root, last_offsets=max(offsets, default=-1), last_committed=committed)

    def begin() -> StreamingQuery:
        return writing.start(
            one.output, uid=one.uid, checkpoint_root=where.root, epoch=place.epoch, options=place.options
        )

    return queries.RunningQuery(where, begin, begin(), gate.facts()[where.root])


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
