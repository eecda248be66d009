"""The history of a job's revisions: its first one, then one record for each upgrade, newest first. Pure.

The revisions that ran well and the attempts that failed are counted apart, so that failed attempts never push out a
revision that the job can go back to.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from statefulspark_operator.api.status import (
    RestoreIntent,
    RevisionOutcome,
    RevisionRecord,
    StatefulSparkJobStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.lifecycle import steps

RUNS_KEPT = 5
"""Number of revisions that ran well, the running one included."""
ATTEMPTS_KEPT = 5
"""Number of the latest attempts that failed."""
ATTEMPTS_KEPT_FOR = timedelta(days=30)
"""Age from which an attempt that failed is forgotten."""

History = tuple[RevisionRecord, ...]


def begun(
    status: StatefulSparkJobStatus, revision: str, *, image: str, restore: RestoreIntent | None, now: datetime
) -> History:
    """Return the history with the first revision of a job, unless it has one.

    Args:
        status: The status with the history so far.
        revision: Revision of the driver that starts or runs.
        image: Its image.
        restore: The snapshot that it starts from, if it is not the latest checkpoint.
        now: When the start was decided.
    """
    if status.history or status.upgrade is not None:
        return status.history
    snapshot = restore.snapshot if restore is not None else None
    outcome = RevisionOutcome.RUNNING
    return (RevisionRecord(revision=revision, image=image, snapshot=snapshot, outcome=outcome, at=now),)


def stable(history: History, revision: str, *, now: datetime) -> History:
    """Return the history in which a first revision that runs is stable; unchanged if there is none of this revision.

    Args:
        history: The history so far.
        revision: The revision that has completed enough checkpoints.
        now: When that was observed.
    """
    return tuple(
        record.model_copy(update={"outcome": RevisionOutcome.STABLE, "at": now})
        if record.outcome is RevisionOutcome.RUNNING and record.revision == revision
        else record
        for record in history
    )


def add_left(before: StatefulSparkJobStatus, after: StatefulSparkJobStatus, *, now: datetime) -> History:
    """Return the history with a revision that ran, and was left for another one before it was stable.

    Args:
        before: The status before a decision.
        after: The status of the decision.
        now: When it was made.
    """
    left, upgrade = before.upgrade, after.upgrade
    if left is None or upgrade is None or left.state not in steps.ON_TRIAL:
        return after.history
    if (left.requested_at, left.to_revision) == (upgrade.requested_at, upgrade.to_revision):
        return after.history
    return add_upgrade(after, left, RevisionOutcome.REPLACED, now=now)


def add_upgrade(
    status: StatefulSparkJobStatus, upgrade: UpgradeStatus, outcome: RevisionOutcome, *, now: datetime
) -> History:
    """Return the history with the end of an upgrade.

    Args:
        status: The status with the history so far.
        upgrade: The upgrade.
        outcome: How it ended.
        now: When the end was observed.
    """
    record = RevisionRecord(
        revision=upgrade.to_revision, image=upgrade.image, snapshot=upgrade.savepoint, outcome=outcome, at=now
    )
    before = status.history
    if outcome is RevisionOutcome.STABLE:  # A first revision that never became stable is replaced.
        replaced = {"outcome": RevisionOutcome.REPLACED}
        before = tuple(
            old.model_copy(update=replaced) if old.outcome is RevisionOutcome.RUNNING else old for old in before
        )
    return _kept((record, *before), now)


_RAN = frozenset({RevisionOutcome.RUNNING, RevisionOutcome.REPLACED, RevisionOutcome.STABLE})


def goes_back(status: StatefulSparkJobStatus, revision: str | None) -> bool:
    """Tell whether a revision that ran before is to run again, after another one.

    Args:
        status: The recorded status, before or after the start is recorded.
        revision: The revision to run.
    """
    driver, upgrade = status.driver, status.upgrade
    if driver is None or not any(old.revision == revision and old.outcome in _RAN for old in status.history):
        return False
    if driver.revision != revision:
        return True
    return upgrade is not None and upgrade.to_revision == revision and upgrade.state is not UpgradeState.STABLE


def _kept(history: History, now: datetime) -> History:
    ran = [record for record in history if record.outcome in (RevisionOutcome.STABLE, RevisionOutcome.RUNNING)]
    failed = [record for record in history if record not in ran and now - record.at < ATTEMPTS_KEPT_FOR]
    kept = ran[:RUNS_KEPT] + failed[:ATTEMPTS_KEPT]
    return tuple(record for record in history if record in kept)
