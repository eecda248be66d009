"""Statistics of snapshots as the driver's API tells them: `GET /v1/checkpoints`, `/v1/checkpoints/<id>`, `/v1/config`.

Durations are whole milliseconds, sizes are bytes, times are UTC. Everything counts since this driver started.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from statefulspark.contract.api import CheckpointCounts
from statefulspark.contract.base import UtcDatetime, WireModel
from statefulspark.contract.config import CheckpointConfig, JobConfig
from statefulspark.contract.manifest import SnapshotKind, Trigger


class SnapshotState(StrEnum):
    """How far a snapshot has come."""

    IN_PROGRESS = "InProgress"
    """Triggered; not everybody has acknowledged, or it is being written."""
    COMPLETED = "Completed"
    """Its manifest is on storage."""
    FAILED = "Failed"
    """It was aborted and will never complete."""


class Acknowledgement(WireModel):
    """One participant's answer."""

    participant: str
    """A query's uid, `operator:<uid>` or `sink:<uid>`."""
    batch_id: int
    """The committed batch it is durable at."""
    acknowledged_at: UtcDatetime
    delay_ms: int
    """Since the trigger."""


class SnapshotDetails(WireModel):
    """Everything about one snapshot: an entry of the history, and the answer of `GET /v1/checkpoints/<id>`."""

    id: int
    kind: SnapshotKind
    state: SnapshotState
    trigger: Trigger
    is_stop: bool = False
    """The job stops at it."""
    triggered_at: UtcDatetime
    start_delay_ms: int
    """How long the request waited before it was triggered."""
    participants: tuple[str, ...]
    """Who has to acknowledge."""
    acknowledgements: tuple[Acknowledgement, ...] = ()
    """Who has, in order."""
    latest_ack_at: UtcDatetime | None = None
    sync_ms: int | None = None
    """From the trigger to the last acknowledgement: how long the barrier was waited for."""
    async_ms: int | None = None
    """From the last acknowledgement to the end: closing over, verifying, copying, the manifest."""
    phases_ms: dict[str, int] = Field(default_factory=dict)
    """The parts of the asynchronous half."""
    end_to_end_ms: int | None = None
    """From the trigger to the end, also for one that failed."""
    ended_at: UtcDatetime | None = None
    size_bytes: int | None = None
    incremental_size_bytes: int | None = None
    files: int | None = None
    location: str | None = None
    """Absolute URI of its folder."""
    discarded: bool = False
    """It completed, and newer ones have pushed it out of those that are retained."""
    reason: str | None = None
    """Why it failed: one of Flink's names, for example `CHECKPOINT_EXPIRED`."""
    message: str | None = None


class Distribution(WireModel):
    """How a quantity is distributed over completed snapshots; percentiles are of the last 1,000."""

    min: float = 0
    max: float = 0
    avg: float = 0
    p50: float = 0
    p95: float = 0
    p99: float = 0


class SnapshotSummaryStatistics(WireModel):
    """Distributions over the completed snapshots."""

    end_to_end_ms: Distribution = Distribution()
    sync_ms: Distribution = Distribution()
    async_ms: Distribution = Distribution()
    size_bytes: Distribution = Distribution()
    incremental_size_bytes: Distribution = Distribution()


class RestoredSnapshot(WireModel):
    """What this driver started from."""

    restored_from: str
    """`checkpoint 41`, or a savepoint's URI."""
    restored_at: UtcDatetime
    id: int | None = None
    """Its number, if it is a checkpoint of the job's own."""
    size_bytes: int | None = None
    fallback: str | None = None
    """Why it was not the newest one, if it was not."""


class LatestSnapshots(WireModel):
    """The latest of each."""

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
    latest: LatestSnapshots = LatestSnapshots()
    history: tuple[SnapshotDetails, ...] = ()
    """Those in progress, then the last ones that ended (10 by default), newest first."""


class EffectiveConfig(WireModel):
    """Answer of `GET /v1/config`: how this driver was told to run. Holds no secret and no value of the user's code."""

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
    def of(cls, job: JobConfig) -> EffectiveConfig:
        """Return what may be told of a configuration."""
        return cls(
            job=job.name,
            namespace=job.namespace,
            revision=job.revision,
            storage_uri=job.storage.uri,
            storage_endpoint=job.storage.endpoint,
            savepoint_location=job.savepoint_location,
            checkpoint=job.checkpoint,
            parameters=tuple(sorted(job.parameters)),
        )
