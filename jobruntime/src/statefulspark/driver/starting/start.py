"""One start of a driver: claim, find, build, compare, prepare, start.

The order is the protocol: nothing is read from the job's state before the epoch is claimed, and no generation is created
or started before the fence is up and the job is known to fit its state. Batches that a dead driver had committed are
completed as a checkpoint when they are found. Spark starts while storage is read, since both take seconds.

A check runs the same steps and stops before it writes: without a claim nothing is completed, fenced or prepared. So it may
run next to the driver that owns the job, and it compares what the next start compares.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from statefulspark import clock, errors, launch, storage, threads, usercode
from statefulspark.checkpoint import plans, progress
from statefulspark.contract import config, layout
from statefulspark.declaration import JobDefinition, QueryOutputs, read_result
from statefulspark.driver import serve
from statefulspark.driver.output import job_sinks, retries, writing
from statefulspark.driver.running import hooks
from statefulspark.driver.starting import asides, assemble, claim, controls, rollbacks, sink_comparison, start_parts
from statefulspark.driver.starting.start_parts import Built, BuiltQuery, Comparison, JobRoot
from statefulspark.driver.status import Ending
from statefulspark.engine import jvm, session, settings, warming
from statefulspark.engine.canonical import load
from statefulspark.evolution import comparison, keyed_states, parallelism
from statefulspark.operators import functions, keyed, spark_errors
from statefulspark.planning import carry, describe, early_state
from statefulspark.recovery import numbers, plan, recovery, restore, stored_formats

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statefulspark.driver.loop import JobLoop
    from statefulspark.evolution.comparison import Evolution
    from statefulspark.recovery.plan import ReadyState, StartPlan
    from statefulspark.storage import StorageOptions

_log = logging.getLogger(__name__)

_BEGUN = frozenset({"offsets/", "sources/"})
"""What Spark writes for the sources of a query before its first commit, and reads again."""

SessionBuilder = Callable[[config.JobConfig, "StorageOptions"], "SparkSession"]


def run(job: JobDefinition, job_config: config.JobConfig) -> int:
    """Run a job until it ends.

    Args:
        job: What the job file declares.
        job_config: How to run it.

    Returns:
        One of `contract.exit_codes`; how the job ended is logged and written to the termination log.

    Raises:
        StatefulSparkError: It could not be started; the job's state is unchanged.
    """
    started_at = clock.utc_now()
    control = controls.StartControl(job_config, started_at, epoch=claim.assigned_epoch() or 0)
    # Without an operator, the driver before it may have the same address until it is fenced.
    is_alone = claim.assigned_epoch() is not None
    with serve.serving(control, job_config) if is_alone else contextlib.nullcontext():
        begin_step = control.steps.begin
        begin_step("Claiming the job")
        compared = up_to_comparison(
            job, job_config, functools.partial(claim.claim, job_config, started_at), begin_step=begin_step
        )
        parts = prepare(job_config, compared, started_at, begin_step=begin_step)
        ending = start(parts, functools.partial(_drive, control) if is_alone else serve.serve, begin_step=begin_step)
    location = ending.snapshot.location if ending.snapshot else None
    return launch.finish(ending.code, ending.reason, ending.message, location)


def _drive(control: controls.StartControl, loop: JobLoop, _: config.JobConfig) -> Ending:
    control.hand_over(loop)
    return serve.drive(loop)


def check(job: JobDefinition, job_config: config.JobConfig) -> Comparison:
    """Run the steps of `run` up to the comparison, without a claim; nothing is written.

    Raises:
        StatefulSparkError: The job could not start.
    """
    return up_to_comparison(job, job_config, functools.partial(claim.open_root, job_config))


def up_to_comparison(
    job: JobDefinition,
    job_config: config.JobConfig,
    root_of: Callable[[], JobRoot],
    *,
    session_of: SessionBuilder = session.build,
    begin_step: progress.BeginStep = progress.ignore_steps,
) -> Comparison:
    """Claim, find, build and compare: the steps that a start and a check share.

    Args:
        job: What the job file declares.
        job_config: How to run it.
        root_of: Opens the job's root, and claims it unless this is a check.
        session_of: Starts Spark.
        begin_step: Begins each step.

    Raises:
        StatefulSparkError: The job could not start.
    """
    require_queries(job, job_config)
    settings.check_settings(job_config.engine.conf)
    options = settings.storage_options(job_config.storage)
    starting = threads.beside(functools.partial(session_of, job_config, options), name="session")
    # What is raised here does not wait for Spark, which nobody needs then.
    root = root_of()
    start_plan = find(job.query_uids, job_config, root, begin_step=begin_step)
    goes_on_in_place = root.author is not None and start_plan.mode is plan.StartMode.CONTINUE
    is_useful = goes_on_in_place and settings.is_local(job_config.engine.master or "local")
    early = early_state.EarlyState(root.store, start_plan.queries) if is_useful else None
    begin_step("Waiting for Spark")
    spark = starting.result()
    if early is not None:
        early.offer(spark)
    if root.author is not None:
        warming.start_workers(spark)
        warming.read_storage(spark, f"{session.hadoop_uri(root.store.uri)}/{layout.epoch(root.epoch)}")
        raise_fence(root, spark)
        root = replace(root, seen=None)
    built = build_queries(job, job_config, spark, start_plan, begin_step=begin_step)
    _log.info("queries planned", extra={"queries": len(built.queries)})
    return compare(job_config, root, spark, start_plan, built)


def require_queries(job: JobDefinition, job_config: config.JobConfig) -> None:
    """Refuse a job without queries.

    Raises:
        SpecRejectedError: `NoQueries`.
    """
    if not job.queries:
        message = f"The job {job_config.name} declares no query; decorate one with @job.query."
        raise errors.SpecRejectedError("NoQueries", message)


# Claim


def raise_fence(root: JobRoot, spark: SparkSession) -> None:
    """Make Spark refuse every write once a newer epoch exists."""
    next_epoch = f"{session.hadoop_uri(root.store.uri)}/{layout.epoch(root.epoch + 1)}"
    jvm.Fence(spark).configure(next_epoch, root.claimed_by.claim_id)


# Find


def find(
    query_uids: Sequence[str],
    job_config: config.JobConfig,
    root: JobRoot,
    *,
    begin_step: progress.BeginStep = progress.ignore_steps,
) -> StartPlan:
    """Find the snapshot to start from; with a claim, complete the batches that a dead driver had committed.

    Raises:
        StatefulSparkError: There is none, or the installed Spark is too old to read it.
    """
    begin_step("Finding the job's state")

    def open_store(uri: str) -> storage.ObjectStore:
        return storage.open_store(uri, root.options)

    restore_config = job_config.restore
    if root.author is None:
        recovery_plan = recovery.plan_recovery(
            root.store, restore=restore_config, query_uids=query_uids, open_store=open_store, begin_step=begin_step
        )
        stored_formats.require_readable(recovery_plan)
        return recovery_plan
    start_plan = recovery.find_start(
        root.store,
        root.author,
        restore=restore_config,
        query_uids=query_uids,
        open_store=open_store,
        cache=root.seen,
        begin_step=begin_step,
    )
    stored_formats.require_readable(start_plan)
    _log.info("state found", extra={"restored_from": start_plan.restored_from or "nothing: first start"})
    if start_plan.restore_skipped is not None:
        # A restore with a name is done once on purpose, through any number of restarts.
        level = logging.WARNING if restore_config.nonce is None else logging.INFO
        _log.log(level, "the requested restore is not done", extra={"why": start_plan.restore_skipped})
    if start_plan.fallback is not None:
        _log.warning("something on storage is left behind", extra={"why": start_plan.fallback})
    return start_plan


# Build


def build_queries(
    job: JobDefinition,
    job_config: config.JobConfig,
    spark: SparkSession,
    start_plan: StartPlan,
    *,
    declared: functions.JobFunctions | None = None,
    begin_step: progress.BeginStep = progress.ignore_steps,
) -> Built:
    """Call every query function, and plan its result without running it.

    Args:
        job: What the job file declares.
        job_config: How to run it.
        spark: The session.
        start_plan: Where the job continues.
        declared: Collects the functions on the driver.
        begin_step: Begins the step that counts planned queries.
    """
    declared = declared or functions.JobFunctions()
    context = job.context(job_config.name, job_config.namespace, job_config.parameters)
    registry = keyed.OperatorRegistry()
    partitions = parallelism.requested_partitions(job_config.engine.conf)
    options = settings.storage_options(job_config.storage)
    built = []
    step = retries.RetriedStep(begin_step, "Planning the queries")
    is_planned = progress.count_units("queries", len(job.queries), step.report)
    for query in job.queries:
        collecting = keyed.collecting(
            registry,
            query_uid=query.uid,
            key_groups=start_plan.key_groups_of(query.uid),
            partitions=start_plan.partitions_of(query.uid),
            options=options,
        )
        with collecting, declared.collecting(query.uid):
            try:
                result = query.function(spark, context)
            except Exception as error:
                called = f"The function of query {query.uid!r}"
                raise usercode.raised(
                    error, reason="JobFileRaised", called=called, advice=usercode.CORRECT_IT
                ) from error
        with spark_errors.refusing_plan(query.uid):
            output = read_result(result, query.uid)
            declared.declare(query.uid, output)
            stream = carry.stream_of(output)
            if isinstance(output, QueryOutputs):
                retries.while_refused(functools.partial(writing.check_schemas, output, options), step.tell)
            operators = registry.operators_of(query.uid)
            planned = describe.describe(query.uid, stream, operators, partitions=partitions)
        built.append(BuiltQuery(query.uid, output, stream, planned, operators))
        is_planned()
    return Built(tuple(built), declared, hooks.JobHooks(job.hooks))


# Compare


def compare(
    job_config: config.JobConfig, root: JobRoot, spark: SparkSession, start_plan: StartPlan, built: Built
) -> Comparison:
    """Compare the job with its state.

    Args:
        job_config: Says which state may be dropped.
        root: The location of the state.
        spark: The session.
        start_plan: The state that is restored.
        built: The job as it would run.

    Raises:
        SpecRejectedError: The job cannot restore part of the state, a sink has shown batches that are not in it, or a
            rollback is not harmless.
    """
    outputs = {query.uid: query.output for query in built.queries}
    planned = tuple(query.planned for query in built.queries)
    kept_aside = asides.find(job_config.restore, start_plan, planned, built.master_hooks.uids)
    start_plan = replace(start_plan, kept_aside=kept_aside)
    drop_state = (*job_config.restore.drop_state, *(part.uid for part in kept_aside))
    built.functions.require_place(start_plan.queries, drop_state)
    built.master_hooks.require_place(start_plan.master_states, drop_state)
    job_sinks.require_place(start_plan.queries, job_sinks.keys_of(outputs), job_config.restore.drop_state)
    changes = comparison.compare(
        start_plan.queries,
        planned,
        label=start_plan.restored_from or "The state on storage",
        drop_state=drop_state,
        begun_otherwise=_begun_otherwise(root, start_plan, planned),
    )
    rollbacks.require_harmless(job_config.restore, root, start_plan, changes, planned=planned, outputs=outputs)
    sink_comparison.require_contained(job_config, root, start_plan, outputs)
    declared = {operator.uid: operator.states for query in built.queries for operator in query.operators}
    compared = {change.query.uid: keyed_states.compare(change, declared) for change in changes}
    spread = load.without_partitions(compared, start_plan)
    comparison.require_spreadable(spread.values())
    stored_formats.require_spreadable(
        start_plan, {uid: change.partitions for uid, change in spread.items() if change.partitions is not None}
    )
    return Comparison(root, spark, start_plan, built, compared)


def _begun_otherwise(root: JobRoot, start_plan: StartPlan, planned: Sequence[plans.PlannedQuery]) -> list[str]:
    """Return the queries that have committed nothing, and have begun to read other sources.

    Spark reads what it has planned by the position of each source, not by its name.

    Cost: a LIST per query that has committed nothing and has other sources.
    """
    return [
        query.uid
        for query in plan.with_other_sources(start_plan, planned)
        if not _BEGUN.isdisjoint(root.store.list_names(query.path))
    ]


# Prepare


def prepare(
    job_config: config.JobConfig,
    compared: Comparison,
    started_at: datetime,
    *,
    begin_step: progress.BeginStep = progress.ignore_steps,
) -> start_parts.Parts:
    """Prepare the generation that the job runs in, and restore functions and hooks."""
    root, built = compared.root, compared.built
    origin = compared.start_plan.restored_from or "empty state"
    begin_step(f"Preparing to go on from {origin}")
    ready = _generation_ready(compared, begin_step)
    begin_step(f"Preparing the functions of the job to go on from {origin}")
    bound = built.functions.bind(root, ready)
    queries = tuple(replace(query, output=bound.get(query.uid, query.output)) for query in built.queries)
    built.master_hooks.restore(ready)
    return start_parts.Parts(
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


def _generation_ready(compared: Comparison, begin_step: progress.BeginStep) -> ReadyState:
    root, start_plan, changes = compared.root, compared.settled_plan, compared.changes
    changed = {uid: change for uid, change in changes.items() if not change.is_empty}
    sentences = tuple(sentence for change in changes.values() for sentence in change.sentences)
    for sentence in sentences:
        _log.info("the job has changed", extra={"what": sentence})
    for warning in (warning for change in changes.values() for warning in change.warnings):
        _log.warning("the job has changed in a way that its state does not reflect", extra={"what": warning})
    planned = tuple(query.planned for query in compared.built.queries)
    ready = restore.carry_out(
        root.store,
        plan.move_to_new_generation(start_plan, sentences) if changed else plan.declare_queries(start_plan, planned),
        root.claimed_by,
        rewrites={uid: change.rewrite for uid, change in changed.items()},
        finish=_finisher(compared, planned, changed, begin_step=begin_step),
        hadoop_root=session.hadoop_uri(root.store.uri),
        begin_step=begin_step,
    )
    _log.info("generation ready", extra={"generation": ready.generation})
    if ready.mode is not plan.StartMode.CONTINUE and numbers.may_repeat_rows(ready.record):
        for query in compared.built.queries:
            if not isinstance(query.output, QueryOutputs):  # Nobody can ask a sink of Spark's own what it has.
                _log.warning(
                    "rows that a sink of spark's own has of later batches may be written again",
                    extra={"query": query.uid, "after_batch": ready.start_batches.get(query.uid, -1)},
                )
    return ready


def _finisher(
    compared: Comparison,
    planned: tuple[plans.PlannedQuery, ...],
    changed: Mapping[str, Evolution],
    *,
    begin_step: progress.BeginStep,
) -> restore.Finisher:
    """Return the Spark part of a new generation: load a canonical savepoint, then rewrite the changed state."""
    root, start_plan = compared.root, compared.start_plan
    carrier = carry.Carrier(
        session=compared.spark,
        store=root.store,
        hadoop_root=session.hadoop_uri(root.store.uri),
        epoch=root.epoch,
        planned=planned,
        streams={query.uid: query.stream for query in compared.built.queries},
        evolutions=load.without_partitions(changed, start_plan),
        begin_step=begin_step,
    )
    importer = load.StateImporter(
        compared.spark, root.store, root.options, start_plan, planned, compared.changes, begin_step=begin_step
    )
    return importer.then(carrier.finish)


# Start


def start(
    parts: start_parts.Parts,
    serving: Callable[[JobLoop, config.JobConfig], Ending] = serve.serve,
    *,
    begin_step: progress.BeginStep = progress.ignore_steps,
) -> Ending:
    """Start the queries, and run until the job ends.

    Args:
        parts: The prepared job.
        serving: Runs the loop until it ends.
        begin_step: Begins each step until then.
    """
    try:
        with jvm.explaining_its_end():
            ending = serving(assemble.assemble(parts, begin_step=begin_step), parts.job_config)
    finally:
        parts.master_hooks.close()
    parts.declared.close()
    return ending
