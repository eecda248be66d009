"""What may be recorded from a cache that may be stale: reports, and what a driver that is there has come to."""

from __future__ import annotations

import dataclasses

import pytest
from situations import (
    LATER,
    LONG_AGO,
    NOW,
    OTHER,
    REVISION,
    a_driver,
    a_pod,
    a_situation,
    an_operation,
)
from statefulspark_operator.api.status import (
    DriverState,
    OperationPhase,
    Phase,
    RestartStatus,
    RestoreIntent,
    StatefulSparkJobStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.engine import staleness
from statefulspark_operator.lifecycle import actions
from statefulspark_operator.lifecycle.decision import Decision, Reason
from statefulspark_operator.lifecycle.situation import DriverSilent, Situation

DELETED = actions.DeleteDriver("flights-driver-1", "uid-1")


def an_upgrade_here(state: UpgradeState, **changes: object) -> UpgradeStatus:
    upgrade = UpgradeStatus(from_revision=OTHER, to_revision=REVISION, generation=1, state=state, requested_at=LONG_AGO)
    return upgrade.model_copy(update=changes)


def only_reports(situation: Situation, *acts: actions.Action, **changes: object) -> bool:
    """Tell whether a decision that changes these fields of the status, and acts so, only reports."""
    status: StatefulSparkJobStatus = situation.status.model_copy(update=changes)
    return staleness.only_reports(situation, Decision(Reason.RUNNING, "It runs.", Phase.RUNNING, status, acts))


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        pytest.param({}, {"message": "It runs."}, id="a note"),
        pytest.param(
            {"driver": a_driver(DriverState.CREATING)}, {"driver": a_driver()}, id="the driver's pod has been seen"
        ),
        pytest.param({"silent_since": LONG_AGO}, {"silent_since": None}, id="the driver answers again"),
        pytest.param(
            {"restore": RestoreIntent(id="r"), "restarts": RestartStatus(consecutive=2)},
            {"restore": None, "restarts": RestartStatus()},
            id="the driver has completed a checkpoint",
        ),
        pytest.param(
            {"upgrade": an_upgrade_here(UpgradeState.STARTING)},
            {"upgrade": an_upgrade_here(UpgradeState.FIRST_CHECKPOINT)},
            id="the new revision has completed a checkpoint",
        ),
        pytest.param(
            {"upgrade": an_upgrade_here(UpgradeState.SAVEPOINT)},
            {"upgrade": an_upgrade_here(UpgradeState.SAVEPOINT, last_commit_at=NOW)},
            id="the old revision has committed",
        ),
    ],
)
def test_may_be_recorded_from_a_copy(before: dict[str, object], changes: dict[str, object]) -> None:
    assert only_reports(a_situation(**before), **changes)


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        pytest.param({}, {"driver": a_driver(DriverState.ENDED)}, id="the driver has ended"),
        pytest.param(
            {"pods": ()}, {"driver": a_driver(ending_since=NOW)}, id="of a driver whose pod the copies do not have"
        ),
        pytest.param(
            {"pods": (a_pod(deletion_deadline=LONG_AGO),)},
            {"restarts": RestartStatus(consecutive=1)},
            id="of a driver on a lost node",
        ),
        pytest.param({}, {"driver": a_driver(epoch=2)}, id="another driver"),
        pytest.param({}, {"operation": an_operation(OperationPhase.COMPLETED)}, id="a savepoint is complete"),
        pytest.param(
            {"upgrade": an_upgrade_here(UpgradeState.PREPARE)},
            {"upgrade": an_upgrade_here(UpgradeState.BLOCKED)},
            id="the new revision is blocked",
        ),
        pytest.param(
            {"upgrade": an_upgrade_here(UpgradeState.STARTING)},
            {"upgrade": an_upgrade_here(UpgradeState.ROLLED_BACK)},
            id="the new revision is rolled back",
        ),
        pytest.param({}, {"epoch": 2, "progress_at": LATER}, id="an epoch, and a note"),
    ],
)
def test_must_be_recorded_from_what_the_api_server_says(before: dict[str, object], changes: dict[str, object]) -> None:
    assert not only_reports(a_situation(**before), **changes)


def test_a_driver_that_does_not_answer_may_be_gone_and_the_copies_do_not_tell() -> None:
    silent = dataclasses.replace(a_situation(), driver=DriverSilent("no answer"))

    assert not only_reports(silent, silent_since=NOW)


def test_whatever_acts_is_decided_from_what_the_api_server_says() -> None:
    assert not only_reports(a_situation(), DELETED)
