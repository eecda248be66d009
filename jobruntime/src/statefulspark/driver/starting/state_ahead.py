"""What a standby does with state before it is activated: it reads files to this machine, and carries state ahead.

It carries state only if its plan differs from the running driver's.

Where nothing has moved, a start goes on in the generation in use and copies nothing, so its standby writes nothing. One with
a changed plan fills a generation of its own (`recovery.ahead`) before it says that it is ready, and follows each checkpoint
from then on. However large the state is, it is ready after some minutes: the start copies the rest.

Carrying is a help and never a condition: whatever fails is a warning, and is tried again a minute later.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from statefulspark import clock, errors
from statefulspark.checkpoint import epochs
from statefulspark.driver.starting import claim
from statefulspark.recovery import ahead
from statefulspark.recovery.plan import StartMode

if TYPE_CHECKING:
    from statefulspark.contract.manifest import QueryEntry
    from statefulspark.driver.starting import controls
    from statefulspark.driver.starting.start_parts import Comparison
    from statefulspark.planning import read_ahead
    from statefulspark.recovery.copies import Carried
    from statefulspark.storage import ObjectStore

LONGEST_S = 120.0
"""A look takes no longer; what is missing then is copied by the next look, or by the start."""
RENEW_S = 60.0
"""Time between two looks without a newer checkpoint, which show that the standby lives."""
_POLL_S = 0.05
_log = logging.getLogger(__name__)


class Carrying:
    """Carries ahead what the comparisons of a standby ask for; its main thread calls `refresh`."""

    def __init__(
        self,
        store: ObjectStore,
        owner_id: str,
        is_activated: Callable[[], bool],
        *,
        beside: Callable[[Callable[[], object]], None],
        elapsed_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Carry nothing yet.

        Args:
            store: The job's root.
            owner_id: The resource that this standby belongs to; the state of another one is left alone.
            is_activated: Whether the standby was activated, which ends a look.
            beside: Does work that ends early after an activation, and returns at once then.
            elapsed_s: A clock that only goes forward.
        """
        self._store = store
        self._owner_id = owner_id
        self._is_activated = is_activated
        self._beside = beside
        self._elapsed_s = elapsed_s
        self._copier = ahead.AheadCopier(store, standby=claim.holder(), claim_id=uuid.uuid4().hex)
        self._seen: str | None = None
        self._is_complete = False
        self._due_s = 0.0

    def refresh(self, compared: Comparison) -> tuple[QueryEntry, ...]:
        """Carry what is missing of a comparison's state, if its plan differs and something may be missing.

        Returns:
            The queries as they will be in a new generation, with the files that are there already; none if nothing was done.
        """
        cargo = cargo_of(compared)
        if (
            cargo is None
            or self._is_activated()
            or not (
                compared.start_plan.restored_from != self._seen
                or not self._is_complete
                or self._elapsed_s() >= self._due_s
            )
        ):
            return ()
        self._seen = compared.start_plan.restored_from
        self._due_s = self._elapsed_s() + RENEW_S
        self._beside(lambda: self._follow(cargo))
        return self._copier.carried_queries(cargo)

    def end(self) -> Carried | None:
        """Return what was carried; None if nothing was. From now on nothing counts."""
        return self._copier.end()

    def _follow(self, cargo: ahead.Cargo) -> None:
        until_s = self._elapsed_s() + LONGEST_S

        def stops() -> bool:
            return self._is_activated() or self._elapsed_s() >= until_s

        self._is_complete = True  # Unless it is known not to be: a failure is no reason to hurry.
        try:
            if is_owned(self._store, self._owner_id):
                self._is_complete = self._copier.follow(cargo, clock.utc_now(), stops=stops)
        except errors.StatefulSparkError as error:
            _log.warning("no state is carried ahead now", extra={"reason": error.reason, "why": error.message})


def cargo_of(compared: Comparison) -> ahead.Cargo | None:
    """Return what is carried ahead; None if the job goes on in the generation in use, or goes back to an older state.

    State that the start rewrites, since it is spread over other partitions, is not carried: a repartitioned query is copied
    and rewritten as a whole.
    """
    plan = compared.start_plan
    changed = {uid: change for uid, change in compared.changes.items() if not change.is_empty}
    if not changed or plan.mode is not StartMode.CONTINUE or plan.record is None:
        return None
    return ahead.Cargo(
        plan.queries,
        plan.generation,
        plan.record.epoch,
        {uid: change.rewrite for uid, change in changed.items()},
        frozenset(uid for uid, change in changed.items() if change.partitions is not None),
    )


def is_owned(store: ObjectStore, owner_id: str) -> bool:
    """Tell whether the state belongs to a resource. Cost: one GET."""
    try:
        return epochs.read_owner(store).owner_id == owner_id
    except errors.ObjectNotFoundError:
        return False


def until_activated(control: controls.StandbyControl, work: Callable[[], object]) -> None:
    """Do something that ends early by itself after an activation, which does not wait for what Spark does at that moment."""
    until(control.is_activated, work)


def until(stops: Callable[[], bool], work: Callable[[], object]) -> None:
    """Do something, and wait for its end, or until this says so: what is going on then ends by itself."""
    thread = threading.Thread(target=work, name="standby", daemon=True)
    thread.start()
    while thread.is_alive() and not stops():
        thread.join(_POLL_S)


def keep(control: controls.StandbyControl, ahead: read_ahead.ReadAhead, compared: Comparison) -> None:
    """Read the state's files ahead, if this version goes on in them; return at once when the job is activated."""
    changes = compared.changes.values()
    if changes and all(change.is_empty for change in changes):
        queries = [change.query for change in changes]
        _read(control, ahead, compared, queries, stops=control.is_activated)


def carry(
    control: controls.StandbyControl,
    carrier: Carrying,
    ahead: read_ahead.ReadAhead,
    compared: Comparison,
    *,
    elapsed_s: Callable[[], float] = time.monotonic,
) -> None:
    """Carry the state ahead, if this version's plan differs, and read what has arrived; return at once likewise.

    Both together take as long as carrying may, so that large state does not keep the standby from being ready.
    """
    until_s = elapsed_s() + LONGEST_S
    arrived = carrier.refresh(compared)
    if arrived:
        _read(control, ahead, compared, arrived, stops=lambda: control.is_activated() or elapsed_s() >= until_s)


def _read(
    control: controls.StandbyControl,
    ahead: read_ahead.ReadAhead,
    compared: Comparison,
    queries: Sequence[QueryEntry],
    *,
    stops: Callable[[], bool],
) -> None:
    look = functools.partial(ahead.follow, compared.root.store.uri, queries, stops=stops)
    until_activated(control, look)
