"""Finds the sink of another job, from whose state this job started, in the same target, and takes it over if told so.

A job that was renamed has a name of its own, and so has a test job that started from a savepoint of production. So their
sinks have no marker in the target. Only a person can tell whether such a job continues the other one, or is a second job
that appends to the same target: the start is refused until a person says so, or gives the sink its own uid or target. A
second job that started from no state of the first one is not asked.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.contract.rights import SinkRight
from statefulspark.driver.output.job_sinks import JobSink
from statefulspark.sinks import marker_errors, standing
from statefulspark.sinks.base import SinkContext, TellsMarker
from statefulspark.sinks.marker import Marker
from statefulspark.sinks.standing import NOTHING_EXPECTED, Expected

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OtherSink:
    """The sink of another job in the target of this one.

    Attributes:
        job: The job, as `namespace/name`.
        marker: Its marker; None if the target has it no more, and the restored snapshot knows that it had.
    """

    job: str
    marker: Marker | None


def find(sink: JobSink, context: SinkContext) -> OtherSink | None:
    """Find the sink of a job from whose state this one started, if this job has not opened the sink since.

    Cost: nothing for a job that never had another name; else a look into the target, and one for each other name.

    Args:
        sink: The sink.
        context: Context in which this driver opens it.
    """
    telling = sink.sink
    if not context.descent.other_jobs or not isinstance(telling, TellsMarker):
        return None
    own = telling.stored_marker(replace(context, expected=NOTHING_EXPECTED))
    if own is not None and (not own.root or layout.job_at(own.root) == context.job):
        return None  # No job of another name has continued this sink.
    for job in context.descent.other_jobs:
        stored = telling.stored_marker(_looking(context, job))
        if stored is not None:
            return OtherSink(job, stored)
    expected = context.expected.committed
    committer = None if expected is None else sink.job_of(expected.lineage)
    if own is not None or committer is None or committer == context.job:
        return None
    return OtherSink(committer, None)


def continuing(sink: JobSink, context: SinkContext) -> SinkContext:
    """Return the context in which this driver would open a sink: with the marker of the job that it continues, if any.

    Args:
        sink: The sink.
        context: Context in which this driver would open it.

    Raises:
        SpecRejectedError: `SinkOfAnotherJob`: no right says that this job continues the other one.
        TransientError: The sink is unavailable.
    """
    other = _answered(sink, context)
    return context if other is None else replace(context, continues=other.marker)


def taking_over(sink: JobSink, context: SinkContext) -> SinkContext:
    """Fence the job that this one continues, and return the context in which to open the sink; idempotent.

    Args:
        sink: The sink.
        context: Context in which this driver opens it.

    Raises:
        SpecRejectedError: `SinkOfAnotherJob`: nobody has said that this job continues the other one; or the sink refuses.
        FencedError: A newer driver of this job has done the same.
        TransientError: The sink is unavailable.
    """
    other = _answered(sink, context)
    if other is None:
        return context
    _log.warning("a sink of another job is continued", extra={"sink": sink.uid, "job": other.job})
    if other.marker is None or not isinstance(sink.sink, TellsMarker):
        return context
    prepared = Expected(written=context.expected.written)
    sink.sink.open(replace(context.named(other.job), expected=prepared))
    # It may have committed until then.
    return replace(context, continues=sink.sink.stored_marker(_looking(context, other.job)))


def _looking(context: SinkContext, job: str) -> SinkContext:
    """Return the context in which this driver looks at the sink of another job for the batches that it knows to be there."""
    expected = context.expected
    return replace(context.named(job), expected=Expected(expected.committed, expected.kept_after))


def _answered(sink: JobSink, context: SinkContext) -> OtherSink | None:
    """Find the sink that this job continues, by a right of this start or of one that did not end.

    Raises:
        SpecRejectedError: `SinkOfAnotherJob`: there is no such right.
    """
    other = find(sink, context)
    if other is None:
        return None
    is_fenced = other.marker is not None and other.marker.lineage == context.descent.lineage
    if not is_fenced and SinkRight.REPEAT not in context.descent.rights:
        raise _refusal(sink, other, context)
    return other


def _refusal(sink: JobSink, other: OtherSink, context: SinkContext) -> errors.SpecRejectedError:
    newest, needed = context.expected.committed, standing.FOR_UNKNOWN_ROWS
    if other.marker is not None:
        newest, needed = other.marker.newest, (SinkRight.REPEAT,)
    has, again = marker_errors.described(newest), ""
    if newest is not None and not context.descent.contains(newest, context.position):
        again = " The restored state does not contain that batch, so the sink then writes it once more."
    return errors.SpecRejectedError(
        "SinkOfAnotherJob",
        f"The sink {sink.uid!r} of {context.job} cannot start: {sink.target} has {has} of the job {other.job}. This start "
        "descends from the state of that job, and nobody has said whether this job continues it. If it does, start with "
        f"{marker_errors.right(context, *needed)}: the sink goes on where the sink of that job ends, and commits once what "
        f"that job had prepared in the restored state. That job can no longer write there.{again} If both jobs are to write "
        "there, give the sink its own uid or target.",
    )
