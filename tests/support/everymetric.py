"""A driver and an operator with a value for every metric, as a scraper would find them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from coordination import a_checkpoint, a_savepoint
from fakecontrol import NOON, a_status, a_summary
from prometheus_client import Metric, parser
from statefulspark.contract import api, statistics
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.coordinator import stats
from statefulspark.server.memory import Memory, MemoryPart
from statefulspark.storage.requests import Outcome
from statefulspark_operator.api.conditions import Condition, ConditionStatus, ConditionType
from statefulspark_operator.api.spark_savepoint import SavepointOrigin
from statefulspark_operator.api.status import (
    ExecutorsStatus,
    OperationKind,
    OperationPhase,
    OperationStatus,
    Phase,
    PruningStatus,
    RestartStatus,
    SnapshotStatus,
    StatefulSparkJobStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.telemetry import metrics as operator_metrics
from watched import Watched


def a_driver_with_metrics() -> tuple[api.JobStatus, statistics.Checkpoints, Mapping[tuple[str, Outcome], int], Memory]:
    """Return the status, the statistics, the requests and the memory of a driver in which nothing is missing."""
    run = Watched()
    run.stats = stats.begin(restored=statistics.RestoredSnapshot(restored_from="checkpoint 40", restored_at=NOON))
    run.snapshot(a_checkpoint(), took_s=4)
    run.snapshot(a_savepoint())
    run.fail(run.begin(a_checkpoint("fails")))
    last = a_summary(number=1).model_copy(
        update={"incremental_size_bytes": 10, "files": 7, "phases_ms": {"closure": 250}}
    )
    source = api.SourceStatus(name="Kafka clicks", input_rows=100, lag_rows=250)
    query = api.QueryStatus(
        uid="counts",
        active=True,
        batch_id=12,
        last_commit_at=NOON,
        batch_since=NOON,
        restarts=2,
        sources=(source,),
    )
    sink = api.SinkStatus(query="counts", uid="out", committed_batch=11, pending_transactions=1)
    status = a_status(last_checkpoint=last).model_copy(
        update={
            "last_savepoint": a_summary(kind=SnapshotKind.SAVEPOINT),
            "queries": (query,),
            "sinks": (sink,),
            "pruned_bytes": 5000,
            "files": api.FileCounts(objects=900, unused_objects=80, search_ms=1500, deletion_backlog=30),
            "checkpoints": run.stats.counts,
        }
    )
    memory = {MemoryPart.DRIVER: 400 << 20, MemoryPart.JVM: 1200 << 20, MemoryPart.WORKERS: 900 << 20}
    return status, run.answer, {("List", Outcome.ANSWERED): 12, ("List", Outcome.BUSY): 2}, memory


def job_families(
    statuses: Mapping[JobKey, StatefulSparkJobStatus], heard: Mapping[JobKey, api.JobStatus] | None = None
) -> tuple[Metric, ...]:
    """Return the metrics of jobs with these statuses, whose drivers gave these answers."""
    kept = operator_metrics.JobMetrics()
    for key, status in statuses.items():
        kept.update(key, status)
        kept.hear(key, (heard or {}).get(key))
    return kept.families()


def two_jobs() -> dict[JobKey, StatefulSparkJobStatus]:
    """Return the statuses of a job that has everything and of one that has only been seen."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    ready = Condition(type=ConditionType.READY, status=ConditionStatus.TRUE, reason="Running", last_transition_time=at)
    held = Condition(type=ConditionType.STALLED, status=ConditionStatus.FALSE, reason="Not", last_transition_time=at)
    unknown = Condition(
        type=ConditionType.AVAILABLE, status=ConditionStatus.UNKNOWN, reason="Not", last_transition_time=at
    )
    failed = OperationStatus(
        id="savepoint-1",
        kind=OperationKind.SAVEPOINT,
        origin=SavepointOrigin.MANUAL,
        generation=2,
        epoch=2,
        requested_at=at,
        state=OperationPhase.FAILED,
    )
    upgrade = UpgradeStatus(
        from_revision="a",
        to_revision="b",
        generation=2,
        state=UpgradeState.ROLLED_BACK,
        requested_at=at,
        pause=timedelta(seconds=3.5),
    )
    return {
        JobKey("demo", "words"): StatefulSparkJobStatus(),
        JobKey("demo", "flights"): StatefulSparkJobStatus(
            phase=Phase.RUNNING,
            epoch=2,
            conditions=(ready, held, unknown),
            restarts=RestartStatus(count=4, consecutive=1),
            upgrade=upgrade,
            operation=failed,
            pruning=PruningStatus(
                epoch=1, looked_at=at, unused_files=1, unused_bytes=10, freed_files=2, freed_bytes=20
            ),
            last_checkpoint=SnapshotStatus(id=1, completed_at=at, size_bytes=1000),
            last_savepoint=SnapshotStatus(id=2, completed_at=at, size_bytes=2000),
            executors=ExecutorsStatus(driver="flights-driver-2", desired=3, running=2, selector="a=b", lost=4),
        ),
    }


def scraped(text: str) -> list[Metric]:
    """Read an exposition as a scraper does: names, types, help, labels and values, whatever the spelling of a number."""
    return list(parser.text_string_to_metric_families(text))


def values(text: str, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """Return the values of one series by their labels, which are in the order of their names."""
    samples = (sample for family in scraped(text) for sample in family.samples)
    return {tuple(sorted(sample.labels.items())): sample.value for sample in samples if sample.name == name}
