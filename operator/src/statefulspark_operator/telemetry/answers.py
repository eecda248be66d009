"""Metrics of jobs from what their drivers answered last: lag, rates, and how checkpoints go.

They spare a scraper the drivers, and are as old as the operator's latest look at one: up to half a minute. Without a driver
that answers they are left out. Counters begin anew with each driver, as the driver's own do. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from statefulspark.contract.api import JobStatus, QueryStatus

from statefulspark_operator.telemetry.families import Family, Sample, counter, gauge


def families() -> tuple[Family, ...]:
    """Declare the metrics."""
    return (
        gauge(
            "lag_rows",
            "Rows that the sources of a query had and its last batch did not read; left out if no source tells.",
            "query",
        ),
        counter("input_rows", "Rows that the running driver has read.", "query"),
        gauge("rows_per_second", "Rows per second of the last batch.", "query"),
        gauge("last_commit_timestamp_seconds", "When the last batch was committed.", "query"),
        counter("checkpoints_completed", "Checkpoints and savepoints that the running driver has completed."),
        counter("checkpoints_failed", "Checkpoints and savepoints of the running driver that did not complete."),
        gauge("last_checkpoint_duration_seconds", "Trigger to completion of the running driver's latest checkpoint."),
        gauge("last_savepoint_duration_seconds", "Trigger to completion of the running driver's latest savepoint."),
    )


def samples(answer: JobStatus) -> Iterator[Sample]:
    """Yield what a driver has said of its job."""
    for query in answer.queries:
        yield from _of_query(query)
    yield "checkpoints_completed", (), answer.checkpoints.completed
    yield "checkpoints_failed", (), answer.checkpoints.failed
    for name, snapshot in (("last_checkpoint", answer.last_checkpoint), ("last_savepoint", answer.last_savepoint)):
        if snapshot is not None:
            took = snapshot.completed_at - snapshot.triggered_at
            yield f"{name}_duration_seconds", (), took.total_seconds()


def _of_query(query: QueryStatus) -> Iterator[Sample]:
    label = (query.uid,)
    lags = [source.lag_rows for source in query.sources if source.lag_rows is not None]
    if lags:
        yield "lag_rows", label, sum(lags)
    yield "input_rows", label, query.input_rows
    yield "rows_per_second", label, query.rows_per_second
    if query.last_commit_at is not None:
        yield "last_commit_timestamp_seconds", label, query.last_commit_at.timestamp()
