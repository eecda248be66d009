"""Which objects of a job nothing needs any more: configurations of epochs that are over, specs of old revisions. Pure.

A configuration goes with its pod when the operator removes it; one whose pod went another way, with its node or by hand,
stayed for the life of the job. Specs of revisions stayed always. What is not certainly unneeded is kept: only names that the
operator gives, only numbers that it has given, and nothing that a pod, the status or the history refers to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from statefulspark_operator.api import names
from statefulspark_operator.api.status import Phase, StatefulSparkJobStatus, UpgradeState
from statefulspark_operator.lifecycle import steps
from statefulspark_operator.lifecycle.announcements import Announcement
from statefulspark_operator.lifecycle.situation import Situation

_UNDECIDED = steps.PREPARING | steps.STOP_REQUESTED | steps.ON_TRIAL | {UpgradeState.STOPPING}
_STEADY = frozenset({Phase.RUNNING, Phase.SUSPENDED, Phase.STALLED, Phase.STOPPED})


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object that belongs to the job.

    Attributes:
        name: Its name.
        uid: Its identity; another object with the same name is not meant.
    """

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Objects to delete.

    Attributes:
        configs: ConfigMaps with the configuration of a driver or a standby.
        revisions: ControllerRevisions with the spec of a revision.
    """

    configs: tuple[StoredObject, ...] = ()
    revisions: tuple[StoredObject, ...] = ()


def come_to(situation: Situation, status: StatefulSparkJobStatus) -> tuple[object, ...] | None:
    """Return what leftovers depend on: there are new ones only when it changes. None while the job is in a transition."""
    upgrade = status.upgrade
    if status.phase not in _STEADY or (upgrade is not None and upgrade.state in _UNDECIDED):
        return None
    revisions = tuple(record.revision for record in status.history)
    return situation.job.uid, status.epoch, status.standby_count, status.revision, revisions


def unneeded(
    situation: Situation,
    status: StatefulSparkJobStatus,
    *,
    configs: Iterable[StoredObject],
    revisions: Iterable[StoredObject],
) -> Leftovers:
    """Return the objects that nothing needs.

    Args:
        situation: The job and its pods, as the API server has them.
        status: The status as it is recorded.
        configs: The ConfigMaps that belong to the job.
        revisions: The ControllerRevisions that belong to it.
    """
    if situation.job.deletion_requested_at is not None or situation.spec is None:
        return Leftovers()  # All of them go with the job; without a readable spec nobody knows what it asks for.
    job, pods = situation.job.name, (*situation.pods, *situation.standbys)
    needed = {names.config_of(job, pod.name, pod.epoch) for pod in situation.pods}
    needed |= {names.standby_config(pod.name) for pod in situation.standbys}
    named = {situation.desired_revision, situation.withheld, status.revision}
    named |= {record.revision for record in status.history} | {pod.revision for pod in pods}
    if status.driver is not None:
        needed.add(names.config_of(job, status.driver.pod, status.driver.epoch))
        named.add(status.driver.revision)
    if status.standby is not None:
        needed.add(names.standby_config(status.standby.pod))
        named.add(status.standby.revision)
    if status.upgrade is not None:
        named |= {status.upgrade.from_revision, status.upgrade.to_revision}
    kept = {names.controller_revision(job, revision) for revision in named if revision is not None}
    return Leftovers(
        tuple(stored for stored in configs if _is_past(situation, status, stored.name) and stored.name not in needed),
        tuple(stored for stored in revisions if stored.name not in kept),
    )


def announcement(leftovers: Leftovers) -> Announcement:
    """Return the event that tells what was deleted."""
    counts = ((len(leftovers.configs), "ConfigMap"), (len(leftovers.revisions), "ControllerRevision"))
    removed = " and ".join(f"{count} {kind}{'' if count == 1 else 's'}" for count, kind in counts if count)
    return Announcement("ObjectsPruned", f"Removed {removed} that the job no longer needs.")


def _is_past(situation: Situation, status: StatefulSparkJobStatus, name: str) -> bool:
    """Tell whether a name is one that the operator gave to the configuration of an epoch or a standby before."""
    job = re.escape(situation.job.name)
    driver = re.fullmatch(rf"{job}-config-(\d+)", name)
    if driver is not None:
        return int(driver[1]) < (status.epoch or 0)
    standby = re.fullmatch(rf"{job}-standby-(\d+)-config", name)
    return standby is not None and int(standby[1]) <= status.standby_count
