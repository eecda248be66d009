"""A suspended job runs no driver: it stops with a savepoint, or if that fails, with the checkpoint of a drain.

A stop that has begun is always completed; if `suspend` is set to false before its end, the job starts again afterwards.
"""

from __future__ import annotations

from statefulspark.contract.api import JobState

from statefulspark_operator.api.status import DriverState, OperationKind, OperationPhase, Phase
from statefulspark_operator.lifecycle import actions
from statefulspark_operator.lifecycle.decision import LATER, SOON, Decision
from statefulspark_operator.lifecycle.reason import Reason
from statefulspark_operator.lifecycle.rules import operation as operations
from statefulspark_operator.lifecycle.situation import Situation


def suspend(situation: Situation) -> Decision | None:
    """Should no driver run?"""
    if situation.spec is None or not situation.spec.suspend:
        return None
    pod = situation.live_pod
    if pod is None:
        return _suspended(situation)
    if pod.deletion_deadline is not None:
        return _suspending(situation, f"Waiting for {pod.name} to end.")
    starting = situation.driver_status is not None and situation.driver_status.state is JobState.STARTING
    stop = operations.stop_operation(situation)
    failed = stop is not None and stop.state is OperationPhase.FAILED and stop.generation == situation.job.generation
    if not pod.has_started or starting or failed:
        deletion = operations.delete_after(situation, stop if failed else None, pod)
        return _suspending(situation, f"Stopping {pod.name}.", deletion)
    operation = operations.new_operation(situation, kind=OperationKind.STOP, trigger="stop", epoch=pod.epoch)
    status = situation.status.model_copy(update={"operation": operation})
    act = operations.request_for(situation, operation)
    return Decision(Reason.SUSPENDING, "Stopping the job with a savepoint.", Phase.SUSPENDING, status, (act,), SOON)


def _suspending(situation: Situation, message: str, *acts: actions.Action) -> Decision:
    return Decision(Reason.SUSPENDING, message, Phase.SUSPENDING, situation.status, acts, SOON)


def _suspended(situation: Situation) -> Decision:
    """Return the decision for a job without a driver; a recorded start that was not carried out is dropped."""
    status, driver = situation.status, situation.status.driver
    if driver is not None and driver.state is DriverState.CREATING:
        ended = driver.model_copy(
            update={"state": DriverState.ENDED, "ended_at": situation.now, "end_reason": Reason.SUPERSEDED.word}
        )
        status = status.model_copy(update={"driver": ended})
    message = "Suspended; the state is kept. Set spec.suspend to false to continue."
    return Decision(Reason.SUSPENDED, message, Phase.SUSPENDED, status, (), LATER)
