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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from types import FrameType
from typing import TYPE_CHECKING

from statefulspark import clock, errors, launch, storage, usercode
from statefulspark.contract import config, layout
from statefulspark.contract.manifest import OwnerRecord
from statefulspark.declaration import JobDefinition, Output, QueryContext, QueryDefinition
from statefulspark.server.http import ApiServer
from statefulspark.snapshot import descent, epochs, parallelism, plans
from statefulspark.spark import (
    assembly,
    functions,
    hooks,
    jvm,
    keyed,
    preparing,
    session,
    settings,
    snapshots,
    sparkerrors,
    warming,
    writing,
)
from statefulspark.spark.canonical import starting
from statefulspark.spark.evolution import carry, describe
from statefulspark.spark.loop import JobLoop
from statefulspark.spark.preparing import BuiltQuery, Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from statefulspark.snapshot.plan import StartPlan
    from statefulspark.storage import StorageOptions

_log = logging.getLogger(__name__)


def run(job: JobDefinition, job_config: config.JobConfig) -> int:
    """Run a job until it ends.

    Args:
        job: What the job file declares.
        job_config: How to run it.

    Returns:
        One of `contract.exit_codes`; how the job ended is logged and written to the termination log.

    Raises:
        StatefulSparkError: It could not be started; the job's state is what it was before.
    """
    require_queries(job, job_config.name)
    session.check_settings(job_config.engine.conf)
    started_at = clock.utc_now()
    options = settings.storage_options(job_config.storage)
    with ThreadPoolExecutor(1, thread_name_prefix="session") as beside:
        coming = beside.submit(session.build, job_config, options)
        place = claim(job_config, options, started_at)
        author = preparing.author_of(job_config, place, started_at)
        found = preparing.find_state(job.query_uids, job_config, place, author)
        spark = coming.result()
    warming.start_workers(spark)
    fence = jvm.Fence(spark)
    fence.configure(f"{session.hadoop_uri(place.store.uri)}/{layout.epoch(place.epoch + 1)}")
    master_hooks = hooks.JobHooks(job.hooks)
    declared = functions.JobFunctions()
    built = build_queries(job.queries, job_config, spark, declared, found=found)
    if not job_config.restore.allow_non_restored_state:
        declared.require_place(found.queries)
        master_hooks.require_place(found.master_states)
    plan = preparing.make_ready(job_config, place, found, built, spark, author)
    bound = declared.bind(place, plan)
    built = tuple(replace(one, output=bound.get(one.uid, one.output)) for one in built)
    master_hooks.restore(plan)
    parts = assembly.Parts(job_config, place, plan, built, spark, fence, started_at, declared, master_hooks)
    try:
        ending = serve(assembly.assemble(parts), job_config)
    finally:
        master_hooks.close()
    declared.close()
    location = ending.snapshot.location if ending.snapshot else None
    return launch.finish(ending.code, ending.reason, ending.message, location)


def require_queries(job: JobDefinition, name: str) -> None:
    """Refuse a job without queries.

    Raises:
        SpecRejectedError: `NoQueries`.
    """
    if not job.queries:
        raise errors.SpecRejectedError("NoQueries", f"The job {name} declares no query; decorate one with @job.query.")


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
    lineages = descent.ensure(store, lineage=uuid.uuid4().hex, epoch=epoch, now=now)
    for sentence in lineages.unreadable:
        _log.warning("the identity of the root is damaged, and it goes on as a new one", extra={"why": sentence})
    return Place(store, options, epoch, lineages)


def build_queries(
    queries: Sequence[QueryDefinition],
    job_config: config.JobConfig,
    spark: SparkSession,
    functions_of_job: functions.JobFunctions,
    *,
    found: StartPlan,
) -> tuple[BuiltQuery, ...]:
    """Call every query function, and plan what it returned without running it.

    Args:
        queries: What the job file declares.
        job_config: How to run it.
        spark: The session.
        functions_of_job: Gets the functions on the driver.
        found: What the job goes on with.
    """
    context = QueryContext(job_config.name, job_config.namespace, job_config.parameters)
    registry = keyed.OperatorRegistry()
    partitions = parallelism.asked_for(job_config.engine.conf)
    placements = plans.placements(found.queries)
    built = []
    for query in queries:
        collecting = keyed.collecting(
            registry,
            query_uid=query.uid,
            placements=placements,
            key_groups=starting.key_groups(found, query.uid),
            partitions=found.partitions_of(query.uid),
        )
        with collecting, functions_of_job.collecting(query.uid):
            output = _call(query, spark, context)
        with sparkerrors.refusing_plan(query.uid):
            functions_of_job.declare(query.uid, output)
            stream = carry.stream_of(output, query.uid)
            if isinstance(output, Output):
                writing.check_schema(output, settings.storage_options(job_config.storage))
            operators = registry.of_query(query.uid)
            planned = describe.describe(query.uid, stream, operators, partitions=partitions)
        built.append(BuiltQuery(query.uid, output, stream, planned, operators))
    return tuple(built)


def _call(query: QueryDefinition, spark: SparkSession, context: QueryContext) -> DataStreamWriter | Output:
    """Call a query function.

    Raises:
        UserCodeError: `JobFileRaised`.
    """
    try:
        return query.function(spark, context)
    except Exception as error:
        called = f"The function of query {query.uid!r}"
        raise usercode.raised(error, reason="JobFileRaised", called=called, advice=usercode.CORRECT_IT) from error


def serve(loop: JobLoop, job_config: config.JobConfig) -> snapshots.Ending:
    """Run the loop with the API in front of it, until the job ends."""

    def on_signal(number: int, _: FrameType | None) -> None:
        _log.info("signal received, draining", extra={"signal": signal.Signals(number).name})
        loop.drain()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
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
    try:
        return loop.run()
    finally:
        server.close()
