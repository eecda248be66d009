"""`statefulspark status`: shows the status of a running driver."""

from __future__ import annotations

from datetime import datetime

import click

from statefulspark import clock, durations
from statefulspark.cli import options
from statefulspark.commandline import commands, output, tables
from statefulspark.contract import api, sizes


@click.command(
    "status",
    cls=commands.Command,
    short_help="show the status of a running driver",
    help="Show the status of a running driver: its queries, its checkpoints, and the snapshot it started from.",
    epilog="example:\n  kubectl port-forward pod/words-driver-7 8090 &\n  STATEFULSPARK_TOKEN=... statefulspark status",
)
@output.options
@options.driver
def command(printing: output.Printing, driver: options.DriverAddress) -> None:
    """Run the command."""
    status = driver.open().status()
    name = f"job/{status.namespace}/{status.job}"
    printing.write(output.Result(status, [name], lambda _: describe(status, now=clock.utc_now())))


def describe(status: api.JobStatus, *, now: datetime) -> str:
    """Return a status as text for people."""
    counts, failure = status.checkpoints, status.last_failure
    failed = None
    if failure is not None:
        failed = f"{failure.reason}, {durations.format_short(now - failure.failed_at)} ago: {failure.message}"
    head = tables.pairs(
        (
            ("Job", f"{status.namespace}/{status.job}"),
            ("State", status.state.value),
            ("Message", status.message),
            ("Up", durations.format_short(now - status.started_at)),
            ("Epoch", str(status.epoch)),
            ("Generation", str(status.generation) if status.generation is not None else None),
            ("Revision", status.revision),
            ("Restored from", status.restored_from or "nothing: it started with empty state"),
            ("Spark", status.other_spark),
            ("Kept aside", status.kept_aside),
            ("Restore", status.restore_skipped),
            ("Fallback", status.fallback),
            (
                "Checkpoints",
                f"{counts.completed} completed, {counts.in_progress} in progress, {counts.failed} failed",
            ),
            ("Last checkpoint", _snapshot(status.last_checkpoint, now)),
            ("Last savepoint", _snapshot(status.last_savepoint, now)),
            ("Last failure", failed),
        )
    )
    if not status.queries:
        return head
    header = ("QUERY", "BATCH", "COMMITTED", "ROWS", "ROWS/S", "TOOK", "STATE")
    text = f"{head}\n{tables.columns(header, [_query(query, now) for query in status.queries])}"
    if not status.sinks:
        return text
    rows = [
        (
            sink.uid,
            sink.query,
            f"batch {sink.committed_batch}" if sink.committed_batch is not None else "",
            str(sink.pending_transactions),
            sink.retrying or "",
        )
        for sink in status.sinks
    ]
    return f"{text}\n{tables.columns(('SINK', 'QUERY', 'COMMITTED', 'PENDING', 'RETRYING'), rows)}"


def _snapshot(summary: api.SnapshotSummary | None, now: datetime) -> str | None:
    if summary is None:
        return None
    age = durations.format_short(now - summary.completed_at)
    took = durations.format_short(summary.completed_at - summary.triggered_at)
    return f"{summary.id}, {age} ago, {sizes.format_short(summary.size_bytes)}, took {took}, {summary.location}"


def _query(query: api.QueryStatus, now: datetime) -> tuple[str, ...]:
    return (
        query.uid,
        str(query.batch_id) if query.batch_id >= 0 else "",
        f"{durations.format_short(now - query.last_commit_at)} ago" if query.last_commit_at is not None else "",
        str(query.input_rows),
        f"{query.rows_per_second:.0f}",
        tables.milliseconds(query.batch_duration_ms),
        query.error or ("running" if query.active else "ended"),
    )
