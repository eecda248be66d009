"""Refuses a start that goes back behind what sinks have shown, before it changes anything.

A sink that shows each batch has shown batches that no checkpoint covers. A start that copies an older snapshot, or begins
with empty state, would produce them again, perhaps with other boundaries. The sink itself refuses such a start when it is
opened (`marker.open_marker`); here the same is found out while the generation in use is still untouched, for a check and
a standby too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, cast

from statefulspark.checkpoint import lineage_records
from statefulspark.declaration import Output
from statefulspark.driver.output.job_sinks import DriverAttempt, JobSink
from statefulspark.recovery import generations, history
from statefulspark.recovery.plan import StartMode
from statefulspark.sinks import marker, visibility
from statefulspark.sinks.base import TellsMarker, TwoPhaseSink

if TYPE_CHECKING:
    from statefulspark.contract import config
    from statefulspark.driver.starting.assemble import JobRoot
    from statefulspark.recovery.plan import StartPlan


class _ShowingSink(TwoPhaseSink, TellsMarker, Protocol):
    """A sink that can be asked here."""


NEWEST_EPOCH = sys.maxsize
"""The epoch of a reader: no driver of the root replaces it."""


def require_contained(
    job_config: config.JobConfig, root: JobRoot, start_plan: StartPlan, outputs: Mapping[str, object]
) -> None:
    """Refuse a start from state that lacks batches which a sink of the job has shown.

    Cost: nothing if the start continues in its generation, or if no sink shows each batch; else the listings and records of
    lineages and generations, and one look into each of these sinks.

    Args:
        job_config: The job, and whether it may write to its sinks all the same.
        root: The job's root.
        start_plan: Where it would start.
        outputs: The results of the query functions, by query uid.

    Raises:
        SpecRejectedError: `SinkAhead`, `SinkTaken`, or a sink refuses.
        TransientError: A sink is unavailable.
    """
    sinks = dict(_showing(outputs))
    if start_plan.mode is StartMode.CONTINUE or job_config.restore.take_over_sinks or not sinks:
        return
    attempt = _attempt(job_config, root, start_plan)
    for (query_uid, uid), sink in sinks.items():
        context = JobSink(attempt, query_uid, uid, sink).context(start_plan.start_batches.get(query_uid, -1))
        stored = sink.stored_marker(context)
        if stored is not None:
            marker.open_marker(stored, context, "its target")


def _showing(outputs: Mapping[str, object]) -> Iterable[tuple[tuple[str, str], _ShowingSink]]:
    for query_uid, output in outputs.items():
        if not isinstance(output, Output) or visibility.of(output.sink) is not visibility.Visibility.BATCH:
            continue
        if isinstance(output.sink, TellsMarker):
            yield (query_uid, output.uid), cast("_ShowingSink", output.sink)


def _attempt(job_config: config.JobConfig, root: JobRoot, start_plan: StartPlan) -> DriverAttempt:
    """Return the driver that would open the sinks in the generation that the start would make."""
    lineages = root.author.lineages if root.author else lineage_records.read_all(root.store)
    source = start_plan.source
    origin = source.descent if source else None
    ancestors = origin.below(lineages.lineage, source.queries) if origin and source else ()
    past = history.History()
    if origin and source:
        cut = origin.cut(source.queries)
        past = history.from_cut(generations.read_all(root.store), cut, lineage=lineages.lineage)
    return DriverAttempt(
        store=root.store,
        options=root.options,
        job=f"{job_config.namespace}/{job_config.name}",
        epoch=root.author.epoch if root.author else NEWEST_EPOCH,
        generation=start_plan.generation,
        descent=lineage_records.Descent(
            lineages.lineage, start_plan.generation, root.store.uri, ancestors, lineages.unnamed
        ),
        history=past,
    )
