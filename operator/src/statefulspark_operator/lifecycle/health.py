"""What holds a running driver up: a batch that does not end, or a driver that does not answer; and since when. Pure.

A batch that is running means that there is input. Between two batches a job waits for input, however long that takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from statefulspark.contract.api import JobState

from statefulspark_operator.api.spec import Health
from statefulspark_operator.api.status import StatefulSparkJobStatus, UpgradeState
from statefulspark_operator.lifecycle import steps
from statefulspark_operator.lifecycle.decision import Reason
from statefulspark_operator.lifecycle.situation import DriverSilent, Situation

HUNG_GRACE_S = 10
"""How long the process of a driver goes on that is deleted because of a batch that does not end: it cannot finish it."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What holds a driver up.

    Attributes:
        reason: PascalCase.
        message: One sentence, with the query and since when.
        since: When it began.
    """

    reason: str
    message: str
    since: datetime


def obstacle(situation: Situation) -> Obstacle | None:
    """Return what holds the current driver up, the oldest first; None if it waits for input or no driver runs."""
    if situation.live_pod is None:
        return None
    silent_since = situation.status.silent_since
    if silent_since is not None and isinstance(situation.driver, DriverSilent):
        message = f"The driver has not answered since {silent_since:%H:%M:%S} UTC: {situation.driver.message}."
        reason = Reason.DRIVER_NOT_TRUSTED.word if situation.driver.is_untrusted else "DriverSilent"
        return Obstacle(reason, message, silent_since)
    return _oldest_batch(situation)


def _oldest_batch(situation: Situation) -> Obstacle | None:
    answer = situation.driver_status
    if answer is None or answer.state not in (JobState.RUNNING, JobState.STOPPING):
        return None
    running = [(query.batch_since, query.uid, query) for query in answer.queries if query.batch_since]
    if not running:
        return None
    since, uid, query = min(running, key=lambda one: one[:2])
    stage = f"; Spark says: {query.stage}" if query.stage is not None else ""
    message = f"Batch {query.batch_id + 1} of query {uid} has been running since {since:%H:%M:%S} UTC{stage}."
    return Obstacle("BatchRunning", message, since)


def is_untrusted(situation: Situation) -> bool:
    """Tell whether the driver is not asked because it cannot be verified, which says nothing about what it does."""
    return isinstance(situation.driver, DriverSilent) and situation.driver.is_untrusted


def has_lasted(situation: Situation, cause: Obstacle | None, timeout: timedelta) -> bool:
    """Tell whether something has held the driver up for longer than a time."""
    return cause is not None and situation.now - cause.since > timeout


def settings(situation: Situation) -> Health:
    """Return the job's settings."""
    return situation.spec.health if situation.spec is not None else Health()


def hindrance(situation: Situation) -> Obstacle | None:
    """Return what has held the driver up for longer than `spec.health.unavailableAfter`; None if the job is well."""
    cause = obstacle(situation)
    return cause if has_lasted(situation, cause, settings(situation).unavailable_after) else None


def is_handing_over(situation: Situation, status: StatefulSparkJobStatus) -> bool:
    """Tell whether a standby takes over in a warm upgrade that goes well, and not for longer than a driver may be silent.

    Args:
        situation: The job.
        status: The status that is about to be recorded.
    """
    upgrade, driver = status.upgrade, status.driver
    if upgrade is None or driver is None or steps.trial_of(upgrade).failures > 0:
        return False
    if upgrade.state is UpgradeState.ACTIVATING:
        since = driver.decided_at
    elif upgrade.state in (UpgradeState.SAVEPOINT_PRE_COPY, UpgradeState.STOPPING) and status.standby is not None:
        since = driver.ended_at or situation.now
    else:
        return False
    return situation.now - since <= settings(situation).unavailable_after


def first_batch(situation: Situation) -> Obstacle | None:
    """Return the first batch of this driver, while none is committed; None if one is, or if there is no input."""
    answer = situation.driver_status
    if answer is None or any(query.last_commit_at is not None for query in answer.queries):
        return None
    return _oldest_batch(situation)
