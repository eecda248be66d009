"""Whether a change of a job may begin beside those of other jobs: the limit of upgrades, the slow start, the halt. Pure.

An upgrade runs until its revision is stable or was given up, and only so many run at once, in all namespaces together. An
image that is new in a namespace has a slow start there, as the pods of a Kubernetes Job have: the first upgrade to it runs
alone, and then at most as many as have become stable. If more than a tenth of them fail, the other jobs wait.

Everything is derived from the statuses of the jobs, so that another operator comes to the same answer. A job whose revision
does not work never waits, since its change may be the remedy.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from statefulspark_operator.api import revision
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.api.status import RevisionOutcome, StatefulSparkJobStatus, UpgradeState
from statefulspark_operator.lifecycle import steps
from statefulspark_operator.lifecycle.decision import Reason
from statefulspark_operator.lifecycle.situation import Queued

COUNTS_FOR = timedelta(hours=1)
"""Time after which an upgrade that has come to no end does not hold up others any more."""
FAILED_SHARE = 10
"""One in so many may fail before an image is halted."""


@dataclass(frozen=True, slots=True)
class Member:
    """What one job means for the others.

    Attributes:
        namespace: Its namespace.
        image: The image that its spec has.
        upgrades_since: Since when its upgrade has been running; None if none is.
        failure: Why its upgrade to that image was given up; None if it was not.
        stable_with: The images with which it has been stable.
    """

    namespace: str
    image: str
    upgrades_since: datetime | None = None
    failure: str | None = None
    stable_with: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ImageTally:
    """What all jobs of a namespace together say of an image.

    Attributes:
        running: When the upgrades to it that run have begun.
        failed: The jobs in which it failed, and why, the first by name first.
        stable: Number of jobs that have been stable with it.
    """

    running: tuple[datetime, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    stable: int = 0

    @property
    def is_halted(self) -> bool:
        """Whether no further job may try it."""
        return len(self.failed) * FAILED_SHARE > len(self.failed) + self.stable


@dataclass(frozen=True, slots=True)
class Tally:
    """What all jobs together mean for one that wants to begin its change.

    Attributes:
        running: When the upgrades that run have begun.
        images: The images, by namespace and name.
    """

    running: tuple[datetime, ...]
    images: Mapping[tuple[str, str], ImageTally]


def tally(members: Mapping[str, Member]) -> Tally:
    """Count jobs.

    Args:
        members: The jobs, by namespace and name, with a slash between them.
    """
    begun: list[datetime] = []
    running: defaultdict[tuple[str, str], list[datetime]] = defaultdict(list)
    failed: defaultdict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    stable = Counter((job.namespace, image) for job in members.values() for image in job.stable_with)
    for name, job in members.items():
        image = job.namespace, job.image
        if job.upgrades_since is not None:
            begun.append(job.upgrades_since)
            running[image].append(job.upgrades_since)
        if job.failure is not None:
            failed[image].append((name, job.failure))
    images = {
        image: ImageTally(tuple(running[image]), tuple(sorted(failed[image])), stable[image])
        for image in {*running, *failed, *stable}
    }
    return Tally(tuple(begun), images)


def member(namespace: str, image: str, status: StatefulSparkJobStatus) -> Member:
    """Return what a job means for the others.

    Args:
        namespace: Its namespace.
        image: The image that its spec has.
        status: Its status.
    """
    upgrade = status.upgrade
    runs = frozenset(record.image for record in status.history if record.outcome is RevisionOutcome.STABLE)
    if upgrade is None or upgrade.to_revision != status.update_revision:
        return Member(namespace, image, stable_with=runs)  # A change that was given up for another one holds up nobody.
    is_stalled = status.stalled is not None and upgrade.state in steps.ON_TRIAL
    if image not in runs and (upgrade.state in steps.WITHHELD or is_stalled):
        stalled = status.stalled.reason if status.stalled is not None else None
        return Member(namespace, image, failure=upgrade.reason or stalled or upgrade.state.value, stable_with=runs)
    runs_on = upgrade.state not in steps.OVER - steps.ON_TRIAL and not is_stalled
    return Member(namespace, image, upgrades_since=upgrade.requested_at if runs_on else None, stable_with=runs)


def must_ask(status: StatefulSparkJobStatus, current: StatefulSparkJobSpec, requested: str) -> bool:
    """Tell whether a change would touch a job that works, and has not begun.

    Args:
        status: The recorded status.
        current: The spec.
        requested: Its revision.
    """
    driver, upgrade = status.driver, status.upgrade
    if driver is None or driver.has_finished or driver.revision == requested or current.suspend:
        return False
    restore = revision.restore_id(current)
    if restore is not None and restore != status.restore_applied:
        return False  # A person decides for this job alone.
    if upgrade is not None and upgrade.state in steps.STOP_REQUESTED | steps.STARTED | {UpgradeState.STOPPING}:
        return False
    if upgrade is not None and upgrade.to_revision == requested and upgrade.state in steps.PREPARING:
        return False
    if status.stalled is not None or status.restarts.charged:
        return False
    # A job that is down for another reason than its revision stays with that: it is what is known to work.
    available = status.condition(ConditionType.AVAILABLE)
    is_available = available is not None and available.status is ConditionStatus.TRUE
    ran = (record.revision for record in status.history if record.outcome is RevisionOutcome.STABLE)
    return is_available or driver.revision in ran


def queue(name: str, job: Member, others: Tally, *, limit: int, now: datetime) -> Queued | None:
    """Return why a change of a job has to wait; None if it may begin.

    Args:
        name: Name of the job.
        job: The job, with the image that it asks for.
        others: All other jobs.
        limit: Number of upgrades that may run at once.
        now: UTC.
    """
    same = others.images.get((job.namespace, job.image), ImageTally())
    as_it_is = f"{name} keeps running as it is."
    if job.image not in job.stable_with and same.is_halted:
        first, why = same.failed[0]
        first = first.rpartition("/")[2]
        message = (
            f"The upgrade to the image {job.image} is halted, because it failed in {first} ({why}). {as_it_is} Change the "
            f"image, or correct {first}; the other jobs follow then."
        )
        return Queued(Reason.UPGRADE_HALTED, message)
    if job.image not in job.stable_with and _counted(same.running, now) >= max(1, same.stable):
        message = (
            f"The upgrade waits for its turn: other jobs of the namespace try the image {job.image} first. {as_it_is}"
        )
        return Queued(Reason.UPGRADE_QUEUED, message)
    if _counted(others.running, now) >= limit:
        message = f"The upgrade waits for its turn: {limit} of {limit} upgrades are running. {as_it_is}"
        return Queued(Reason.UPGRADE_QUEUED, message)
    return None


def _counted(begun: Iterable[datetime], now: datetime) -> int:
    return sum(now - since < COUNTS_FOR for since in begun)
