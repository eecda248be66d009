"""Metrics of jobs, from their statuses, and of the operator itself, written by Prometheus' own library.

The library's registry of counters is not used: every scrape is computed from the current statuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client import Metric, exposition
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.status import Phase, StatefulSparkJobStatus
from statefulspark_operator.cluster.gateway import JobKey

_JOB_LABELS = ("namespace", "job")


@dataclass(slots=True)
class JobMetrics:
    """The latest status of every job."""

    _statuses: dict[JobKey, StatefulSparkJobStatus] = field(default_factory=dict)

    def update(self, key: JobKey, status: StatefulSparkJobStatus) -> None:
        """Store a job's status."""
        self._statuses[key] = status

    def remove(self, key: JobKey) -> None:
        """Remove a job that does not exist any more."""
        self._statuses.pop(key, None)

    def families(self) -> tuple[Metric, ...]:
        """Return the metrics of all jobs."""
        return job_families(self._statuses)


def operator_families(*, jobs: int, passes: int, failed_passes: int) -> tuple[Metric, ...]:
    """Return the metrics about the operator itself. Pure.

    Args:
        jobs: Number of jobs that it manages.
        passes: Number of reconcile passes.
        failed_passes: Number of passes that ended with an error.
    """
    prefix = "statefulspark_operator"
    return (
        GaugeMetricFamily(f"{prefix}_jobs", "Jobs that the operator manages.", jobs),
        CounterMetricFamily(f"{prefix}_passes_total", "Reconcile passes.", passes),
        CounterMetricFamily(
            f"{prefix}_failed_passes_total", "Reconcile passes that ended with an error.", failed_passes
        ),
    )


def job_families(statuses: Mapping[JobKey, StatefulSparkJobStatus]) -> tuple[Metric, ...]:
    """Return the metrics that follow from statuses. Pure."""
    prefix = "statefulspark_job"
    ready = _gauge(f"{prefix}_ready", "1 if the job runs as its spec says.")
    phases = _gauge(f"{prefix}_phase", "1 for the phase that the job is in.", "phase")
    checkpoint = _gauge(f"{prefix}_last_checkpoint_timestamp_seconds", "When the latest checkpoint completed.")
    restarts = CounterMetricFamily(f"{prefix}_restarts_total", "Restarts after failures.", labels=_JOB_LABELS)
    epoch = _gauge(f"{prefix}_epoch", "Highest epoch assigned to a driver.")
    pause = _gauge(
        f"{prefix}_upgrade_pause_seconds", "From the last batch before the latest upgrade to the first after it."
    )
    executors = _gauge(f"{prefix}_executors", "Executors of the running driver: asked for, running, lost.", "state")
    for key, status in sorted_items(statuses):
        job = (key.namespace, key.name)
        ready.add_metric(job, float(_is_ready(status)))
        for phase in Phase:
            phases.add_metric((*job, phase.value), float(status.phase is phase))
        if status.last_checkpoint is not None:
            checkpoint.add_metric(job, status.last_checkpoint.completed_at.timestamp())
        restarts.add_metric(job, status.restarts.count)
        epoch.add_metric(job, status.epoch or 0)
        if status.upgrade is not None and status.upgrade.pause_seconds is not None:
            pause.add_metric(job, status.upgrade.pause_seconds)
        if status.executors is not None:
            executors.add_metric((*job, "asked"), status.executors.asked)
            executors.add_metric((*job, "running"), status.executors.running)
            executors.add_metric((*job, "lost"), status.executors.lost)
    return ready, phases, checkpoint, restarts, epoch, pause, executors


def _gauge(name: str, meaning: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, meaning, labels=(*_JOB_LABELS, *labels))


def sorted_items(
    statuses: Mapping[JobKey, StatefulSparkJobStatus],
) -> list[tuple[JobKey, StatefulSparkJobStatus]]:
    """Return jobs and statuses, sorted by namespace and name."""
    return sorted(statuses.items(), key=lambda item: (item[0].namespace, item[0].name))


def _is_ready(status: StatefulSparkJobStatus) -> bool:
    return any(
        condition.type is ConditionType.READY and condition.status is ConditionStatus.TRUE
        for condition in status.conditions
    )


@dataclass(frozen=True, slots=True)
class _Page:
    """The metrics of one scrape, in the form of a collector of the library."""

    families: tuple[Metric, ...]

    def collect(self) -> tuple[Metric, ...]:
        return self.families


def render(families: Iterable[Metric]) -> str:
    """Write metrics in Prometheus' text format. Pure."""
    return exposition.generate_latest(_Page(tuple(families))).decode()
