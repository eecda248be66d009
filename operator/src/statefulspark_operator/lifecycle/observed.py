"""Folds what was seen into the status: facts first, before any rule asks its question.

The status afterwards tells what is true as far as it can be told; nothing here decides what to do about it. Each
function takes the situation and returns it with one part of the status brought up to date. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta

from statefulspark.contract.api import JobState, Operation, OperationState, SnapshotSummary
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.contract.manifest import Trigger

from statefulspark_operator.api.status import (
    DriverIntent,
    DriverState,
    OperationKind,
    OperationPhase,
    OperationStatus,
    QueryProgress,
    RestartStatus,
    SnapshotStatus,
    StatefulSparkJobStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.lifecycle.situation import OperationAbsent, Situation, StorageFacts

PROGRESS_INTERVAL = timedelta(seconds=5)
"""Rates and batch numbers are written at most this often, so that watching a job does not load the API server."""


def with_status(situation: Situation, **changes: object) -> Situation:
    """Return the situation with some fields of its status replaced."""
    return dataclasses.replace(situation, status=situation.status.model_copy(update=changes))


def adopt_driver(situation: Situation) -> Situation:
    """Take over a driver pod whose epoch is newer than the status knows: the status was lost or set back."""
    if not situation.pods:
        return situation
    newest = max(situation.pods, key=lambda pod: pod.epoch)
    known = situation.status.driver
    if known is not None and newest.epoch <= known.epoch:
        return situation
    adopted = DriverIntent(
        epoch=newest.epoch,
        revision=newest.revision,
        state=DriverState.CREATED,
        decided_at=newest.created_at,
        pod=newest.name,
    )
    epoch = max(newest.epoch, situation.status.epoch or 0)
    return with_status(situation, driver=adopted, epoch=epoch, revision=newest.revision)


def see_pod(situation: Situation) -> Situation:
    """Note that the pod of the recorded driver exists, and that it is being deleted.

    A pod that is deleted goes as soon as its containers have ended, often before anybody could read how; having seen
    it going tells a drain from a loss.
    """
    driver, pod = situation.status.driver, situation.pod
    if driver is None or driver.state is DriverState.ENDED or pod is None:
        return situation
    ending_since = driver.ending_since or (situation.now if pod.deletion_deadline is not None else None)
    seen = {"state": DriverState.CREATED, "ending_since": ending_since}
    return with_status(situation, driver=driver.model_copy(update=seen))


def forget_old_stall(situation: Situation) -> Situation:
    """Drop a stall that an older spec caused; the new one deserves a try of its own."""
    stalled = situation.status.stalled
    if stalled is None or stalled.generation >= situation.job.generation:
        return situation
    restarts = situation.status.restarts.model_copy(update={"consecutive": 0, "next_attempt_at": None})
    return with_status(situation, stalled=None, restarts=restarts)


def snapshot_status(summary: SnapshotSummary) -> SnapshotStatus:
    """Return what the status shows of a snapshot that the driver reports."""
    return SnapshotStatus(
        id=summary.id,
        completed_at=summary.completed_at,
        location=summary.location,
        size_bytes=summary.size_bytes,
        trigger=summary.trigger.value,
        batches=summary.batches,
    )


def _newest(*snapshots: SnapshotStatus | None) -> SnapshotStatus | None:
    known = [snapshot for snapshot in snapshots if snapshot is not None]
    return max(known, key=lambda snapshot: snapshot.id, default=None)


def note_snapshots(situation: Situation) -> Situation:
    """Show the newest checkpoint and savepoint that the driver or storage tells of."""
    status, speaks = situation.status, situation.speaks
    checkpoints = [status.last_checkpoint]
    savepoints = [status.last_savepoint]
    if speaks is not None and speaks.last_checkpoint is not None:
        checkpoints.insert(0, snapshot_status(speaks.last_checkpoint))
    if speaks is not None and speaks.last_savepoint is not None:
        savepoints.insert(0, snapshot_status(speaks.last_savepoint))
    if isinstance(situation.storage, StorageFacts) and situation.storage.latest_checkpoint is not None:
        checkpoints.append(situation.storage.latest_checkpoint.snapshot)
    return with_status(situation, last_checkpoint=_newest(*checkpoints), last_savepoint=_newest(*savepoints))


def note_origin(situation: Situation) -> Situation:
    """Show what the running driver started from."""
    speaks = situation.speaks
    if speaks is None or speaks.state is JobState.STARTING:
        return situation
    return with_status(situation, restored_from=speaks.restored_from)


def note_progress(situation: Situation) -> Situation:
    """Show each query's progress, unless it was refreshed moments ago."""
    speaks, status = situation.speaks, situation.status
    if speaks is None or (status.progress_at is not None and situation.now - status.progress_at < PROGRESS_INTERVAL):
        return situation
    queries = tuple(
        QueryProgress(
            uid=query.uid,
            active=query.active,
            batch=query.batch_id,
            input_rows=query.input_rows,
            rows_per_second=round(query.rows_per_second, 1),
        )
        for query in speaks.queries
    )
    if queries == status.queries:
        return situation
    return with_status(situation, queries=queries, progress_at=situation.now)


def has_completed_checkpoint(situation: Situation) -> bool:
    """Tell whether the driver of the current epoch has completed a checkpoint of its own work."""
    driver, speaks = situation.status.driver, situation.speaks
    if driver is None:
        return False
    if speaks is not None and (latest := speaks.last_checkpoint) is not None:
        return latest.trigger is not Trigger.RECOVERY and latest.completed_at > speaks.started_at
    if isinstance(situation.storage, StorageFacts) and (fact := situation.storage.latest_checkpoint) is not None:
        return fact.epoch == driver.epoch and not fact.is_recovery
    return False


def credit_progress(situation: Situation) -> Situation:
    """Reset the failure budget, and forget what the start was made from, once a checkpoint has completed."""
    status, driver = situation.status, situation.status.driver
    if driver is None or driver.state is DriverState.ENDED or not has_completed_checkpoint(situation):
        return situation
    fresh: RestartStatus = status.restarts.model_copy(update={"consecutive": 0, "next_attempt_at": None})
    restore = None if driver.restore == status.restore else status.restore
    return with_status(situation, restarts=fresh, restore=restore)


def note_operation(situation: Situation) -> Situation:
    """Take over the driver's answer about the operation, or what its exit tells of it."""
    operation = situation.status.operation
    if operation is None or operation.state is not OperationPhase.REQUESTED:
        return situation
    answer = situation.operation
    if answer is not None and not isinstance(answer, OperationAbsent) and answer.request_id == operation.id:
        return _take_answer(situation, operation, answer)
    return _take_exit(situation, operation)


def _take_answer(situation: Situation, operation: OperationStatus, answer: Operation) -> Situation:
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
    taken = with_status(situation, operation=operation.model_copy(update=changes))
    if answer.snapshot is None or not completed or operation.kind is not OperationKind.SAVEPOINT:
        return taken
    savepoint = _newest(snapshot_status(answer.snapshot), situation.status.last_savepoint)
    return with_status(taken, last_savepoint=savepoint)


def _take_exit(situation: Situation, operation: OperationStatus) -> Situation:
    pod = situation.pod
    if operation.kind is not OperationKind.STOP or pod is None or pod.epoch != operation.epoch or pod.exit is None:
        return situation
    if pod.exit.code != ExitCode.STOPPED:
        return situation
    snapshot = pod.exit.report.snapshot if pod.exit.report else None
    changes = {"state": OperationPhase.COMPLETED, "finished_at": situation.now, "location": snapshot}
    return with_status(situation, operation=operation.model_copy(update=changes))


def note_upgrade(situation: Situation) -> Situation:
    """Write down how far the upgrade has come and when each step was reached."""
    upgrade = situation.status.upgrade
    if upgrade is None or upgrade.state in (UpgradeState.DONE, UpgradeState.ABORTED):
        return situation
    steps: tuple[Callable[[Situation, UpgradeStatus], UpgradeStatus], ...] = (_saved, _started, _checkpointed)
    for step in steps:
        upgrade = step(situation, upgrade)
    return with_status(situation, upgrade=upgrade)


def _saved(situation: Situation, upgrade: UpgradeStatus) -> UpgradeStatus:
    operation = situation.status.operation
    if upgrade.state is not UpgradeState.SAVEPOINT or operation is None or operation.kind is not OperationKind.STOP:
        return upgrade
    if operation.state is not OperationPhase.COMPLETED or operation.requested_at < upgrade.requested_at:
        return upgrade
    return upgrade.model_copy(
        update={
            "state": UpgradeState.STOPPING,
            "savepoint_completed_at": operation.finished_at,
            "savepoint": operation.location,
            "message": None,
        }
    )


def _started(situation: Situation, upgrade: UpgradeStatus) -> UpgradeStatus:
    speaks, driver = situation.speaks, situation.status.driver
    if upgrade.state is not UpgradeState.STARTING or upgrade.started_at is not None or speaks is None or driver is None:
        return upgrade
    if speaks.state is not JobState.RUNNING or driver.revision != upgrade.to_revision:
        return upgrade
    since = upgrade.savepoint_completed_at or upgrade.stopped_at
    pause_s = round((situation.now - since).total_seconds(), 3) if since else None
    return upgrade.model_copy(update={"started_at": situation.now, "pause_seconds": pause_s})


def _checkpointed(situation: Situation, upgrade: UpgradeStatus) -> UpgradeStatus:
    driver = situation.status.driver
    if upgrade.state is not UpgradeState.STARTING or driver is None or driver.revision != upgrade.to_revision:
        return upgrade
    if driver.state is not DriverState.CREATED or not has_completed_checkpoint(situation):
        return upgrade
    return upgrade.model_copy(update={"state": UpgradeState.DONE, "first_checkpoint_at": situation.now})


FOLDS: tuple[Callable[[Situation], Situation], ...] = (
    adopt_driver,
    see_pod,
    forget_old_stall,
    note_snapshots,
    note_origin,
    note_progress,
    credit_progress,
    note_operation,
    note_upgrade,
)
"""In this order: later ones rely on what earlier ones noted."""


def fold(situation: Situation) -> Situation:
    """Bring the status up to date with everything that was seen.

    Args:
        situation: As it was gathered.

    Returns:
        The same situation with a status that tells the facts; applying it twice changes nothing more.
    """
    for step in FOLDS:
        situation = step(situation)
    return situation


def recorded(status: StatefulSparkJobStatus, **changes: object) -> StatefulSparkJobStatus:
    """Return a status with some fields replaced."""
    return status.model_copy(update=changes)
