"""The driver's HTTP API, version 1: requests and answers, all JSON.

The operator, the command line and a person with curl use the same calls. A request carries `Authorization: Bearer
<token>`; health and metrics are open. A savepoint or stop is identified by the caller's `requestId`: repeating a
request, after a lost answer for example, returns the same operation and never starts a second one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from statefulspark.contract.base import InCamelCase, UtcDatetime, WireModel
from statefulspark.contract.config import CheckpointConfig, RestoreConfig
from statefulspark.contract.faults import Fault
from statefulspark.contract.manifest import Manifest, SnapshotFormat, SnapshotKind, Trigger

_Whole = Annotated[
    int, BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)
]
"""A whole number as JSON Schema means it: `8.0` is one, for clients that have no other numbers."""


class JobState(StrEnum):
    """The state of a driver."""

    STANDBY = "Standby"
    """Prepared to become the driver, and not the driver: it owns no epoch and changes nothing; see `standby`."""
    STARTING = "Starting"
    """Claiming its epoch, restoring, starting Spark and the queries."""
    RUNNING = "Running"
    """Every query runs."""
    STOPPING = "Stopping"
    """A stop was requested; the last batch ends, then the snapshot is taken."""
    STOPPED = "Stopped"
    """All queries have ended on request."""
    FAILED = "Failed"
    """A query failed; the process is about to exit."""
    FENCED = "Fenced"
    """A newer epoch owns the job; the process is about to exit."""


class StandbyState(StrEnum):
    """How far a standby is prepared."""

    WARMING = "Warming"
    """It starts Spark, compares the job with the newest state, or runs the queries on samples. It can be activated, and
    then starts with what is prepared."""
    READY = "Ready"
    """The job fits the newest state, and the queries are warm."""
    REFUSED = "Refused"
    """This version of the job cannot start from the newest state, or its code raises. It looks again when newer state
    exists."""


class OperationKind(StrEnum):
    """What a request asks for."""

    CHECKPOINT = "Checkpoint"
    SAVEPOINT = "Savepoint"
    STOP = "Stop"
    ACTIVATION = "Activation"


class OperationState(StrEnum):
    """The state of a checkpoint, savepoint, stop or activation."""

    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"


class SourceStatus(WireModel):
    """One source of a query, as of the newest batch that Spark has measured."""

    name: str
    """What it reads, for people: `Kafka clicks`, `files in s3://bucket/in`."""
    input_rows: int = 0
    """Rows that the batch read."""
    lag_rows: int | None = None
    """Rows that were there when the batch was planned and that it did not read; absent if the source does not tell. Kafka's
    sources tell."""


class FunctionMetric(WireModel):
    """A value that a function of the job counts or measures."""

    operator: str
    """Uid of the operator."""
    name: str
    kind: Literal["Counter", "Gauge"] = Field(
        title="FunctionMetricKind", description="A counter only rises; a gauge rises and falls."
    )
    partition: int | None = None
    """The partition of the state that has the gauge; absent for a counter."""
    value: float


class QueryStatus(WireModel):
    """One query, as of its last committed batch."""

    uid: str
    active: bool
    batch_id: int
    """Last committed batch, -1 before the first."""
    last_commit_at: UtcDatetime | None = None
    input_rows: int = 0
    """Rows read since this driver started."""
    missing_files: int = 0
    """Input files that this driver had planned to read and that were gone by then; the job does not have their rows."""
    rows_per_second: float = 0.0
    """Processed rows per second of the last batch."""
    batch_duration_ms: int = 0
    batch_since: UtcDatetime | None = None
    """Since when the batch after `batch_id` is running; absent between two batches."""
    stage: str | None = None
    """What Spark does of that batch, once it has been running for some seconds: stage and tasks, or Spark's own word."""
    error: str | None = None
    restarts: int = 0
    """How often this driver has started the query again after a failure that passes."""
    sources: tuple[SourceStatus, ...] = ()
    """Its sources, in Spark's order; empty before the first batch of this driver is measured."""
    metrics: tuple[FunctionMetric, ...] = ()
    """What its functions have counted since this driver started."""


class CodeFrame(WireModel):
    """One call in the job's own code."""

    file: str
    line: int
    function: str
    source: str | None = None
    """The text of the line; absent if it is not known."""


class JobError(WireModel):
    """A failure of a query, in the words that a person needs."""

    query: str
    """The query's uid."""
    reason: str
    message: str
    failed_at: UtcDatetime
    frames: tuple[CodeFrame, ...] = ()
    """Calls in the job's own code, the innermost last; empty if the job's code had no part in it."""
    is_repeated: bool = False
    """Whether the driver starts the query again; otherwise the driver ends."""
    fault: Fault | None = None
    """Whose fault it is; absent if it is not known."""


class SinkStatus(WireModel):
    """One sink with two-phase commit."""

    query: str
    """The query's uid."""
    uid: str
    committed_batch: int | None = None
    """The last batch whose output is visible; absent until the first commit of this driver."""
    pending_transactions: int = 0
    """Transactions that this driver has prepared and not committed: they wait for the next checkpoint."""
    sent_again: str | None = None
    """What the sink had lost, and this driver has committed to it once more; absent if nothing was lost."""
    retrying: str | None = None
    """Why its commit is tried again; absent while it does not fail. Other sinks do not wait for this one."""


class SnapshotSummary(WireModel):
    """One completed checkpoint or savepoint."""

    kind: Annotated[SnapshotKind, InCamelCase()]
    id: int
    location: str
    """Absolute URI of its folder."""
    trigger: Annotated[Trigger, InCamelCase()]
    triggered_at: UtcDatetime
    completed_at: UtcDatetime
    size_bytes: int
    """Size of all its files."""
    batches: dict[str, int] = Field(default_factory=dict)
    """Committed batch by query uid."""
    incremental_size_bytes: int | None = None
    """Size of the files that the previous snapshot does not have; for a savepoint of all files, because all are copied."""
    files: int | None = None
    """Number of its files."""
    phases_ms: dict[str, int] | None = None
    """Duration of each phase of writing it: `closure`, `fence`, `copy` (savepoints), `manifest`."""
    format: Annotated[SnapshotFormat, InCamelCase()] = SnapshotFormat.NATIVE
    """The form of its state."""

    @classmethod
    def describe(cls, manifest: Manifest, location: str) -> SnapshotSummary:
        """Return the summary of a manifest.

        Args:
            manifest: Manifest of the snapshot.
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
    """Numbers of snapshots since this driver started."""

    triggered: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    restored: int = 0


class FileCounts(WireModel):
    """The files of the job on storage, as the newest search for unused files has counted them."""

    objects: int
    """All objects of the job's generations, also those that were deleted after the search."""
    unused_objects: int
    """Of these, those that no snapshot needs."""
    search_ms: int
    """How long the search took."""
    deletion_backlog: int = 0
    """Of the unused ones, those that wait to be deleted now."""
    savepoints: int = 0
    """Complete savepoints in the job's folder. None of their files is among the objects."""
    savepoint_bytes: int = 0
    """Size of their files."""


class FailedCheckpoint(WireModel):
    """The latest checkpoint that did not complete."""

    id: int | None = None
    reason: str
    message: str
    failed_at: UtcDatetime


class StandbyStatus(WireModel):
    """How far a standby is prepared."""

    state: StandbyState
    reason: str | None = None
    """Refused: why, as a reason. Otherwise the last failure that it repeats, such as storage that cannot be reached."""
    message: str | None = None
    """The reason in a sentence, with the file and line if the job's own code raised."""
    compared_with: str | None = None
    """The newest state that the job was compared with: `checkpoint 41` or a savepoint's URI; absent for empty state."""
    ready_at: UtcDatetime | None = None
    """When it became ready; absent until then."""
    warmed_queries: tuple[str, ...] = ()
    """Uids of the queries that have run on samples."""


class Progress(WireModel):
    """Progress of a start's step, or of a savepoint's copy. A stop copies twice: while the job runs, and then the rest."""

    unit: str
    """The counted unit: `files`, `operators` for a canonical savepoint, or `queries` that a stop has drained. Of a start:
    `files`, `queries`, `transactions` of sinks, or `tasks` of Spark. Of a standby also `batches` of a rehearsal."""
    done: int = Field(ge=0)
    total: int = Field(ge=0)
    done_bytes: int | None = None
    """Approximate, because several files are copied at the same time; absent if the sizes are not known in advance."""
    total_bytes: int | None = None
    """Size of the files, without those that a copy finds at its target already."""


class JobStatus(WireModel):
    """Answer of `GET /v1/status`."""

    job: str
    namespace: str
    state: JobState
    epoch: int
    """The epoch that the driver owns; 0 for a standby."""
    generation: int | None = None
    """The generation that the driver runs in; 0 for a standby."""
    revision: str | None = None
    started_at: UtcDatetime
    restored_from: str | None = None
    """`checkpoint 41`, a savepoint's URI, or absent after a first start with empty state."""
    fallback: str | None = None
    """Why an older checkpoint than the newest was used, if one was."""
    other_spark: str | None = None
    """Which release of Spark wrote the restored snapshot, if it is not the one that runs."""
    kept_aside: str | None = None
    """The state that this start of an earlier version of the job has left aside, and where it stays; absent if there is
    none."""
    restore_skipped: str | None = None
    """Why this start did not do the requested restore: it was done before, and how to request it again."""
    queries: tuple[QueryStatus, ...] = ()
    sinks: tuple[SinkStatus, ...] = ()
    checkpoints: CheckpointCounts = CheckpointCounts()
    last_checkpoint: SnapshotSummary | None = None
    last_savepoint: SnapshotSummary | None = None
    last_failure: FailedCheckpoint | None = None
    pruned_bytes: int = 0
    """Size of the files that this driver has removed because no snapshot needs them."""
    files: FileCounts | None = None
    """The files on storage; absent before the first search for unused ones."""
    last_error: JobError | None = None
    """The newest failure of a query, also of one that runs again; absent if none has failed in this driver."""
    message: str | None = None
    """While it starts, or gets ready as a standby: the step that it is at, how far it is, and since when; the count is
    renewed every 5 s. While it runs: what people should know."""
    progress: Progress | None = None
    """How far it is within that step, as of now; absent if that is not counted."""
    standby: StandbyStatus | None = None
    """How far a standby is prepared; absent for a driver."""
    checkpoint_config: CheckpointConfig | None = None
    """When the running driver takes checkpoints, and how many it keeps; absent before it runs."""


class CheckpointRequest(WireModel):
    """Body of `POST /v1/checkpoints`."""

    request_id: str = Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9._:-]+$")
    trigger: Annotated[Trigger, InCamelCase()] = Trigger.MANUAL


class SavepointRequest(WireModel):
    """Body of `POST /v1/savepoints`."""

    request_id: str = Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9._:-]+$")
    location: str | None = None
    """Parent folder for the savepoint; absent means the job's default."""
    name: str | None = Field(default=None, max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    trigger: Annotated[Trigger, InCamelCase()] = Trigger.MANUAL
    format: Annotated[SnapshotFormat, InCamelCase()] = SnapshotFormat.NATIVE
    """`Native` copies the engine's files on the server's side; `Canonical` writes the state as Parquet, beside the job."""


class StopRequest(WireModel):
    """Body of `POST /v1/stop`. With `savepoint: false`, neither `drain` nor the format `Canonical` is possible."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"properties": {"savepoint": {"const": True}}},
                {"properties": {"drain": {"const": False}, "format": {"const": "Native"}}},
            ]
        }
    )

    request_id: str = Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9._:-]+$")
    savepoint: bool = True
    """Take a savepoint at the last boundary; without it only a checkpoint is completed."""
    location: str | None = None
    name: str | None = Field(default=None, max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    trigger: Annotated[Trigger, InCamelCase()] = Trigger.STOP
    format: Annotated[SnapshotFormat, InCamelCase()] = SnapshotFormat.NATIVE
    """As for a savepoint. The job is paused while a canonical savepoint is written; a native one is mostly copied before."""
    drain: bool = False
    """End the job permanently: the job reads the rest of its sources, then event time ends, so that timers fire and windows
    close, and then the savepoint is taken. Do not restart the same job from such a savepoint."""

    @model_validator(mode="after")
    def _needs_a_savepoint(self) -> Self:
        """Require a savepoint for it, as Flink does (A.97)."""
        if not self.savepoint and (self.drain or self.format is SnapshotFormat.CANONICAL):
            what = "drain" if self.drain else "format"
            raise ValueError(f"{what} needs a savepoint; leave out savepoint: false")
        return self


class ActivateRequest(WireModel):
    """Body of `POST /v1/activate`."""

    request_id: str = Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9._:-]+$")
    epoch: _Whole = Field(ge=1)
    """The epoch that the standby claims; the driver that owns an older one is fenced by that."""
    restore: RestoreConfig | None = None
    """Where it starts instead of the newest state, for example the savepoint of the stop before it. Absent: what the
    standby's configuration says."""


class Operation(WireModel):
    """A checkpoint, savepoint, stop or activation.

    It is the answer of the POSTs (202) and of `GET /v1/operations/<requestId>?waitSeconds=<n>`. With
    `waitSeconds` (up to 30) the answer comes as soon as the operation has ended, or after that time.
    """

    request_id: str
    kind: OperationKind
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
