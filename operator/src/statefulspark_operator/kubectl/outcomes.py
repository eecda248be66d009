"""What has come of a request, as far as the status tells: still pending, done, or failed, in one sentence. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.spark_savepoint import SavepointPhase, SparkSavepointStatus
from statefulspark_operator.api.status import (
    OperationKind,
    OperationPhase,
    Phase,
    UpgradeState,
)
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.kubectl import reports
from statefulspark_operator.kubectl.requests import Target
from statefulspark_operator.kubectl.view import View

_ENDED = (Phase.SUSPENDED, Phase.STALLED, Phase.STOPPED, Phase.DELETING)
_GIVEN_UP = (UpgradeState.BLOCKED, UpgradeState.ROLLED_BACK, UpgradeState.ABORTED)


@dataclass(frozen=True, slots=True)
class Pending:
    """It is not done yet.

    Attributes:
        message: What happens now.
    """

    message: str


@dataclass(frozen=True, slots=True)
class Done:
    """It is done.

    Attributes:
        message: What came of it.
        snapshot: Folder of the savepoint, if there is one.
    """

    message: str
    snapshot: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """It will not be done.

    Attributes:
        message: Why, and what to do.
    """

    message: str


Outcome = Pending | Done | Failed


def savepoint(view: View, stored: Resource | None) -> Outcome:
    """Return what has come of a savepoint that an object asks for.

    Args:
        view: The job now.
        stored: The object; None if it does not exist any more.
    """
    if stored is None:
        return Failed("The SparkSavepoint was deleted before its savepoint was complete.")
    status = SparkSavepointStatus.model_validate(resources.section(stored, "status"))
    match status.phase:
        case SavepointPhase.COMPLETED:
            return Done(f"Savepoint complete: {status.location}", status.location)
        case SavepointPhase.FAILED:
            return Failed(f"The savepoint failed: {status.message or 'no reason given.'}")
        case SavepointPhase.IN_PROGRESS:
            return Pending("The driver is taking the savepoint.")
        case SavepointPhase.PENDING:
            return Pending(
                status.message
                or f"The operator has not seen the SparkSavepoint yet; the job is {_now(view).rstrip('.')}."
            )
        case _:
            assert_never(status.phase)


def suspend(view: View, *, generation: int) -> Outcome:
    """Return what has come of a suspension.

    Args:
        view: The job now.
        generation: Generation of the spec that requests it.
    """
    if view.raw_spec.get("suspend") is not True:
        return Failed("spec.suspend was set to false in the meantime.")
    observed = (view.status.observed_generation or 0) >= generation
    if (
        not observed
        or view.status.phase is not Phase.SUSPENDED
        or not view.says(ConditionType.READY, ConditionStatus.TRUE)
    ):
        return Pending(_now(view))
    stop = view.status.operation
    if stop is not None and stop.kind is OperationKind.STOP and stop.state is OperationPhase.COMPLETED:
        return Done(f"Suspended with savepoint {stop.location or 'at the default location'}", stop.location)
    checkpoint = view.status.last_checkpoint
    kept = f"checkpoint {checkpoint.id}" if checkpoint is not None else "what is on storage"
    why = f" (no savepoint: {stop.message})" if stop is not None and stop.state is OperationPhase.FAILED else ""
    return Done(f"Suspended; a start continues from {kept}{why}")


def resume(view: View, *, generation: int) -> Outcome:
    """Return what has come of a resumption.

    Args:
        view: The job now.
        generation: Generation of the spec that requests it.
    """
    if view.raw_spec.get("suspend") is True:
        return Failed("spec.suspend was set to true in the meantime.")
    if (view.status.observed_generation or 0) < generation:
        return Pending(_now(view))
    return _runs(view) or _stalled(view) or Pending(_now(view))


def rollback(view: View, target: Target, *, generation: int) -> Outcome:
    """Return what has come of a rollback.

    Args:
        view: The job now.
        target: Where it goes.
        generation: Generation of the spec that requests it.
    """
    if (view.status.observed_generation or 0) < generation:
        return Pending(_now(view))
    if view.raw_spec.get("suspend") is True:
        return Done(
            f"The spec is revision {target.revision}; the job is suspended, and starts with it when it is resumed."
        )
    upgrade = view.status.upgrade
    if target.by_policy:
        went_back = upgrade is not None and upgrade.state is UpgradeState.ROLLED_BACK
        if went_back and view.status.phase is Phase.RUNNING and view.status.revision == target.revision:
            return Done(
                f"Revision {target.revision} runs again, from {view.status.restored_from or 'the latest checkpoint'}. The "
                "spec still asks for the one that failed, which is not tried again until the spec changes; "
                "spec.upgrade.rollbackPolicy is Automatic now."
            )
        return Failed(f"The job is {_now(view)}") if view.status.phase is Phase.STALLED else Pending(_now(view))
    given_up = upgrade is not None and upgrade.to_revision == target.revision and upgrade.state in _GIVEN_UP
    if upgrade is not None and given_up and upgrade.generation >= generation:
        return Failed(f"The rollback did not succeed ({upgrade.state.value}): {upgrade.message or 'no reason given.'}")
    done = _runs(view) if view.status.revision == target.revision else None
    return done or _stalled(view) or Pending(_now(view))


def _runs(view: View) -> Done | None:
    if view.status.phase is not Phase.RUNNING or not reports.is_ready(view):
        return None
    origin = view.status.restored_from or "empty state"
    aside = f". {view.status.kept_aside}" if view.status.kept_aside is not None else ""
    return Done(f"Running as epoch {view.status.epoch}, revision {view.status.revision}, from {origin}{aside}")


def _stalled(view: View) -> Failed | None:
    if not view.says(ConditionType.STALLED, ConditionStatus.TRUE):
        return None
    return Failed(f"The job is {_now(view)}")


def _now(view: View) -> str:
    """Return the state and the operator's sentence about it."""
    if not view.is_observed:
        return f"{reports.phase(view)}: the operator has not seen generation {view.generation} of the spec yet."
    return f"{reports.phase(view)}: {view.status.message or 'No message.'}"
