"""Metrics of a driver in Prometheus's text format, derived from its status.

Names follow Flink's checkpoint metrics in snake case, with units; every series carries the job and its namespace.
"""

from __future__ import annotations

from collections.abc import Iterator

from statefulspark.contract import api

PREFIX = "statefulspark_"


def render(status: api.JobStatus) -> str:
    """Return the exposition of a status, ending with a newline."""
    job = f'namespace="{status.namespace}",job="{status.job}"'
    lines: list[str] = []
    for name, kind, help_text, samples in _families(status):
        lines += [f"# HELP {PREFIX}{name} {help_text}", f"# TYPE {PREFIX}{name} {kind}"]
        lines += [f"{PREFIX}{name}{{{job}{labels}}} {value:.15g}" for labels, value in samples]
    return "\n".join(lines) + "\n"


_Family = tuple[str, str, str, list[tuple[str, float]]]


def _families(status: api.JobStatus) -> Iterator[_Family]:
    counts = status.checkpoints
    yield "epoch", "gauge", "Epoch of the driver.", [("", status.epoch)]
    yield "up", "gauge", "1 while every query runs.", [("", float(status.state is api.JobState.RUNNING))]
    yield "checkpoints_triggered_total", "counter", "Snapshots triggered.", [("", counts.triggered)]
    yield "checkpoints_in_progress", "gauge", "Snapshots under way.", [("", counts.in_progress)]
    yield "checkpoints_completed_total", "counter", "Snapshots completed.", [("", counts.completed)]
    yield "checkpoints_failed_total", "counter", "Snapshots that failed.", [("", counts.failed)]
    last = status.last_checkpoint
    if last is not None:
        duration_s = (last.completed_at - last.triggered_at).total_seconds()
        yield "last_checkpoint_id", "gauge", "Latest completed checkpoint.", [("", last.id)]
        yield "last_checkpoint_size_bytes", "gauge", "Bytes it references.", [("", last.size_bytes)]
        yield "last_checkpoint_duration_seconds", "gauge", "Trigger to completion.", [("", duration_s)]
        completed_s = last.completed_at.timestamp()
        yield "last_checkpoint_completed_timestamp_seconds", "gauge", "When it completed.", [("", completed_s)]
    yield from _query_families(status.queries)


def _query_families(queries: tuple[api.QueryStatus, ...]) -> Iterator[_Family]:
    def samples(values: list[float]) -> list[tuple[str, float]]:
        return [(f',query="{query.uid}"', value) for query, value in zip(queries, values, strict=True)]

    yield "query_batch", "gauge", "Last committed batch.", samples([query.batch_id for query in queries])
    yield "query_input_rows_total", "counter", "Rows read by this driver.", samples([q.input_rows for q in queries])
    yield "query_rows_per_second", "gauge", "Rate of the last batch.", samples([q.rows_per_second for q in queries])
    durations = [query.batch_duration_ms / 1000 for query in queries]
    yield "query_batch_duration_seconds", "gauge", "Duration of the last batch.", samples(durations)
