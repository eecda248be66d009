"""Savepoints that objects ask for, and starts from a savepoint that an object names."""

from __future__ import annotations

from statefulspark_operator.api.status import OperationKind, Phase
from statefulspark_operator.lifecycle.decision import LATER, SOON, Decision, Reason
from statefulspark_operator.lifecycle.rules import operation as operations
from statefulspark_operator.lifecycle.savepoints import naming, plan
from statefulspark_operator.lifecycle.situation import DriverPod, Situation


def take(situation: Situation, pod: DriverPod) -> Decision | None:
    """Does an object wait for a savepoint, and is it its turn?"""
    waiting = [
        own
        for own in situation.own_savepoints
        if own.awaits_driver and not own.is_unsearched and not plan.has_ended(situation, own)
    ]
    chosen = plan.choose(
        [
            plan.Request(
                savepoint.name,
                savepoint.status.phase,
                savepoint.created_at,
                location=savepoint.spec.location,
                form=savepoint.spec.format,
                joined=savepoint.status.joined,
            )
            for savepoint in waiting
        ]
    )
    first = next((savepoint for savepoint in waiting if savepoint.name == chosen.start), None)
    if first is None:
        return None
    operation = operations.new_operation(
        situation,
        kind=OperationKind.SAVEPOINT,
        origin=first.origin,
        epoch=pod.epoch,
        attempt=first.status.attempt + 1,
        asked_by=first.uid,
    ).model_copy(update={"savepoints": (first.name, *chosen.joins)})
    status = situation.status.model_copy(update={"operation": operation})
    act = operations.request_for(situation, operation)
    message = f"Taking savepoint {first.name}."
    return Decision(Reason.SAVEPOINT_REQUESTED, message, Phase.RUNNING, status, (act,), SOON)


def await_named(situation: Situation) -> Decision | None:
    """Is a start requested from the savepoint of an object that is not complete?"""
    named = situation.named_restore
    if not isinstance(named, naming.Unresolved) or situation.spec is None:
        return None
    name = situation.spec.restore.source.savepoint_name if situation.spec.restore.source is not None else None
    if situation.intent is not None and any(own.name == name and own.awaits_driver for own in situation.own_savepoints):
        return None  # This job's own driver is to take it: waiting for it would never end.
    message = f"spec.restore.source.savepointName: {named.why}"
    if named.may_come:
        return Decision(Reason.SAVEPOINT_AWAITED, message, Phase.PENDING, situation.status, (), LATER)
    stalled = situation.stalled(Reason.SAVEPOINT_AWAITED.word, message)
    status = situation.status.model_copy(update={"stalled": stalled})
    return Decision(Reason.SAVEPOINT_AWAITED, message, Phase.STALLED, status, (), LATER)
