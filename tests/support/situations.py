"""Situations of one job for the operator's decisions: a job that runs well, and what a case changes about it."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

from jobspecs import a_spec
from statefulspark.contract.api import JobState, JobStatus
from statefulspark.contract.api import StandbyState as Preparation
from statefulspark.contract.api import StandbyStatus as StandbyWord
from statefulspark_operator.api import names, revision
from statefulspark_operator.api.spark_savepoint import SavepointOrigin
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.api.status import (
    DriverIntent,
    DriverState,
    OperationKind,
    OperationPhase,
    OperationStatus,
    RestartStatus,
    RevisionOutcome,
    RevisionRecord,
    StandbyState,
    StandbyStatus,
    StatefulSparkJobStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.lifecycle.rules import preconditions
from statefulspark_operator.lifecycle.situation import (
    ContainerExit,
    DriverPod,
    Job,
    OperationAbsent,
    PodPhase,
    Situation,
)
from statefulspark_operator.lifecycle.storage_facts import StorageFacts

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=1)
LATER = NOW + timedelta(minutes=1)
EMPTY = StorageFacts()


REVISION = revision.revision_of(a_spec())
FIRST = RevisionRecord(revision=REVISION, image="i:1", outcome=RevisionOutcome.STABLE, at=LONG_AGO)
OTHER = revision.revision_of(a_spec("i:2"))


def a_driver(state: DriverState = DriverState.CREATED, **changes: object) -> DriverIntent:
    driver = DriverIntent(epoch=1, revision=REVISION, state=state, decided_at=LONG_AGO, pod="flights-driver-1")
    return driver.model_copy(update=changes)


def a_pod(epoch: int = 1, phase: PodPhase = PodPhase.RUNNING, **changes: object) -> DriverPod:
    name = f"flights-driver-{epoch}"
    pod = DriverPod(name, f"uid-{epoch}", epoch, REVISION, phase, LONG_AGO, is_ready=True, ip="10.0.0.1")
    return dataclasses.replace(pod, **changes)  # type: ignore[arg-type]


def an_operation(state: OperationPhase = OperationPhase.REQUESTED, **changes: object) -> OperationStatus:
    operation = OperationStatus(
        id="request",
        kind=OperationKind.STOP,
        origin=SavepointOrigin.UPGRADE,
        generation=1,
        epoch=1,
        requested_at=NOW,
        finished_at=None if state is OperationPhase.REQUESTED else LONG_AGO,
        state=state,
    )
    return operation.model_copy(update=changes)


def a_word(state: JobState = JobState.RUNNING) -> JobStatus:
    return JobStatus(job="flights", namespace="demo", state=state, epoch=1, started_at=LONG_AGO)


UNTOLD = (names.TAKE_SAVEPOINT, names.DELETE_FILES)
"""More finalizers than a job ever has."""


def a_job(**changes: object) -> Job:
    return dataclasses.replace(Job("demo", "flights", "uid", 1, finalizers=UNTOLD), **changes)  # type: ignore[arg-type]


_STORED = frozenset(StatefulSparkJobStatus.model_fields) - {"driver", "operation"}
"""Of `standby`, a case gives the record; `preparing` gives the answer, too."""


def a_situation(**changes: object) -> Situation:
    """A job that runs well, with what a case changes."""
    status = {
        "driver": a_driver(),
        "epoch": 1,
        "operation": None,
        "restore": None,
        "restarts": RestartStatus(),
        "history": (FIRST,),
    }
    stored = {name: changes.pop(name) for name in tuple(changes) if name in status or name in _STORED}
    word = a_word() if stored.get("driver", True) else None
    base = Situation(
        now=NOW,
        job=a_job(),
        spec=a_spec(),
        status=StatefulSparkJobStatus(**(status | stored)),  # type: ignore[arg-type]
        pods=(a_pod(),),
        driver=word,
    )
    return _held(dataclasses.replace(base, **changes))  # type: ignore[arg-type]


def _held(situation: Situation) -> Situation:
    """Give a job the finalizers that its policy needs, unless the case says which it has."""
    if situation.spec is None or situation.job.finalizers != UNTOLD:
        return situation
    held = preconditions.HOLDING[situation.spec.deletion_policy]
    return dataclasses.replace(situation, job=dataclasses.replace(situation.job, finalizers=held))


ENDED = {"driver": a_driver(DriverState.ENDED), "pods": (), "storage": EMPTY}
NEW = {"driver": None, "epoch": None, "history": (), "pods": (), "storage": EMPTY}


def situation_with(defaults: dict[str, object], **changes: object) -> Situation:
    """Make a situation whose status has a driver of its own; the driver's word is not asked."""
    merged = {**defaults, **changes}
    return dataclasses.replace(a_situation(**merged), driver=None)


def silent(**changes: object) -> Situation:
    return dataclasses.replace(a_situation(**changes), driver=None)


def deleted(*, ago: timedelta = timedelta(0), **changes: object) -> Situation:
    return a_situation(**{"job": a_job(deletion_requested_at=NOW - ago)} | changes)


def gone(*, ago: timedelta = timedelta(0), **changes: object) -> Situation:
    """The resource is deleted with its state, and no driver is left."""
    return situation_with(
        ENDED, **{"job": a_job(deletion_requested_at=NOW - ago), "spec": a_spec(deletionPolicy="Delete")} | changes
    )


def absent(situation: Situation) -> Situation:
    """The driver answers that it does not know the operation."""
    return dataclasses.replace(situation, operation=OperationAbsent())


def told(situation: Situation, state: JobState) -> Situation:
    return dataclasses.replace(situation, driver=a_word(state))


def going(epoch: int = 1, **changes: object) -> DriverPod:
    return a_pod(epoch, deletion_deadline=LATER, **changes)


def over(code: int | None = None, **changes: object) -> Situation:
    """The driver's pod has ended."""
    exit_ = {name: changes.pop(name) for name in ("reason", "message", "report") if name in changes}
    pod = {name: changes.pop(name) for name in ("status_reason", "status_message") if name in changes}
    ended = ContainerExit(code, **exit_) if code is not None else None  # type: ignore[arg-type]
    return silent(pods=(a_pod(phase=PodPhase.FAILED, exit=ended, **pod),), **changes)


def an_upgrade(state: UpgradeState, to: str = OTHER, **changes: object) -> UpgradeStatus:
    upgrade = UpgradeStatus(
        from_revision=REVISION, to_revision=to, generation=1, state=state, requested_at=LONG_AGO, image="i:2"
    )
    return upgrade.model_copy(update=changes)


STANDBY_POD = "flights-standby-1"


def a_standby(state: StandbyState = StandbyState.READY, revision: str = OTHER, **changes: object) -> StandbyStatus:
    """Record a standby, of the revision that is not running."""
    standby = StandbyStatus(number=1, pod=STANDBY_POD, revision=revision, state=state, since=LONG_AGO, uid="uid-s1")
    return standby.model_copy(update=changes)


def a_standby_pod(**changes: object) -> DriverPod:
    pod = DriverPod(STANDBY_POD, "uid-s1", 0, OTHER, PodPhase.RUNNING, LONG_AGO, ip="10.0.0.2")
    return dataclasses.replace(pod, **changes)  # type: ignore[arg-type]


def standing_by(state: Preparation = Preparation.READY, *, doing: str | None = None, **changes: object) -> JobStatus:
    """Answer as a standby does, with the step that it is at."""
    word = StandbyWord(state=state, **changes)  # type: ignore[arg-type]
    answer = JobStatus(job="flights", namespace="demo", state=JobState.STANDBY, epoch=0, started_at=LONG_AGO)
    return answer.model_copy(update={"standby": word, "message": doing})


def warm(image: str = "i:2", **changes: object) -> StatefulSparkJobSpec:
    """Build a spec of another revision than the running one, with warm upgrades."""
    return a_spec(image, upgrade={"strategy": "Warm", **changes})


def preparing(state: UpgradeState = UpgradeState.PREPARE, **changes: object) -> Situation:
    """A warm upgrade whose standby is ready, with what a case changes."""
    base: dict[str, object] = {
        "spec": warm(),
        "upgrade": an_upgrade(state),
        "standby_count": 1,
        "standbys": (a_standby_pod(),),
    }
    record = {"standby": changes.pop("record", a_standby())}
    answer = changes.pop("answer", standing_by())
    situation = a_situation(**{**base, **changes, **record})
    return dataclasses.replace(situation, standby=answer)  # type: ignore[arg-type]


def policy(name: str) -> StatefulSparkJobSpec:
    return a_spec("i:2", upgrade={"onSavepointFailure": name})


def restoring(**changes: object) -> StatefulSparkJobSpec:
    return a_spec(restore=changes)
