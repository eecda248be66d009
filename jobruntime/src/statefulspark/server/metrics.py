"""Metrics of a driver, derived from its status and its statistics; Prometheus's own library writes them.

Names follow Flink's checkpoint metrics in snake case, with units. Every series has the labels `job_name` and
`job_namespace`, which no scraper gives to a target. Each family is declared in FAMILIES, `docs/metrics.md` explains each,
and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from statefulspark.contract import api, statistics
from statefulspark.coordinator import model
from statefulspark.server.memory import Memory
from statefulspark.storage.requests import Outcome

if TYPE_CHECKING:
    from prometheus_client import Metric

PREFIX = "statefulspark_"
JOB_LABELS = ("job_name", "job_namespace")
"""Labels of every series."""

_Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Attributes:
        name: Its name without the prefix.
        kind: Prometheus's type.
        meaning: Its help text.
        labels: Its labels beside those of the job.
    """

    name: str
    kind: str
    meaning: str
    labels: tuple[str, ...] = ()


def _gauge(name: str, meaning: str, *labels: str) -> Family:
    return Family(name, "gauge", meaning, labels)


def _counter(name: str, meaning: str, *labels: str) -> Family:
    return Family(name, "counter", meaning, labels)


FAMILIES = (
    _gauge("epoch", "Epoch of the driver."),
    _gauge("generation", "Generation it writes to."),
    _gauge("up", "1 while every query runs."),
    _gauge("start_time_seconds", "When the driver started."),
    _gauge("fallback", "1 if it started from older state than the newest, because that was damaged."),
    _counter("checkpoints_triggered_total", "Checkpoints and savepoints triggered."),
    _gauge("checkpoints_in_progress", "Checkpoints and savepoints under way."),
    _counter("checkpoints_completed_total", "Checkpoints and savepoints completed."),
    _counter("checkpoints_failed_total", "Checkpoints and savepoints that failed."),
    _counter("checkpoint_failures_total", "The same by reason.", "reason"),
    Family("checkpoint_duration_seconds", "histogram", "Trigger to completion.", ("le",)),
    _gauge("last_checkpoint_id", "Latest completed checkpoint."),
    _gauge("last_checkpoint_size_bytes", "Bytes it references."),
    _gauge("last_checkpoint_incremental_size_bytes", "Bytes of files that the checkpoint before did not reference."),
    _gauge("last_checkpoint_files", "Files it references."),
    _gauge("last_checkpoint_duration_seconds", "Trigger to completion."),
    _gauge("last_checkpoint_start_delay_seconds", "How long it waited to be triggered."),
    _gauge("last_checkpoint_alignment_seconds", "Trigger to the last acknowledgement: how long the barrier was waited for."),
    _gauge("last_checkpoint_async_duration_seconds", "Last acknowledgement to completion."),
    _gauge("last_checkpoint_listing_seconds", "How long the search for its files took: listings, and reads of small files."),
    _gauge("last_checkpoint_completed_timestamp_seconds", "When it completed."),
    _gauge("last_checkpoint_restore_timestamp_seconds", "When this driver started from a checkpoint or savepoint."),
    _gauge("last_savepoint_id", "Latest completed savepoint."),
    _gauge("last_savepoint_size_bytes", "Bytes that it holds."),
    _gauge("last_savepoint_duration_seconds", "Trigger to completion."),
    _gauge("last_savepoint_completed_timestamp_seconds", "When it completed."),
    _counter("pruned_bytes_total", "Size of the files that it has removed because no snapshot needs them."),
    _gauge("objects", "Objects of the job on storage, at the last search for unused ones."),
    _gauge("unused_objects", "Of these, those that no snapshot needs."),
    _gauge("deletion_backlog_objects", "Of the unused ones, those that wait to be deleted."),
    _gauge("prune_search_seconds", "Duration of the last search for unused objects."),
    _counter("storage_requests_total", "Requests of the driver's Python to S3, by outcome.", "kind", "outcome"),
    _gauge("memory_bytes", "Memory of the processes in the driver's container, by part.", "part"),
    _gauge("query_active", "1 while the query runs.", "query"),
    _gauge("query_batch", "Last committed batch.", "query"),
    _gauge("query_last_commit_timestamp_seconds", "When it was committed.", "query"),
    _counter("query_input_rows_total", "Rows read by this driver.", "query"),
    _counter("query_missing_files_total", "Input files that were gone before this driver read them.", "query"),
    _gauge("query_rows_per_second", "Rate of the last batch.", "query"),
    _gauge("query_batch_duration_seconds", "Duration of the last batch.", "query"),
    _gauge("query_batch_started_timestamp_seconds", "When the batch that runs was started.", "query"),
    _counter("query_restarts_total", "Restarts of the query by this driver, after failures that pass.", "query"),
    _gauge(
        "query_lag_rows",
        "Rows that its sources had and that the last batch did not read; absent if no source tells.",
        "query",
    ),
    _gauge("sink_pending_transactions", "Prepared and not committed: they wait for the next checkpoint.", "query", "sink"),
    _gauge("sink_committed_batch", "Its output is visible through this batch.", "query", "sink"),
)  # fmt: skip
"""Every metric, in the order of the exposition. Metrics without a value yet are omitted."""


Requests = Mapping[tuple[str, Outcome], int]
"""Numbers of requests to S3, by kind and outcome."""


def render(
    status: api.JobStatus,
    checkpoints: statistics.Checkpoints | None = None,
    requests: Requests | None = None,
    kept: Memory | None = None,
) -> str:
    """Return the exposition, ending with a newline."""
    # Imported by the first scrape: it imports an HTTP server, which would delay the start.
    from prometheus_client import exposition

    page = _Page(status, checkpoints or statistics.Checkpoints(), requests or {}, kept or {})
    return exposition.generate_latest(page).decode()


@dataclass(frozen=True, slots=True)
class _Page:
    """What one scrape finds, as the library asks for it."""

    status: api.JobStatus
    checkpoints: statistics.Checkpoints
    requests: Requests
    memory: Memory

    def collect(self) -> tuple[Metric, ...]:
        from prometheus_client import Metric

        # The library adds the suffix of counters itself.
        metrics = {
            family.name: Metric(f"{PREFIX}{family.name.removesuffix('_total')}", family.meaning, family.kind)
            for family in FAMILIES
        }
        job = {"job_name": self.status.job, "job_namespace": self.status.namespace}
        memory = (("memory_bytes", {"part": part.value}, kept) for part, kept in sorted(self.memory.items()))
        samples = (*_samples(self.status, self.checkpoints), *_requests(self.requests), *memory)
        for name, labels, value in samples:
            family = name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum")
            metrics[family].add_sample(f"{PREFIX}{name}", {**job, **labels}, value)
        return (*(metric for metric in metrics.values() if metric.samples), *self._of_functions(job))

    def _of_functions(self, job: _Labels) -> Iterator[Metric]:
        """Yield the families of the job's own metrics."""
        from prometheus_client import Metric

        metrics: dict[tuple[str, str], Metric] = {}
        for query in self.status.queries:
            for each in query.metrics:
                name, kind = f"{PREFIX}function_{each.name}", each.kind.lower()
                metric = metrics.setdefault((name, kind), Metric(name, "Of a function of the job.", kind))
                partition = {} if each.partition is None else {"partition": str(each.partition)}
                labels = {**job, "query": query.uid, "operator": each.operator, **partition}
                metric.add_sample(f"{name}_total" if kind == "counter" else name, labels, each.value)
        yield from metrics.values()


_Sample = tuple[str, _Labels, float]


def _samples(status: api.JobStatus, checkpoints: statistics.Checkpoints) -> Iterator[_Sample]:
    yield "epoch", {}, status.epoch
    if status.generation is not None:
        yield "generation", {}, status.generation
    yield "up", {}, float(status.state is api.JobState.RUNNING)
    yield "start_time_seconds", {}, status.started_at.timestamp()
    yield "fallback", {}, float(status.fallback is not None)
    yield "checkpoints_triggered_total", {}, status.checkpoints.triggered
    yield "checkpoints_in_progress", {}, status.checkpoints.in_progress
    yield "checkpoints_completed_total", {}, status.checkpoints.completed
    yield "checkpoints_failed_total", {}, status.checkpoints.failed
    # Every reason from the start: a series that begins with its first failure has not increased.
    for reason in model.AbortReason:
        yield "checkpoint_failures_total", {"reason": reason.value}, checkpoints.failures.get(reason.value, 0)
    yield from _durations(checkpoints.durations)
    if status.last_checkpoint is not None:
        yield from _last("last_checkpoint", status.last_checkpoint)
        yield from _last_details(status.last_checkpoint, checkpoints.latest.completed)
    if checkpoints.latest.restored is not None:
        restored_s = checkpoints.latest.restored.restored_at.timestamp()
        yield "last_checkpoint_restore_timestamp_seconds", {}, restored_s
    if status.last_savepoint is not None:
        yield from _last("last_savepoint", status.last_savepoint)
    yield "pruned_bytes_total", {}, status.pruned_bytes
    if status.files is not None:
        yield "objects", {}, status.files.objects
        yield "unused_objects", {}, status.files.unused_objects
        yield "deletion_backlog_objects", {}, status.files.deletion_backlog
        yield "prune_search_seconds", {}, status.files.search_ms / 1000
    for query in status.queries:
        yield from _query(query)
    for sink in status.sinks:
        label = {"query": sink.query, "sink": sink.uid}
        yield "sink_pending_transactions", label, sink.pending_transactions
        if sink.committed_batch is not None:
            yield "sink_committed_batch", label, sink.committed_batch


def _durations(durations: statistics.Durations) -> Iterator[_Sample]:
    """Return the samples of a histogram, from zero on, so that the first snapshot is an increase."""
    for bound, count in zip((*map(str, statistics.DURATION_BOUNDS_S), "+Inf"), durations.counts, strict=True):
        yield "checkpoint_duration_seconds_bucket", {"le": bound}, count
    yield "checkpoint_duration_seconds_sum", {}, durations.total_ms / 1000
    yield "checkpoint_duration_seconds_count", {}, durations.counts[-1]


def _requests(requests: Requests) -> Iterator[_Sample]:
    """Return the samples of all outcomes of each kind, from zero on, so that the first refusal is an increase."""
    for kind in sorted({kind for kind, _ in requests}):
        for outcome in Outcome:
            label = {"kind": kind, "outcome": outcome.value}
            yield "storage_requests_total", label, requests.get((kind, outcome), 0)


def _last(prefix: str, last: api.SnapshotSummary) -> Iterator[_Sample]:
    yield f"{prefix}_id", {}, last.id
    yield f"{prefix}_size_bytes", {}, last.size_bytes
    yield f"{prefix}_duration_seconds", {}, (last.completed_at - last.triggered_at).total_seconds()
    yield f"{prefix}_completed_timestamp_seconds", {}, last.completed_at.timestamp()


def _last_details(last: api.SnapshotSummary, details: statistics.SnapshotDetails | None) -> Iterator[_Sample]:
    """Return the samples that only a checkpoint of this driver has."""
    if last.incremental_size_bytes is not None:
        yield "last_checkpoint_incremental_size_bytes", {}, last.incremental_size_bytes
    if last.files is not None:
        yield "last_checkpoint_files", {}, last.files
    if last.phases_ms is not None and "closure" in last.phases_ms:
        yield "last_checkpoint_listing_seconds", {}, last.phases_ms["closure"] / 1000
    if details is not None and details.id == last.id:
        yield "last_checkpoint_start_delay_seconds", {}, details.start_delay_ms / 1000
        yield "last_checkpoint_alignment_seconds", {}, (details.sync_ms or 0) / 1000
        yield "last_checkpoint_async_duration_seconds", {}, (details.async_ms or 0) / 1000


def _query(query: api.QueryStatus) -> Iterator[_Sample]:
    label = {"query": query.uid}
    yield "query_active", label, float(query.active)
    yield "query_batch", label, query.batch_id
    if query.last_commit_at is not None:
        yield "query_last_commit_timestamp_seconds", label, query.last_commit_at.timestamp()
    yield "query_input_rows_total", label, query.input_rows
    yield "query_missing_files_total", label, query.missing_files
    yield "query_rows_per_second", label, query.rows_per_second
    yield "query_batch_duration_seconds", label, query.batch_duration_ms / 1000
    if query.batch_since is not None:
        yield "query_batch_started_timestamp_seconds", label, query.batch_since.timestamp()
    yield "query_restarts_total", label, query.restarts
    lags = [source.lag_rows for source in query.sources if source.lag_rows is not None]
    if lags:
        yield "query_lag_rows", label, sum(lags)
