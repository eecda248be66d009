"""What has come of a request: told from the status alone, whoever else changes the job meanwhile."""

from __future__ import annotations

import pytest
from kubectlworld import (
    GOOD,
    NEW_REVISION,
    OLD_REVISION,
    SAVEPOINT,
    SPEC,
    a_condition,
    a_snapshot,
    a_stored_pod,
    a_stored_status,
    a_view,
    before,
    not_ready,
)
from pydantic import JsonValue
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.spark_savepoint import SavepointOrigin
from statefulspark_operator.api.status import (
    OperationKind,
    OperationPhase,
    OperationStatus,
    Phase,
    StatefulSparkJobStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.kubectl import outcomes
from statefulspark_operator.kubectl.outcomes import Done, Failed, Outcome, Pending
from statefulspark_operator.kubectl.requests import Target

SUSPENDED: Resource = {**SPEC, "suspend": True}
BECAME_STALLED = (
    *not_ready("Stalled", "line 17"),
    a_condition(ConditionType.STALLED, ConditionStatus.TRUE, "JobFileRaised", "line 17"),
)


def an_asked_operation(
    state: OperationPhase, kind: OperationKind = OperationKind.SAVEPOINT, **changes: object
) -> OperationStatus:
    operation = OperationStatus(
        id="x",
        kind=kind,
        origin=SavepointOrigin.MANUAL,
        generation=4,
        epoch=7,
        requested_at=before(seconds=30),
        state=state,
        finished_at=before(seconds=18),
        location=SAVEPOINT,
    )
    return operation.model_copy(update=changes)


def an_object(**status: JsonValue) -> Resource:
    return {"status": status}


@pytest.mark.parametrize(
    ("stored", "outcome"),
    [
        pytest.param(
            {},
            Pending("The operator has not seen the SparkSavepoint yet; the job is Running: all is well."),
            id="not seen yet",
        ),
        pytest.param(
            an_object(phase="Pending", message="The job is suspended."), Pending("The job is suspended."), id="waits"
        ),
        pytest.param(an_object(phase="InProgress"), Pending("The driver is taking the savepoint."), id="in progress"),
        pytest.param(
            an_object(phase="Completed", location=SAVEPOINT),
            Done(f"Savepoint complete: {SAVEPOINT}", SAVEPOINT),
            id="complete",
        ),
        pytest.param(
            an_object(phase="Failed", message="disk full"), Failed("The savepoint failed: disk full"), id="failed"
        ),
        pytest.param(None, Failed("The SparkSavepoint was deleted before its savepoint was complete."), id="deleted"),
    ],
)
def test_a_savepoint_is(stored: Resource | None, outcome: Outcome) -> None:
    assert outcomes.savepoint(a_view(a_stored_status(message="all is well")), stored) == outcome


@pytest.mark.parametrize(
    ("status", "spec", "outcome"),
    [
        pytest.param(a_stored_status(message="Running."), SUSPENDED, Pending("Running: Running."), id="not begun"),
        pytest.param(
            a_stored_status(phase=Phase.SUSPENDED, conditions=not_ready("Suspending", "stopping"), message="stopping"),
            SUSPENDED,
            Pending("Suspended: stopping"),
            id="the driver is still ending",
        ),
        pytest.param(
            a_stored_status(
                phase=Phase.SUSPENDED, operation=an_asked_operation(OperationPhase.COMPLETED, OperationKind.STOP)
            ),
            SUSPENDED,
            Done(f"Suspended with savepoint {SAVEPOINT}", SAVEPOINT),
            id="with a savepoint",
        ),
        pytest.param(
            a_stored_status(
                phase=Phase.SUSPENDED,
                operation=an_asked_operation(OperationPhase.FAILED, OperationKind.STOP, message="full"),
            ),
            SUSPENDED,
            Done("Suspended; a start continues from checkpoint 51 (no savepoint: full)"),
            id="the savepoint failed, the checkpoint of the drain is there",
        ),
        pytest.param(
            a_stored_status(phase=Phase.SUSPENDED, last_checkpoint=None),
            SUSPENDED,
            Done("Suspended; a start continues from what is on storage"),
            id="nothing was completed",
        ),
        pytest.param(
            a_stored_status(),
            SPEC,
            Failed("spec.suspend was set to false in the meantime."),
            id="taken back by somebody",
        ),
    ],
)
def test_a_suspension_is(status: StatefulSparkJobStatus, spec: Resource, outcome: Outcome) -> None:
    assert outcomes.suspend(a_view(status, spec=spec), generation=4) == outcome


RUNS = Done(f"Running as epoch 7, revision {NEW_REVISION}, from {SAVEPOINT}")


@pytest.mark.parametrize(
    ("status", "spec", "outcome"),
    [
        pytest.param(
            a_stored_status(observed_generation=3, phase=Phase.SUSPENDED),
            SPEC,
            Pending("Suspended: the operator has not seen generation 4 of the spec yet."),
            id="not seen yet",
        ),
        pytest.param(
            a_stored_status(phase=Phase.STARTING, conditions=not_ready("DriverStarting", "x"), message="x"),
            SPEC,
            Pending("Starting: x"),
            id="starting",
        ),
        pytest.param(a_stored_status(), SPEC, RUNS, id="runs"),
        pytest.param(
            a_stored_status(phase=Phase.STALLED, conditions=BECAME_STALLED, message="line 17"),
            SPEC,
            Failed("The job is Stalled: line 17"),
            id="stalled",
        ),
        pytest.param(
            a_stored_status(),
            SUSPENDED,
            Failed("spec.suspend was set to true in the meantime."),
            id="taken back by somebody",
        ),
    ],
)
def test_a_resumption_is(status: StatefulSparkJobStatus, spec: Resource, outcome: Outcome) -> None:
    assert outcomes.resume(a_view(status, spec=spec), generation=4) == outcome


def an_upgrade_back(state: UpgradeState, to: str = OLD_REVISION, **changes: object) -> UpgradeStatus:
    upgrade = UpgradeStatus(
        from_revision=NEW_REVISION, to_revision=to, generation=4, state=state, requested_at=before(minutes=4)
    )
    return upgrade.model_copy(update=changes)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        pytest.param(
            a_stored_status(message="Still on the new one."), Pending("Running: Still on the new one."), id="not begun"
        ),
        pytest.param(
            a_stored_status(revision=OLD_REVISION),
            Done(f"Running as epoch 7, revision {OLD_REVISION}, from {SAVEPOINT}"),
            id="runs again",
        ),
        pytest.param(
            a_stored_status(
                upgrade=an_upgrade_back(UpgradeState.BLOCKED, message="line 17"), conditions=BECAME_STALLED
            ),
            Failed("The rollback did not succeed (Blocked): line 17"),
            id="the old revision is refused",
        ),
        pytest.param(
            a_stored_status(upgrade=an_upgrade_back(UpgradeState.BLOCKED, generation=3), message="x"),
            Pending("Running: x"),
            id="it was refused when it was tried before, which says nothing",
        ),
        pytest.param(
            a_stored_status(phase=Phase.STALLED, conditions=BECAME_STALLED, message="line 17"),
            Failed("The job is Stalled: line 17"),
            id="stalled",
        ),
    ],
)
def test_a_rollback_is(status: StatefulSparkJobStatus, outcome: Outcome) -> None:
    assert outcomes.rollback(a_view(status), Target(OLD_REVISION), generation=4) == outcome


def test_a_rollback_of_a_suspended_job_is_done_when_its_spec_is_seen() -> None:
    outcome = outcomes.rollback(a_view(spec=SUSPENDED), Target(OLD_REVISION), generation=4)

    assert isinstance(outcome, Done)
    assert "the job is suspended, and starts with it when it is resumed" in outcome.message


def test_a_rollback_by_the_operator_is_done_when_the_old_revision_runs_and_says_what_the_spec_still_asks_for() -> None:
    target = Target(OLD_REVISION, by_policy=True)
    back = an_upgrade_back(UpgradeState.ROLLED_BACK, to=NEW_REVISION)
    waiting = a_view(a_stored_status(phase=Phase.STALLED, conditions=BECAME_STALLED, message="line 17"))
    restarting = a_view(
        a_stored_status(phase=Phase.RESTARTING, upgrade=back, message="again", conditions=BECAME_STALLED)
    )
    runs = a_view(
        a_stored_status(revision=OLD_REVISION, upgrade=back, conditions=BECAME_STALLED), pods=(a_stored_pod(),)
    )

    asks = a_view(a_stored_status(phase=Phase.STALLED, upgrade=back, conditions=BECAME_STALLED, message="decide"))

    assert outcomes.rollback(waiting, target, generation=4) == Failed("The job is Stalled: line 17")
    assert outcomes.rollback(asks, target, generation=4) == Failed("The job is Stalled: decide")
    assert outcomes.rollback(restarting, target, generation=4) == Pending("Restarting: again")
    done = outcomes.rollback(runs, target, generation=4)
    assert isinstance(done, Done)
    assert "not tried again until the spec changes; spec.upgrade.rollbackPolicy is Automatic now" in done.message


def test_a_job_that_runs_and_is_ready_is_told_once_only_for_the_generation_that_was_asked() -> None:
    outdated = a_view(a_stored_status(observed_generation=3, conditions=GOOD, last_checkpoint=a_snapshot(51)))

    assert isinstance(outcomes.resume(outdated, generation=4), Pending)
