"""The Kubernetes events of a pass, derived from the difference of two statuses.

One event is posted per transition, never per pass. Because statuses are compared, an event is posted exactly when the
transition is recorded. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from statefulspark_operator.api.status import (
    DriverState,
    OperationKind,
    OperationPhase,
    Phase,
    StatefulSparkJobStatus,
    UpgradeState,
)
from statefulspark_operator.lifecycle.reason import Reason

_HARMLESS_ENDS = (0, 10, 11)
"""Exit codes FINISHED, DRAINED and STOPPED."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """One event.

    Attributes:
        reason: PascalCase.
        message: One sentence.
        is_warning: Whether a person should look at it.
    """

    reason: str
    message: str
    is_warning: bool = False


def announcements(before: StatefulSparkJobStatus, after: StatefulSparkJobStatus) -> tuple[Announcement, ...]:
    """Return the transitions between two statuses.

    Args:
        before: The status as it was read.
        after: The status as it is recorded now.

    Returns:
        One announcement per transition, in the order in which people expect them; empty if there is none.
    """
    return tuple(announcement for find in _FINDERS for announcement in find(before, after))


def _driver(before: StatefulSparkJobStatus, after: StatefulSparkJobStatus) -> Iterator[Announcement]:
    old, new = before.driver, after.driver
    if new is None:
        return
    ended = new.state is DriverState.ENDED and (
        old is None or old.epoch != new.epoch or old.state is not DriverState.ENDED
    )
    if ended and new.end_reason != Reason.SUPERSEDED.word:
        warn = new.exit_code not in _HARMLESS_ENDS and new.ending_since is None
        yield Announcement(new.end_reason or "DriverEnded", f"Epoch {new.epoch}: {new.end_message}", warn)
    if new.state is DriverState.CREATING and (old is None or old.epoch != new.epoch):
        yield Announcement("DriverStarting", after.message or f"Starting epoch {new.epoch}.")


def _operation(before: StatefulSparkJobStatus, after: StatefulSparkJobStatus) -> Iterator[Announcement]:
    old, new = before.operation, after.operation
    if new is None:
        return
    label = "Savepoint" if new.kind is OperationKind.SAVEPOINT else "Stop with savepoint"
    if old is None or old.id != new.id:
        yield Announcement("SavepointRequested", f"{label} requested ({new.trigger}, attempt {new.attempt}).")
    if old is not None and old.id == new.id and old.state is new.state:
        return
    if new.state is OperationPhase.COMPLETED:
        took_s = round(((new.finished_at or new.requested_at) - new.requested_at).total_seconds(), 1)
        yield Announcement("SavepointCompleted", f"{label} complete after {took_s} s: {new.location or 'no location'}.")
    if new.state is OperationPhase.FAILED:
        yield Announcement("SavepointFailed", f"{label} failed: {new.message}", is_warning=True)


def _upgrade(before: StatefulSparkJobStatus, after: StatefulSparkJobStatus) -> Iterator[Announcement]:
    old, new = before.upgrade, after.upgrade
    if new is None:
        return
    route = f"from revision {new.from_revision} to {new.to_revision}"
    if old is None or old.requested_at != new.requested_at:
        yield Announcement("UpgradeStarted", f"Upgrade {route}.")
    if old is not None and old.requested_at == new.requested_at and old.state is new.state:
        return
    if new.state is UpgradeState.DONE:
        yield Announcement("UpgradeCompleted", f"Upgrade {route} done; pause {new.pause_seconds} s.")
    if new.state is UpgradeState.ABORTED:
        yield Announcement("UpgradeAborted", f"Upgrade {route} given up: {new.message}", is_warning=True)
    if new.state is UpgradeState.STOPPING and new.savepoint is None and new.message is not None:
        yield Announcement("UpgradeWithoutSavepoint", new.message, is_warning=True)


def _stall(before: StatefulSparkJobStatus, after: StatefulSparkJobStatus) -> Iterator[Announcement]:
    if after.stalled is not None and after.stalled != before.stalled:
        yield Announcement(after.stalled.reason, f"Stalled: {after.stalled.message}", is_warning=True)


def _phase(before: StatefulSparkJobStatus, after: StatefulSparkJobStatus) -> Iterator[Announcement]:
    if after.phase is before.phase:
        return
    if after.phase is Phase.RUNNING:
        origin = after.restored_from or "empty state"
        yield Announcement("Running", f"All queries run, from {origin}.")
    if after.phase is Phase.SUSPENDED and before.phase is not None:
        yield Announcement("Suspended", after.message or "Suspended.")
    if after.phase is Phase.DELETING:
        yield Announcement("Deleting", after.message or "Deleting.")


_FINDERS: tuple[Callable[[StatefulSparkJobStatus, StatefulSparkJobStatus], Iterator[Announcement]], ...] = (
    _operation,
    _driver,
    _upgrade,
    _stall,
    _phase,
)
