"""Preconditions of all other rules: the finalizer, a valid spec, no driver of another epoch, no executors without one."""

from __future__ import annotations

from statefulspark_operator.api.status import DriverState, OperationKind, OperationPhase, Phase
from statefulspark_operator.lifecycle import actions, executors
from statefulspark_operator.lifecycle.decision import AT_ONCE, LATER, SOON, Decision, Reason
from statefulspark_operator.lifecycle.rules import operation as operations
from statefulspark_operator.lifecycle.situation import DriverPod, Situation


def add_finalizer(situation: Situation) -> Decision | None:
    """Does the resource lack the operator's finalizer?"""
    if situation.job.has_finalizer:
        return None
    act = actions.AddFinalizer()
    phase = situation.status.phase or Phase.PENDING
    return Decision(Reason.FINALIZER_ADDED, "Preparing the job.", phase, situation.status, (act,), AT_ONCE)


def remove_stray(situation: Situation) -> Decision | None:
    """Does a driver of another epoch still run?

    It is fenced: its next commit detects the newer epoch. Until then it wastes resources and confuses people.
    """
    driver = situation.intent
    if driver is None:
        return None
    current_epoch = None if driver.state is DriverState.ENDED else driver.epoch
    strays = [
        pod
        for pod in situation.live_pods
        if pod.epoch != current_epoch and pod.deletion_deadline is None and not _is_leaving(situation, pod)
    ]
    if not strays:
        return None
    stray = strays[0]
    message = f"Removing {stray.name}: its epoch {stray.epoch} is over, and the latest is {driver.epoch}."
    act = actions.DeleteDriver(stray.name, stray.uid)
    phase = situation.status.phase or Phase.STARTING
    return Decision(Reason.STRAY_DRIVER, message, phase, situation.status, (act,), SOON)


def _is_leaving(situation: Situation, pod: DriverPod) -> bool:
    """Tell whether a driver has completed its stop and is about to end by itself, so that its log can be kept."""
    operation = situation.status.operation
    if operation is None or operation.kind is not OperationKind.STOP or operation.epoch != pod.epoch:
        return False
    return operation.state is OperationPhase.COMPLETED and not operations.is_exit_overdue(operation, situation.now)


def reject(situation: Situation) -> Decision | None:
    """Is there no valid spec, neither the current nor an earlier one?"""
    if situation.spec is not None:
        return None
    message = situation.rejection.message if situation.rejection else "The spec cannot be read."
    return Decision(Reason.SPEC_REJECTED, message, Phase.STALLED, situation.status, (), LATER)


def remove_orphans(situation: Situation) -> Decision | None:
    """Are there executors whose driver is over?"""
    act = orphan_removal(situation)
    if act is None:
        return None
    phase = situation.status.phase or Phase.RESTARTING
    return Decision(Reason.EXECUTORS_REMOVED, describe_removal(act), phase, situation.status, (act,), AT_ONCE)


def orphan_removal(situation: Situation) -> actions.DeleteExecutors | None:
    """Return the action that removes executors without a driver; None if there are none."""
    orphans = executors.orphans(situation)
    if not orphans:
        return None
    return actions.DeleteExecutors(tuple(actions.PodReference(pod.name, pod.uid) for pod in orphans))


def describe_removal(act: actions.DeleteExecutors) -> str:
    """Return what an action removes, as a sentence."""
    named = ", ".join(pod.name for pod in act.pods)
    return f"Removing {named}: {'its driver is' if len(act.pods) == 1 else 'their driver is'} over."
