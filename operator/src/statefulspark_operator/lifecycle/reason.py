"""Why a decision was made: one word for tools, and a note that logs, events and the documentation share."""

from __future__ import annotations

from enum import Enum


class Reason(Enum):
    """The class of a decision; the value is the note for people."""

    FINALIZER_ADDED = "The finalizer is put on before anything is created, so that nothing is left behind."
    DELETED = "The resource is being deleted and nothing is left to do."
    DELETION_SAVEPOINT = "A savepoint is taken before the resource goes, as deletionPolicy asks."
    DELETION_STOPPING = "The driver finishes its batch and completes a checkpoint before the resource goes."
    DELETION_PURGING = "The job's folder on storage is deleted, as deletionPolicy asks."
    DELETION_WAITING = "Storage does not answer; deleting the state is tried again for a while."
    DELETION_FINISHED = "Nothing runs any more; the finalizer is taken off."
    DELETION_STATE_KEPT = "The state could not be deleted and is left on storage; the resource goes."
    SPEC_REJECTED = "The spec cannot be carried out; what runs is left alone until the spec changes."
    STRAY_DRIVER = "A driver pod of another epoch runs; it is fenced and is removed."
    DRIVER_STOPPED = "The driver stopped as asked."
    DRIVER_DRAINED = "The driver's pod was deleted or its node drained; it completed a checkpoint first."
    DRIVER_FINISHED = "All queries of the job ended by themselves."
    DRIVER_FAILED = "The driver ended; the next one goes on from the latest completed checkpoint."
    DRIVER_REFUSED = "The driver ended for a reason that starting it again cannot change."
    BUDGET_EXHAUSTED = "The driver failed too often without completing a checkpoint."
    SUPERSEDED = "The start was overtaken by a newer spec before its pod existed."
    OPERATION_REPEATED = "The driver does not know the request; it is sent again with the same id."
    OPERATION_IN_PROGRESS = "The driver is working on the savepoint."
    OPERATION_TIMED_OUT = "The driver did not complete the savepoint in time."
    STOPPING = "The savepoint is complete; the driver is ending."
    STOP_ENFORCED = "The driver did not end by itself after its savepoint; its pod is deleted."
    SUSPENDING = "The job stops with a savepoint, because it is suspended."
    SUSPENDED = "The job is suspended; its state is kept."
    UPGRADE_REQUESTED = "The spec has changed; the driver is asked to stop with a savepoint."
    UPGRADE_RETRY_LATER = "The savepoint for the upgrade failed; the old revision keeps running until the next attempt."
    UPGRADE_FROM_CHECKPOINT = (
        "The driver stops without a savepoint; the new revision goes on from the latest checkpoint."
    )
    UPGRADE_ABORTED = "The savepoint for the upgrade failed; the old revision keeps running until the spec changes."
    STALLED = "Nothing is tried any more until the spec changes."
    FINISHED = "All queries ended by themselves; nothing is started until the spec changes."
    BACKING_OFF = "The driver failed; the next start waits."
    STORAGE_UNREADABLE = "What storage holds cannot be told, so nothing is started."
    SAVEPOINT_MISSING = "The savepoint to start from is not on storage."
    STARTING = "A driver is started."
    RESUMING_START = "A start that was decided earlier is carried out."
    DRIVER_ENDING = "The driver's pod is being deleted; what it completes is waited for."
    IMAGE_UNAVAILABLE = "The node cannot get the image."
    CONTAINER_WAITING = "The driver's container cannot be started."
    UNSCHEDULABLE = "No node has room for the driver's pod."
    DRIVER_STARTING = "The driver is starting."
    SAVEPOINT_REQUESTED = "A savepoint was asked for by its nonce."
    RUNNING = "All queries run."

    @property
    def word(self) -> str:
        """The reason in PascalCase, as conditions, events and metrics show it."""
        return "".join(part.capitalize() for part in self.name.split("_"))
