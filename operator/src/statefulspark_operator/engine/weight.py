"""How much a decision weighs: may it be carried out from the watches' copies, and does it leave nothing to do? Pure.

A copy may be old. What is only noted in the status may be noted from it: the patch names the version that it was made from,
and the next pass corrects it. So may what a driver that is there has come to: an old copy shows less of that, never more.
Whatever else a decision does, it does from what the API server says at that moment.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta

from statefulspark_operator.api.status import DriverState
from statefulspark_operator.lifecycle import actions, decide, health, observed, steps
from statefulspark_operator.lifecycle.decision import Decision
from statefulspark_operator.lifecycle.savepoints import attendance, naming
from statefulspark_operator.lifecycle.situation import DriverSilent, Situation
from statefulspark_operator.lifecycle.storage_facts import StorageUnreadable

NOTED = frozenset(
    {
        "phase",
        "message",
        "observed_generation",
        "conditions",
        "executors",
        "last_checkpoint",
        "last_savepoint",
        "restored_from",
        "fallback",
        "restore_skipped",
        "queries",
        "progress_at",
        "code",
    }
)
"""Fields of the status that no later decision goes by: facts that are observed again, and words for people."""

PROGRESS = frozenset({"driver", "history", "restarts", "restore", "silent_since"})
"""Fields in which is recorded what a driver has come to: its pod was seen, it answers again, a checkpoint is complete."""
_WITHOUT_STANDBY = steps.STOP_REQUESTED | steps.ON_TRIAL | steps.CARRIED_OUT
"""Steps of an upgrade that are reached by what a driver answers; the others go by a standby, or by its absence."""


def is_weighty(situation: Situation, decision: Decision) -> bool:
    """Tell whether a decision acts, or records what must not be recorded from a copy because later decisions go by it."""
    return bool(decision.actions) or not _changed(situation, decision) <= _noted(situation, decision)


def _noted(situation: Situation, decision: Decision) -> frozenset[str]:
    """Return the fields that may be recorded from a copy."""
    if not _driver_goes_on(situation, decision):
        return NOTED
    upgrade = decision.status.upgrade
    is_of_driver = upgrade is not None and upgrade.state in _WITHOUT_STANDBY
    return NOTED | PROGRESS | {"upgrade"} if is_of_driver else NOTED | PROGRESS


def _driver_goes_on(situation: Situation, decision: Decision) -> bool:
    """Tell whether the driver is the same as before, its pod is there, and neither an end nor silence speaks against it."""
    before, after = situation.status.driver, decision.status.driver
    if before is None or after is None or before.epoch != after.epoch or after.state is DriverState.ENDED:
        return False
    if isinstance(situation.driver, DriverSilent):
        return False  # Its pod may be gone, and the copies do not tell.
    return any(pod.epoch == after.epoch for pod in situation.live_pods)


def _changed(situation: Situation, decision: Decision) -> frozenset[str]:
    before, after = situation.status, decision.status
    return frozenset(name for name in type(after).model_fields if getattr(before, name) != getattr(after, name))


def only_starts(decision: Decision) -> bool:
    """Tell whether a decision starts a driver, and neither ends nor deletes anything, nor asks anybody to."""
    return bool(decision.actions) and all(isinstance(act, actions.STARTING) for act in decision.actions)


def creates_a_driver(decision: Decision) -> bool:
    """Tell whether a decision creates the pod of a driver."""
    return any(isinstance(act, actions.CreateDriver) for act in decision.actions)


def records_a_step(situation: Situation, decision: Decision) -> bool:
    """Tell whether a decision records what later decisions go by, so that the next one follows at once."""
    return not _changed(situation, decision) <= NOTED


def is_settled(situation: Situation, decision: Decision, *, until: datetime) -> bool:
    """Tell whether a pass had nothing to do, and would have nothing to do until a time, if no fact changes.

    Args:
        situation: The facts.
        decision: What was decided from them.
        until: The time.
    """
    if decision.actions or decision.status != situation.status or isinstance(situation.storage, StorageUnreadable):
        return False
    if isinstance(situation.driver, DriverSilent) or isinstance(situation.standby, DriverSilent):
        return False  # It may answer at any time, and is asked until then.
    if isinstance(situation.named_restore, naming.Unresolved):
        return False  # Another job's savepoint may be what it waits for.
    if any(savepoint.is_deleted for savepoint in situation.own_savepoints):
        return False  # Another object may hold its files.
    # Without storage: nothing tells that its content has changed, so nothing may depend on it.
    later = dataclasses.replace(situation, now=until, storage=None)
    if observed.fold(later).status != situation.status:
        return False  # Progress waits to be recorded, as it does in most passes of a busy job.
    decided = decide.decide(later)
    is_same = (decided.reason, decided.status, decided.actions) == (decision.reason, decision.status, decision.actions)
    return is_same and not attendance.of_job(observed.fold(later))


def longest_look(situation: Situation, longest: timedelta) -> timedelta:
    """Return the time within which a batch that hangs has to be seen for the first time."""
    return min(longest, health.settings(situation).progress_timeout / 2)
