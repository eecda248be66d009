"""The progress of an upgrade, from what was observed, and when each step was reached. Pure."""

from __future__ import annotations

from statefulspark.contract.api import JobState

from statefulspark_operator.api.status import (
    DriverState,
    OperationKind,
    OperationPhase,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.lifecycle import steps, trial
from statefulspark_operator.lifecycle.situation import Situation


def current_upgrade(situation: Situation, upgrade: UpgradeStatus, *, has_checkpoint: bool) -> UpgradeStatus:
    """Return the upgrade with the steps that have been reached.

    Args:
        situation: The job, with its operation and snapshots up to date.
        upgrade: The upgrade as recorded.
        has_checkpoint: Whether the driver of the current epoch has completed a checkpoint.
    """
    upgrade = _taken_back(situation, upgrade)
    if upgrade.state in steps.OVER and upgrade.state is not UpgradeState.FIRST_CHECKPOINT:
        return upgrade
    upgrade = _started(situation, _saved(situation, upgrade))
    if not has_checkpoint or not _runs_it(situation, upgrade):
        return upgrade
    return _stable(situation, _counted(situation, upgrade))


def _taken_back(situation: Situation, upgrade: UpgradeStatus) -> UpgradeStatus:
    """End an upgrade whose spec was changed back, so that the same spec is tried again if it is applied once more."""
    driver = situation.status.driver
    if driver is None or situation.withheld is not None or not _may_be_taken_back(situation, upgrade):
        return upgrade
    if driver.revision != situation.desired_revision or driver.revision == upgrade.to_revision:
        return upgrade
    message = f"The spec was changed back to revision {driver.revision}."
    return upgrade.model_copy(update={"state": UpgradeState.ABORTED, "message": message})


def _may_be_taken_back(situation: Situation, upgrade: UpgradeStatus) -> bool:
    """Tell whether the old driver goes on if the spec is changed back: it is not asked to stop, or its savepoint failed."""
    operation = situation.status.operation
    has_failed = operation is not None and operation.state is OperationPhase.FAILED
    return upgrade.state in steps.PREPARING | steps.WITHHELD or (upgrade.state in steps.STOP_REQUESTED and has_failed)


def _saved(situation: Situation, upgrade: UpgradeStatus) -> UpgradeStatus:
    operation = situation.status.operation
    if upgrade.state not in steps.STOP_REQUESTED or operation is None or operation.kind is not OperationKind.STOP:
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
    driver_status, driver = situation.driver_status, situation.status.driver
    if upgrade.state not in steps.STARTED or upgrade.started_at is not None or driver_status is None or driver is None:
        return upgrade
    if driver_status.state is not JobState.RUNNING or driver.revision != upgrade.to_revision:
        return upgrade
    since = upgrade.savepoint_completed_at or upgrade.stopped_at
    pause_s = round((situation.now - since).total_seconds(), 3) if since else None
    return upgrade.model_copy(update={"started_at": situation.now, "pause_seconds": pause_s})


def _runs_it(situation: Situation, upgrade: UpgradeStatus) -> bool:
    """Tell whether the current driver is one of the new revision."""
    driver = situation.status.driver
    if upgrade.state not in steps.ON_TRIAL or driver is None or driver.revision != upgrade.to_revision:
        return False
    return driver.state is DriverState.CREATED


def _counted(situation: Situation, upgrade: UpgradeStatus) -> UpgradeStatus:
    """Count the checkpoints of the new revision over all its drivers; one that completed ends a row of failures."""
    driver_status = situation.driver_status
    by_driver = max(1, driver_status.checkpoints.completed if driver_status is not None else 1)
    so_far = trial.of(upgrade)
    upgrade = trial.record(
        upgrade, checkpoints=max(so_far.checkpoints, so_far.checkpoints_before + by_driver), failures=0
    )
    if upgrade.state is UpgradeState.FIRST_CHECKPOINT:
        return upgrade
    return upgrade.model_copy(update={"state": UpgradeState.FIRST_CHECKPOINT, "first_checkpoint_at": situation.now})


def _stable(situation: Situation, upgrade: UpgradeStatus) -> UpgradeStatus:
    if situation.spec is None or trial.of(upgrade).checkpoints < situation.spec.upgrade.stable_after:
        return upgrade
    return upgrade.model_copy(update={"state": UpgradeState.STABLE})
