"""What tools that wait are told about a savepoint."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from statefulspark_operator.api.conditions import ConditionStatus
from statefulspark_operator.api.spark_savepoint import SavepointPhase, SparkSavepointStatus
from statefulspark_operator.lifecycle.savepoints import progress

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("phase", "true"),
    [
        (SavepointPhase.PENDING, {"Reconciling"}),
        (SavepointPhase.IN_PROGRESS, {"Reconciling"}),
        (SavepointPhase.COMPLETED, {"Ready", "Complete"}),
        (SavepointPhase.FAILED, {"Stalled", "Failed"}),
    ],
)
def test_one_condition_of_kstatus_is_true_and_with_an_end_that_of_a_batch_job(
    phase: SavepointPhase, true: set[str]
) -> None:
    status = SparkSavepointStatus(phase=phase, message="The disk is full.")

    answers = progress.derive_conditions(status, (), now=NOON, generation=2)

    assert {answer.type.value for answer in answers if answer.status is ConditionStatus.TRUE} == true
    assert {answer.type.value for answer in answers} == {"Ready", "Reconciling", "Stalled", "Complete", "Failed"}
    assert {(answer.reason, answer.message, answer.observed_generation) for answer in answers} == {
        (phase.value, "The disk is full.", 2)
    }


def test_an_answer_that_stays_keeps_its_time() -> None:
    waits = progress.derive_conditions(SparkSavepointStatus(), (), now=NOON, generation=1)
    later = NOON + timedelta(minutes=5)

    taken = progress.derive_conditions(
        SparkSavepointStatus(phase=SavepointPhase.IN_PROGRESS), waits, now=later, generation=1
    )
    done = progress.derive_conditions(
        SparkSavepointStatus(phase=SavepointPhase.COMPLETED), taken, now=later, generation=1
    )

    assert {answer.last_transition_time for answer in taken} == {NOON}
    assert [(answer.type.value, answer.last_transition_time) for answer in done] == [
        ("Ready", later),
        ("Reconciling", later),
        ("Stalled", NOON),
        ("Complete", later),
        ("Failed", NOON),
    ]
