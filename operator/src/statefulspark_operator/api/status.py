"""The status of a `StatefulSparkJob`: what is true, and what the operator has made up its mind to do.

The status is the operator's write-ahead log. `driver` and `operation` hold an intent before it is acted upon, so that
an operator that dies between two steps finds out in the next pass where it was. The phase is for people; decisions read
the facts.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field
from statefulspark.contract.base import UtcDatetime
from statefulspark.contract.config import ClaimMode

from statefulspark_operator.api.base import ApiModel
from statefulspark_operator.api.conditions import Condition


class Phase(StrEnum):
    """The state of a job in one word, for people."""

    PENDING = "Pending"
    """Nothing has been started yet."""
    STARTING = "Starting"
    """A driver pod exists and its queries do not run yet."""
    RUNNING = "Running"
    """All queries run."""
    UPGRADING = "Upgrading"
    """A change of the spec is being carried out."""
    RESTARTING = "Restarting"
    """The driver is gone and the next one is about to start."""
    SUSPENDED = "Suspended"
    """Stopped by `spec.suspend`, state kept."""
    STALLED = "Stalled"
    """Stopped until somebody changes something; the message says what."""
    STOPPED = "Stopped"
    """All queries ended by themselves."""
    DELETING = "Deleting"
    """The resource is being deleted."""


class DriverState(StrEnum):
    """How far the driver of an epoch has come, as the operator knows it."""

    CREATING = "Creating"
    """Decided and recorded; the pod may exist or not."""
    CREATED = "Created"
    """The pod has been seen."""
    ENDED = "Ended"
    """It is over, and the end has been taken into account."""


class OperationKind(StrEnum):
    """What the driver is asked to do."""

    SAVEPOINT = "Savepoint"
    STOP = "Stop"


class OperationPhase(StrEnum):
    """How far an operation has come, as the operator knows it."""

    REQUESTED = "Requested"
    """Recorded; the driver may know of it or not. Asking again is safe."""
    COMPLETED = "Completed"
    FAILED = "Failed"
    """The driver reported a failure, or the time was up."""


class RestoreIntent(ApiModel):
    """What a driver starts from, when it is not the latest completed checkpoint."""

    id: str
    """Names this restore, so that a later crash goes on from the checkpoints made since and not from here again."""
    snapshot: str | None = None
    """Folder of a savepoint, or `checkpoint:<id>`."""
    allow_non_restored_state: bool = False
    """State whose uid is gone may be dropped."""
    fresh: bool = False
    """Start empty although there are checkpoints."""
    claim_mode: ClaimMode | None = None
    """Who owns the snapshot after the start; absent: it stays its owner's."""


class DriverIntent(ApiModel):
    """The driver of the current epoch."""

    epoch: int
    """Number of this start; the highest one owns the state."""
    revision: str
    """Revision of the spec that it runs."""
    state: DriverState
    """How far it has come."""
    decided_at: UtcDatetime
    """When the operator decided to start it."""
    pod: str
    """Name of its pod."""
    restore: RestoreIntent | None = None
    """What it was told to start from; absent means the latest completed checkpoint."""
    ending_since: UtcDatetime | None = None
    """When its pod was first seen being deleted."""
    ended_at: UtcDatetime | None = None
    """When its end was noticed."""
    end_reason: str | None = None
    """How it ended, in PascalCase."""
    end_message: str | None = None
    """How it ended, in a sentence."""
    exit_code: int | None = None
    """Exit code of the driver process, if known."""


class OperationStatus(ApiModel):
    """A savepoint or stop that the driver was asked for."""

    id: str
    """Request id; asking again with it never starts a second one."""
    kind: OperationKind
    """Savepoint, or stop with savepoint."""
    trigger: str
    """Why: upgrade, stop, manual or deletion."""
    attempt: int = 1
    """Number of this attempt for the same reason."""
    generation: int
    """Generation of the resource that asked for it."""
    epoch: int
    """Epoch of the driver that was asked."""
    requested_at: UtcDatetime
    """When it was recorded."""
    state: OperationPhase
    """How far it has come."""
    finished_at: UtcDatetime | None = None
    """When its end was noticed."""
    location: str | None = None
    """Folder of the savepoint."""
    message: str | None = None
    """Why it failed."""


class SnapshotStatus(ApiModel):
    """A completed checkpoint or savepoint."""

    id: int
    """Number in the job's one sequence of checkpoints and savepoints."""
    completed_at: UtcDatetime
    """When it was complete."""
    location: str | None = None
    """Its folder on storage."""
    size_bytes: int | None = None
    """Bytes that it refers to."""
    trigger: str | None = None
    """Why it was taken."""
    batches: dict[str, int] = Field(default_factory=dict)
    """Committed batch by query."""


class UpgradeState(StrEnum):
    """How far an upgrade has come."""

    SAVEPOINT = "Savepoint"
    """The old revision is asked to stop with a savepoint."""
    STOPPING = "Stopping"
    """The savepoint is complete, or given up; the old driver is ending."""
    STARTING = "Starting"
    """The new revision has been started."""
    DONE = "Done"
    """The new revision has completed a checkpoint."""
    ABORTED = "Aborted"
    """Given up; the old revision goes on."""


class UpgradeStatus(ApiModel):
    """The latest change of the spec that needed another driver, and how long each step took."""

    from_revision: str
    """Revision that ran before."""
    to_revision: str
    """Revision asked for."""
    generation: int
    """Generation of the resource that asked for it."""
    state: UpgradeState
    """How far it has come."""
    requested_at: UtcDatetime
    """When the change was noticed."""
    savepoint_completed_at: UtcDatetime | None = None
    """When the savepoint was complete."""
    stopped_at: UtcDatetime | None = None
    """When the old driver had ended."""
    started_at: UtcDatetime | None = None
    """When the new driver was ready."""
    first_checkpoint_at: UtcDatetime | None = None
    """When the new revision completed its first checkpoint."""
    pause_seconds: float | None = None
    """From the completed savepoint, or the stop, to the new driver being ready."""
    savepoint: str | None = None
    """Folder of the savepoint."""
    message: str | None = None
    """Why it is waiting, fell back or was aborted."""


class RestartStatus(ApiModel):
    """Failures and restarts."""

    count: int = 0
    """Restarts after failures, over the whole life of the resource."""
    consecutive: int = 0
    """Failures since the last completed checkpoint."""
    next_attempt_at: UtcDatetime | None = None
    """Not before this time."""
    last_reason: str | None = None
    """Reason of the latest failure."""
    last_message: str | None = None
    """The latest failure in a sentence."""
    last_failure_at: UtcDatetime | None = None
    """When it was noticed."""


class StallStatus(ApiModel):
    """Why nothing is tried any more."""

    generation: int
    """Generation of the resource that it is about; any newer one is tried again."""
    reason: str
    """PascalCase."""
    message: str
    """What failed and what to do."""


class QueryProgress(ApiModel):
    """One query."""

    uid: str
    """Its uid in the job."""
    active: bool = True
    """Whether it runs."""
    batch: int = -1
    """Last committed batch; -1 before the first."""
    input_rows: int = 0
    """Rows read since the driver started."""
    rows_per_second: float = 0.0
    """Rows per second of the last batch."""


class StatefulSparkJobStatus(ApiModel):
    """What is true of the job, and what the operator is doing."""

    phase: Phase | None = None
    """The state in one word."""
    message: str | None = None
    """The state in one sentence, with what to do if something is wrong."""
    observed_generation: int | None = None
    """Generation of the spec that this status is about."""
    conditions: tuple[Condition, ...] = Field(
        default=(),
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Answers for tools: Ready, Reconciling, Stalled, CheckpointHealthy, StorageReachable, Upgrading."""
    epoch: int | None = None
    """Highest epoch assigned to a driver."""
    revision: str | None = None
    """Revision of the spec that runs, or ran last."""
    driver: DriverIntent | None = None
    """The driver of the current epoch."""
    restore: RestoreIntent | None = None
    """What the next start uses instead of the latest checkpoint; cleared by the first checkpoint completed after it."""
    restore_applied: str | None = None
    """Id of the latest `spec.restore` that was carried out."""
    operation: OperationStatus | None = None
    """The latest savepoint or stop that the operator asked for."""
    upgrade: UpgradeStatus | None = None
    """The latest upgrade."""
    last_checkpoint: SnapshotStatus | None = None
    """The latest completed checkpoint."""
    last_savepoint: SnapshotStatus | None = None
    """The latest completed savepoint."""
    restored_from: str | None = None
    """What the running driver started from."""
    restarts: RestartStatus = RestartStatus()
    """Failures and restarts."""
    stalled: StallStatus | None = None
    """Why nothing is tried any more."""
    savepoint_nonce: str | None = None
    """The latest `spec.savepointNonce` that was carried out."""
    queries: tuple[QueryProgress, ...] = Field(
        default=(),
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"]},
    )
    """Progress by query, refreshed every few seconds."""
    progress_at: UtcDatetime | None = None
    """When the progress was refreshed."""
