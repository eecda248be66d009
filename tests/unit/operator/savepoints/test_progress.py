"""What a savepoint object becomes: an end is final, and events may come twice and late."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statefulspark_operator.api.spark_savepoint import SavepointPhase, SparkSavepointStatus
from statefulspark_operator.lifecycle.savepoints import progress
from statefulspark_operator.lifecycle.savepoints.progress import (
    ATTEMPTS,
    Asked,
    DriverGone,
    Finished,
    Joined,
    Refused,
    SavepointEvent,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DONE = Finished("s3://b/43", 100, NOON)
NEW = SparkSavepointStatus()


def after(*events: SavepointEvent) -> SparkSavepointStatus:
    return reduce(progress.after, events, NEW)


COMPLETED = {
    "phase": SavepointPhase.COMPLETED,
    "location": "s3://b/43",
    "size_bytes": 100,
    "size": "100",
    "completed_at": NOON,
}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param((), {}, id="new"),
        pytest.param(
            (Asked("a"),),
            {"phase": SavepointPhase.IN_PROGRESS, "request_id": "a", "attempt": 1},
            id="asked for",
        ),
        pytest.param(
            (Asked("a"), Asked("a")),
            {"phase": SavepointPhase.IN_PROGRESS, "request_id": "a", "attempt": 1},
            id="recorded twice is one request",
        ),
        pytest.param((Asked("a"), DONE), {**COMPLETED, "request_id": "a", "attempt": 1}, id="complete"),
        pytest.param(
            (Asked("a"), DriverGone()),
            {
                "attempt": 1,
                "message": "The driver ended before the savepoint was complete; the operator asks the next one.",
            },
            id="the driver has ended: it waits for the next",
        ),
        pytest.param(
            (Asked("a"), DriverGone(), Asked("b"), DONE),
            {**COMPLETED, "request_id": "b", "attempt": 2},
            id="the next driver completes it",
        ),
        pytest.param(
            (Asked("a"), DriverGone(), DONE),
            {**COMPLETED, "attempt": 1},
            id="the driver had completed it before it ended, which storage tells later",
        ),
        pytest.param(
            (Asked("a"), Refused("disk full"), DONE),
            {"phase": SavepointPhase.FAILED, "request_id": "a", "attempt": 1, "message": "disk full"},
            id="failed stays failed",
        ),
        pytest.param(
            (Asked("a"), DriverGone()) * ATTEMPTS,
            {
                "phase": SavepointPhase.FAILED,
                "request_id": "a",
                "attempt": ATTEMPTS,
                "message": "The operator asked 3 drivers, and each ended before the savepoint was complete.",
            },
            id="three drivers have ended over it",
        ),
        pytest.param((Joined("x"), DONE), {**COMPLETED, "joined": "x"}, id="the one that it joined is complete"),
        pytest.param((Joined("x"), DriverGone()), {}, id="the driver of the one that it joined has ended"),
        pytest.param((Joined("x"), Asked("a")), {"joined": "x"}, id="what has joined is not asked for"),
        pytest.param(
            (Asked("a"), Joined("x")),
            {"phase": SavepointPhase.IN_PROGRESS, "request_id": "a", "attempt": 1},
            id="what was asked for joins nothing",
        ),
    ],
)
def test_a_savepoint_becomes(events: tuple[SavepointEvent, ...], expected: dict[str, object]) -> None:
    assert after(*events) == NEW.model_copy(update=expected)


EVENTS = st.lists(
    st.sampled_from([Asked("a"), Asked("b"), Joined("x"), DONE, Refused("no"), DriverGone()]), max_size=12
)


@given(events=EVENTS)
def test_whatever_happens_an_end_is_final_and_no_more_drivers_are_asked_than_allowed(
    events: list[SavepointEvent],
) -> None:
    status = NEW
    for event in events:
        was_over, before = status.phase in progress.OVER, status
        status = progress.after(status, event)
        assert not was_over or status == before
        assert status.attempt <= ATTEMPTS
        assert (status.phase is SavepointPhase.COMPLETED) == (status.location is not None)
        assert status.phase is not SavepointPhase.IN_PROGRESS or status.request_id is not None
        assert status.phase is not SavepointPhase.FAILED or status.message
