"""Compares a start with what its sinks have, before it changes anything.

Sinks refuse a start that does not fit what they have when they are opened (`marker.open_marker`). Here the same is found out
while the generation in use is still untouched, for a check and a standby too.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

from statefulspark import errors
from statefulspark.checkpoint import lineage_records
from statefulspark.declaration import Output
from statefulspark.driver.output import other_jobs
from statefulspark.driver.output.job_sinks import DriverAttempt, JobSink
from statefulspark.recovery import generations, history
from statefulspark.recovery.plan import StartMode
from statefulspark.sinks import marker, standing
from statefulspark.sinks.base import TellsMarker
from statefulspark.sinks.standing import Standing

if TYPE_CHECKING:
    from statefulspark.contract import config
    from statefulspark.contract.config import RestoreConfig
    from statefulspark.driver.starting.start_parts import JobRoot
    from statefulspark.recovery.plan import RestoredState, StartPlan
    from statefulspark.sinks.base import TwoPhaseSink


_REFUSALS = ("SinkAhead", "SinkTaken")
NEWEST_EPOCH = sys.maxsize
"""The epoch of a reader: no driver of the root replaces it."""


def require_contained(
    job_config: config.JobConfig, root: JobRoot, start_plan: StartPlan, outputs: Mapping[str, object]
) -> None:
    """Refuse a start from state that does not fit what a sink of the job has.

    Cost: nothing for a driver that continues in its generation, since it opens its sinks next; else the listings and records
    of lineages and generations, and one look into each sink.

    Args:
        job_config: The job, and whether it may write to its sinks all the same.
        root: The job's root.
        start_plan: Where it would start.
        outputs: The results of the query functions, by query uid.

    Raises:
        SpecRejectedError: `SinkAhead`, `SinkTaken`, `SinkOpenedElsewhere`, `SinkOfAnotherJob`, or a sink refuses.
        StateUnknownError: `SinkBehind`, `SinkMarkerMissing`.
        TransientError: A sink is unavailable.
    """
    sinks = {
        (query_uid, output.uid): cast("TwoPhaseSink", output.sink)
        for query_uid, output in outputs.items()
        if isinstance(output, Output) and isinstance(output.sink, TellsMarker)
    }
    takes_over = job_config.restore.may_take_over_sinks(start_plan.carried_out)
    is_opened_next = root.author is not None and start_plan.mode is StartMode.CONTINUE
    if is_opened_next or takes_over or not sinks:
        return
    attempt = _attempt(job_config, root, start_plan)
    restored = {query.uid: query for query in start_plan.queries}
    for (query_uid, uid), sink in sinks.items():
        of_job = JobSink(attempt, query_uid, uid, sink)
        context = of_job.context(start_plan.start_batches.get(query_uid, -1), of_job.expected(restored.get(query_uid)))
        other_jobs.require_none(of_job, context)
        stored, where = cast("TellsMarker", sink).stored_marker(context), of_job.target or "its target"
        relation = standing.compare(stored, context)
        if relation is Standing.STATE_BEHIND and root.author is None and not history.goes_back(start_plan):
            continue  # The driver that runs has committed more since storage was read.
        try:
            with explaining_take_over(job_config.restore, start_plan):
                marker.open_marker(stored, context, where, withdraws=of_job.withdraws)
        except marker.SinkBehindError as behind:
            if not behind.is_healable:
                raise


@contextlib.contextmanager
def explaining_take_over(restore: RestoreConfig, state: RestoredState) -> Iterator[None]:
    """Add to the refusal of a sink that `takeOverSinks` was given, and was used before.

    It counts once: a start that has opened its sinks with it remembers it on storage. Two jobs in front of one sink may both
    have it left in their manifests. Each restart would take the sink back then, and write rows again; so the job that has
    lost the sink is refused by name.
    """
    try:
        yield
    except errors.SpecRejectedError as error:
        is_spent = restore.take_over_sinks and not restore.may_take_over_sinks(state.carried_out)
        if error.reason not in _REFUSALS or not is_spent:
            raise
        raise errors.SpecRejectedError(
            error.reason,
            f"{error.message} This job has used its restore.takeOverSinks before, and it counts once: make sure that no "
            "other job writes there, then change restore.nonce to say it again (on the command line "
            "--restore-take-over-sinks --restore-again).",
        ) from error


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
