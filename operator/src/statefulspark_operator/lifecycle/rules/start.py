"""Starting a driver: when the start must wait, and which snapshot it starts from.

The epoch and the whole intent are recorded before the pod is created. A recorded start is carried out with the same epoch
and the same pod name, so that an operator that ended in between never creates a second driver. State is never dropped:
unless the spec requests otherwise, a start uses the savepoint of the last stop or the newest committed batch, and only
if the content of storage is known.
"""

from __future__ import annotations

from statefulspark_operator.api import names
from statefulspark_operator.api.restore import EmptyState, RestoreSource
from statefulspark_operator.api.status import (
    DriverIntent,
    DriverState,
    Phase,
    RestoreIntent,
    StatefulSparkJobStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.api.upgrade import SavepointFailurePolicy, StateSource
from statefulspark_operator.lifecycle import actions, going_back, history, steps
from statefulspark_operator.lifecycle.decision import AT_ONCE, LATER, SOON, Decision, Reason
from statefulspark_operator.lifecycle.rules import upgrade as upgrades
from statefulspark_operator.lifecycle.savepoints import naming
from statefulspark_operator.lifecycle.situation import DriverPod, Situation
from statefulspark_operator.lifecycle.storage_facts import SavepointFact, StorageFacts, StorageUnreadable


def _phase(situation: Situation) -> Phase:
    """Return the phase of a job whose driver has ended or does not exist yet."""
    driver, upgrade = situation.intent, situation.status.upgrade
    if driver is None:
        return Phase.PENDING
    if upgrade is not None and upgrade.state in steps.STOP_REQUESTED | {UpgradeState.STOPPING}:
        return Phase.UPGRADING
    return Phase.RESTARTING


def _start_actions(situation: Situation, driver: DriverIntent) -> tuple[actions.Action, ...]:
    """Return the actions that create everything that a driver needs, its pod last."""
    return (
        *prerequisites(situation, driver.revision),
        actions.EnsureService(driver.epoch, driver.revision),
        actions.EnsureConfig(driver.epoch, driver.revision, driver.restore),
        actions.CreateDriver(driver.epoch, driver.revision),
    )


def prerequisites(situation: Situation, revision: str) -> tuple[actions.Action, ...]:
    """Return the actions that create what a driver and a standby of a revision need before their pods."""
    executors = situation.spec is not None and situation.spec.executor is not None
    access: tuple[actions.Action, ...] = (actions.EnsureAccess(),) if executors else ()
    return (actions.EnsureRevision(revision), actions.EnsureToken(), *access)


def activation(driver: DriverIntent, standby: DriverPod) -> tuple[actions.Action, ...]:
    """Return the actions that make a standby the driver of a recorded start.

    Args:
        driver: The recorded start.
        standby: The pod of the standby.
    """
    return (
        actions.EnsureService(driver.epoch, driver.revision),
        actions.ActivateStandby(standby.name, standby.uid, driver.epoch, driver.revision, driver.restore),
    )


def drop_superseded(situation: Situation, driver: DriverIntent) -> Decision | None:
    """Does the spec no longer request the recorded start?"""
    if not situation.is_outdated:
        return None
    message = f"Epoch {driver.epoch} was replaced by a newer spec before it started."
    return _give_up(situation, driver, Reason.SUPERSEDED, message)


def _give_up(situation: Situation, driver: DriverIntent, reason: Reason, message: str) -> Decision:
    """End a recorded start that no pod has heard of; the next pass decides anew."""
    return Decision(reason, message, _phase(situation), _without_start(situation, driver), (), AT_ONCE)


def _without_start(situation: Situation, driver: DriverIntent) -> StatefulSparkJobStatus:
    ended = {"state": DriverState.ENDED, "ended_at": situation.now, "end_reason": Reason.SUPERSEDED.word}
    return situation.status.model_copy(update={"driver": driver.model_copy(update=ended)})


def drop_lost_standby(situation: Situation, driver: DriverIntent) -> Decision | None:
    """Has the standby that was to become the driver ended before it was told?"""
    if not situation.is_activation or _chosen_standby(situation, driver) is not None:
        return None
    message = f"{driver.pod} ended before it could take over as epoch {driver.epoch}."
    return _give_up(situation, driver, Reason.STANDBY_LOST, message)


def _chosen_standby(situation: Situation, driver: DriverIntent) -> DriverPod | None:
    """Return the standby pod that a recorded start has chosen, if it still runs."""
    chosen = (pod for pod in situation.standbys if pod.name == driver.pod and pod.is_live(situation.now))
    return next(chosen, None)


def resume_start(situation: Situation, driver: DriverIntent) -> Decision:
    """Carry out a recorded start."""
    standby = _chosen_standby(situation, driver)
    if situation.live_pods and standby is None:
        return _await_end(situation)  # The node of an earlier driver was lost when the start was decided, and is back.
    message = f"Starting {driver.pod}."
    acts = activation(driver, standby) if standby is not None else _start_actions(situation, driver)
    return Decision(Reason.RESUMING_START, message, Phase.STARTING, situation.status, acts, SOON)


def stay_suspended(situation: Situation) -> Decision | None:
    """Should no driver run? A recorded start that was not carried out is dropped."""
    if situation.spec is None or not situation.spec.suspend:
        return None
    driver = situation.intent
    is_recorded = driver is not None and driver.state is DriverState.CREATING
    status = _without_start(situation, driver) if driver is not None and is_recorded else situation.status
    message = "Suspended; the state is kept. Set spec.suspend to false to continue."
    return Decision(Reason.SUSPENDED, message, Phase.SUSPENDED, status, (), LATER)


def stay_stalled(situation: Situation) -> Decision | None:
    """Is the job stalled, so that a retry cannot help?"""
    stalled = situation.status.stalled
    if stalled is None:
        return None
    return Decision(Reason.STALLED, stalled.message, Phase.STALLED, situation.status, (), LATER)


def stay_finished(situation: Situation) -> Decision | None:
    """Have all queries ended on their own, and does the spec request no change?"""
    driver = situation.intent
    if driver is None or not driver.has_finished or situation.is_outdated:
        return None
    message = "All queries ended on their own."
    return Decision(Reason.FINISHED, message, Phase.STOPPED, situation.status, (), LATER)


def back_off(situation: Situation) -> Decision | None:
    """Is it too early for the next attempt?"""
    due_at = situation.status.restarts.next_attempt_at
    if due_at is None or situation.now >= due_at or situation.is_outdated:
        return None
    restarts = situation.status.restarts
    message = f"{restarts.last_message or 'The driver failed.'} Starting again at {due_at:%H:%M:%S} UTC."
    wait = due_at - situation.now
    return Decision(Reason.BACKING_OFF, message, Phase.RESTARTING, situation.status, (), min(wait, LATER))


def await_storage(situation: Situation) -> Decision:
    """Wait until the content of storage is known: "cannot tell" is not "absent"."""
    if isinstance(situation.storage, StorageUnreadable):
        message = (
            f"The operator starts no driver, because the content of storage is unknown: {situation.storage.message}"
        )
        phase = _phase(situation) if situation.storage.may_pass else Phase.STALLED  # It is read again all the same.
        return Decision(Reason.STORAGE_UNREADABLE, message, phase, situation.status, (), LATER)
    message = "Reading storage."
    return Decision(Reason.STORAGE_UNREADABLE, message, _phase(situation), situation.status, (), SOON)


def await_turn(situation: Situation) -> Decision | None:
    """Do so many other jobs start that this one has to wait for its turn? A standby that takes over does not."""
    if situation.start_at is None or situation.usable_standby is not None:
        return None
    message = (
        "The start waits for its turn, because many jobs start at once. It is expected at about "
        f"{situation.start_at:%H:%M:%S} UTC."
    )
    wait = max(situation.start_at - situation.now, AT_ONCE)
    return Decision(Reason.START_QUEUED, message, _phase(situation), situation.status, (), wait)


def was_lost(situation: Situation) -> bool:
    """Tell whether a start replaces a driver that worked: it comes before new jobs, and before jobs that keep failing."""
    return situation.intent is not None and situation.status.restarts.consecutive <= 1


def refuse_missing_savepoint(situation: Situation, storage: StorageFacts) -> Decision | None:
    """Is the savepoint of the operator's own stop missing on storage?

    Output after the latest checkpoint may have been published with that savepoint; a start from the checkpoint could
    repeat it, so a person decides, unless the policy allows it.
    """
    restore = situation.status.restore
    if restore is None or situation.spec is None or situation.pending_restore is not None:
        return None
    if storage.savepoint is not SavepointFact.MISSING:
        return None
    may_use_checkpoint = situation.spec.upgrade.on_savepoint_failure is SavepointFailurePolicy.USE_LATEST_CHECKPOINT
    if may_use_checkpoint and not restore.rollback:
        status = situation.status.model_copy(update={"restore": None})
        message = f"{restore.snapshot} is not complete on storage; continuing from the newest committed batch."
        return Decision(Reason.SAVEPOINT_MISSING, message, _phase(situation), status, (), AT_ONCE)
    message = (
        f"The savepoint {restore.snapshot} is not complete on storage. Restore its files, or select with "
        "spec.restore.source another snapshot to start from."
    )
    stalled = situation.stalled(Reason.SAVEPOINT_MISSING.word, message)
    status = situation.status.model_copy(update={"stalled": stalled})
    return Decision(Reason.SAVEPOINT_MISSING, message, Phase.STALLED, status, (), LATER)


def start(situation: Situation, storage: StorageFacts) -> Decision:
    """Start the driver that the spec requests."""
    target = situation.desired_revision or ""
    restore = _restore(situation)
    standby = None if restore is not None and restore.starts_empty else situation.usable_standby
    if situation.live_pods and standby is None:
        return _await_end(situation)  # A standby need not wait: its epoch fences a driver that has ended its work.
    pods = (pod.epoch for pod in situation.pods)
    epoch = max(storage.newest_epoch, situation.status.epoch or 0, *pods, 0) + 1
    driver = DriverIntent(
        epoch=epoch,
        revision=target,
        state=DriverState.CREATING,
        decided_at=situation.now,
        pod=standby.name if standby is not None else names.driver_pod(situation.job.name, epoch),
        restore=restore,
    )
    upgrade = _upgrade(situation, target, UpgradeState.STARTING if standby is None else UpgradeState.ACTIVATING)
    revisions = situation.status.history
    if situation.spec is not None and situation.intent is None:
        image = situation.spec.image
        revisions = history.begun(situation.status, target, image=image, restore=restore, now=situation.now)
    checkpoint = situation.status.last_checkpoint
    planned = f"checkpoint {checkpoint.id}" if checkpoint else None  # The driver may find a newer one.
    if restore is not None and (restore.starts_empty or restore.snapshot is not None):
        planned = restore.snapshot
    status = situation.status.model_copy(
        update={
            "driver": driver,
            "epoch": epoch,
            "restored_from": planned,
            "revision": target,
            "restore": restore,
            "restore_applied": situation.pending_restore or situation.status.restore_applied,
            "stalled": None,
            "upgrade": upgrade,
            "standby": situation.status.standby if standby is None else None,
            "history": revisions,
        }
    )
    if restore is not None and restore.starts_empty:
        source = "empty state, as the spec requests"
    else:
        source = planned or "empty state (there is no checkpoint yet)"
    verb = "Starting" if standby is None else f"{standby.name} takes over as"
    message = f"{verb} epoch {epoch} of revision {target} from {source}."
    acts = _start_actions(situation, driver) if standby is None else activation(driver, standby)
    phase = Phase.UPGRADING if upgrade is not None and upgrade.state in steps.STARTED else Phase.STARTING
    return Decision(Reason.STARTING, message, phase, status, acts, SOON)


def _await_end(situation: Situation) -> Decision:
    """Wait for an earlier driver, whose pod may still run."""
    message = f"Waiting for {situation.live_pods[0].name} to finish its batch and end."
    return Decision(Reason.DRIVER_ENDING, message, Phase.RESTARTING, situation.status, (), SOON)


def _restore(situation: Situation) -> RestoreIntent | None:
    """Choose the snapshot to start from; None means the newest committed batch."""
    spec = situation.spec
    if spec is None:
        return None
    requested = situation.pending_restore
    if requested is not None:
        named = situation.named_restore
        return RestoreIntent(
            id=requested,
            source=named.source if isinstance(named, naming.Resolved) else None,
            claim_mode=spec.restore.claim_mode,
        )
    driver, recorded = situation.intent, situation.status.restore
    if recorded is not None and recorded.rollback:
        # A rollback is no longer meant if another revision is to start.
        is_under_way = going_back.under_way(situation.status, situation.desired_revision) is not None
        recorded = recorded if is_under_way else None
    is_new = driver is not None and driver.revision != situation.desired_revision
    starts_empty = is_new and spec.upgrade.state_from is StateSource.EMPTY
    if starts_empty and (recorded is None or not recorded.rollback):
        empty = RestoreSource(empty=EmptyState())
        return RestoreIntent(id=f"{situation.job.uid}-empty-{situation.job.generation}", source=empty)
    return recorded


def _upgrade(situation: Situation, target: str, state: UpgradeState) -> UpgradeStatus | None:
    """Continue the upgrade's record; begin one if the revision changes while no driver runs.

    Args:
        situation: The job.
        target: The revision that starts.
        state: The state of an upgrade that is carried out by this start.
    """
    upgrade, driver = situation.status.upgrade, situation.intent
    if upgrade is not None and upgrade.state is UpgradeState.STOPPING:
        image = situation.spec.image if situation.spec is not None else ""
        return upgrade.model_copy(update={"state": state, "to_revision": target, "image": image})
    if upgrade is not None and upgrade.state is UpgradeState.ROLLED_BACK and upgrade.from_revision == target:
        return upgrade
    if upgrade is not None and upgrade.to_revision == target and upgrade.state in steps.PREPARING | steps.ON_TRIAL:
        if upgrade.state is UpgradeState.FIRST_CHECKPOINT:  # What the earlier drivers completed stays counted.
            return steps.record_trial(upgrade, checkpoints_before=steps.trial_of(upgrade).checkpoints)
        stopped_at = upgrade.stopped_at or (driver.ended_at if driver is not None else None)
        return upgrade.model_copy(update={"state": state, "stopped_at": stopped_at})
    if driver is None or driver.revision == target:
        return upgrade
    begun = upgrades.new_upgrade(situation, target, state)
    return begun.model_copy(update={"stopped_at": driver.ended_at})
