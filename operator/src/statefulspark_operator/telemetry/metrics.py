"""Metrics in Prometheus' text format: a few per job, from its status, and some about the operator itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.status import Phase, StatefulSparkJobStatus
from statefulspark_operator.cluster.gateway import JobKey


@dataclass(frozen=True, slots=True)
class Sample:
    """One value.

    Attributes:
        labels: Its labels.
        value: The value.
    """

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Family:
    """All values of one metric.

    Attributes:
        name: Its name.
        kind: gauge or counter.
        help: What it tells.
        samples: Its values.
    """

    name: str
    kind: str
    help: str
    samples: tuple[Sample, ...]


@dataclass(slots=True)
class JobMetrics:
    """The latest status of every job."""

    _statuses: dict[JobKey, StatefulSparkJobStatus] = field(default_factory=dict)

    def update(self, key: JobKey, status: StatefulSparkJobStatus) -> None:
        """Remember a job's status."""
        self._statuses[key] = status

    def remove(self, key: JobKey) -> None:
        """Forget a job that is gone."""
        self._statuses.pop(key, None)

    def families(self) -> tuple[Family, ...]:
        """Return the metrics of all jobs."""
        return job_families(self._statuses)


def operator_families(*, jobs: int, passes: int, failed_passes: int) -> tuple[Family, ...]:
    """Return the metrics about the operator itself. Pure.

    Args:
        jobs: How many it looks after.
        passes: How often it looked at one.
        failed_passes: How many of those ended with an error.
    """
    prefix = "statefulspark_operator"
    return (
        Family(f"{prefix}_jobs", "gauge", "Jobs that are looked after.", (Sample({}, jobs),)),
        Family(f"{prefix}_passes_total", "counter", "Passes over a job.", (Sample({}, passes),)),
        Family(
            f"{prefix}_failed_passes_total", "counter", "Passes that ended with an error.", (Sample({}, failed_passes),)
        ),
    )


def job_families(statuses: Mapping[JobKey, StatefulSparkJobStatus]) -> tuple[Family, ...]:
    """Return the metrics that follow from statuses. Pure."""
    labelled = [({"namespace": key.namespace, "job": key.name}, status) for key, status in sorted_items(statuses)]
    ready = tuple(Sample(labels, float(_is_ready(status))) for labels, status in labelled)
    phase = tuple(
        Sample({**labels, "phase": phase.value}, float(status.phase is phase))
        for labels, status in labelled
        for phase in Phase
    )
    checkpoint = tuple(
        Sample(labels, status.last_checkpoint.completed_at.timestamp())
        for labels, status in labelled
        if status.last_checkpoint is not None
    )
    restarts = tuple(Sample(labels, float(status.restarts.count)) for labels, status in labelled)
    epoch = tuple(Sample(labels, float(status.epoch or 0)) for labels, status in labelled)
    pause = tuple(
        Sample(labels, status.upgrade.pause_seconds)
        for labels, status in labelled
        if status.upgrade is not None and status.upgrade.pause_seconds is not None
    )
    prefix = "statefulspark_job"
    return (
        Family(f"{prefix}_ready", "gauge", "1 if the job runs as its spec says.", ready),
        Family(f"{prefix}_phase", "gauge", "1 for the phase that the job is in.", phase),
        Family(
            f"{prefix}_last_checkpoint_timestamp_seconds", "gauge", "When the latest checkpoint completed.", checkpoint
        ),
        Family(f"{prefix}_restarts_total", "counter", "Restarts after failures.", restarts),
        Family(f"{prefix}_epoch", "gauge", "Highest epoch assigned to a driver.", epoch),
        Family(f"{prefix}_upgrade_pause_seconds", "gauge", "Pause of the latest upgrade.", pause),
    )


def sorted_items(
    statuses: Mapping[JobKey, StatefulSparkJobStatus],
) -> list[tuple[JobKey, StatefulSparkJobStatus]]:
    """Return jobs and statuses by namespace and name."""
    return sorted(statuses.items(), key=lambda item: (item[0].namespace, item[0].name))


def _is_ready(status: StatefulSparkJobStatus) -> bool:
    return any(
        found.type is ConditionType.READY and found.status is ConditionStatus.TRUE for found in status.conditions
    )


def render(families: Iterable[Family]) -> str:
    """Write metrics in Prometheus' text format. Pure."""
    lines: list[str] = []
    for family in families:
        lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
        lines += [_line(family.name, sample) for sample in family.samples]
    return "\n".join(lines) + "\n"


def _line(name: str, sample: Sample) -> str:
    labels = ",".join(f'{label}="{value}"' for label, value in sample.labels.items())
    return f"{name}{{{labels}}} {sample.value!r}" if labels else f"{name} {sample.value!r}"
