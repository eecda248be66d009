"""When the folder of a job without a driver is pruned, and what is said about it. Pure.

A driver prunes its folder while it runs. One that was suspended, stalled or came to its end leaves what waited for its grace
time, what it had just dropped, and what it could not finish. The operator removes that by the driver's own rules
(`statefulspark.retention`): a first look marks what is unused and says so, and a later one, after the grace time, removes
what was marked before. It does so only if the last driver is known to have ended, by the exit code of its process: a pod
that is gone, or a node that is silent, proves nothing. What fences a driver fences the operator, too: it prunes in the name
of the epoch that has ended, and stops if storage has a newer one (docs/adr/0016).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from statefulspark_operator.api.status import DriverState, OperationPhase, Phase, PruningStatus, StatefulSparkJobStatus
from statefulspark_operator.lifecycle.announcements import Announcement
from statefulspark_operator.lifecycle.situation import Situation

_AT_REST = frozenset({Phase.SUSPENDED, Phase.STALLED, Phase.STOPPED})
REST = timedelta(minutes=5)
"""How long a job has to be without a driver: one that is resumed soon does not wait for a look at its folder."""


@dataclass(frozen=True, slots=True)
class Freed:
    """Files that were deleted.

    Attributes:
        files: Number of files.
        size_bytes: Their size.
    """

    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PrunedFolder:
    """What one look at a folder came to.

    Attributes:
        freed: What was deleted.
        unused: What is unused and has to wait for its grace time.
        grace: That time.
    """

    freed: Freed
    unused: Freed
    grace: timedelta


def epoch_to_prune(situation: Situation, status: StatefulSparkJobStatus) -> int | None:
    """Return the epoch in whose name the job's folder is to be pruned now; None if it is not.

    Args:
        situation: The job and its pods, as the API server has them.
        status: The status as it is recorded.
    """
    if situation.spec is None or situation.job.deletion_requested_at is not None or status.phase not in _AT_REST:
        return None
    if any(not pod.is_over for pod in situation.pods) or situation.standbys or situation.executors:
        return None
    if status.operation is not None and status.operation.state is OperationPhase.REQUESTED:
        return None
    driver = status.driver
    if driver is None or driver.state is not DriverState.ENDED or driver.exit_code is None:
        return None
    if driver.epoch != status.epoch or driver.ended_at is None or situation.now - driver.ended_at < REST:
        return None
    record = status.pruning
    if record is None or record.epoch != driver.epoch:
        return driver.epoch
    return driver.epoch if record.remove_at is not None and situation.now >= record.remove_at else None


def recorded(record: PruningStatus | None, pruned: PrunedFolder, *, epoch: int, now: datetime) -> PruningStatus:
    """Return the record after a look.

    Args:
        record: The one before.
        pruned: What the look came to.
        epoch: Epoch of the driver that has ended.
        now: The time of the look.
    """
    return PruningStatus(
        epoch=epoch,
        looked_at=now,
        unused_files=pruned.unused.files,
        unused_bytes=pruned.unused.size_bytes,
        remove_at=now + pruned.grace if pruned.unused.files else None,
        freed_files=pruned.freed.files + (record.freed_files if record is not None else 0),
        freed_bytes=pruned.freed.size_bytes + (record.freed_bytes if record is not None else 0),
    )


def told(pruned: PrunedFolder) -> tuple[Announcement, ...]:
    """Return the events about a look: what is unused is reported before it is removed."""
    notes: list[Announcement] = []
    if pruned.freed.files:
        notes.append(Announcement("StoragePruned", f"Removed {_words(pruned.freed)} that no snapshot needs."))
    if pruned.unused.files:
        wait = f"to be removed after {pruned.grace.total_seconds():g} s unless a driver is started"
        notes.append(Announcement("UnusedFilesFound", f"Found {_words(pruned.unused)} that no snapshot needs, {wait}."))
    return tuple(notes)


def purged(freed: Freed) -> Announcement:
    """Return the event about the state of a job that was deleted with it."""
    return Announcement(
        "StatePurged", f"Deleted {_words(freed)}: the whole folder of the job, as deletionPolicy requests."
    )


def kept(message: str) -> Announcement:
    """Return the event about the state of a deleted job that was not deleted with it."""
    return Announcement("StateKept", message, is_warning=True)


def _words(freed: Freed) -> str:
    return f"{freed.files} {'file' if freed.files == 1 else 'files'} ({freed.size_bytes:,} bytes)"
