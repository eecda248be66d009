"""Compares a start with what its sinks have, before it changes anything.

Sinks refuse a start that does not fit what they have when they are opened (`marker.open_marker`). Here the same is found out
while the generation in use is still untouched, for a check and a standby too.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from statefulspark import errors
from statefulspark.checkpoint import lineage_records
from statefulspark.contract import layout
from statefulspark.declaration import outputs_of
from statefulspark.driver.output import job_sinks, other_jobs
from statefulspark.driver.output.job_sinks import DriverAttempt, JobSink
from statefulspark.driver.output.sink_rights import SinkRights
from statefulspark.recovery import generations, history
from statefulspark.recovery.plan import StartMode
from statefulspark.sinks import marker, marker_errors, standing
from statefulspark.sinks.base import TellsMarker
from statefulspark.sinks.standing import Standing

if TYPE_CHECKING:
    from statefulspark.contract import config
    from statefulspark.driver.starting.start_parts import JobRoot
    from statefulspark.recovery.plan import StartPlan
    from statefulspark.sinks.base import SinkContext, TwoPhaseSink


NEWEST_EPOCH = sys.maxsize
"""The epoch of a reader: no driver of the root replaces it."""


def require_contained(
    job_config: config.JobConfig, root: JobRoot, start_plan: StartPlan, outputs: Mapping[str, object]
) -> None:
    """Refuse a start from state that does not fit what a sink of the job has.

    Cost: nothing for a driver that continues in its generation and has no right for a sink left, since it opens its
    sinks next; else the listings and records of lineages and generations, and one look into each sink.

    Args:
        job_config: The job, and the sinks that it may write to all the same.
        root: The job's root.
        start_plan: Where it would start.
        outputs: What each query writes, by query uid.

    Raises:
        SpecRejectedError: `SinkUnknown`, `SinkAhead`, `SinkTaken`, `SinkOpenedElsewhere`, `SinkOfAnotherJob`, or a sink
            refuses. It has what all sinks refuse.
        StateUnknownError: `SinkBehind`, `SinkMarkerMissing`.
        TransientError: A sink is unavailable.
    """
    sinks = {
        (query_uid, output.uid): cast("TwoPhaseSink", output.sink)
        for query_uid, output in outputs_of(outputs)
        if isinstance(output.sink, TellsMarker)
    }
    rights = SinkRights.read(job_config.restore, start_plan.carried_out)
    if not job_config.restore.of_another_revision:
        rights.require_sinks([layout.sink_name(*key) for key in job_sinks.keys_of(outputs)])
    is_opened_next = root.author is not None and start_plan.mode is StartMode.CONTINUE
    # A right for one sink is not used before the others are known to go on, too.
    if (is_opened_next and not rights.granted) or not sinks:
        return
    attempt = replace(_attempt(job_config, root, start_plan), rights=rights)
    restored = {query.uid: query for query in start_plan.queries}
    refused = {}
    for (query_uid, uid), sink in sinks.items():
        of_job = JobSink(attempt, query_uid, uid, sink)
        context = of_job.context(start_plan.start_batches.get(query_uid, -1), of_job.expected(restored.get(query_uid)))
        try:
            with rights.explaining(of_job.name):
                _require_openable(of_job, context, is_reader=root.author is None and not history.goes_back(start_plan))
        except (errors.SpecRejectedError, errors.StateUnknownError) as refusal:
            refused[of_job.name] = refusal
    if refused:
        raise rights.refusal(refused)


def _require_openable(sink: JobSink, context: SinkContext, *, is_reader: bool) -> None:
    """Refuse what a driver that opens a sink would refuse.

    Args:
        sink: The sink.
        context: The context in which it would be opened.
        is_reader: Whether a driver may run that has committed more since storage was read.
    """
    context = other_jobs.continuing(sink, context)
    stored, where = cast("TellsMarker", sink.sink).stored_marker(context), sink.target or "its target"
    if is_reader and standing.compare(stored, context) is Standing.STATE_BEHIND:
        return
    try:
        marker.open_marker(stored, context, where, withdraws=sink.withdraws)
    except marker_errors.SinkBehindError as behind:
        if not behind.is_healable:
            raise


def _attempt(job_config: config.JobConfig, root: JobRoot, start_plan: StartPlan) -> DriverAttempt:
    """Return the driver that would open the sinks in the generation that the start would make."""
    lineages = root.author.lineages if root.author else lineage_records.read_all(root.store)
    source = start_plan.source
    origin = source.descent if source else None
    ancestors = origin.below(lineages.lineage, source.queries) if origin and source else ()
    every = generations.read_all(root.store)
    went_back = start_plan.generation if history.goes_back(start_plan) else 0
    if origin and source:
        past = history.from_cut(every, origin.cut(source.queries), lineage=lineages.lineage, went_back=went_back)
    elif start_plan.mode is StartMode.CONTINUE:
        past = history.trace(every, start_plan.generation)
        ancestors = start_plan.descent.ancestors if start_plan.descent else ()
    else:
        past = history.History(went_back=went_back)
    return DriverAttempt(
        store=root.store,
        options=root.options,
        job=f"{job_config.namespace}/{job_config.name}",
        epoch=root.author.epoch if root.author else NEWEST_EPOCH,
        claim_id=root.author.claim_id if root.author else "",
        generation=start_plan.generation,
        descent=lineage_records.Descent(lineages.lineage, start_plan.generation, root.store.uri, ancestors),
        history=past,
        restored=start_plan.restored,
    )
