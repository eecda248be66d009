"""Invariants of the decision over arbitrary situations."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from jobspecs import a_spec
from statefulspark.contract.api import ExitReport, JobState, JobStatus, Operation, OperationState, SnapshotSummary
from statefulspark.contract.api import StandbyState as Preparation
from statefulspark.contract.api import StandbyStatus as StandbyWord
from statefulspark.contract.manifest import SnapshotKind, Trigger
from statefulspark_operator.api import revision
from statefulspark_operator.api.conditions import JOB_TYPES
from statefulspark_operator.api.restore import RestoreSource
from statefulspark_operator.api.spark_savepoint import SavepointOrigin
from statefulspark_operator.api.status import (
    DriverIntent,
    DriverState,
    OperationKind,
    OperationPhase,
    OperationStatus,
    Phase,
    RestartStatus,
    RestoreIntent,
    SnapshotStatus,
    StallStatus,
    StandbyState,
    StandbyStatus,
    StatefulSparkJobStatus,
    TrialStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.api.upgrade import UpgradeStrategy
from statefulspark_operator.lifecycle import actions, decide, observed, steps
from statefulspark_operator.lifecycle.decision import Decision
from statefulspark_operator.lifecycle.rules import deletion, preconditions
from statefulspark_operator.lifecycle.rules import upgrade as upgrade_rules
from statefulspark_operator.lifecycle.situation import (
    ContainerExit,
    DriverPod,
    DriverSilent,
    ExecutorPod,
    Job,
    OperationAbsent,
    PodPhase,
    Rejection,
    Situation,
    Waiting,
)
from statefulspark_operator.lifecycle.storage_facts import (
    CheckpointFact,
    SavepointFact,
    StorageFacts,
    StorageUnreadable,
)

DESTRUCTIVE = (
    actions.SetFinalizers,
    actions.DeleteDriver,
    actions.DeleteExecutors,
    actions.DeleteStandby,
    actions.RequestStop,
    actions.PurgeStorage,
)
"""Actions that end or delete something."""
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)

moments = some.integers(-4000, 100).map(lambda seconds: NOW + timedelta(seconds=seconds))
epochs = some.integers(1, 4)


REVISIONS = tuple(revision.revision_of(a_spec(image)) for image in ("i:1", "i:2"))

specs = some.builds(
    a_spec,
    image=some.sampled_from(["i:1", "i:2"]),
    suspend=some.booleans(),
    deletionPolicy=some.sampled_from(["Retain", "Savepoint", "Delete"]),
    restore=some.sampled_from([{}, {"source": {"uri": "s3://state/sp"}}, {"dropState": ["old"]}]),
    executor=some.sampled_from([None, {"instances": 2}]),
    upgrade=some.sampled_from(
        [
            {"strategy": "Cold"},
            {"strategy": "Cold", "onSavepointFailure": "Abort"},
            {"strategy": "Warm"},
            {"strategy": "Warm", "rollbackPolicy": "Manual", "onSavepointFailure": "UseLatestCheckpoint"},
            {"stateFrom": "LatestCheckpoint"},
            {"stateFrom": "Empty"},
        ]
    ),
    driver=some.sampled_from([{}, {"standby": True}]),
)

exits = some.builds(
    ContainerExit,
    code=some.sampled_from([0, 1, 2, 12, 13, 14, 15, 16, 17, 18, 99, 137, 143]),
    reason=some.sampled_from(["", "Error", "OOMKilled"]),
    report=some.sampled_from(
        [
            None,
            ExitReport(exit_code=0, reason="Stopped", message="m", snapshot="s3://state/jobs/demo/j/savepoints/1"),
            ExitReport(exit_code=0, reason="Drained", message="m"),
            ExitReport(exit_code=0, reason="Finished", message="m"),
        ]
    ),
)


@some.composite
def pods(draw: some.DrawFn, epoch: int) -> DriverPod:
    phase = draw(some.sampled_from(PodPhase))
    over = phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    return DriverPod(
        name=f"flights-driver-{epoch}",
        uid=f"pod-{epoch}",
        epoch=epoch,
        revision=draw(some.sampled_from(REVISIONS)),
        phase=phase,
        created_at=draw(moments),
        is_ready=draw(some.booleans()),
        ip="10.0.0.1",
        deletion_deadline=draw(some.none() | moments),
        waiting=draw(some.none() | some.just(Waiting("ImagePullBackOff", "no"))) if not over else None,
        unschedulable=draw(some.none() | some.just("0/1 nodes")),
        exit=draw(some.none() | exits) if over else None,
        status_reason=draw(some.sampled_from(["", "Evicted"])),
    )


snapshots = some.builds(SnapshotStatus.model_construct, id=some.integers(1, 9), completed_at=moments)
restores = some.builds(
    RestoreIntent.model_construct,
    id=some.sampled_from(["a", "b"]),
    source=some.sampled_from([None, RestoreSource(uri="s3://state/jobs/sp"), RestoreSource(checkpointID=1)]),
)
drivers = some.builds(
    DriverIntent.model_construct,
    epoch=epochs,
    revision=some.sampled_from(REVISIONS),
    state=some.sampled_from(DriverState),
    decided_at=moments,
    pod=some.sampled_from(["flights-driver-1", "flights-driver-1", "flights-standby-1"]),
    restore=some.none() | restores,
    ending_since=some.none() | moments,
    ended_at=some.none() | moments,
    exit_code=some.sampled_from([None, 0, 1, 11]),
)
operations = some.builds(
    OperationStatus.model_construct,
    id=some.sampled_from(["job-uid-upgrade-1-1-1", "job-uid-deletion-1"]),
    kind=some.sampled_from(OperationKind),
    origin=some.sampled_from(SavepointOrigin),
    attempt=some.integers(1, 5),
    generation=some.integers(1, 3),
    epoch=epochs,
    requested_at=moments,
    state=some.sampled_from(OperationPhase),
    finished_at=some.none() | moments,
    location=some.sampled_from([None, "s3://state/jobs/sp"]),
)
upgrades = some.builds(
    UpgradeStatus.model_construct,
    from_revision=some.sampled_from(REVISIONS),
    to_revision=some.sampled_from(REVISIONS),
    generation=some.integers(1, 3),
    state=some.sampled_from(UpgradeState),
    requested_at=moments,
    savepoint_completed_at=some.none() | moments,
    savepoint=some.sampled_from([None, "s3://state/jobs/sp"]),
    mode=some.sampled_from([None, UpgradeStrategy.COLD]),
    trial=some.none()
    | some.builds(
        TrialStatus.model_construct,
        checkpoints=some.integers(0, 4),
        failures=some.integers(0, 4),
        committed=some.just({}),
    ),
    stopped_at=some.none() | moments,
)
records = some.builds(
    StandbyStatus.model_construct,
    number=some.integers(1, 3),
    pod=some.sampled_from(["flights-standby-1", "flights-standby-2"]),
    revision=some.sampled_from(REVISIONS),
    state=some.sampled_from(StandbyState),
    since=moments,
    uid=some.sampled_from([None, "uid-s1"]),
    failures=some.integers(0, 3),
    retry_at=some.none() | moments,
)
statuses = some.builds(
    StatefulSparkJobStatus.model_construct,
    standby=some.none() | records,
    standby_count=some.integers(0, 3),
    phase=some.none() | some.sampled_from(Phase),
    epoch=some.none() | epochs,
    revision=some.none() | some.sampled_from(REVISIONS),
    driver=some.none() | drivers,
    restore=some.none() | restores,
    restore_applied=some.sampled_from(
        [None, "x", revision.restore_id(a_spec(restore={"source": {"uri": "s3://state/sp"}}))]
    ),
    operation=some.none() | operations,
    upgrade=some.none() | upgrades,
    last_checkpoint=some.none() | snapshots,
    restarts=some.builds(
        RestartStatus.model_construct,
        consecutive=some.integers(0, 12),
        charged=some.integers(0, 12),
        next_attempt_at=some.none() | moments,
    ),
    stalled=some.none()
    | some.builds(
        StallStatus.model_construct, generation=some.integers(1, 3), reason=some.just("X"), message=some.just("m")
    ),
)
summaries = some.builds(
    SnapshotSummary.model_construct,
    kind=some.just(SnapshotKind.CHECKPOINT),
    id=some.integers(1, 9),
    location=some.just("s3://state/jobs/c"),
    trigger=some.sampled_from(Trigger),
    triggered_at=moments,
    completed_at=moments,
    size_bytes=some.just(1),
)
words = (
    some.none()
    | some.just(DriverSilent("no answer"))
    | some.builds(
        JobStatus.model_construct,
        job=some.just("flights"),
        namespace=some.just("demo"),
        state=some.sampled_from(JobState),
        epoch=epochs,
        started_at=moments,
        last_checkpoint=some.none() | summaries,
        last_savepoint=some.none() | summaries,
    )
)
answers = (
    some.none()
    | some.just(OperationAbsent())
    | some.builds(
        Operation.model_construct,
        request_id=some.sampled_from(["job-uid-upgrade-1-1-1", "other"]),
        kind=some.just("stop"),
        state=some.sampled_from(OperationState),
        snapshot=some.none() | summaries,
    )
)
stores = (
    some.none()
    | some.builds(StorageUnreadable, reason=some.just("X"), message=some.just("m"), may_pass=some.booleans())
    | some.builds(
        StorageFacts,
        newest_epoch=some.integers(0, 5),
        latest_checkpoint=some.none() | some.builds(CheckpointFact, snapshot=snapshots, epoch=epochs),
        savepoint=some.sampled_from(SavepointFact),
        is_empty=some.booleans(),
    )
)
jobs = some.builds(
    Job,
    namespace=some.just("demo"),
    name=some.just("flights"),
    uid=some.just("job-uid"),
    generation=some.integers(1, 3),
    finalizers=some.sampled_from(list(preconditions.HOLDING.values())),
    deletion_requested_at=some.sampled_from([None, None, None]) | moments,
)


@some.composite
def standby_pods(draw: some.DrawFn, number: int) -> DriverPod:
    name, pod = f"flights-standby-{number}", draw(pods(0))
    return dataclasses.replace(pod, name=name, uid=f"uid-s{number}")


standby_words = (
    some.none()
    | some.just(DriverSilent("no answer"))
    | some.builds(
        JobStatus.model_construct,
        job=some.just("flights"),
        namespace=some.just("demo"),
        state=some.just(JobState.STANDBY),
        epoch=some.just(0),
        started_at=moments,
        standby=some.builds(StandbyWord.model_construct, state=some.sampled_from(Preparation)),
    )
)


executor_pods = some.lists(
    some.builds(
        ExecutorPod,
        name=some.sampled_from(["flights-driver-1-exec-1", "flights-driver-2-exec-3", "flights-standby-1-exec-2"]),
        uid=some.sampled_from(["uid-a", "uid-b"]),
        owner_uid=some.sampled_from(["uid-1", "uid-2", "uid-s1", "uid-of-another"]),
        phase=some.sampled_from(PodPhase),
        is_leaving=some.booleans(),
        obstacle=some.sampled_from([None, "No node has room."]),
    ),
    max_size=2,
    unique_by=lambda pod: pod.uid,
).map(tuple)


@some.composite
def situations(draw: some.DrawFn) -> Situation:
    present = sorted(draw(some.sets(epochs, max_size=3)))
    spec = draw(some.sampled_from([True, True, True, False]))
    status = draw(statuses)
    if status.driver is not None:  # An epoch is recorded together with its driver, so it is never behind.
        status = status.model_copy(update={"epoch": max(status.epoch or 0, status.driver.epoch)})
    return Situation(
        now=NOW,
        job=draw(jobs),
        spec=draw(specs) if spec else None,
        status=status,
        rejection=None if spec else Rejection("SpecInvalid", "m"),
        pods=tuple(draw(pods(epoch)) for epoch in present),
        driver=draw(words),
        operation=draw(answers),
        storage=draw(stores),
        standbys=tuple(draw(standby_pods(number)) for number in sorted(draw(some.sets(some.integers(1, 2))))),
        standby=draw(standby_words),
        withheld=draw(some.sampled_from([None, None, REVISIONS[0]])),
        executors=draw(executor_pods),
    )


many = settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])


def created(decision: Decision) -> list[actions.CreateDriver]:
    return [act for act in decision.actions if isinstance(act, actions.CreateDriver)]


@many
@given(situations())
def test_a_decision_is_always_made_and_complete(situation: Situation) -> None:
    decision = decide.decide(situation)

    assert decision.status.phase is decision.phase
    assert decision.status.observed_generation == situation.job.generation
    assert tuple(found.type for found in decision.status.conditions) == JOB_TYPES
    assert decision.requeue_after >= timedelta(0)
    StatefulSparkJobStatus.model_validate_json(decision.status.to_json())


@many
@given(situations())
def test_a_driver_is_created_only_when_no_other_may_run(situation: Situation) -> None:
    decision = decide.decide(situation)

    if created(decision):
        assert situation.live_pods == ()
        assert situation.spec is not None
        assert situation.job.deletion_requested_at is None or deletion.awaits_savepoint(observed.fold(situation))
        assert situation.job.finalizers == preconditions.HOLDING[situation.spec.deletion_policy]
        assert not situation.spec.suspend


@many
@given(situations())
def test_executors_of_a_driver_that_works_are_never_removed_and_all_others_go_before_a_start(
    situation: Situation,
) -> None:
    decision = decide.decide(situation)

    removed = {pod.uid for act in decision.actions if isinstance(act, actions.DeleteExecutors) for pod in act.pods}
    working = {pod.uid for pod in (situation.live_pod, *situation.standbys) if pod is not None and pod.is_live(NOW)}
    assert not [one for one in situation.executors if one.uid in removed and one.owner_uid in working]
    if created(decision):
        owners = {pod.uid for pod in (*situation.pods, *situation.standbys)}
        assert not [one for one in situation.executors if not one.is_leaving and one.owner_uid not in owners]


@many
@given(situations())
def test_the_intent_is_recorded_with_the_same_epoch_as_the_pod(situation: Situation) -> None:
    decision = decide.decide(situation)

    for act in created(decision):
        driver = decision.status.driver
        assert driver is not None
        assert (driver.epoch, driver.revision, driver.state) == (act.epoch, act.revision, DriverState.CREATING)
        assert (decision.status.epoch or 0) >= act.epoch


@many
@given(situations())
def test_a_new_epoch_is_above_everything_that_is_known(situation: Situation) -> None:
    before, decision = situation.status.driver, decide.decide(situation)

    for act in created(decision):
        if before is not None and before.epoch == act.epoch and before.state is DriverState.CREATING:
            continue
        assert isinstance(situation.storage, StorageFacts)
        assert act.epoch > situation.storage.newest_epoch
        assert act.epoch > (situation.status.epoch or 0)
        assert all(act.epoch > pod.epoch for pod in situation.pods)


def activated(decision: Decision) -> list[actions.ActivateStandby]:
    return [act for act in decision.actions if isinstance(act, actions.ActivateStandby)]


@many
@given(situations())
def test_a_standby_takes_over_only_with_an_epoch_that_is_recorded_for_it(situation: Situation) -> None:
    decision = decide.decide(situation)

    for act in activated(decision):
        driver = decision.status.driver
        assert driver is not None
        assert (driver.epoch, driver.revision, driver.pod) == (act.epoch, act.revision, act.name)
        assert not created(decision)


@many
@given(situations())
def test_the_standby_that_takes_over_gets_an_epoch_above_everything_that_is_known(situation: Situation) -> None:
    before, decision = situation.status.driver, decide.decide(situation)

    labelled = {pod.uid for pod in situation.pods}
    for act in activated(decision):
        if act.uid in labelled or (before is not None and before.epoch == act.epoch):
            continue
        assert isinstance(situation.storage, StorageFacts)
        assert act.epoch > situation.storage.newest_epoch
        assert act.epoch > (situation.status.epoch or 0)
        assert all(act.epoch > pod.epoch for pod in situation.pods)


@many
@given(situations())
def test_a_standby_is_created_once_and_under_a_new_number(situation: Situation) -> None:
    decision = decide.decide(situation)

    for act in decision.actions:
        if isinstance(act, actions.CreateStandby):
            record = decision.status.standby
            assert record is not None
            assert (record.pod, record.revision, record.state) == (act.pod, act.revision, StandbyState.CREATING)
            assert act.pod not in {pod.name for pod in (*situation.standbys, *situation.pods)}


@many
@given(situations())
def test_a_driver_that_works_is_not_touched_while_its_successor_gets_ready(situation: Situation) -> None:
    decision = decide.decide(situation)

    if decision.status.upgrade is None or decision.status.upgrade.state not in steps.PREPARING | steps.WITHHELD:
        return
    current = observed.fold(situation)
    if current.is_outdated and not upgrade_rules.awaits_standby(current):
        return
    assert not any(isinstance(act, actions.RequestStop) and act.trigger is Trigger.UPGRADE for act in decision.actions)


@many
@given(situations())
def test_state_is_left_behind_only_by_the_word_of_the_spec(situation: Situation) -> None:
    decision = decide.decide(situation)

    fresh = [
        act
        for act in decision.actions
        if isinstance(act, actions.EnsureConfig) and act.restore and act.restore.starts_empty
    ]
    assert not fresh or (situation.spec is not None and situation.spec.restore.starts_empty)


@many
@given(situations())
def test_at_most_one_destructive_action_per_pass(situation: Situation) -> None:
    decision = decide.decide(situation)

    assert sum(isinstance(act, DESTRUCTIVE) for act in decision.actions) <= 1


@many
@given(situations())
def test_a_pod_is_deleted_by_its_identity_and_only_once(situation: Situation) -> None:
    decision = decide.decide(situation)

    alive = {(pod.name, pod.uid) for pod in situation.live_pods if pod.deletion_deadline is None}
    for act in decision.actions:
        if isinstance(act, actions.DeleteDriver):
            assert (act.name, act.uid) in alive


@many
@given(situations())
def test_an_unchanged_spec_never_ends_a_driver_that_works(situation: Situation) -> None:
    current = observed.fold(situation)
    pod = current.live_pod
    if pod is None or current.spec is None or current.is_outdated or current.spec.suspend:
        return
    operation = current.status.operation
    if current.job.deletion_requested_at or (operation is not None and operation.kind is OperationKind.STOP):
        return

    decision = decide.decide(situation)

    assert not any(isinstance(act, actions.DeleteDriver) and act.uid == pod.uid for act in decision.actions)
    assert not any(isinstance(act, actions.RequestStop) for act in decision.actions)


@many
@given(situations())
def test_folding_facts_twice_changes_nothing_more(situation: Situation) -> None:
    once = observed.fold(situation)

    assert observed.fold(once) == once


@many
@given(situations())
def test_deciding_again_without_news_comes_to_rest(situation: Situation) -> None:
    """Recording alone must settle: what changes the status again and again would hammer the API server."""
    seen = situation
    for _ in range(8):
        decision = decide.decide(seen)
        if decision.status == seen.status:
            return
        seen = dataclasses.replace(seen, status=decision.status)
    raise AssertionError(f"no rest: {decision.reason} {decision.message}")
