"""Metrics of jobs, from their statuses and their drivers' answers, and of the operator itself, by Prometheus' own library.

The library's registry of counters is not used: every scrape is made of what was current in the latest statuses. Of these
only the values are kept, for there may be thousands.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import Metric, exposition
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from statefulspark.contract.api import JobStatus

from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.status import OperationPhase, Phase, StatefulSparkJobStatus, UpgradeState
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.lifecycle.decision import Reason

_Names = tuple[tuple[str, tuple[str, ...]], ...]
"""The name of each metric, and the labels of its own."""
_MOST_NAMES = 1024
"""Different sets of names that are shared; jobs have few, which differ in their queries."""

PREFIX = "statefulspark_"

Family = GaugeMetricFamily | CounterMetricFamily
Sample = tuple[str, tuple[str, ...], float]
"""The name of a metric without the prefix, the labels of its own, and a value."""

_LABELS = ("job_namespace", "job_name")


@dataclass(slots=True)
class JobMetrics:
    """The metrics of every job, from its latest status, and from what its driver answered last."""

    _of_statuses: dict[JobKey, tuple[_Names, array[float]]] = field(default_factory=dict)
    _of_answers: dict[JobKey, tuple[_Names, array[float]]] = field(default_factory=dict)
    _shared: dict[_Names, _Names] = field(default_factory=dict)

    def update(self, key: JobKey, status: StatefulSparkJobStatus) -> None:
        """Keep what a job's status says."""
        self._of_statuses[key] = self._kept(_status_samples(status))

    def hear(self, key: JobKey, answer: JobStatus | None) -> None:
        """Keep what a job's driver answered; None if there is none, or it did not answer."""
        if answer is None:
            self._of_answers.pop(key, None)
        else:
            self._of_answers[key] = self._kept(_answer_samples(answer))

    def remove(self, key: JobKey) -> None:
        """Remove a job that does not exist any more."""
        self._of_statuses.pop(key, None)
        self._of_answers.pop(key, None)

    def families(self) -> tuple[Metric, ...]:
        """Return the metrics of all jobs; another thread may ask, since nothing that is kept changes in place."""
        families = _declare()
        by_name = {family.name.removeprefix(PREFIX): family for family in families}
        for key in sorted(self._of_statuses, key=lambda job: (job.namespace, job.name)):
            for kept in (self._of_statuses.get(key), self._of_answers.get(key)):
                if kept is not None:
                    for (name, labels), value in zip(*kept, strict=True):
                        by_name[name].add_metric((key.namespace, key.name, *labels), value)
        return families

    def _kept(self, samples: Iterable[Sample]) -> tuple[_Names, array[float]]:
        made = tuple(samples)
        if len(self._shared) >= _MOST_NAMES:
            self._shared.clear()
        names = tuple((name, labels) for name, labels, _ in made)
        return self._shared.setdefault(names, names), array("d", (value for _, _, value in made))


def operator_families(
    *,
    jobs: int,
    passes: int,
    failed_passes: int,
    hung_passes: int = 0,
    is_leader: bool = True,
    freed_bytes: Mapping[str, int] | None = None,
    upgrades_running: int = 0,
    upgrades_waiting: Mapping[str, int] | None = None,
    starts_waiting: int = 0,
) -> tuple[Metric, ...]:
    """Return the metrics about the operator itself. Pure.

    Args:
        jobs: Number of jobs that it manages.
        passes: Number of reconcile passes.
        failed_passes: Number of passes that ended with an error.
        hung_passes: Number of passes that were given up because they took too long.
        is_leader: Whether it acts, and does not stand by for another one.
        freed_bytes: Size of the files that it has deleted, by reason.
        upgrades_running: Number of upgrades that run.
        upgrades_waiting: Number of jobs whose change waits for others, by reason.
        starts_waiting: Number of jobs whose start waits for its turn.
    """
    prefix = f"{PREFIX}operator"
    freed = CounterMetricFamily(
        f"{prefix}_freed_bytes_total",
        "Size of the files that it has deleted on storage: pruned of jobs without a driver, purged with their job, "
        "disposed of with the objects of savepoints.",
        labels=("reason",),
    )
    for reason, size_bytes in (freed_bytes or {}).items():
        freed.add_metric((reason,), size_bytes)
    waiting = GaugeMetricFamily(
        f"{prefix}_upgrades_waiting",
        "Jobs whose change waits: for its turn (UpgradeQueued), or because its image failed elsewhere (UpgradeHalted).",
        labels=("reason",),
    )
    for reason in (Reason.UPGRADE_QUEUED.word, Reason.UPGRADE_HALTED.word):
        waiting.add_metric((reason,), (upgrades_waiting or {}).get(reason, 0))
    return (
        GaugeMetricFamily(f"{prefix}_leader", "1 if this operator acts, 0 while it stands by.", float(is_leader)),
        GaugeMetricFamily(f"{prefix}_jobs", "Jobs that the operator manages.", jobs),
        CounterMetricFamily(f"{prefix}_passes_total", "Reconcile passes.", passes),
        CounterMetricFamily(
            f"{prefix}_failed_passes_total", "Reconcile passes that ended with an error.", failed_passes
        ),
        CounterMetricFamily(
            f"{prefix}_hung_passes_total",
            "Reconcile passes that timed out after five minutes.",
            hung_passes,
        ),
        freed,
        GaugeMetricFamily(f"{prefix}_upgrades_running", "Upgrades that run.", upgrades_running),
        waiting,
        GaugeMetricFamily(
            f"{prefix}_starts_waiting", "Jobs whose start waits for its turn (StartQueued).", starts_waiting
        ),
    )


def _declare() -> tuple[Family, ...]:
    """Declare the metrics of jobs: from their statuses, and from what their drivers answer."""
    return (
        _gauge("job_ready", "1 if the job runs as its spec says."),
        _gauge("job_phase", "1 for the phase that the job is in.", "phase"),
        _gauge(
            "job_condition", "1 if its answer is True, 0 if it is False; left out while it is Unknown.", "condition"
        ),
        _counter("job_restarts", "Restarts after failures."),
        _gauge("job_consecutive_failures", "Failures since the latest completed checkpoint."),
        _gauge("job_epoch", "Highest epoch assigned to a driver."),
        _gauge(
            "fallback", "1 if the running driver started from older state than the newest, because that was damaged."
        ),
        _gauge("job_executors_requested", "Executors that the running driver asks for."),
        _gauge("job_executors_running", "Executors of the running driver that run."),
        _gauge("job_executors_lost", "Executors that the running driver has lost."),
        _gauge("last_checkpoint_completed_timestamp_seconds", "When the latest checkpoint completed."),
        _gauge("last_checkpoint_size_bytes", "Bytes that it references."),
        _gauge("last_savepoint_completed_timestamp_seconds", "When the latest savepoint completed."),
        _gauge("last_savepoint_size_bytes", "Bytes that it holds."),
        _gauge("job_savepoints_kept", "Savepoints that the operator took by itself, and keeps."),
        _gauge("job_savepoints_kept_bytes", "Size of their files."),
        _gauge("job_savepoint_failed", "1 if the latest savepoint, or stop with one, failed."),
        _gauge(
            "job_unused_bytes", "Size of the files that no snapshot needs, in the folder of a job without a driver."
        ),
        _counter(
            "job_pruned_bytes", "Size of the files that the operator has removed there; a driver prunes by itself."
        ),
        _gauge("job_upgrade_pause_seconds", "From the last batch before the latest upgrade to the first after it."),
        _gauge("job_rolled_back", "1 if the latest upgrade was rolled back, and the revision before it runs."),
        _gauge(
            "query_lag_rows",
            "Rows that the sources of a query had and its last batch did not read; left out if no source tells.",
            "query",
        ),
        _counter("query_input_rows", "Rows that the running driver has read.", "query"),
        _gauge("query_rows_per_second", "Rows per second of the last batch.", "query"),
        _gauge("query_last_commit_timestamp_seconds", "When the last batch was committed.", "query"),
        _counter("checkpoints_completed", "Checkpoints and savepoints that the running driver has completed."),
        _counter("checkpoints_failed", "Checkpoints and savepoints of the running driver that did not complete."),
        _gauge("last_checkpoint_duration_seconds", "Trigger to completion of the running driver's latest checkpoint."),
        _gauge("last_savepoint_duration_seconds", "Trigger to completion of the running driver's latest savepoint."),
    )


def _status_samples(status: StatefulSparkJobStatus) -> Iterator[Sample]:
    """Yield what is known of one job: the name of a metric, the labels of its own, and a value."""
    answers = {condition.type: condition.status for condition in status.conditions}
    yield "job_ready", (), float(answers.get(ConditionType.READY) is ConditionStatus.TRUE)
    for phase in Phase:
        yield "job_phase", (phase.value,), float(status.phase is phase)
    for question, answer in answers.items():
        if answer is not ConditionStatus.UNKNOWN:
            yield "job_condition", (question.value,), float(answer is ConditionStatus.TRUE)
    yield "job_restarts", (), status.restarts.count
    yield "job_consecutive_failures", (), status.restarts.consecutive
    yield "job_epoch", (), status.epoch or 0
    yield "fallback", (), float(status.fallback is not None)
    if status.executors is not None:
        yield "job_executors_requested", (), status.executors.desired
        yield "job_executors_running", (), status.executors.running
        yield "job_executors_lost", (), status.executors.lost
    for name, snapshot in (("last_checkpoint", status.last_checkpoint), ("last_savepoint", status.last_savepoint)):
        if snapshot is None:
            continue
        yield f"{name}_completed_timestamp_seconds", (), snapshot.completed_at.timestamp()
        if snapshot.size_bytes is not None:
            yield f"{name}_size_bytes", (), snapshot.size_bytes
    if status.savepoints is not None:
        yield "job_savepoints_kept", (), status.savepoints.count
        yield "job_savepoints_kept_bytes", (), status.savepoints.size_bytes
    if status.pruning is not None:
        yield "job_unused_bytes", (), status.pruning.unused_bytes
        yield "job_pruned_bytes", (), status.pruning.freed_bytes
    operation = status.operation
    yield "job_savepoint_failed", (), float(operation is not None and operation.state is OperationPhase.FAILED)
    upgrade = status.upgrade
    if upgrade is not None and upgrade.pause is not None:
        yield "job_upgrade_pause_seconds", (), upgrade.pause.total_seconds()
    yield "job_rolled_back", (), float(upgrade is not None and upgrade.state is UpgradeState.ROLLED_BACK)


@dataclass(frozen=True, slots=True)
class _Page:
    """The metrics of one scrape, in the form of a collector of the library."""

    families: tuple[Metric, ...]

    def collect(self) -> tuple[Metric, ...]:
        return self.families


def render(families: Iterable[Metric]) -> str:
    """Write metrics in Prometheus' text format. Pure."""
    return exposition.generate_latest(_Page(tuple(families))).decode()


def _answer_samples(answer: JobStatus) -> Iterator[Sample]:
    """Yield what a driver has said of its job.

    It spares a scraper the drivers, and is as old as the operator's latest look at one: up to half a minute. Without a
    driver that answers it is left out. Counters begin anew with each driver, as the driver's own do.
    """
    for query in answer.queries:
        label = (query.uid,)
        lags = [source.lag_rows for source in query.sources if source.lag_rows is not None]
        if lags:
            yield "query_lag_rows", label, sum(lags)
        yield "query_input_rows", label, query.input_rows
        yield "query_rows_per_second", label, query.rows_per_second
        if query.last_commit_at is not None:
            yield "query_last_commit_timestamp_seconds", label, query.last_commit_at.timestamp()
    yield "checkpoints_completed", (), answer.checkpoints.completed
    yield "checkpoints_failed", (), answer.checkpoints.failed
    for name, snapshot in (("last_checkpoint", answer.last_checkpoint), ("last_savepoint", answer.last_savepoint)):
        if snapshot is not None:
            took = snapshot.completed_at - snapshot.triggered_at
            yield f"{name}_duration_seconds", (), took.total_seconds()


def _counter(name: str, meaning: str, *labels: str) -> CounterMetricFamily:
    """Declare a counter of a job, with further labels."""
    return CounterMetricFamily(f"{PREFIX}{name}", meaning, labels=(*_LABELS, *labels))


def _gauge(name: str, meaning: str, *labels: str) -> GaugeMetricFamily:
    """Declare a gauge of a job, with further labels."""
    return GaugeMetricFamily(f"{PREFIX}{name}", meaning, labels=(*_LABELS, *labels))
