"""What decisions of rules have in common; each rule has its situations in `tests/golden/operator`, compared whole."""

from __future__ import annotations

import dataclasses

import pytest
from jobspecs import a_spec
from situationcases import hanging
from situations import (
    ENDED,
    LATER,
    LONG_AGO,
    NEW,
    NOW,
    REVISION,
    a_driver,
    a_job,
    a_pod,
    a_situation,
    a_word,
    an_operation,
    over,
    silent,
    situation_with,
)
from statefulspark.contract.api import ExitReport, JobState, SnapshotSummary
from statefulspark.contract.manifest import SnapshotKind, Trigger
from statefulspark_operator.api.conditions import JOB_TYPES, Condition, ConditionStatus, ConditionType
from statefulspark_operator.api.status import (
    DriverState,
    Phase,
    RestartStatus,
    StallStatus,
    StatefulSparkJobStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.lifecycle import decide, steps
from statefulspark_operator.lifecycle.decision import Reason
from statefulspark_operator.lifecycle.situation import (
    ContainerExit,
    PodPhase,
    Rejection,
    Situation,
    Waiting,
)
from statefulspark_operator.lifecycle.storage_facts import StorageUnreadable

STOPPED = ExitReport(exit_code=0, reason="Stopped", message="As asked.")
CASES: list[tuple[str, Situation, Reason]] = [
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
    (
        "a job file that raises is not tried again",
        silent(pods=(a_pod(phase=PodPhase.FAILED, exit=ContainerExit(13)),)),
        Reason.DRIVER_REFUSED,
    ),
    (
        "a failure beyond the budget is the last",
        silent(
            pods=(a_pod(phase=PodPhase.FAILED, exit=ContainerExit(1)),),
            restarts=RestartStatus(consecutive=12, charged=10),
            spec=a_spec(restart={"maxFailures": 10}),
        ),
        Reason.BUDGET_EXHAUSTED,
    ),
    (
        "a driver whose storage fails is started again beyond any budget",
        silent(
            pods=(a_pod(phase=PodPhase.FAILED, exit=ContainerExit(16)),),
            restarts=RestartStatus(consecutive=12, charged=10),
            spec=a_spec(restart={"maxFailures": 10}),
        ),
        Reason.DRIVER_FAILED,
    ),
    (
        "a driver that Kubernetes removes is started again beyond any budget",
        silent(pods=(), restarts=RestartStatus(consecutive=10), spec=a_spec(restart={"maxFailures": 10})),
        Reason.DRIVER_FAILED,
    ),
    (
        "a driver that ended as asked has stopped",
        silent(
            pods=(a_pod(phase=PodPhase.SUCCEEDED, exit=ContainerExit(0, report=STOPPED)),), operation=an_operation()
        ),
        Reason.DRIVER_STOPPED,
    ),
    (
        "a savepoint that takes too long has failed",
        a_situation(operation=an_operation(requested_at=LONG_AGO)),
        Reason.OPERATION_TIMED_OUT,
    ),
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
]


@pytest.mark.parametrize(("situation", "reason"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_situation_gets_its_decision(situation: Situation, reason: Reason) -> None:
    assert decide.decide(situation).reason is reason


LOCKED = (
    "Could not open the table totals of shop at db:5432: canceling statement due to lock timeout; it waited 10s for the "
    "transaction of psql of the user ann at 10.0.0.7 (pid 4242), since 2026-01-01 11:42:00 UTC. If that does not end by "
    "itself, end it: SELECT pg_terminate_backend(4242)."
)
OUT = over(16, report=ExitReport(exit_code=16, reason="PostgresLocked", message=LOCKED))
BEHIND = RestartStatus(consecutive=2, last_reason="PostgresLocked", last_message=LOCKED, next_attempt_at=LATER)


@pytest.mark.parametrize(
    ("situation", "message"),
    [
        pytest.param(OUT, LOCKED, id="when the driver has ended"),
        pytest.param(
            situation_with(ENDED, restarts=BEHIND),
            f"{LOCKED} Starting again at 12:01:00 UTC.",
            id="while the next one is waited for",
        ),
        pytest.param(
            dataclasses.replace(
                a_situation(),
                driver=a_word(JobState.STARTING).model_copy(update={"message": f"Committing is retried: {LOCKED}"}),
            ),
            f"flights-driver-1: Committing is retried: {LOCKED}",
            id="while it tries",
        ),
    ],
)
def test_who_keeps_a_driver_from_its_sink_is_told_all_the_time(situation: Situation, message: str) -> None:
    decision = decide.decide(situation)

    ready = next(one for one in decision.status.conditions if one.type is ConditionType.READY)
    assert (decision.status.message, ready.status, ready.message) == (message, ConditionStatus.FALSE, message)


def test_the_reason_of_a_driver_that_did_not_get_to_its_sink_is_kept_and_it_is_tried_again() -> None:
    restarts = decide.decide(OUT).status.restarts

    assert (restarts.last_reason, restarts.last_message) == ("PostgresLocked", LOCKED)
    assert restarts.next_attempt_at is not None


@pytest.mark.parametrize(
    ("length", "shown"), [(1024, "m" * 1024), (1025, "m" * 1023 + "…")], ids=["as long as it may be", "longer"]
)
def test_a_message_is_cut_for_people_and_for_the_log_alike(length: int, shown: str) -> None:
    stalled = StallStatus(generation=1, reason="X", message="m" * length)

    decision = decide.decide(situation_with(ENDED, stalled=stalled))

    assert (decision.message, decision.status.message) == (shown, shown)


def test_a_decision_answers_every_question_of_tools() -> None:
    decision = decide.decide(a_situation())

    answers = {one.type: one.status for one in decision.status.conditions}
    assert tuple(answers) == JOB_TYPES
    assert answers[ConditionType.READY] is ConditionStatus.TRUE


def test_a_job_that_only_a_person_can_help_is_not_reconciled_although_an_upgrade_was_being_prepared() -> None:
    upgrade = UpgradeStatus(
        from_revision=REVISION, to_revision="new", generation=1, state=UpgradeState.PREPARE, requested_at=LONG_AGO
    )
    missing = StorageUnreadable("CredentialsMissing", "gone", may_pass=False)

    decision = decide.decide(situation_with(ENDED, spec=a_spec("i:2"), upgrade=upgrade, storage=missing))

    answers = {one.type: one.status for one in decision.status.conditions}
    assert answers[ConditionType.STALLED] is ConditionStatus.TRUE
    assert answers[ConditionType.RECONCILING] is ConditionStatus.FALSE


def test_a_job_that_was_suspended_while_a_standby_took_over_is_not_available() -> None:
    upgrade = UpgradeStatus(
        from_revision="old", to_revision=REVISION, generation=1, state=UpgradeState.ACTIVATING, requested_at=NOW
    )
    was = Condition(
        type=ConditionType.AVAILABLE,
        status=ConditionStatus.TRUE,
        reason="InputProcessed",
        last_transition_time=LONG_AGO,
    )

    decision = decide.decide(
        situation_with(
            ENDED,
            spec=a_spec(suspend=True),
            upgrade=upgrade,
            driver=a_driver(DriverState.ENDED, decided_at=NOW, ended_at=NOW),
            conditions=(was,),
        )
    )

    answers = {one.type: one.status for one in decision.status.conditions}
    assert decision.phase is Phase.SUSPENDED
    assert answers[ConditionType.AVAILABLE] is ConditionStatus.FALSE


def test_a_suspended_job_is_not_stalled_by_the_end_of_its_last_driver() -> None:
    stalled = StallStatus(generation=1, reason="SnapshotNotFound", message="There is no snapshot.")

    decision = decide.decide(situation_with(ENDED, spec=a_spec(suspend=True), stalled=stalled))

    answers = {one.type: one.status for one in decision.status.conditions}
    assert answers[ConditionType.READY] is ConditionStatus.TRUE
    assert answers[ConditionType.STALLED] is ConditionStatus.FALSE


@pytest.mark.parametrize(
    ("situation", "told"),
    [
        (hanging(300), (ConditionStatus.TRUE, "InputProcessed")),
        (hanging(301), (ConditionStatus.FALSE, "BatchRunning")),
        (hanging(11, spec=a_spec(health={"unavailableAfter": "10s"})), (ConditionStatus.FALSE, "BatchRunning")),
    ],
    ids=["as long as it may take", "longer", "longer than the spec of the job allows"],
)
def test_a_batch_that_takes_too_long_is_told_and_no_other(
    situation: Situation, told: tuple[ConditionStatus, str]
) -> None:
    answers = {one.type: (one.status, one.reason) for one in decide.decide(situation).status.conditions}

    assert answers[ConditionType.AVAILABLE] == told


def test_a_request_that_arrived_is_not_sent_again() -> None:
    decision = decide.decide(a_situation(operation=an_operation()))

    assert decision.actions == ()


def test_an_upgrade_that_was_taken_back_while_its_driver_stopped_ends_with_the_first_checkpoint_and_not_never() -> None:
    upgrade = UpgradeStatus(
        from_revision=REVISION,
        to_revision="another",
        generation=1,
        state=UpgradeState.STOPPING,
        requested_at=LONG_AGO,
    )
    started = decide.decide(situation_with(ENDED, upgrade=upgrade)).status
    assert started.driver is not None
    summary = SnapshotSummary(
        kind=SnapshotKind.CHECKPOINT,
        id=1,
        location="s3://state/jobs/c",
        trigger=Trigger.PERIODIC,
        triggered_at=NOW,
        completed_at=NOW,
        size_bytes=1,
    )
    word = a_word().model_copy(update={"epoch": started.driver.epoch, "last_checkpoint": summary})

    ran = decide.decide(
        dataclasses.replace(a_situation(), status=started, pods=(a_pod(started.driver.epoch),), driver=word)
    )

    assert ran.status.upgrade is not None
    assert (ran.status.upgrade.state, ran.status.upgrade.to_revision) == (UpgradeState.FIRST_CHECKPOINT, REVISION)


ABORTED = UpgradeStatus(
    from_revision=REVISION, to_revision="new", generation=3, state=UpgradeState.ABORTED, requested_at=LONG_AGO
)


@pytest.mark.parametrize(
    ("upgrade", "revision", "generation", "is_withheld"),
    [
        pytest.param(ABORTED, "new", 3, True, id="the revision and the generation that it was about"),
        pytest.param(ABORTED, "new", 4, False, id="the same revision after another change"),
        pytest.param(ABORTED, REVISION, 3, False, id="another revision"),
        pytest.param(ABORTED.model_copy(update={"state": UpgradeState.STABLE}), "new", 3, False, id="one that works"),
        pytest.param(None, "new", 3, False, id="no upgrade"),
    ],
)
def test_an_aborted_upgrade_withholds(
    upgrade: UpgradeStatus | None, revision: str, generation: int, is_withheld: bool
) -> None:
    status = StatefulSparkJobStatus(upgrade=upgrade)

    found = steps.aborted_by(status, revision, generation=generation)

    assert found == (upgrade if is_withheld else None)
