"""Statistics of snapshots in the driver's API: `GET /v1/checkpoints`, `/v1/checkpoints/<id>`, `/v1/config`.

Durations are whole milliseconds, sizes are bytes, times are UTC. All numbers count since this driver started.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from statefulspark.contract.api import CheckpointCounts
from statefulspark.contract.base import InCamelCase, UtcDatetime, WireModel
from statefulspark.contract.config import CheckpointConfig, JobConfig
from statefulspark.contract.manifest import SnapshotKind, Trigger


class SnapshotState(StrEnum):
    """The state of a snapshot."""

    IN_PROGRESS = "InProgress"
    """Triggered; not all participants have acknowledged it, or it is being written."""
    COMPLETED = "Completed"
    """Its manifest is on storage."""
    FAILED = "Failed"
    """It was aborted and will never complete."""


class Acknowledgement(WireModel):
    """The acknowledgement of one participant."""

    participant: str
    """A query's uid, `operator:<uid>` or `sink:<uid>`."""
    batch_id: int
    """The committed batch up to which it is durable."""
    acknowledged_at: UtcDatetime
    delay_ms: int
    """Time since the trigger."""


class SnapshotDetails(WireModel):
    """Details of one snapshot: an entry of the history, and the answer of `GET /v1/checkpoints/<id>`."""

    id: int
    kind: Annotated[SnapshotKind, InCamelCase()]
    state: SnapshotState
    trigger: Annotated[Trigger, InCamelCase()]
    is_stop: bool = False
    """Whether the job stops at this snapshot."""
    triggered_at: UtcDatetime
    start_delay_ms: int
    """Time that the request waited before it was triggered."""
    participants: tuple[str, ...]
    """The participants that must acknowledge."""
    acknowledgements: tuple[Acknowledgement, ...] = ()
    """The acknowledgements so far, in order."""
    latest_ack_at: UtcDatetime | None = None
    sync_ms: int | None = None
    """From the trigger to the last acknowledgement: the time spent waiting for the barrier."""
    async_ms: int | None = None
    """From the last acknowledgement to the end: listing the files, verifying, copying, writing the manifest."""
    phases_ms: dict[str, int] = Field(default_factory=dict)
    """The phases of the asynchronous part."""
    end_to_end_ms: int | None = None
    """From the trigger to the end, also for a failed snapshot."""
    ended_at: UtcDatetime | None = None
    size_bytes: int | None = None
    incremental_size_bytes: int | None = None
    files: int | None = None
    location: str | None = None
    """Absolute URI of its folder."""
    discarded: bool = False
    """It completed, and is no longer among the retained ones."""
    reason: str | None = None
    """Why it failed: one of Flink's names, for example `CHECKPOINT_EXPIRED`."""
    message: str | None = None


class Distribution(WireModel):
    """Distribution of a quantity over completed snapshots; percentiles are of the last 1,000."""

    min: float = 0
    max: float = 0
    avg: float = 0
    p50: float = 0
    p95: float = 0
    p99: float = 0


DURATION_BOUNDS_S = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 150.0, 300.0, 600.0, 1800.0)
"""Upper bounds of the durations that are counted together."""


class Durations(WireModel):
    """The durations of all completed snapshots, in a form that can be added up over jobs."""

    counts: tuple[int, ...] = (0,) * (len(DURATION_BOUNDS_S) + 1)
    """Number of snapshots that took at most 0.5, 1, 2.5, 5, 10, 30, 60, 150, 300, 600 and 1800 seconds, and of all."""
    total_ms: int = 0
    """Sum of the durations."""

    def add(self, took_ms: int) -> Durations:
        """Return the durations with one more."""
        bounds = (*DURATION_BOUNDS_S, float("inf"))
        counts = (count + (took_ms <= bound * 1000) for count, bound in zip(self.counts, bounds, strict=True))
        return Durations(counts=tuple(counts), total_ms=self.total_ms + took_ms)


class SnapshotSummaryStatistics(WireModel):
    """Distributions over the completed snapshots."""

    end_to_end_ms: Distribution = Distribution()
    sync_ms: Distribution = Distribution()
    async_ms: Distribution = Distribution()
    size_bytes: Distribution = Distribution()
    incremental_size_bytes: Distribution = Distribution()


class RestoredSnapshot(WireModel):
    """The snapshot that this driver started from."""

    restored_from: str
    """`checkpoint 41`, or a savepoint's URI."""
    restored_at: UtcDatetime
    id: int | None = None
    """Its number, if it is a checkpoint of the job's own."""
    size_bytes: int | None = None
    fallback: str | None = None
    """Why it was not the newest one, if a newer one exists."""


class LatestSnapshots(WireModel):
    """The latest snapshot of each kind."""

    completed: SnapshotDetails | None = None
    savepoint: SnapshotDetails | None = None
    failed: SnapshotDetails | None = None
    restored: RestoredSnapshot | None = None


class Checkpoints(WireModel):
    """Answer of `GET /v1/checkpoints`."""

    counts: CheckpointCounts = CheckpointCounts()
    failures: dict[str, int] = Field(default_factory=dict)
    """Number of failed snapshots by reason."""
    summary: SnapshotSummaryStatistics = SnapshotSummaryStatistics()
    durations: Durations = Durations()
    latest: LatestSnapshots = LatestSnapshots()
    history: tuple[SnapshotDetails, ...] = ()
    """Snapshots in progress, then the last ended ones (10 by default), newest first."""


class EffectiveConfig(WireModel):
    """Answer of `GET /v1/config`: the configuration of this driver, without secrets and values of the user's code."""

    job: str
    namespace: str
    revision: str | None = None
    storage_uri: str
    storage_endpoint: str | None = None
    savepoint_location: str | None = None
    """Default folder for savepoints; absent means `savepoints/` in the job's own folder."""
    state_backend: str = "rocksdb"
    """Spark's state store; it cannot be chosen."""
    checkpoint: CheckpointConfig
    parameters: tuple[str, ...] = ()
    """Names of the parameters of the job's own code."""

    @classmethod
    def describe(cls, job: JobConfig) -> EffectiveConfig:
        """Return the parts of a configuration that are not secret."""
        return cls(
            job=job.name,
            namespace=job.namespace,
            revision=job.revision,
            storage_uri=job.storage.uri,
            storage_endpoint=job.storage.s3.endpoint,
            savepoint_location=job.savepoint_location,
            checkpoint=job.checkpoint,
            parameters=tuple(sorted(job.parameters)),
        )
