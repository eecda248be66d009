"""Updates the status with the observed facts, before any rule is applied.

Afterwards the status contains the facts as far as they are known; nothing here decides on actions. Each function takes the
situation and returns it with one part of its status updated. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta

from statefulspark.contract.api import JobState, Operation, OperationState, SnapshotSummary
from statefulspark.contract.exit_codes import PlannedEnd
from statefulspark.contract.manifest import SnapshotKind, Trigger

from statefulspark_operator.api.savepoint_schedule import SavepointsStatus
from statefulspark_operator.api.spark_savepoint import AUTOMATIC, SavepointPhase
from statefulspark_operator.api.status import (
    DriverIntent,
    DriverState,
    OperationKind,
    OperationPhase,
    OperationStatus,
    Phase,
    QueryProgress,
    RestartStatus,
    RevisionOutcome,
    SnapshotStatus,
    UpgradeState,
)
from statefulspark_operator.api.upgrade import RollbackPolicy
from statefulspark_operator.lifecycle import ends, executors, health, history, steps, upgrade_facts
from statefulspark_operator.lifecycle.decision import Reason
from statefulspark_operator.lifecycle.savepoints import objects, timetable
from statefulspark_operator.lifecycle.situation import DriverSilent, Situation
from statefulspark_operator.lifecycle.storage_facts import SavepointFact, StorageFacts

PROGRESS_INTERVAL = timedelta(seconds=30)
"""Minimum time between two updates of rates and batch numbers, which limits the load of the API server."""
TRIAL_INTERVAL = timedelta(seconds=5)
"""The same while a new revision is on trial: a rollback names the batches that it had committed."""


def set_status(situation: Situation, **changes: object) -> Situation:
    """Return the situation with some fields of its status replaced."""
    return dataclasses.replace(situation, status=situation.status.model_copy(update=changes))


def adopt_driver(situation: Situation) -> Situation:
    """Adopt a driver pod with a newer epoch than the status: the status was lost or replaced by an older one."""
    if not situation.pods:
        return situation
    newest = max(situation.pods, key=lambda pod: pod.epoch)
    recorded_driver = situation.status.driver
    if recorded_driver is not None and newest.epoch <= recorded_driver.epoch:
        return situation
    adopted = DriverIntent(
        epoch=newest.epoch,
        revision=newest.revision,
        state=DriverState.CREATED,
        decided_at=newest.created_at,
        pod=newest.name,
    )
    epoch = max(newest.epoch, situation.status.epoch or 0)
    return set_status(situation, driver=adopted, epoch=epoch, revision=newest.revision)


def note_pod(situation: Situation) -> Situation:
    """Record that the pod of the recorded driver exists, and whether it is being deleted.

    A deleted pod disappears as soon as its containers have ended, often before their exit could be read; the recorded
    deletion distinguishes a drain from a loss.
    """
    driver, pod = situation.status.driver, situation.pod
    if driver is None or driver.state is DriverState.ENDED or pod is None:
        return situation
    ending_since = driver.ending_since or (situation.now if pod.deletion_deadline is not None else None)
    cause = pod.disruption or driver.ending_cause
    seen = {"state": DriverState.CREATED, "ending_since": ending_since, "ending_cause": cause}
    return set_status(situation, driver=driver.model_copy(update=seen))


def clear_old_stall(situation: Situation) -> Situation:
    """Clear a stall that an older spec caused, so that the new spec is tried, or a savepoint that is there again."""
    stalled, storage = situation.status.stalled, situation.storage
    if stalled is None:
        return situation
    is_back = isinstance(storage, StorageFacts) and storage.savepoint is SavepointFact.FOUND
    if is_back and stalled.reason == Reason.SAVEPOINT_MISSING.word:
        return set_status(situation, stalled=None)
    if stalled.generation >= situation.job.generation and situation.code in (None, stalled.code):
        return situation
    restarts = situation.status.restarts.model_copy(update={"consecutive": 0, "charged": 0, "next_attempt_at": None})
    upgrade, spec = situation.status.upgrade, situation.spec
    # The failures count on if the new spec requests the rollback that they call for.
    goes_back = spec is None or spec.upgrade.rollback_policy is RollbackPolicy.AUTOMATIC
    if upgrade is not None and upgrade.trial is not None and not goes_back:
        upgrade = steps.record_trial(upgrade, failures=0)
    return set_status(situation, stalled=None, restarts=restarts, upgrade=upgrade)


def snapshot_status(summary: SnapshotSummary) -> SnapshotStatus:
    """Return a snapshot that the driver reports in the form of the status."""
    return SnapshotStatus(
        id=summary.id,
        completed_at=summary.completed_at,
        location=summary.location,
        size_bytes=summary.size_bytes,
        trigger=summary.trigger.value.capitalize(),
        batches=summary.batches,
    )


def _newest(*snapshots: SnapshotStatus | None) -> SnapshotStatus | None:
    present = [snapshot for snapshot in snapshots if snapshot is not None]
    return max(present, key=lambda snapshot: snapshot.id, default=None)


def note_snapshots(situation: Situation) -> Situation:
    """Record the newest checkpoint and savepoint of the driver and of storage.

    A periodic checkpoint of a job that has one already is progress, and is recorded when that is.
    """
    status, driver_status = situation.status, situation.driver_status
    checkpoints = [status.last_checkpoint]
    savepoints = [status.last_savepoint]
    if driver_status is not None and driver_status.last_checkpoint is not None:
        reported = snapshot_status(driver_status.last_checkpoint)
        if not _is_progress(situation, reported) or _is_progress_due(situation):
            checkpoints.insert(0, reported)
    if driver_status is not None and driver_status.last_savepoint is not None:
        savepoints.insert(0, snapshot_status(driver_status.last_savepoint))
    if isinstance(situation.storage, StorageFacts) and situation.storage.latest_checkpoint is not None:
        checkpoints.append(situation.storage.latest_checkpoint.snapshot)
    if isinstance(situation.storage, StorageFacts):
        savepoints += [situation.storage.found_savepoint, situation.storage.requested]
    newest = _newest(*checkpoints)
    is_progress = newest is not None and newest != status.last_checkpoint and _is_progress(situation, newest)
    noted = situation.now if is_progress and driver_status is not None else status.progress_at
    return set_status(situation, last_checkpoint=newest, last_savepoint=_newest(*savepoints), progress_at=noted)


def _is_progress(situation: Situation, checkpoint: SnapshotStatus) -> bool:
    """Tell whether a checkpoint follows others that are alike, and not one that failed, in a job that goes on running."""
    recorded_before, driver_status = situation.status.last_checkpoint, situation.driver_status
    if recorded_before is None or checkpoint.trigger != Trigger.PERIODIC.value.capitalize():
        return False
    spec, operation = situation.spec, situation.status.operation
    is_asked = operation is not None and operation.state is OperationPhase.REQUESTED
    if is_asked or (spec is not None and spec.suspend) or situation.job.deletion_requested_at is not None:
        return False  # This may be the last answer of the driver.
    failure = driver_status.last_failure if driver_status is not None else None
    return failure is None or failure.failed_at <= recorded_before.completed_at


def note_origin(situation: Situation) -> Situation:
    """Record the snapshot that the running driver started from, and why that is not the newest or the requested one."""
    driver_status, intent = situation.driver_status, situation.intent
    if driver_status is None or driver_status.state is JobState.STARTING:
        return situation
    restore = intent.restore if intent is not None else None
    is_of_spec = restore is not None and restore.id == situation.status.restore_applied
    return set_status(
        situation,
        restored_from=driver_status.restored_from,
        fallback=driver_status.fallback,
        kept_aside=driver_status.kept_aside,
        restore_skipped=driver_status.restore_skipped if is_of_spec else None,
        other_spark=driver_status.other_spark,
    )


def note_progress(situation: Situation) -> Situation:
    """Record each query's progress: every `PROGRESS_INTERVAL`, and at once if a query has come, gone, started or ended."""
    driver_status, status = situation.driver_status, situation.status
    if driver_status is None:
        return situation
    queries = tuple(
        QueryProgress(
            uid=query.uid,
            active=query.active,
            batch=query.batch_id,
        )
        for query in driver_status.queries
    )
    is_seen = {(query.uid, query.active) for query in queries} != {
        (query.uid, query.active) for query in status.queries
    }
    if queries == status.queries or not (is_seen or _is_progress_due(situation)):
        return situation
    return set_status(situation, queries=queries, progress_at=situation.now)


def _is_progress_due(situation: Situation) -> bool:
    status = situation.status
    on_trial = status.upgrade is not None and status.upgrade.state in steps.ON_TRIAL
    interval = TRIAL_INTERVAL if on_trial else PROGRESS_INTERVAL
    is_noted = status.progress_at == situation.now  # Another part of it is recorded in this pass.
    return status.progress_at is None or is_noted or situation.now - status.progress_at >= interval


def note_executors(situation: Situation) -> Situation:
    """Record how many executors run, and why others do not."""
    return set_status(situation, executors=executors.current(situation))


def note_silence(situation: Situation) -> Situation:
    """Record since when a driver that ran has not answered."""
    status, pod = situation.status, situation.live_pod
    if pod is None or not isinstance(situation.driver, DriverSilent):
        return set_status(situation, silent_since=None)
    has_run = status.phase is Phase.RUNNING or pod.is_ready
    return set_status(situation, silent_since=status.silent_since or (situation.now if has_run else None))


def has_completed_checkpoint(situation: Situation) -> bool:
    """Tell whether the driver of the current epoch has completed a checkpoint of its own work."""
    driver, driver_status = situation.status.driver, situation.driver_status
    if driver is None or health.first_batch(situation) is not None:
        return False  # A checkpoint before the first batch proves nothing about a driver that has input.
    if driver_status is not None and (latest := driver_status.last_checkpoint) is not None:
        # A standby's process is older than its epoch, so its start says nothing about whose checkpoint the latest is.
        if situation.is_activation and driver_status.checkpoints.completed == 0:
            return False
        return latest.trigger is not Trigger.RECOVERY and latest.completed_at > driver_status.started_at
    if isinstance(situation.storage, StorageFacts) and (fact := situation.storage.latest_checkpoint) is not None:
        return fact.epoch == driver.epoch and not fact.is_recovery
    return False


def credit_progress(situation: Situation) -> Situation:
    """Reset the failure budget, and clear the restore of the start, after a completed checkpoint."""
    status, driver = situation.status, situation.status.driver
    if driver is None or driver.state is DriverState.ENDED or not has_completed_checkpoint(situation):
        return situation
    fresh: RestartStatus = status.restarts.model_copy(update={"consecutive": 0, "charged": 0, "next_attempt_at": None})
    restore = None if driver.restore == status.restore else status.restore
    return set_status(situation, restarts=fresh, restore=restore)


def note_operation(situation: Situation) -> Situation:
    """Record the result of the operation, from the driver's answer, from what it has left on storage, or from its stop."""
    operation, answer = situation.status.operation, situation.operation
    if operation is None or operation.state is OperationPhase.COMPLETED:
        return situation
    is_awaited = operation.state is OperationPhase.REQUESTED
    if is_awaited and isinstance(answer, Operation) and answer.request_id == operation.id:
        situation = _note_answer(situation, operation, answer)
    if isinstance(situation.storage, StorageFacts) and situation.storage.requested is not None:
        return _complete_operation(situation, operation, situation.storage.requested.location)
    # A driver goes on with a stop that took longer than it was waited for, and refuses another one.
    operation, driver = situation.status.operation, situation.status.driver
    if operation is None or operation.kind is not OperationKind.STOP or operation.state is OperationPhase.COMPLETED:
        return situation
    if driver is None or operation.epoch != driver.epoch:
        return situation
    stopped_with = ends.stopped_with(situation)
    if stopped_with is not None:
        return _complete_operation(situation, operation, stopped_with.location)
    pod = situation.pod
    report = pod.exit.report if pod is not None and pod.exit is not None else None
    if report is None or report.reason != PlannedEnd.STOPPED:
        return situation
    location = report.snapshot
    if location is None and operation.state is OperationPhase.FAILED:
        return situation
    return _complete_operation(situation, operation, location)


def _note_answer(situation: Situation, operation: OperationStatus, answer: Operation) -> Situation:
    if answer.state is OperationState.IN_PROGRESS:
        return situation
    completed = answer.state is OperationState.COMPLETED
    changes = {
        "state": OperationPhase.COMPLETED if completed else OperationPhase.FAILED,
        "finished_at": situation.now,
        "location": answer.snapshot.location if answer.snapshot else None,
        "message": None
        if completed
        else f"{answer.reason or 'Failed'}: {answer.message or 'the driver gave no reason'}",
    }
    updated = set_status(situation, operation=operation.model_copy(update=changes))
    if answer.snapshot is None or not completed or answer.snapshot.kind is not SnapshotKind.SAVEPOINT:
        return updated
    savepoint = _newest(snapshot_status(answer.snapshot), situation.status.last_savepoint)
    return set_status(updated, last_savepoint=savepoint)


def _complete_operation(situation: Situation, operation: OperationStatus, location: str | None) -> Situation:
    done = {"state": OperationPhase.COMPLETED, "finished_at": situation.now, "location": location, "message": None}
    return set_status(situation, operation=operation.model_copy(update=done))


def note_standby(situation: Situation) -> Situation:
    """Record the state of the standby."""
    return set_status(situation, standby=upgrade_facts.current_standby(situation))


def note_upgrade(situation: Situation) -> Situation:
    """Record the progress of the upgrade, and in the history how it ended."""
    status = situation.status
    if status.upgrade is None or situation.spec is None:
        return situation
    upgrade = upgrade_facts.current_upgrade(
        situation, status.upgrade, has_checkpoint=has_completed_checkpoint(situation)
    )
    if upgrade.state is not UpgradeState.STABLE or status.upgrade.state is UpgradeState.STABLE:
        return set_status(situation, upgrade=upgrade)
    revisions = history.add_upgrade(status, upgrade, RevisionOutcome.STABLE, now=situation.now)
    return set_status(situation, upgrade=upgrade, history=revisions)


def note_first_revision(situation: Situation) -> Situation:
    """Record the first revision of a job whose status was lost, and that a first revision has become stable."""
    status, driver, spec = situation.status, situation.status.driver, situation.spec
    if driver is None or spec is None or driver.state is not DriverState.CREATED:
        return situation
    revisions = status.history
    if driver.revision == situation.desired_revision:
        revisions = history.begun(
            status, driver.revision, image=spec.image, restore=driver.restore, now=driver.decided_at
        )
    completed = situation.driver_status.checkpoints.completed if situation.driver_status is not None else 0
    if has_completed_checkpoint(situation) and completed >= spec.upgrade.stable_after_checkpoints:
        revisions = history.stable(revisions, driver.revision, now=situation.now)
    return set_status(situation, history=revisions)


def note_savepoints(situation: Situation) -> Situation:
    """Record the object that was made for an operation, so that it is made once, the schedule, and what savepoints cost."""
    operation = situation.status.operation
    if operation is not None and operation.location is not None and not operation.savepoints:
        folder = objects.folder_of(operation.location)
        made = tuple(savepoint.name for savepoint in situation.savepoints if savepoint.folder == folder)
        operation = operation.model_copy(update={"savepoints": made[:1] or None})
    situation = set_status(situation, operation=operation, savepoint_schedule=timetable.current(situation))
    if situation.named_here is None and not situation.savepoints:
        return situation  # They could not be read.
    sizes = {
        savepoint.name: savepoint.status.size_bytes or 0
        for savepoint in situation.own_savepoints
        if savepoint.origin in AUTOMATIC and savepoint.status.phase is SavepointPhase.COMPLETED
    }
    kept = SavepointsStatus(count=len(sizes), size_bytes=sum(sizes.values())) if sizes else None
    return set_status(situation, savepoints=kept)


FOLDS: tuple[Callable[[Situation], Situation], ...] = (
    adopt_driver,
    note_pod,
    clear_old_stall,
    note_snapshots,
    note_origin,
    note_progress,
    note_silence,
    note_executors,
    credit_progress,
    note_operation,
    note_savepoints,
    note_standby,
    note_upgrade,
    note_first_revision,
)
"""Applied in this order: later functions use the results of earlier ones."""


def fold(situation: Situation) -> Situation:
    """Update the status with all observed facts.

    Args:
        situation: The situation as it was observed.

    Returns:
        The same situation with an updated status; a second call changes nothing.
    """
    for step in FOLDS:
        situation = step(situation)
    return situation
