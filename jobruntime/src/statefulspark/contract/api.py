"""The driver's HTTP API, version 1: requests and answers, all JSON.

The operator, the command line and a person with curl use the same calls. A request carries `Authorization: Bearer
<token>`; health and metrics are open. A savepoint or stop is identified by the caller's `requestId`: repeating a
request, after a lost answer for example, returns the same operation and never starts a second one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from statefulspark.contract.base import UtcDatetime, WireModel
from statefulspark.contract.manifest import Manifest, SnapshotFormat, SnapshotKind, Trigger


class JobState(StrEnum):
    """What a driver is doing."""

    STARTING = "Starting"
    """Claiming its epoch, restoring, starting Spark and the queries."""
    RUNNING = "Running"
    """Every query runs."""
    STOPPING = "Stopping"
    """A stop was asked for; the last batch ends, then the snapshot is taken."""
    STOPPED = "Stopped"
    """All queries have ended on request."""
    FAILED = "Failed"
    """A query failed; the process is about to exit."""
    FENCED = "Fenced"
    """A newer epoch owns the job; the process is about to exit."""


class OperationState(StrEnum):
    """How far a checkpoint, savepoint or stop has come."""

    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"


class QueryStatus(WireModel):
    """One query, as of its last committed batch."""

    uid: str
    active: bool
    batch_id: int
    """Last committed batch, -1 before the first."""
    last_commit_at: UtcDatetime | None = None
    input_rows: int = 0
    """Rows read since this driver started."""
    rows_per_second: float = 0.0
    """Processed rows per second of the last batch."""
    batch_duration_ms: int = 0
    error: str | None = None


class SinkStatus(WireModel):
    """One sink with two-phase commit."""

    query: str
    """The query's uid."""
    uid: str
    committed_batch: int | None = None
    """Its output is visible through this batch; absent until the first commit of this driver."""
    pending_transactions: int = 0
    """Prepared by this driver and not committed yet: they wait for the next checkpoint."""


class SnapshotSummary(WireModel):
    """One completed checkpoint or savepoint."""

    kind: SnapshotKind
    id: int
    location: str
    """Absolute URI of its folder."""
    trigger: Trigger
    triggered_at: UtcDatetime
    completed_at: UtcDatetime
    size_bytes: int
    """Every file that it needs."""
    batches: dict[str, int] = Field(default_factory=dict)
    """Committed batch by query uid."""
    incremental_size_bytes: int | None = None
    """Bytes of files that the snapshot before did not need; for a savepoint all of them, since all are copied."""
    files: int | None = None
    """Number of its files."""
    phases_ms: dict[str, int] | None = None
    """How long the parts of writing it took: `closure`, `fence`, `copy` (savepoints), `manifest`."""
    format: SnapshotFormat = SnapshotFormat.NATIVE
    """The form of its state."""

    @classmethod
    def of(cls, manifest: Manifest, location: str) -> SnapshotSummary:
        """Return a manifest in short.

        Args:
            manifest: The snapshot's.
            location: Absolute URI of its folder.
        """
        return cls(
            kind=manifest.kind,
            id=manifest.id,
            location=location,
            trigger=manifest.trigger,
            triggered_at=manifest.triggered_at,
            completed_at=manifest.completed_at,
            size_bytes=manifest.size_bytes,
            batches={query.uid: query.batch_id for query in manifest.queries},
            format=manifest.format,
        )


class CheckpointCounts(WireModel):
    """How many snapshots since this driver started."""

    triggered: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    restored: int = 0


class FailedCheckpoint(WireModel):
    """The latest checkpoint that did not complete."""

    id: int | None = None
    reason: str
    message: str
    failed_at: UtcDatetime


class JobStatus(WireModel):
    """Answer of `GET /v1/status`."""

    job: str
    namespace: str
    state: JobState
    epoch: int
    generation: int | None = None
    revision: str | None = None
    started_at: UtcDatetime
    restored_from: str | None = None
    """`checkpoint 41`, a savepoint's URI, or absent after a first start with empty state."""
    fallback: str | None = None
    """Why an older checkpoint than the newest was used, if one was."""
    restore_skipped: str | None = None
    """Why a restore that was asked for was not done with this start: it was before, and how to ask for it again."""
    queries: tuple[QueryStatus, ...] = ()
    sinks: tuple[SinkStatus, ...] = ()
    checkpoints: CheckpointCounts = CheckpointCounts()
    last_checkpoint: SnapshotSummary | None = None
    last_savepoint: SnapshotSummary | None = None
    last_failure: FailedCheckpoint | None = None
    message: str | None = None


class CheckpointRequest(WireModel):
    """Body of `POST /v1/checkpoints`."""

    request_id: str = Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9._:-]+$")
    trigger: Trigger = Trigger.MANUAL


class SavepointRequest(WireModel):
    """Body of `POST /v1/savepoints`."""

    request_id: str = Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9._:-]+$")
    location: str | None = None
    """Parent folder for the savepoint; absent means the job's default."""
    name: str | None = Field(default=None, max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    trigger: Trigger = Trigger.MANUAL
    format: SnapshotFormat = SnapshotFormat.NATIVE
    """`native` copies the engine's files on the server's side; `canonical` writes the state as Parquet, beside the job."""


class StopRequest(WireModel):
    """Body of `POST /v1/stop`."""

    request_id: str = Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9._:-]+$")
    savepoint: bool = True
    """Take a savepoint at the last boundary; without it only a checkpoint is completed."""
    location: str | None = None
    name: str | None = Field(default=None, max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    trigger: Trigger = Trigger.STOP
    format: SnapshotFormat = SnapshotFormat.NATIVE
    """As for a savepoint. The job stands still while a canonical one is written; a native one is copied ahead."""
    drain: bool = False
    """End the job for good: what the sources have now is read, event time ends, so that timers fire and windows close, and
    the savepoint comes after that. Such a savepoint is not meant to be gone on from with the same job."""

    @model_validator(mode="after")
    def _needs_a_savepoint(self) -> Self:
        """Flink allows it with a savepoint only, too (A.97)."""
        if not self.savepoint and (self.drain or self.format is SnapshotFormat.CANONICAL):
            what = "drain" if self.drain else "format"
            raise ValueError(f"{what} needs a savepoint; leave out savepoint: false")
        return self


class Progress(WireModel):
    """How far a savepoint's copy is. A stop copies twice: ahead while the job runs, and then what has changed since."""

    unit: str
    """What is counted: `files`, `operators` for a canonical savepoint, or `queries` that a stop has drained."""
    done: int = Field(ge=0)
    total: int = Field(ge=0)
    done_bytes: int | None = None
    """Roughly, since several files are copied at a time; absent where bytes are not known before."""
    total_bytes: int | None = None
    """Of the files that are copied; those that were there already are not among them."""


class Operation(WireModel):
    """A checkpoint, savepoint or stop: answer of the POSTs (202) and of `GET /v1/operations/<requestId>?waitSeconds=<n>`.

    With `waitSeconds` (up to 30) the answer comes as soon as the operation has ended, or after that time.
    """

    request_id: str
    kind: str
    """`checkpoint`, `savepoint` or `stop`."""
    state: OperationState
    snapshot: SnapshotSummary | None = None
    reason: str | None = None
    message: str | None = None
    progress: Progress | None = None
    """While a savepoint's files are copied."""


class ApiError(WireModel):
    """Body of every answer with a status of 400 or more."""

    reason: str
    message: str


class ExitReport(WireModel):
    """Written to the container's termination log when the driver ends, for the operator to read."""

    exit_code: int
    reason: str
    message: str
    snapshot: str | None = None
    """URI of the savepoint or name of the checkpoint taken while stopping."""
