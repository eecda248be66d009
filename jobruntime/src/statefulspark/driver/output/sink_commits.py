"""Opens a sink, commits to it, and aborts what was prepared for it, with what its driver knows to be there.

A sink that says that another driver has opened it is believed if storage knows that driver. A sink that has lost batches
gets them again, if the driver still has their transactions.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import replace

from statefulspark import errors
from statefulspark.checkpoint import epochs
from statefulspark.contract.manifest import QueryEntry, SinkOpening
from statefulspark.contract.prepared import PreparedRecord
from statefulspark.driver.output import other_jobs, sink_calls
from statefulspark.driver.output.job_sinks import JobSink
from statefulspark.driver.output.sink_progress import SinkProgress
from statefulspark.sinks import marker_errors
from statefulspark.sinks.base import MergesTransactions, SinkContext, TellsMarker
from statefulspark.sinks.standing import Expected

_log = logging.getLogger(__name__)

MOST_OPENINGS = 24
"""A snapshot names so many drivers for each sink, the newest. The marker of an older one is compared with the oldest."""


def open_sink(sink: JobSink, restored: QueryEntry | None, progress: SinkProgress) -> None:
    """Open a sink, also one that lacks batches whose transactions the snapshot names: they are committed next.

    Args:
        sink: The sink.
        restored: Its query, as it is restored; None for a query that starts empty.
        progress: Its progress.

    Raises:
        FencedError, SpecRejectedError, StateUnknownError: See `marker.open_marker`.
        TransientError: Call again.
    """
    expected, batch_id = sink.expected(restored), restored.batch_id if restored is not None else -1
    progress.kept_after = expected.kept_after
    progress.origin = expected.origin or sink.driver.lineage
    context = sink.context(batch_id, expected)
    try:
        _open(sink, context)
    except marker_errors.SinkBehindError as behind:
        if not behind.is_healable:
            raise
        _open(sink, replace(context, expected=replace(expected, committed=expected.kept_after)))
        _tell_loss(sink, progress, behind)
    opening = SinkOpening(epoch=sink.driver.epoch, after=context.position)
    progress.openings = (*expected.openings, opening)[-MOST_OPENINGS:]


def _open(sink: JobSink, context: SinkContext) -> None:
    with _asking(sink, "open", context):
        sink.sink.open(other_jobs.taking_over(sink, context))


def merge(sink: JobSink, earlier: PreparedRecord, later: PreparedRecord) -> PreparedRecord | None:
    """Return the record whose commit commits two; None if they are to be committed apart."""
    if not isinstance(sink.sink, MergesTransactions) or earlier.transaction is None or later.transaction is None:
        return None
    with sink_calls.calling(sink.sink, sink.uid, "merge"):
        transaction = sink.sink.merge(earlier.transaction.encode(), later.transaction.encode())
        sink_calls.require_transaction(transaction)
    return None if transaction is None else later.model_copy(update={"transaction": transaction.decode()})


def commit(sink: JobSink, record: PreparedRecord, progress: SinkProgress, *, merged_from: int | None = None) -> None:
    """Commit a transaction to a sink that has what it had; first what it has lost, if the driver still has it.

    Args:
        sink: The sink.
        record: The record of the transaction.
        progress: What the sink has committed.
        merged_from: The first batch of a merged transaction.

    Raises:
        FencedError: A newer driver runs, or a job at another root has taken the sink over.
        SpecRejectedError: `SinkOpenedElsewhere`, or the sink refuses.
        StateUnknownError: `SinkBehind`: the sink has lost more than the driver has; `SinkMarkerMissing`.
        TransientError: Call again.
    """
    expected, has_rights = progress.expected, not progress.is_started
    try:
        _send(sink, record, expected, has_rights=has_rights, merged_from=merged_from)
    except marker_errors.SinkBehindError as behind:
        if not behind.is_healable:
            raise
        for lost in progress.lost(behind.marker, sink):
            _send(sink, lost, Expected(origin=expected.origin), has_rights=has_rights)
        _send(sink, record, expected, has_rights=has_rights, merged_from=merged_from)
        _tell_loss(sink, progress, behind)


def abort(sink: JobSink, record: PreparedRecord) -> bool:
    """Abort a transaction that will never be committed; tell whether nothing of it is left to do.

    Raises:
        FencedError: A newer driver runs.
    """
    context = sink.context_of(record)
    if record.job != sink.driver.job or record.sink != sink.kind or record.transaction is None:
        return True
    if context.is_inherited:
        return True  # Another root prepared it, and may commit it.
    what = {"sink": sink.uid, "batch": record.batch_id}
    try:
        with sink_calls.calling(sink.sink, sink.uid, "abort"):
            sink.sink.abort(record.transaction.encode(), context)
    except errors.FencedError:
        raise
    except errors.StatefulSparkError as error:
        _log.warning("aborting a transaction failed", extra={**what, "why": str(error)})
        return False
    _log.info("transaction aborted", extra={**what, "epoch": record.epoch})
    return True


def _send(
    sink: JobSink, record: PreparedRecord, expected: Expected, *, has_rights: bool, merged_from: int | None = None
) -> None:
    context = replace(sink.context_of(record, expected, has_rights=has_rights), merged_from=merged_from)
    with _asking(sink, "commit", context):
        sink.sink.commit((record.transaction or "").encode(), context)


@contextlib.contextmanager
def _asking(sink: JobSink, method: str, context: SinkContext) -> Iterator[None]:
    """Call a sink; its refusal of a start that has rights names these, too."""
    rights = sink.driver.rights
    try:
        with rights.explaining(sink.name), _looking_up_who_fenced(sink, method, context):
            yield
    except (errors.SpecRejectedError, errors.StateUnknownError) as refused:
        if marker_errors.is_healed(refused) or not context.descent.rights:
            raise
        together = rights.refusal({sink.name: refused})
        if together is refused:
            raise
        raise together from refused


@contextlib.contextmanager
def _looking_up_who_fenced(sink: JobSink, method: str, context: SinkContext) -> Iterator[None]:
    """Call a sink; if it says that another driver has opened it, storage must know that driver."""
    try:
        with sink_calls.calling(sink.sink, sink.uid, method):
            yield
    except marker_errors.SinkTakenOverError:
        raise
    except errors.FencedError as fenced:
        epochs.require_current(sink.driver.store, sink.driver.epoch)
        stored = sink.sink.stored_marker(context) if isinstance(sink.sink, TellsMarker) else None
        where = sink.target or "its target"
        raise marker_errors.opened_elsewhere_error(
            stored, context, where, withdraws=sink.withdraws, is_running=method == "commit"
        ) from fenced


def _tell_loss(sink: JobSink, progress: SinkProgress, behind: marker_errors.SinkBehindError) -> None:
    progress.sent_again = f"{behind.loss} The transactions of these batches were kept, and are committed again."
    _log.warning("a sink lost batches, and gets them again", extra={"sink": sink.uid, "why": progress.sent_again})
