"""What may be recorded from the cache, which may be stale, and how long a pass has nothing to do. Pure.

A report may be recorded from the cache: the patch names the version that it was made from, and the next pass corrects it. So
may what a driver that is there has come to: a stale copy shows less of that, never more. Whatever else a decision does, it
does from what the API server says at that moment.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime

from statefulspark_operator.api.status import DriverState
from statefulspark_operator.lifecycle import decide, fault, observed, steps
from statefulspark_operator.lifecycle.decision import Decision
from statefulspark_operator.lifecycle.savepoints import naming, plan
from statefulspark_operator.lifecycle.situation import DriverSilent, Situation
from statefulspark_operator.lifecycle.storage_facts import StorageUnreadable

REPORTED = frozenset(
    {
        "phase",
        "message",
        "observed_generation",
        "update_revision",
        "conditions",
        "reason_since",
        "executors",
        "last_checkpoint",
        "last_savepoint",
        "restored_from",
        "fallback",
        "kept_aside",
        "restore_skipped",
        "other_spark",
        "queries",
        "progress_at",
        "code",
        "ignored_code",
    }
)
"""Fields of the status that no later decision goes by: facts that are observed again, and words for people."""

PROGRESS = frozenset({"driver", "history", "restarts", "restore", "silent_since"})
"""Fields in which is recorded what a driver has come to: its pod was seen, it answers again, a checkpoint is complete."""
_WITHOUT_STANDBY = steps.STOP_REQUESTED | steps.ON_TRIAL | steps.CARRIED_OUT
"""Steps of an upgrade that are reached by what a driver answers; the others go by a standby, or by its absence."""


def only_reports(situation: Situation, decision: Decision) -> bool:
    """Tell whether a decision does nothing, and records only what may be recorded from the cache."""
    if decision.actions:
        return False
    upgrade, recordable = decision.status.upgrade, REPORTED
    before, after = situation.status.driver, decision.status.driver
    is_same = before is not None and after is not None and before.epoch == after.epoch
    goes_on = is_same and after is not None and after.state is not DriverState.ENDED
    # The pod of a silent driver may be gone, and the cache does not tell.
    is_seen = after is not None and any(pod.epoch == after.epoch for pod in situation.live_pods)
    if goes_on and is_seen and not isinstance(situation.driver, DriverSilent):
        is_of_driver = upgrade is not None and upgrade.state in _WITHOUT_STANDBY
        recordable = REPORTED | PROGRESS | ({"upgrade"} if is_of_driver else set())
    return _changed(situation, decision) <= recordable


def _changed(situation: Situation, decision: Decision) -> frozenset[str]:
    before, after = situation.status, decision.status
    return frozenset(name for name in type(after).model_fields if getattr(before, name) != getattr(after, name))


def records_a_step(situation: Situation, decision: Decision) -> bool:
    """Tell whether a decision records what later decisions go by, so that the next one follows at once."""
    return not _changed(situation, decision) <= REPORTED


def is_idle(situation: Situation, decision: Decision, *, until: datetime) -> bool:
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
    if situation.rejection is not None and fault.outlasts_waiting(situation.rejection.reason):
        return False  # The policy or the right may be another one by now.
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
    return is_same and not plan.changes_of_job(observed.fold(later))
