"""One table for all rules: a situation in a sentence, and which decision it gets."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from jobspecs import a_spec
from statefulspark.contract.api import JobState, JobStatus
from statefulspark_operator.api import revision
from statefulspark_operator.api.status import (
    DriverIntent,
    DriverState,
    OperationKind,
    OperationPhase,
    OperationStatus,
    RestartStatus,
    RestoreIntent,
    StallStatus,
    StatefulSparkJobStatus,
)
from statefulspark_operator.lifecycle import decide
from statefulspark_operator.lifecycle.reason import Reason
from statefulspark_operator.lifecycle.situation import (
    ContainerExit,
    DriverPod,
    Job,
    OperationAbsent,
    PodPhase,
    Rejection,
    SavepointFact,
    Situation,
    StorageFacts,
    StorageUnreadable,
    Waiting,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=1)
LATER = NOW + timedelta(minutes=1)
EMPTY = StorageFacts()


REVISION = revision.revision_of(a_spec())


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
        trigger="upgrade",
        generation=1,
        epoch=1,
        requested_at=NOW,
        finished_at=None if state is OperationPhase.REQUESTED else LONG_AGO,
        state=state,
    )
    return operation.model_copy(update=changes)


def a_word(state: JobState = JobState.RUNNING) -> JobStatus:
    return JobStatus(job="flights", namespace="demo", state=state, epoch=1, started_at=LONG_AGO)


def a_job(**changes: object) -> Job:
    return dataclasses.replace(Job("demo", "flights", "uid", 1), **changes)  # type: ignore[arg-type]


def a_situation(**changes: object) -> Situation:
    """A job that runs well, with what a case changes."""
    status = {"driver": a_driver(), "epoch": 1, "operation": None, "restore": None, "restarts": RestartStatus()}
    stored = {name: changes.pop(name) for name in (*status, "stalled", "savepoint_nonce") if name in changes}
    word = a_word() if stored.get("driver", True) else None
    base = Situation(
        now=NOW,
        job=a_job(),
        spec=a_spec(),
        status=StatefulSparkJobStatus(**(status | stored)),  # type: ignore[arg-type]
        pods=(a_pod(),),
        driver=word,
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


ENDED = {"driver": a_driver(DriverState.ENDED), "pods": (), "storage": EMPTY}
NEW = {"driver": None, "epoch": None, "pods": (), "storage": EMPTY}


def situation_with(defaults: dict[str, object], **changes: object) -> Situation:
    """Make a situation whose status has a driver of its own; the driver's word is not asked."""
    merged = {**defaults, **changes}
    return dataclasses.replace(a_situation(**merged), driver=None)


def silent(**changes: object) -> Situation:
    return dataclasses.replace(a_situation(**changes), driver=None)


CASES: list[tuple[str, Situation, Reason]] = [
    ("a job that runs well goes on", a_situation(), Reason.RUNNING),
    ("a new job gets our finalizer first", a_situation(job=a_job(has_finalizer=False)), Reason.FINALIZER_ADDED),
    ("a new job starts", situation_with(NEW), Reason.STARTING),
    ("a deleted job stops its driver", a_situation(job=a_job(deletion_requested_at=NOW)), Reason.DELETION_STOPPING),
    (
        "a deleted job without a driver is let go",
        situation_with(ENDED, job=a_job(deletion_requested_at=NOW)),
        Reason.DELETION_FINISHED,
    ),
    (
        "a deleted job whose state is to go has it deleted first",
        situation_with(ENDED, job=a_job(deletion_requested_at=NOW), spec=a_spec(deletionPolicy="Delete")),
        Reason.DELETION_PURGING,
    ),
    (
        "a deleted job without its credentials is let go with its state kept",
        situation_with(
            ENDED,
            job=a_job(deletion_requested_at=NOW),
            spec=a_spec(deletionPolicy="Delete"),
            storage=StorageUnreadable("CredentialsMissing", "gone", may_pass=False),
        ),
        Reason.DELETION_STATE_KEPT,
    ),
    (
        "a spec that cannot be read and no earlier one does nothing",
        situation_with(NEW, spec=None, rejection=Rejection("SpecInvalid", "m")),
        Reason.SPEC_REJECTED,
    ),
    (
        "a driver of an older epoch that still runs is removed",
        silent(pods=(a_pod(1), a_pod(2))),
        Reason.STRAY_DRIVER,
    ),
    ("a pod that vanished counts as a failure", silent(pods=()), Reason.DRIVER_FAILED),
    (
        "a pod that was seen going and is gone has drained",
        silent(pods=(), driver=a_driver(ending_since=NOW)),
        Reason.DRIVER_DRAINED,
    ),
    (
        "a pod on a node that does not answer counts as a failure",
        silent(pods=(a_pod(deletion_deadline=LONG_AGO),), storage=EMPTY),
        Reason.DRIVER_FAILED,
    ),
    (
        "a job file that raises is not tried again",
        silent(pods=(a_pod(phase=PodPhase.FAILED, exit=ContainerExit(13)),)),
        Reason.DRIVER_REFUSED,
    ),
    (
        "a failure beyond the budget is the last",
        silent(pods=(), restarts=RestartStatus(consecutive=10)),
        Reason.BUDGET_EXHAUSTED,
    ),
    (
        "a driver that ended as asked has stopped",
        silent(pods=(a_pod(phase=PodPhase.FAILED, exit=ContainerExit(11)),), operation=an_operation()),
        Reason.DRIVER_STOPPED,
    ),
    (
        "a request that never arrived is sent again",
        dataclasses.replace(a_situation(operation=an_operation()), operation=OperationAbsent()),
        Reason.OPERATION_REPEATED,
    ),
    ("a savepoint under way is waited for", a_situation(operation=an_operation()), Reason.OPERATION_IN_PROGRESS),
    (
        "a savepoint that takes too long has failed",
        a_situation(operation=an_operation(requested_at=LONG_AGO)),
        Reason.OPERATION_TIMED_OUT,
    ),
    (
        "a driver that does not end after its savepoint is ended",
        a_situation(operation=an_operation(OperationPhase.COMPLETED)),
        Reason.STOP_ENFORCED,
    ),
    ("a suspended job stops its driver", a_situation(spec=a_spec(suspend=True)), Reason.SUSPENDING),
    ("a suspended job without a driver rests", situation_with(ENDED, spec=a_spec(suspend=True)), Reason.SUSPENDED),
    ("another image asks for a savepoint", a_situation(spec=a_spec("i:2")), Reason.UPGRADE_REQUESTED),
    (
        "another image while the driver waits for a node needs no savepoint",
        silent(spec=a_spec("i:2"), pods=(a_pod(phase=PodPhase.PENDING),)),
        Reason.UPGRADE_FROM_CHECKPOINT,
    ),
    (
        "a recorded start is carried out",
        situation_with({"driver": a_driver(DriverState.CREATING), "pods": (), "storage": EMPTY}),
        Reason.RESUMING_START,
    ),
    (
        "a recorded start of an older spec is dropped",
        situation_with({"driver": a_driver(DriverState.CREATING), "pods": (), "storage": EMPTY}, spec=a_spec("i:2")),
        Reason.SUPERSEDED,
    ),
    (
        "a stalled job rests",
        situation_with(ENDED, stalled=StallStatus(generation=1, reason="X", message="m")),
        Reason.STALLED,
    ),
    (
        "a stalled job with a newer spec starts",
        situation_with(ENDED, stalled=StallStatus(generation=1, reason="X", message="m"), job=a_job(generation=2)),
        Reason.STARTING,
    ),
    ("a finished job rests", situation_with(ENDED, driver=a_driver(DriverState.ENDED, exit_code=0)), Reason.FINISHED),
    (
        "a failed job waits for its time",
        situation_with(ENDED, restarts=RestartStatus(consecutive=2, next_attempt_at=LATER)),
        Reason.BACKING_OFF,
    ),
    (
        "storage that cannot be read starts nothing",
        situation_with(ENDED, storage=StorageUnreadable("X", "m")),
        Reason.STORAGE_UNREADABLE,
    ),
    (
        "a savepoint that is missing starts nothing",
        situation_with(
            ENDED,
            restore=RestoreIntent(id="r", snapshot="s3://state/sp"),
            storage=StorageFacts(savepoint=SavepointFact.MISSING),
        ),
        Reason.SAVEPOINT_MISSING,
    ),
    ("a pod being deleted is waited for", a_situation(pods=(a_pod(deletion_deadline=LATER),)), Reason.DRIVER_ENDING),
    (
        "an image that cannot be pulled is shown",
        silent(pods=(a_pod(phase=PodPhase.PENDING, waiting=Waiting("ErrImagePull", "m")),)),
        Reason.IMAGE_UNAVAILABLE,
    ),
    (
        "a missing Secret is shown",
        silent(pods=(a_pod(phase=PodPhase.PENDING, waiting=Waiting("CreateContainerConfigError", "m")),)),
        Reason.CONTAINER_WAITING,
    ),
    (
        "a pod without a node is shown",
        silent(pods=(a_pod(phase=PodPhase.PENDING, unschedulable="m"),)),
        Reason.UNSCHEDULABLE,
    ),
    (
        "a driver that restores is starting",
        dataclasses.replace(a_situation(), driver=a_word(JobState.STARTING)),
        Reason.DRIVER_STARTING,
    ),
    ("a new nonce takes a savepoint", a_situation(spec=a_spec(savepointNonce="a")), Reason.SAVEPOINT_REQUESTED),
]


@pytest.mark.parametrize(("situation", "reason"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_situation_gets_its_decision(situation: Situation, reason: Reason) -> None:
    assert decide.decide(situation).reason is reason


def test_a_request_that_arrived_is_not_sent_again() -> None:
    decision = decide.decide(a_situation(operation=an_operation()))

    assert decision.actions == ()
