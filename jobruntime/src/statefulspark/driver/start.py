"""One start of a driver, on one page: claim, find, build, compare, prepare, start.

The order is the protocol: nothing is read from the job's state before the epoch is claimed, and no generation is made or
started before the fence is up and the job is known to fit its state. What a dead driver had committed is completed as a
checkpoint when it is found. Spark starts beside the reads of storage, since both take seconds.

A check is the same page and stops before it writes: without a claim nothing is completed, fenced or prepared. So it may be
run beside the driver that owns the job, and it compares what the next start compares.
"""

from __future__ import annotations

import functools
import logging
import os
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from statefulspark import clock, errors, launch, storage, usercode
from statefulspark.checkpoint import epochs, lineage_records, plans, read_cache
from statefulspark.contract import config, layout
from statefulspark.contract.manifest import OwnerRecord
from statefulspark.declaration import JobDefinition, Output, QueryContext, QueryDefinition
from statefulspark.driver import assemble, hooks, job_sinks, serve, snapshot_writer, writing
from statefulspark.driver.assemble import Built, BuiltQuery, Comparison, JobRoot
from statefulspark.engine import jvm, session, settings, warming
from statefulspark.engine.canonical import load
from statefulspark.evolution import comparison, keyed_states, parallelism
from statefulspark.operators import functions, keyed, spark_errors
from statefulspark.planning import carry, describe
from statefulspark.recovery import plan, recovery, restore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from statefulspark.evolution.comparison import Evolution
    from statefulspark.recovery.plan import StartPlan
    from statefulspark.storage import StorageOptions

_log = logging.getLogger(__name__)

SessionBuilder = Callable[[config.JobConfig, "StorageOptions"], "SparkSession"]


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
    started_at = clock.utc_now()
    claiming = functools.partial(claim, job_config, started_at)
    parts = prepare(job_config, up_to_comparison(job, job_config, claiming), started_at)
    ending = start(parts)
    location = ending.snapshot.location if ending.snapshot else None
    return launch.finish(ending.code, ending.reason, ending.message, location)


def check(job: JobDefinition, job_config: config.JobConfig) -> Comparison:
    """Do what `run` does up to the comparison, without a claim: nothing is written.

    Raises:
        StatefulSparkError: The job could not start.
    """
    return up_to_comparison(job, job_config, functools.partial(open_root, job_config))


def up_to_comparison(
    job: JobDefinition,
    job_config: config.JobConfig,
    root_of: Callable[[], JobRoot],
    *,
    session_of: SessionBuilder = session.build,
) -> Comparison:
    """Claim, find, build and compare: the part of the page that a check shares.

    Args:
        job: What the job file declares.
        job_config: How to run it.
        root_of: Opens the job's root, and claims it unless this is a check.
        session_of: Starts Spark.

    Raises:
        StatefulSparkError: The job could not start.
    """
    if not job.queries:
        message = f"The job {job_config.name} declares no query; decorate one with @job.query."
        raise errors.SpecRejectedError("NoQueries", message)
    session.check_settings(job_config.engine.conf)
    options = settings.storage_options(job_config.storage)
    with ThreadPoolExecutor(1, thread_name_prefix="session") as beside:
        coming = beside.submit(session_of, job_config, options)
        root = root_of()
        found = find(job.query_uids, job_config, root)
        spark = coming.result()
    if root.author is not None:
        warming.start_workers(spark)
        raise_fence(root, spark)
        root = replace(root, seen=None)
    built = build_queries(job, job_config, spark, found)
    return compare(job_config, root, spark, found, built)


# Claim


def open_root(job_config: config.JobConfig) -> JobRoot:
    """Return where the job's state is, to be read by anybody."""
    options = settings.storage_options(job_config.storage)
    root = storage.open_store(job_config.storage.uri, options)
    return JobRoot(root.child(layout.job_prefix(job_config.namespace, job_config.name)), options)


def claim(job_config: config.JobConfig, now: datetime) -> JobRoot:
    """Make the job's state ours to write, under a new epoch.

    Raises:
        FencedError: A newer driver has claimed it.
        SpecRejectedError: The state belongs to another resource.
        TransientError, StateUnknownError: The object store cannot be reached, or refuses.
    """
    root = open_root(job_config)
    store = root.store
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
    seen = read_cache.Look(store)
    lineages = lineage_records.ensure(store, lineage=uuid.uuid4().hex, epoch=epoch, now=now, seen=seen)
    for sentence in lineages.unreadable:
        _log.warning("the identity of the root is damaged, and it goes on as a new one", extra={"why": sentence})
    author = plan.Author(
        job_config.namespace,
        job_config.name,
        epoch,
        now,
        job_config.revision,
        assemble.versions(),
        owner_id=job_config.owner_id,
        lineages=lineages,
    )
    return replace(root, author=author, seen=seen)


def raise_fence(root: JobRoot, spark: SparkSession) -> None:
    """Have Spark write nothing any more once a newer epoch exists."""
    jvm.Fence(spark).configure(f"{session.hadoop_uri(root.store.uri)}/{layout.epoch(root.epoch + 1)}")


# Find


def find(query_uids: Sequence[str], job_config: config.JobConfig, root: JobRoot) -> StartPlan:
    """Find out where to start; whoever has claimed the root completes what a dead driver left committed."""

    def open_store(uri: str) -> storage.ObjectStore:
        return storage.open_store(uri, root.options)

    wish = job_config.restore
    if root.author is None:
        return recovery.plan_recovery(root.store, restore=wish, query_uids=query_uids, open_store=open_store)
    found = recovery.find_start(
        root.store, root.author, restore=wish, query_uids=query_uids, open_store=open_store, seen=root.seen
    )
    _log.info("state found", extra={"restored_from": found.restored_from or "nothing: first start"})
    if found.restore_skipped is not None:
        # Whoever gave the wish a name has it done once on purpose, through any number of restarts.
        level = logging.WARNING if wish.id is None else logging.INFO
        _log.log(level, "the restore that was asked for is not done again", extra={"why": found.restore_skipped})
    if found.fallback is not None:
        _log.warning("fell back to an older snapshot", extra={"why": found.fallback})
    return found


# Build


def build_queries(
    job: JobDefinition,
    job_config: config.JobConfig,
    spark: SparkSession,
    found: StartPlan,
    *,
    declared: functions.JobFunctions | None = None,
) -> Built:
    """Call every query function, and plan what it returned without running it.

    Args:
        job: What the job file declares.
        job_config: How to run it.
        spark: The session.
        found: What the job goes on with.
        declared: Gets the functions on the driver.
    """
    declared = declared or functions.JobFunctions()
    context = QueryContext(job_config.name, job_config.namespace, job_config.parameters)
    registry = keyed.OperatorRegistry()
    partitions = parallelism.asked_for(job_config.engine.conf)
    placements = plans.placements(found.queries)
    built = []
    for query in job.queries:
        collecting = keyed.collecting(
            registry,
            query_uid=query.uid,
            placements=placements,
            key_groups=found.key_groups_of(query.uid),
            partitions=found.partitions_of(query.uid),
        )
        with collecting, declared.collecting(query.uid):
            output = _call(query, spark, context)
        with spark_errors.refusing_plan(query.uid):
            declared.declare(query.uid, output)
            stream = carry.stream_of(output, query.uid)
            if isinstance(output, Output):
                writing.check_schema(output, settings.storage_options(job_config.storage))
            operators = registry.of_query(query.uid)
            planned = describe.describe(query.uid, stream, operators, partitions=partitions)
        built.append(BuiltQuery(query.uid, output, stream, planned, operators))
    return Built(tuple(built), declared, hooks.JobHooks(job.hooks))


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


# Compare


def compare(
    job_config: config.JobConfig, root: JobRoot, spark: SparkSession, found: StartPlan, built: Built
) -> Comparison:
    """Compare the job with its state.

    Args:
        job_config: It says whether state may be left behind.
        root: Where the state is.
        spark: The session.
        found: What is restored.
        built: The job as it would run.

    Raises:
        SpecRejectedError: The job has no place for the state, or could not read it.
    """
    allows_lost_state = job_config.restore.allow_non_restored_state
    if not allows_lost_state:
        built.functions.require_place(found.queries)
        built.master_hooks.require_place(found.master_states)
        job_sinks.require_place(found.queries, job_sinks.keys_of({one.uid: one.output for one in built.queries}))
    changes = comparison.compare(
        found.queries,
        (one.planned for one in built.queries),
        label=found.restored_from or "The state on storage",
        allow_non_restored_state=allows_lost_state,
    )
    declared = {operator.uid: operator.states for one in built.queries for operator in one.operators}
    compared = {change.query.uid: keyed_states.compare(change, declared) for change in changes}
    return Comparison(root, spark, found, built, compared)


# Prepare


def prepare(job_config: config.JobConfig, compared: Comparison, started_at: datetime) -> assemble.Parts:
    """Prepare the generation that the job runs in, and give functions and hooks what they restore."""
    root, built = compared.root, compared.built
    ready = _generation_ready(compared)
    bound = built.functions.bind(root, ready)
    queries = tuple(replace(one, output=bound.get(one.uid, one.output)) for one in built.queries)
    built.master_hooks.restore(ready)
    return assemble.Parts(
        job_config,
        root,
        ready,
        queries,
        compared.spark,
        jvm.Fence(compared.spark),
        started_at,
        built.functions,
        built.master_hooks,
    )


def _generation_ready(compared: Comparison) -> StartPlan:
    root, found, changes = compared.root, compared.found, compared.changes
    changed = {uid: change for uid, change in changes.items() if not change.is_empty}
    sentences = tuple(sentence for change in changes.values() for sentence in change.sentences)
    for sentence in sentences:
        _log.info("the job has changed", extra={"what": sentence})
    for warning in (warning for change in changes.values() for warning in change.warnings):
        _log.warning("the job has changed in what its state cannot follow", extra={"what": warning})
    planned = tuple(one.planned for one in compared.built.queries)
    ready = restore.carry_out(
        root.store,
        plan.in_new_generation(found, sentences) if changed else plan.noting_declared(found, planned),
        root.claimed_by,
        rewrites={uid: change.rewrite for uid, change in changed.items()},
        finish=_finisher(compared, planned, changed),
        hadoop_root=session.hadoop_uri(root.store.uri),
    )
    _log.info("generation ready", extra={"generation": ready.generation})
    return ready


def _finisher(
    compared: Comparison, planned: tuple[plans.PlannedQuery, ...], changed: Mapping[str, Evolution]
) -> restore.Finisher:
    """Return what completes a new generation with Spark: state of a canonical savepoint, then what the changes ask for."""
    root, found = compared.root, compared.found
    carrier = carry.Carrier(
        session=compared.spark,
        store=root.store,
        hadoop_root=session.hadoop_uri(root.store.uri),
        epoch=root.epoch,
        planned=planned,
        streams={one.uid: one.stream for one in compared.built.queries},
        evolutions=load.without_partitions(changed, found),
    )
    return load.Filler(compared.spark, root.store, root.options, found, planned, compared.changes).then(carrier.finish)


# Start


def start(parts: assemble.Parts) -> snapshot_writer.Ending:
    """Start the queries, and run until the job ends."""
    try:
        ending = serve.serve(assemble.assemble(parts), parts.job_config)
    finally:
        parts.master_hooks.close()
    parts.declared.close()
    return ending
