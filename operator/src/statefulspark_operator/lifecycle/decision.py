"""The result of a pass: its reason, the status to record first, the actions to perform then, and the delay to the next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from statefulspark_operator.api.status import Phase, StatefulSparkJobStatus
from statefulspark_operator.lifecycle.actions import Action, CreateDriver

AT_ONCE = timedelta(0)
SOON = timedelta(seconds=1)
"""While a step is in progress."""
QUICK = timedelta(milliseconds=200)
"""While a standby waits for the running driver's stop: until it takes over, the job stands still."""
STEADY = timedelta(seconds=5)
"""While the job runs: the interval at which its progress is observed."""
LATER = timedelta(seconds=15)
"""While only an external change can help, which also wakes the job."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of the first rule that matched.

    Attributes:
        reason: Reason for the decision.
        message: One sentence for people about the current state of the job.
        phase: The job's state in one word.
        status: The status to record before any action; phase, message and conditions are set later.
        actions: The actions, in this order; if one fails, the remaining ones are dropped.
        requeue_after: Delay until the next pass if no event wakes the job before.
    """

    reason: Reason
    message: str
    phase: Phase
    status: StatefulSparkJobStatus
    actions: tuple[Action, ...] = ()
    requeue_after: timedelta = LATER

    @property
    def creates_a_driver(self) -> bool:
        """Whether it creates the pod of a driver, which no standby becomes."""
        return any(isinstance(act, CreateDriver) for act in self.actions)


class Reason(Enum):
    """The reason for a decision; the value is the note for people."""

    FINALIZERS_SET = "The resource gets the finalizer that its deletionPolicy needs, or loses the one that it does not."
    DELETED = "The resource is being deleted, and nothing is left to do."
    DELETION_SAVEPOINT = "A savepoint is taken before the resource is deleted, as deletionPolicy requests."
    DELETION_STOPPING = "The driver finishes its batch and completes a checkpoint before the resource is deleted."
    DELETION_PURGING = "The job's folder on storage is deleted, as deletionPolicy requests."
    DELETION_WAITING = "Storage does not answer; deletion of the state is retried for a limited time."
    DELETION_FINISHED = "No driver runs any more, and nothing holds the resource."
    DELETION_STATE_KEPT = (
        "The last savepoint could not be taken, or the state could not be deleted or is another's. The state stays on "
        "storage, and the resource is deleted."
    )
    SPEC_REJECTED = "The spec cannot be carried out; the running driver is not changed until the spec changes."
    STRAY_DRIVER = "A driver pod of another epoch runs; it is fenced, and is removed."
    DRIVER_STOPPED = "The driver stopped as requested."
    DRIVER_DRAINED = "The driver's pod was deleted or its node drained; it completed a checkpoint first."
    DRIVER_FINISHED = "All queries of the job ended on their own."
    DRIVER_FAILED = "The driver ended; the next one continues after the newest committed batch."
    DRIVER_REFUSED = "The driver ended for a reason that a restart cannot change."
    BUDGET_EXHAUSTED = "The driver failed too often without completing a checkpoint."
    SUPERSEDED = "A newer spec replaced the start before its pod existed."
    OPERATION_REPEATED = "The driver does not know the request; it is sent again with the same id."
    OPERATION_IN_PROGRESS = "The driver is working on the savepoint."
    OPERATION_TIMED_OUT = "The driver did not complete the savepoint in time."
    STOPPING = "The savepoint is complete; the driver is ending."
    STOP_ENFORCED = "The driver did not end after its savepoint; its pod is deleted."
    SUSPENDING = "The job stops with a savepoint, because it is suspended."
    SUSPENDED = "The job is suspended; its state is kept."
    UPGRADE_REQUESTED = "The spec has changed; the driver is asked to stop with a savepoint."
    UPGRADE_RETRY_LATER = "The savepoint for the upgrade failed; the old revision keeps running until the next attempt."
    UPGRADE_FROM_CHECKPOINT = (
        "The driver stops without a savepoint; the new revision continues from the latest checkpoint."
    )
    UPGRADE_ABORTED = "The savepoint for the upgrade failed; the old revision keeps running until the spec changes."
    UPGRADE_PREPARING = "A standby of the new revision gets ready; the old revision keeps running."
    UPGRADE_READY = "The standby of the new revision can take over."
    UPGRADE_WAITS = (
        "The standby of the new revision cannot get ready, and the revision is not to blame: there is no room, or a Secret, "
        "storage or an image registry fails. The old revision keeps running."
    )
    UPGRADE_QUEUED = "The change waits for its turn: other jobs are being upgraded. The job keeps running as it is."
    UPGRADE_HALTED = (
        "The new image failed in other jobs of the namespace, so this job keeps running as it is, until a person acts."
    )
    UPGRADE_BLOCKED = "The new revision was refused before it ran; the old one keeps running until the spec changes."
    UPGRADE_HANDED_OVER = "The old revision has stopped with a savepoint; the standby takes over."
    STANDBY_CREATED = "A standby is created, so that an end of the driver costs seconds."
    STANDBY_REMOVED = "A standby that the spec does not request is removed."
    STANDBY_LOST = "The standby that was to take over has ended; a new driver is started."
    ACTIVATION_REPEATED = "The standby has not received the request to take over; it is sent again."
    ACTIVATION_REFUSED = "The standby refuses to take over; it is removed, and a new driver is started."
    ROLLED_BACK = "The new revision failed before it was stable; the revision before is started again."
    ROLLBACK_NEEDED = "The new revision failed before it was stable, and spec.upgrade.rollbackPolicy is Manual."
    ROLLBACK_TO_SAVEPOINT = "The newest state does not fit the revision before; the savepoint of its stop is tried."
    ROLLBACK_NEEDS_DECISION = (
        "The newest state does not fit the revision before, and going back to its savepoint would repeat output."
    )
    STALLED = "The operator does not retry until the spec changes."
    FINISHED = "All queries ended on their own; no driver is started until the spec changes."
    BACKING_OFF = "The driver failed; the next start waits."
    STORAGE_UNREADABLE = "The content of storage is unknown, so no driver is started."
    SAVEPOINT_MISSING = "The savepoint to start from is not on storage."
    SAVEPOINT_AWAITED = "The SparkSavepoint to start from is not complete."
    START_QUEUED = "The start waits for its turn: many jobs start, and only so many may in a minute."
    STARTING = "A driver is started."
    RESUMING_START = "A start that was recorded earlier is carried out."
    EXECUTORS_REMOVED = "Executors whose driver is over are removed, before the next driver asks for its own."
    EXECUTORS_MISSING = "Fewer executors run than the driver asked for."
    DRIVER_ENDING = "The driver's pod is being deleted; the operator waits until it has completed its checkpoint."
    IMAGE_UNAVAILABLE = "The node cannot get the image."
    CONTAINER_WAITING = "The driver's container cannot be started."
    UNSCHEDULABLE = "The scheduler has no node for the driver's pod: none has room, or a gate holds the pod back."
    DRIVER_NOT_TRUSTED = "The certificate of the driver's API cannot be verified, so the operator does not talk to it."
    DRIVER_STARTING = "The driver is starting."
    STALL_ENDED = "A batch did not end, or the driver did not answer, within spec.health.restartAfter; it is restarted."
    SAVEPOINT_REQUESTED = "A SparkSavepoint requested a savepoint."
    CODE_IGNORED = (
        "All queries run. The ConfigMap has other code, which does not run, because the spec pins the old one."
    )
    RUNNING = "All queries run."

    @property
    def word(self) -> str:
        """The reason in PascalCase, for conditions, events and metrics."""
        return "".join(part.capitalize() for part in self.name.split("_"))
