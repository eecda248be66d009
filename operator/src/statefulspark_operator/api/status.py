"""The status of a `StatefulSparkJob`: the observed facts, and what the operator has decided to do.

The status is the operator's write-ahead log. `driver` and `operation` record an intent before its actions, so that an
operator that ended between two steps continues correctly in the next pass. The phase is for people; decisions use the facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field, SerializationInfo, SerializerFunctionWrapHandler, model_serializer, model_validator
from statefulspark.contract.base import UtcDatetime
from statefulspark.contract.config import ClaimMode
from statefulspark.contract.exit_codes import ExitCode, PlannedEnd
from statefulspark.contract.faults import Fault

from statefulspark_operator.api.base import Duration, StatusModel
from statefulspark_operator.api.conditions import Condition, Conditions, ConditionType
from statefulspark_operator.api.restore import RestoreSource
from statefulspark_operator.api.savepoint_schedule import SavepointScheduleStatus, SavepointsStatus
from statefulspark_operator.api.spark_savepoint import SavepointOrigin


class StandbyState(StrEnum):
    """The state of the standby driver."""

    CREATING = "Creating"
    """Its pod is being created, scheduled, or pulls its image."""
    WARMING = "Warming"
    """Its process loads the job and compares it with the state."""
    READY = "Ready"
    """It can take over."""
    REFUSED = "Refused"
    """The job does not load or does not fit the state, or the pod cannot start; the reason says why."""
    ENDED = "Ended"
    """It has ended, and is replaced at `retryTime`."""


class StandbyStatus(StatusModel):
    """The standby driver: a started process that reads the state and changes nothing until it takes over."""

    number: int
    """Its number, which is in the name of its pod."""
    pod: str
    """Name of its pod."""
    revision: str
    """Revision of the spec that it loads."""
    state: StandbyState
    """Its state."""
    since: UtcDatetime
    """When it reached this state."""
    uid: str | None = None
    """Identity of its pod, once that has been observed."""
    reason: str | None = None
    """Why it refused or ended, in PascalCase."""
    message: str | None = None
    """Why it refused or ended, in one sentence."""
    fault: Fault | None = None
    """Whose fault it is that it refused, ended or waits."""
    failures: int = 0
    """Number of standbys in a row that ended before they were ready."""
    retry_at: UtcDatetime | None = None
    """When the next one is created, after it has ended."""


class PruningStatus(StatusModel):
    """Files in the job's folder that no snapshot needs, while no driver runs that would remove them."""

    epoch: int
    """Epoch of the driver that has ended."""
    looked_at: UtcDatetime
    """When the folder was looked through last."""
    unused_files: int = 0
    """Number of files that no snapshot needs, and that are still there."""
    unused_bytes: int = 0
    """Their size."""
    remove_at: UtcDatetime | None = None
    """When they may be removed; absent if there are none."""
    freed_files: int = 0
    """Number of files that were removed since the resource was created."""
    freed_bytes: int = 0
    """Their size."""


class RevisionOutcome(StrEnum):
    """How a revision turned out."""

    RUNNING = "Running"
    """It is the job's first revision, and has not completed enough checkpoints to be stable."""
    REPLACED = "Replaced"
    """It ran, and another one was requested, or became stable, before it was stable itself."""
    STABLE = "Stable"
    """It completed enough checkpoints."""
    ROLLED_BACK = "RolledBack"
    """It failed before it was stable, and the revision before it was started again."""
    BLOCKED = "Blocked"
    """Its standby refused or could not start; it never ran."""


class RevisionRecord(StatusModel):
    """One revision in the history."""

    revision: str
    """The revision; its spec is in the ControllerRevision `<job>-<revision>`."""
    image: str
    """Its image."""
    snapshot: str | None = None
    """The savepoint that it started from."""
    outcome: RevisionOutcome
    """How it turned out."""
    at: UtcDatetime
    """When that was observed."""


class Phase(StrEnum):
    """The state of a job in one word, for people."""

    PENDING = "Pending"
    """No driver has been started yet."""
    STARTING = "Starting"
    """A driver pod exists, and has not committed a batch of the input that waits for it."""
    RUNNING = "Running"
    """All queries run, and a batch has been committed since the start, where there was input."""
    UPGRADING = "Upgrading"
    """A change of the spec is being carried out."""
    RESTARTING = "Restarting"
    """The driver has ended, and the next one is about to start."""
    SUSPENDING = "Suspending"
    """Being stopped because of `spec.suspend`; the driver still runs."""
    SUSPENDED = "Suspended"
    """Stopped by `spec.suspend`; no driver runs, and the state is kept."""
    STALLED = "Stalled"
    """Stopped until a person makes a change; the message says which."""
    STOPPED = "Stopped"
    """All queries ended on their own."""
    DELETING = "Deleting"
    """The resource is being deleted."""


class DriverState(StrEnum):
    """The state of an epoch's driver, as the operator knows it."""

    CREATING = "Creating"
    """The start is decided and recorded; the pod may not exist yet."""
    CREATED = "Created"
    """The pod has been observed."""
    ENDED = "Ended"
    """The driver has ended, and its end has been recorded."""


class OperationKind(StrEnum):
    """The operation that the driver is asked to perform."""

    SAVEPOINT = "Savepoint"
    STOP = "Stop"


class OperationPhase(StrEnum):
    """The state of an operation, as the operator knows it."""

    REQUESTED = "Requested"
    """Recorded; the driver may not have received it. A repeated request is safe."""
    COMPLETED = "Completed"
    FAILED = "Failed"
    """The driver reported a failure, or the operation timed out."""


class RestoreIntent(StatusModel):
    """The snapshot that a driver starts from, if it is not the newest committed batch."""

    id: str
    """Identifies this restore, so that after a later failure the job continues from newer checkpoints and not from here."""
    source: RestoreSource | None = None
    """What it starts from; absent means the newest committed batch."""
    rollback: bool = False
    """A rollback: the driver refuses to start if a part of the job would begin without state, or rows would come twice."""
    after_stop: bool = False
    """The snapshot is the savepoint of this job's stop: the driver goes on from newer state, if the job went on after it."""
    claim_mode: ClaimMode | None = None
    """Who owns the snapshot after the start; absent means that its owner keeps it."""

    @property
    def snapshot(self) -> str | None:
        """The name of the snapshot in messages: its folder, or `checkpoint:<id>`; None if there is none."""
        return self.source.snapshot if self.source is not None else None

    @property
    def starts_empty(self) -> bool:
        """Whether it starts with empty state."""
        return self.source is not None and self.source.empty is not None


class DriverIntent(StatusModel):
    """The driver of the current epoch."""

    epoch: int
    """Number of this start; the highest one owns the state."""
    revision: str
    """Revision of the spec that it runs."""
    state: DriverState
    """Its state."""
    decided_at: UtcDatetime
    """When the operator decided to start it."""
    pod: str
    """Name of its pod."""
    restore: RestoreIntent | None = None
    """The snapshot that it starts from; absent means the newest committed batch."""
    ending_since: UtcDatetime | None = None
    """When the deletion of its pod was first observed."""
    ending_cause: str | None = None
    """Why Kubernetes ends its pod: an eviction, a preemption, a taint; absent if it does not, or does not say why."""
    ended_at: UtcDatetime | None = None
    """When its end was observed."""
    end_reason: str | None = None
    """How it ended: a reason in PascalCase."""
    end_message: str | None = None
    """How it ended, in one sentence."""
    exit_code: int | None = None
    """Exit code of the driver process, if known."""

    @property
    def has_finished(self) -> bool:
        """Whether its input ended, so that nothing is left to do."""
        return self.exit_code == ExitCode.SUCCESS and self.end_reason == PlannedEnd.FINISHED


class OperationStatus(StatusModel):
    """A savepoint or stop that was requested from the driver."""

    id: str
    """Request id; a repeated request with it starts nothing twice."""
    kind: OperationKind
    """Savepoint, or stop with savepoint."""
    origin: SavepointOrigin
    """Why it was requested."""
    attempt: int = 1
    """Number of this attempt for the same reason."""
    generation: int
    """Generation of the resource that requested it."""
    epoch: int
    """Epoch of the driver that was asked."""
    requested_at: UtcDatetime
    """When it was recorded."""
    state: OperationPhase
    """Its state."""
    finished_at: UtcDatetime | None = None
    """When its end was observed."""
    location: str | None = None
    """Folder of the savepoint."""
    message: str | None = None
    """Why it failed."""
    savepoints: tuple[str, ...] | None = None
    """Names of the SparkSavepoint objects that stand for it; the first one asked for it. Absent: there is none yet."""


class SnapshotStatus(StatusModel):
    """A completed checkpoint or savepoint."""

    id: int
    """Number from the job's sequence, which checkpoints and savepoints share."""
    completed_at: UtcDatetime
    """When it was complete."""
    location: str | None = None
    """Its folder on storage."""
    size_bytes: int | None = None
    """Size of its files in bytes."""
    trigger: str | None = None
    """Why it was taken."""
    batches: dict[str, int] = Field(default_factory=dict)
    """Committed batch by query."""


class UpgradeState(StrEnum):
    """The state of an upgrade."""

    PREPARE = "Prepare"
    """A standby driver of the new revision gets ready; the old revision runs."""
    READY = "Ready"
    """The standby can take over; the old revision runs."""
    SAVEPOINT_PRE_COPY = "SavepointPreCopy"
    """A standby waits; the old revision copies what exists for the savepoint while it runs, and then stops with it."""
    SAVEPOINT = "Savepoint"
    """The old revision is asked to stop with a savepoint; no standby waits."""
    STOPPING = "Stopping"
    """The savepoint is complete or was abandoned; the old driver is ending."""
    ACTIVATING = "Activating"
    """The standby has become the driver, with the next epoch, which fences the old one."""
    STARTING = "Starting"
    """The new revision has been started in a new pod."""
    FIRST_CHECKPOINT = "FirstCheckpoint"
    """The new revision has completed a checkpoint; it is not stable yet."""
    STABLE = "Stable"
    """The new revision has completed `spec.upgrade.stableAfterCheckpoints` checkpoints."""
    ROLLED_BACK = "RolledBack"
    """The new revision failed before it was stable; the revision before runs again until the spec changes."""
    BLOCKED = "Blocked"
    """The standby of the new revision refused or could not start; the old revision keeps running until the spec changes."""
    ABORTED = "Aborted"
    """Aborted; the old revision keeps running."""


class TrialStatus(StatusModel):
    """What a new revision has completed, and how often it has failed, before it is stable."""

    checkpoints: int = 0
    """Number of snapshots that it has completed."""
    checkpoints_before: int = 0
    """Those of them that its earlier drivers completed."""
    failures: int = 0
    """Number of its ends since its last completed checkpoint that are its own fault."""
    committed: dict[str, int] = Field(default_factory=dict)
    """Last batch by query that it had committed when it last failed."""


class UpgradeStatus(StatusModel):
    """The latest change of the spec that needed a new driver, and the times of its steps."""

    from_revision: str
    """Revision that ran before."""
    to_revision: str
    """Requested revision."""
    generation: int
    """Generation of the resource that requested it."""
    state: UpgradeState
    """Its state."""
    requested_at: UtcDatetime
    """When the change was observed."""
    image: str = ""
    """Image of the requested revision."""
    savepoint_completed_at: UtcDatetime | None = None
    """When the savepoint was complete."""
    stopped_at: UtcDatetime | None = None
    """When the old driver had ended."""
    started_at: UtcDatetime | None = None
    """When the new driver was ready."""
    first_checkpoint_at: UtcDatetime | None = None
    """When the new revision completed its first checkpoint."""
    last_commit_at: UtcDatetime | None = None
    """When the old revision had committed its last batch, as far as that was seen."""
    first_commit_at: UtcDatetime | None = None
    """When the new revision had committed its first batch; absent without input within a minute of its first checkpoint."""
    pause: Duration | None = None
    """From the last batch of the old revision to the first of the new one. It begins with the request to stop if the old one
    had had no input for a minute, and is absent if the new one had none."""
    savepoint: str | None = None
    """Folder of the savepoint."""
    message: str | None = None
    """Why it is waiting, used a checkpoint, was blocked, rolled back or aborted."""
    reason: str | None = None
    """Reason in PascalCase why it was blocked or rolled back."""
    trial: TrialStatus | None = None
    """How the new revision has done so far; absent until it has completed a checkpoint or failed."""


class ExecutorsStatus(StatusModel):
    """The executors of the running driver."""

    driver: str
    """Name of the driver's pod."""
    desired: int
    """Number that it asked for."""
    running: int
    """Number that runs."""
    selector: str
    """Label selector of their pods, for autoscalers."""
    lost: int = 0
    """Number that it has asked for again, because one ended or did not start."""
    message: str | None = None
    """Why one does not run, or why the last one was lost, in one sentence."""
    missing_since: UtcDatetime | None = None
    """Since when fewer run than it asked for."""


class DisruptionStatus(StatusModel):
    """An end of a driver by Kubernetes."""

    epoch: int
    """Epoch of the driver."""
    message: str
    """Why Kubernetes ended its pod."""
    observed_at: UtcDatetime
    """When the end was observed."""


class RestartStatus(StatusModel):
    """Failures and restarts."""

    count: int = 0
    """Number of restarts after failures since the resource was created."""
    consecutive: int = 0
    """Number of failures since the last completed checkpoint; the delay before the next start grows with it."""
    charged: int = 0
    """Number of those that are the revision's fault, which `spec.restart.maxFailures` limits."""
    last_fault: Fault | None = None
    """Whose fault the latest failure is."""
    next_attempt_at: UtcDatetime | None = None
    """Earliest time of the next start."""
    last_reason: str | None = None
    """Reason of the latest failure."""
    last_message: str | None = None
    """The latest failure, in one sentence."""
    last_failure_at: UtcDatetime | None = None
    """When it was observed."""


class StallStatus(StatusModel):
    """Why the operator does not retry."""

    generation: int
    """Generation of the resource that it applies to; the operator tries newer ones again."""
    reason: str
    """Reason in PascalCase."""
    message: str
    """What failed, and what to do."""
    code: str | None = None
    """Checksum of the code that it applies to, if that is in a ConfigMap; the operator tries another one again."""


class QueryProgress(StatusModel):
    """One query."""

    uid: str
    """Its uid in the job."""
    active: bool = True
    """Whether it runs."""
    batch: int = -1
    """Last committed batch; -1 before the first."""


INTERNAL = (
    "restore",
    "restoreApplied",
    "operation",
    "standbyCount",
    "pruning",
    "silentTime",
    "reasonTime",
    "stalled",
    "trial",
)
"""What a stored status has below `internal`: only the operator reads it. `trial` is that of the upgrade."""


class StatefulSparkJobStatus(StatusModel):
    """The observed state of the job, and what the operator is doing."""

    phase: Phase | None = None
    """The state in one word, for printing only: tools use the conditions."""
    message: str | None = None
    """The state in one sentence, and what to do if there is a problem."""
    observed_generation: int | None = None
    """Generation of the spec that this status is about."""
    conditions: Conditions = Field(
        default=(),
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Answers for tools: Ready, Reconciling, Stalled, Available, CheckpointHealthy, StorageReachable, Upgrading,
    UpgradeBlocked."""
    epoch: int | None = None
    """Highest epoch assigned to a driver."""
    revision: str | None = None
    """Revision of the spec that runs, or ran last."""
    update_revision: str | None = None
    """Revision that the spec is; another one than `revision` while a change waits, is carried out, or was refused."""
    code: str | None = None
    """Checksum of the code that `spec` stands for, if it is in a ConfigMap; absent if the code is elsewhere."""
    ignored_code: str | None = None
    """Checksum of the code that the ConfigMap of `spec.job.source` has now and that does not run, because
    `configMap.sha256` pins other code. Absent if it runs."""
    driver: DriverIntent | None = None
    """The driver of the current epoch."""
    restore: RestoreIntent | None = None
    """The snapshot of the next start instead of the latest checkpoint; cleared by the first checkpoint after that start."""
    restore_applied: str | None = None
    """Id of the latest `spec.restore` that was carried out."""
    operation: OperationStatus | None = None
    """The latest savepoint or stop that the operator requested."""
    upgrade: UpgradeStatus | None = None
    """The latest upgrade."""
    standby: StandbyStatus | None = None
    """The standby driver, of a warm upgrade or of `spec.driver.standby`."""
    executors: ExecutorsStatus | None = None
    """The executors of the running driver; absent if the job runs in the driver."""
    standby_count: int = 0
    """Number of standby pods created so far."""
    history: tuple[RevisionRecord, ...] = Field(default=(), json_schema_extra={"x-kubernetes-list-type": "atomic"})
    """The revisions of this job and how they turned out, newest first: the last 5 that ran well, the running one included;
    counted apart, the last 5 attempts that failed in the last 30 days."""
    last_checkpoint: SnapshotStatus | None = None
    """The latest completed checkpoint."""
    last_savepoint: SnapshotStatus | None = None
    """The latest completed savepoint."""
    restored_from: str | None = None
    """The snapshot that the running driver started from."""
    fallback: str | None = None
    """Why the running driver started from older state than the newest: what was damaged. Absent if it did not."""
    kept_aside: str | None = None
    """The state that only a later version of the job had, and where it stays, if the running driver goes on without it after
    a rollback. Absent if it does not."""
    restore_skipped: str | None = None
    """Why the running driver has not carried out `spec.restore`: it was carried out before. Absent if it has."""
    other_spark: str | None = None
    """Which release of Spark wrote the snapshot that the running driver started from, if the image has another one."""
    restarts: RestartStatus = RestartStatus()
    """Failures and restarts."""
    last_disruption: DisruptionStatus | None = None
    """The last end of a driver by Kubernetes, for example in the drain of a node."""
    stalled: StallStatus | None = None
    """Why the operator does not retry."""
    reason_since: UtcDatetime | None = None
    """Since when `Ready` has its reason."""
    pruning: PruningStatus | None = None
    """What was pruned in the job's folder while no driver ran."""
    savepoint_schedule: SavepointScheduleStatus | None = None
    """How far `spec.savepoint.schedule` has been carried out."""
    savepoints: SavepointsStatus | None = None
    """The complete savepoints that the operator made by itself, which `spec.savepoint.retention` limits."""
    queries: tuple[QueryProgress, ...] = Field(
        default=(),
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"]},
    )
    """Progress by query, updated every 30 seconds, and at once if a query starts or ends."""
    progress_at: UtcDatetime | None = None
    """When the progress was updated."""
    silent_since: UtcDatetime | None = None
    """Since when the driver, which answered before, has not answered."""

    def condition(self, kind: ConditionType) -> Condition | None:
        """Return the answer to a question; None if the operator has given none."""
        return next((condition for condition in self.conditions if condition.type is kind), None)

    @model_validator(mode="before")
    @classmethod
    def _read_internal(cls, stored: object) -> object:
        """Read what is stored below `internal`, and no phase of a later release, which is for people only."""
        if not isinstance(stored, Mapping):
            return stored
        status = {**stored, **(stored.get("internal") or {})}
        trial = status.pop("trial", None)
        if trial is not None and isinstance(status.get("upgrade"), Mapping):
            status["upgrade"] = {**status["upgrade"], "trial": trial}
        if status.get("phase") not in (None, *Phase):
            status.pop("phase")
        return status

    @model_serializer(mode="wrap")
    def _write_internal(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, object]:
        """Write the records of the operator below `internal`."""
        status: dict[str, object] = handler(self)
        if not info.by_alias:
            return status
        upgrade = status.get("upgrade")
        if isinstance(upgrade, dict) and "trial" in upgrade:
            status["trial"] = upgrade.pop("trial")
        internal = {name: status.pop(name) for name in INTERNAL if name in status}
        return {**status, "internal": internal} if internal else status
