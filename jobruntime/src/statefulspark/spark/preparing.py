"""Between claim and start: find the state, compare the job with it, and prepare the generation that the job runs in."""

from __future__ import annotations

import logging
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import pyspark

from statefulspark import storage
from statefulspark._version import __version__
from statefulspark.contract import config
from statefulspark.snapshot import descent, evolution, keyedstates, plans, recovery, restore
from statefulspark.snapshot.plan import Author, in_new_generation, noting_declared
from statefulspark.spark import jobsinks, session
from statefulspark.spark.canonical import starting
from statefulspark.spark.evolution import carry
from statefulspark.spark.keyed import registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from statefulspark.declaration import Output
    from statefulspark.snapshot.plan import StartPlan
    from statefulspark.storage import ObjectStore, StorageOptions

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the job's state is, the epoch under which this driver may write it, and what the root has been."""

    store: ObjectStore
    options: StorageOptions
    epoch: int
    lineages: descent.Lineages = field(default_factory=descent.Lineages)


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


def versions() -> dict[str, str]:
    """Return what writes the state, for manifests."""
    return {
        "statefulspark": __version__,
        "pyspark": pyspark.__version__,
        "python": platform.python_version(),
    }


def author_of(job_config: config.JobConfig, place: Place, now: datetime) -> Author:
    """Return who writes what this start writes."""
    return Author(
        job_config.namespace,
        job_config.name,
        place.epoch,
        now,
        job_config.revision,
        versions(),
        owner_id=job_config.owner_id,
        lineages=place.lineages,
    )


def find_state(query_uids: Sequence[str], job_config: config.JobConfig, place: Place, author: Author) -> StartPlan:
    """Find out where to start, and complete what a dead driver left committed."""
    found = recovery.find_start(
        place.store,
        author,
        restore=job_config.restore,
        query_uids=query_uids,
        open_store=lambda uri: storage.open_store(uri, place.options),
    )
    _log.info("state found", extra={"restored_from": found.restored_from or "nothing: first start"})
    if found.restore_skipped is not None:
        # Whoever gave the wish a name has it done once on purpose, through any number of restarts.
        level = logging.WARNING if job_config.restore.id is None else logging.INFO
        _log.log(level, "the restore that was asked for is not done again", extra={"why": found.restore_skipped})
    if found.fallback is not None:
        _log.warning("fell back to an older snapshot", extra={"why": found.fallback})
    return starting.with_shells(found)


def compare(
    job_config: config.JobConfig, found: StartPlan, built: Sequence[BuiltQuery]
) -> dict[str, evolution.Evolution]:
    """Return what becomes of each restored query, by uid.

    Args:
        job_config: It says whether state may be left behind.
        found: What is restored.
        built: The job as it would run.

    Raises:
        SpecRejectedError: The job has no place for the state, or could not read it.
    """
    if not job_config.restore.allow_non_restored_state:
        jobsinks.require_place(found.queries, jobsinks.keys_of({one.uid: one.output for one in built}))
    changes = evolution.compare(
        found.queries,
        (one.planned for one in built),
        label=found.restored_from or "The state on storage",
        allow_non_restored_state=job_config.restore.allow_non_restored_state,
    )
    declared = {operator.uid: operator.states for one in built for operator in one.operators}
    return {change.query.uid: keyedstates.compare(change, declared) for change in changes}


def make_ready(
    job_config: config.JobConfig,
    place: Place,
    found: StartPlan,
    built: Sequence[BuiltQuery],
    spark: SparkSession,
    author: Author,
) -> StartPlan:
    """Compare the job with its state, refuse what does not fit, and prepare the generation to run in.

    Raises:
        SpecRejectedError: The job has no place for the state, or could not read it; nothing was written.
    """
    changes = compare(job_config, found, built)
    changed = starting.without_partitions({uid: one for uid, one in changes.items() if not one.is_empty}, found)
    sentences = tuple(sentence for change in changes.values() for sentence in change.sentences)
    for sentence in sentences:
        _log.info("the job has changed", extra={"what": sentence})
    for warning in (warning for change in changes.values() for warning in change.warnings):
        _log.warning("the job has changed in what its state cannot follow", extra={"what": warning})
    planned = tuple(one.planned for one in built)
    hadoop_root = session.hadoop_uri(place.store.uri)
    carrier = carry.Carrier(
        session=spark,
        store=place.store,
        hadoop_root=hadoop_root,
        epoch=place.epoch,
        planned=planned,
        streams={one.uid: one.stream for one in built},
        evolutions=changed,
    )
    filler = starting.Filler(spark, place.store, place.options, found, planned, changes)
    ready = restore.carry_out(
        place.store,
        in_new_generation(found, sentences) if changed else noting_declared(found, planned),
        author,
        rewrites={uid: change.rewrite for uid, change in changed.items()},
        finish=filler.then(carrier.finish),
        hadoop_root=hadoop_root,
    )
    _log.info("generation ready", extra={"generation": ready.generation})
    return ready
