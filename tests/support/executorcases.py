"""Situations of jobs with executors: one that runs well with two of them, and what a case changes about it."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

from jobspecs import a_spec
from situations import LATER, NOW, a_driver, a_job, a_pod, a_situation, a_standby_pod, a_word, situation_with, told
from statefulspark.contract.api import JobState, QueryStatus
from statefulspark_operator.api import revision
from statefulspark_operator.api.status import DriverState, ExecutorsStatus
from statefulspark_operator.lifecycle.situation import ExecutorPod, PodPhase, Situation
from statefulspark_operator.lifecycle.storage_facts import StorageFacts

SELECTOR = "statefulspark.io/job=flights,statefulspark.io/role=executor,statefulspark.io/driver=flights-driver-1"
SPEC = a_spec(executor={"instances": 2})
REVISION = revision.revision_of(SPEC)
NO_ROOM = "No node has room."
LOST = NOW - timedelta(minutes=5)


def an_executor(number: int = 1, driver: str = "flights-driver-1", **changes: object) -> ExecutorPod:
    owner = f"uid-{driver.rpartition('-')[2]}"
    pod = ExecutorPod(f"{driver}-exec-{number}", f"{owner}-{number}", owner, PodPhase.RUNNING)
    return dataclasses.replace(pod, **changes)  # type: ignore[arg-type]


def with_executors(
    *executors: ExecutorPod, executors_before: ExecutorsStatus | None = None, **changes: object
) -> Situation:
    """Make a job that asked for two executors and has these; before, its status said what is given."""
    base: dict[str, object] = {"spec": SPEC, "driver": a_driver(revision=REVISION), "pods": (a_pod(asked_executors=2),)}
    made = a_situation(**base | changes)
    status = made.status.model_copy(update={"executors": executors_before})
    return dataclasses.replace(made, executors=executors, status=status)


def some(running: int, *, asked: int = 2, ago: timedelta | None = None, **changes: object) -> ExecutorsStatus:
    """Record that so many run, and since when some are missing."""
    since = NOW - ago if ago is not None else None
    made = ExecutorsStatus(
        driver="flights-driver-1", desired=asked, running=running, selector=SELECTOR, missing_since=since
    )
    return made.model_copy(update=changes)


BOTH = (an_executor(1), an_executor(2))


def without_driver(*executors: ExecutorPod, **changes: object) -> Situation:
    """Make a job whose driver has ended, and whose executors are still there."""
    ended = a_driver(DriverState.ENDED, revision=REVISION)
    base: dict[str, object] = {"spec": SPEC, "driver": ended, "storage": StorageFacts(), "pods": ()}
    return dataclasses.replace(situation_with(base, **changes), executors=executors)


_NEXT = {"spec": SPEC, "driver": a_driver(epoch=2, revision=REVISION, pod="flights-driver-2"), "epoch": 2}

ORPHANS: dict[str, Situation] = {
    "a driver that has ended leaves two": without_driver(*BOTH, pods=(a_pod(phase=PodPhase.FAILED),)),
    "a driver whose pod is gone leaves two": without_driver(*BOTH),
    "a driver on a lost node leaves two": with_executors(
        *BOTH, pods=(a_pod(deletion_deadline=LOST), a_pod(2, asked_executors=2)), **_NEXT
    ),
    "a driver that is replaced and deleted leaves two": with_executors(
        *BOTH, pods=(a_pod(deletion_deadline=LATER), a_pod(2, asked_executors=2)), **_NEXT
    ),
    "an earlier job with this name left one": with_executors(an_executor(1, owner_uid="uid-of-another")),
    "one that nobody owns": with_executors(an_executor(1, owner_uid="")),
    "the job is deleted after its driver": without_driver(*BOTH, job=a_job(deletion_requested_at=NOW)),
}
"""Executors that nobody needs."""

KEPT: dict[str, Situation] = {
    "those of the running driver": with_executors(*BOTH),
    "those of a driver that is being drained": with_executors(
        *BOTH, pods=(a_pod(deletion_deadline=LATER, asked_executors=2),)
    ),
    "those of a standby, which has no epoch": with_executors(
        *BOTH, an_executor(1, "flights-standby-s1"), standbys=(a_standby_pod(),)
    ),
    "those that are being deleted": without_driver(*(dataclasses.replace(one, is_leaving=True) for one in BOTH)),
    "those of a driver that has stopped and ends by itself": with_executors(
        *BOTH, driver=a_driver(DriverState.ENDED, revision=REVISION)
    ),
}
"""Executors that are left alone."""


CASES: dict[str, dict[str, Situation]] = {
    "executors": {
        **ORPHANS,
        **KEPT,
        "one finds no node": with_executors(an_executor(1), an_executor(2, phase=PodPhase.PENDING, obstacle=NO_ROOM)),
        "a start waits for executors that find no node": told(
            with_executors(
                an_executor(1, phase=PodPhase.PENDING, obstacle=NO_ROOM),
                executors_before=some(0, ago=timedelta(minutes=1), message=NO_ROOM),
            ),
            JobState.STARTING,
        ),
        "a start waits for executors that are not late yet": told(
            with_executors(
                an_executor(1, phase=PodPhase.PENDING, obstacle=NO_ROOM),
                executors_before=some(0, ago=timedelta(seconds=30), message=NO_ROOM),
            ),
            JobState.STARTING,
        ),
        "the first batch runs on one": dataclasses.replace(
            with_executors(an_executor(1), executors_before=some(1, ago=timedelta(seconds=2), message=NO_ROOM)),
            driver=a_word().model_copy(
                update={"queries": (QueryStatus(uid="q", active=True, batch_id=6, batch_since=NOW),)}
            ),
        ),
        "one has found no node for long": with_executors(
            an_executor(1),
            an_executor(2, phase=PodPhase.PENDING, obstacle=NO_ROOM),
            executors_before=some(1, ago=timedelta(minutes=1), message=NO_ROOM),
        ),
    }
}
"""For the table of decisions."""
