"""Values of the coordinator: its settings, requests, pending snapshots, events, commands and state.

Everything is frozen; sequences are tuples. Times are seconds on the caller's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from statefulspark.contract.config import CheckpointConfig
from statefulspark.contract.manifest import SnapshotKind, Trigger

MAX_QUEUED_REQUESTS = 1000
"""Maximum number of waiting requests; above it the least important one is refused (Flink A.88)."""


class AbortReason(StrEnum):
    """Why a request was refused or a pending snapshot ended without completing; Flink's names (A.113)."""

    TOO_MANY_CHECKPOINT_REQUESTS = "TOO_MANY_CHECKPOINT_REQUESTS"
    """The queue is full and this request was the least important."""
    MINIMUM_TIME_BETWEEN_CHECKPOINTS = "MINIMUM_TIME_BETWEEN_CHECKPOINTS"
    """The minimum pause after the last completion has not passed."""
    NOT_ALL_REQUIRED_TASKS_RUNNING = "NOT_ALL_REQUIRED_TASKS_RUNNING"
    """A query is not running yet, or has stopped running."""
    IO_EXCEPTION = "IO_EXCEPTION"
    """The object store failed while the snapshot was being started."""
    TRIGGER_CHECKPOINT_FAILURE = "TRIGGER_CHECKPOINT_FAILURE"
    """Starting the snapshot failed for another reason."""
    CHECKPOINT_EXPIRED = "CHECKPOINT_EXPIRED"
    """Not complete within the timeout."""
    CHECKPOINT_SUBSUMED = "CHECKPOINT_SUBSUMED"
    """A newer checkpoint completed first."""
    CHECKPOINT_DECLINED = "CHECKPOINT_DECLINED"
    """A participant could not take its part of the snapshot."""
    CHECKPOINT_DECLINED_TASK_NOT_READY = "CHECKPOINT_DECLINED_TASK_NOT_READY"
    """A participant is not ready yet."""
    CHECKPOINT_DECLINED_TASK_CLOSING = "CHECKPOINT_DECLINED_TASK_CLOSING"
    """A participant is ending."""
    TASK_FAILURE = "TASK_FAILURE"
    """A participant failed before it had acknowledged."""
    CHECKPOINT_COORDINATOR_SUSPEND = "CHECKPOINT_COORDINATOR_SUSPEND"
    """The job stopped while the snapshot was pending."""
    CHECKPOINT_COORDINATOR_SHUTDOWN = "CHECKPOINT_COORDINATOR_SHUTDOWN"
    """The driver is shutting down."""
    FINALIZE_CHECKPOINT_FAILURE = "FINALIZE_CHECKPOINT_FAILURE"
    """Listing the files of the batch, verifying them or writing the manifest failed."""


COUNTED_REASONS = frozenset(
    {
        AbortReason.IO_EXCEPTION,
        AbortReason.CHECKPOINT_DECLINED,
        AbortReason.CHECKPOINT_EXPIRED,
        AbortReason.FINALIZE_CHECKPOINT_FAILURE,
    }
)
"""Failures that count towards the tolerable number (A.110). Finalizing counts, because it writes to storage."""


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """Settings of the coordinator; see `contract.config.CheckpointConfig` for the meaning of each."""

    interval_s: float
    timeout_s: float = 600.0
    min_pause_s: float = 0.0
    max_concurrent: int = 1
    tolerable_failures: int = 0
    retained: int = 1

    @classmethod
    def read(cls, checkpoint: CheckpointConfig) -> CoordinatorSettings:
        """Return the settings of a configuration."""
        return cls(
            interval_s=checkpoint.interval.total_seconds(),
            timeout_s=checkpoint.timeout.total_seconds(),
            min_pause_s=checkpoint.min_pause.total_seconds(),
            max_concurrent=checkpoint.max_concurrent,
            tolerable_failures=checkpoint.tolerable_failures,
            retained=checkpoint.retention.count,
        )

    @property
    def base_interval_s(self) -> float:
        """The interval, or the minimum pause if that is longer (A.73)."""
        return max(self.interval_s, self.min_pause_s)


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a snapshot."""

    key: str
    """Identifies the request to the caller; periodic ones have the key `(periodic)`."""
    kind: SnapshotKind
    trigger: Trigger
    requested_at_s: float
    is_stop: bool = False
    """The job stops at this snapshot: it is excluded from retention, and older pending ones are dropped (A.102)."""

    @property
    def is_periodic(self) -> bool:
        """Whether the interval made the request, not a person or a tool."""
        return self.trigger is Trigger.PERIODIC

    @property
    def is_forced(self) -> bool:
        """Whether limits on concurrency and pause do not apply: savepoints and stops (A.90); never subsumed (A.103)."""
        return self.kind is SnapshotKind.SAVEPOINT or self.is_stop


@dataclass(frozen=True, slots=True)
class Pending:
    """A snapshot between its trigger and its end."""

    id: int
    request: Request
    timed_from_s: float
    """When its timeout began: with its trigger, and for a savepoint with the end of the savepoint before it."""
    participants: frozenset[str]
    hooks: frozenset[str] = frozenset()
    """Master hooks that have not answered yet; participants acknowledge after all of them (A.95)."""
    batches: Mapping[str, int] | None = None
    """Committed batch by participant, once they have acknowledged; the snapshot is then being written."""

    @property
    def is_awaited(self) -> bool:
        """Whether its participants are to acknowledge now."""
        return not self.hooks and self.batches is None


@dataclass(frozen=True, slots=True)
class State:
    """The complete state of the coordinator."""

    settings: CoordinatorSettings
    next_id: int
    participants: frozenset[str] = frozenset()
    """Everyone who acknowledges a snapshot; empty while the job does not run: no snapshot begins then."""
    hooks: frozenset[str] = frozenset()
    """Identifiers of the job's master hooks."""
    next_trigger_at_s: float | None = None
    """When the next periodic checkpoint is due; None while the job does not run."""
    is_overdue: bool = False
    """A slot has passed without news: the next commit is checkpointed at once."""
    first_commits: frozenset[str] = frozenset()
    """Participants whose first commit since the start is not part of a checkpoint yet; it is checkpointed at once."""
    queue: tuple[Request, ...] = ()
    pending: tuple[Pending, ...] = ()
    retained: tuple[int, ...] = ()
    """Ids of completed checkpoints, oldest first."""
    untried: frozenset[int] = frozenset()
    """Those of them that do not count, since not every query's state has been loaded by the driver that completed them."""
    restored: Mapping[str, int] = field(default_factory=dict)
    """The batch at which each participant's state was restored, for those that have state."""
    last_completion_at_s: float | None = None
    last_success_id: int = 0
    """Highest completed id, savepoints included: failures of ids up to it do not count (A.110)."""
    consecutive_failures: int = 0
    cleaning: frozenset[int] = frozenset()
    """Aborted snapshots whose files are still being removed (A.88)."""

    def find(self, snapshot_id: int) -> Pending | None:
        """Return the pending snapshot with an id; None if no such snapshot is pending."""
        return next((pending for pending in self.pending if pending.id == snapshot_id), None)


# Events


@dataclass(frozen=True, slots=True)
class Started:
    """All participants run: schedule periodic checkpoints, the first one after `first_delay_s` (A.83, A.85)."""

    now_s: float
    participants: frozenset[str]
    first_delay_s: float
    hooks: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed.

    Without news a due periodic checkpoint is skipped: it would contain the same batches as the previous one, and replace an
    older retained one, until all retained ones are equal. The next news are then checkpointed at once, because output
    becomes visible with a checkpoint, and another whole interval would be added to its latency.
    """

    now_s: float
    news: frozenset[str]
    """Participants that have something committed that the latest completed checkpoint does not have."""
    begun: frozenset[str] = frozenset()
    """Participants that have committed something since the start: news may be of the driver before."""


@dataclass(frozen=True, slots=True)
class Requested:
    """A snapshot was requested."""

    now_s: float
    request: Request


@dataclass(frozen=True, slots=True)
class HookAnswered:
    """A master hook has answered (A.95); one that fails or is too slow declines."""

    now_s: float
    snapshot_id: int
    hook: str


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Every participant is durable up to a batch (A.99). They are parts of one process, and answer together."""

    now_s: float
    snapshot_id: int
    batches: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Declined:
    """A participant cannot take part (A.107)."""

    now_s: float
    snapshot_id: int
    participant: str
    message: str
    reason: AbortReason = AbortReason.CHECKPOINT_DECLINED


@dataclass(frozen=True, slots=True)
class Failed:
    """A step of a snapshot failed: what comes before the barrier (A.93), a query (A.109), or writing (A.104)."""

    now_s: float
    snapshot_id: int
    reason: AbortReason
    message: str


@dataclass(frozen=True, slots=True)
class Finalized:
    """The manifest is on storage."""

    now_s: float
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The files of an aborted snapshot were removed, or could not be removed (A.88)."""

    now_s: float
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class Configured:
    """The settings have changed. A periodic checkpoint is due after the new interval at the latest."""

    now_s: float
    settings: CoordinatorSettings


@dataclass(frozen=True, slots=True)
class ShutDown:
    """The driver ends: abort all pending snapshots, and begin none."""

    now_s: float


Event = (
    Started
    | Tick
    | Requested
    | HookAnswered
    | Acknowledged
    | Declined
    | Failed
    | Finalized
    | Cleaned
    | Configured
    | ShutDown
)


# Commands


@dataclass(frozen=True, slots=True)
class Begin:
    """A snapshot was triggered: call its hooks, and answer HookAnswered or Declined for each (A.95).

    Answer Acknowledged once every hook has answered and every participant is at the barrier.
    """

    snapshot_id: int
    request: Request
    participants: frozenset[str]
    hooks: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Finalize:
    """List the acknowledged batches' files, verify them, write the manifest last; answer Finalized, Declined or Failed."""

    snapshot_id: int
    request: Request
    batches: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NotifyComplete:
    """Notify all participants that the snapshot and all older ones are complete (A.101)."""

    snapshot_id: int
    request: Request


@dataclass(frozen=True, slots=True)
class NotifyAborted:
    """Notify all participants that the snapshot is aborted; remove its files, then answer Cleaned (A.108)."""

    snapshot_id: int
    request: Request
    reason: AbortReason
    message: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """The request ends without a snapshot."""

    request: Request
    reason: AbortReason
    message: str


@dataclass(frozen=True, slots=True)
class Subsume:
    """These completed checkpoints exceed the retained number; the pruner may delete them (A.105)."""

    checkpoint_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FailJob:
    """More consecutive failures than are tolerated: fail the job, so that it does not look healthy (A.110)."""

    message: str


Command = Begin | Finalize | NotifyComplete | NotifyAborted | Refuse | Subsume | FailJob
