"""Preconditions of all other rules: the finalizers, a valid spec, no driver of another epoch, no executors without one."""

from __future__ import annotations

from statefulspark_operator.api import names
from statefulspark_operator.api.spec import DeletionPolicy
from statefulspark_operator.api.status import DriverState, OperationKind, OperationPhase, Phase
from statefulspark_operator.lifecycle import actions, executors
from statefulspark_operator.lifecycle.decision import AT_ONCE, LATER, SOON, Decision, Reason
from statefulspark_operator.lifecycle.rules import operation as operations
from statefulspark_operator.lifecycle.situation import Situation

HOLDING = {
    DeletionPolicy.RETAIN: (),
    DeletionPolicy.SAVEPOINT: (names.TAKE_SAVEPOINT,),
    DeletionPolicy.DELETE: (names.DELETE_FILES,),
}
"""The finalizers of a job by its policy. Nothing holds one whose deletion Kubernetes alone carries out."""


def hold(situation: Situation) -> Decision | None:
    """Has the resource other finalizers of the operator than its deletion needs?"""
    if situation.spec is None:
        return None
    policy = situation.spec.deletion_policy
    if situation.job.finalizers == HOLDING[policy]:
        return None
    act = actions.SetFinalizers(HOLDING[policy])
    phase = situation.status.phase or Phase.PENDING
    message = f"Holding the resource as deletionPolicy {policy.value} needs."
    return Decision(Reason.FINALIZERS_SET, message, phase, situation.status, (act,), AT_ONCE)


def remove_stray(situation: Situation) -> Decision | None:
    """Does a driver of another epoch still run?

    It is fenced: its next commit detects the newer epoch. Until then it wastes resources and confuses people.
    """
    driver = situation.intent
    if driver is None:
        return None
    kept = set() if driver.state is DriverState.ENDED else {driver.epoch}
    operation = situation.status.operation
    if operation is not None and operation.kind is OperationKind.STOP and operation.state is OperationPhase.COMPLETED:
        # A driver that has completed its stop is about to end by itself, so that its log can be kept.
        kept |= set() if operations.is_exit_overdue(operation, situation.now) else {operation.epoch}
    strays = (pod for pod in situation.live_pods if pod.epoch not in kept and pod.deletion_deadline is None)
    stray = next(strays, None)
    if stray is None:
        return None
    message = f"Removing {stray.name}: its epoch {stray.epoch} is over, and the latest is {driver.epoch}."
    act = actions.DeleteDriver(stray.name, stray.uid)
    phase = situation.status.phase or Phase.STARTING
    return Decision(Reason.STRAY_DRIVER, message, phase, situation.status, (act,), SOON)


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
