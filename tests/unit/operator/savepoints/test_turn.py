"""Whose turn it is: one savepoint at a time, the oldest first, equal requests that wait share one."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statefulspark_operator.api.spark_savepoint import SavepointPhase
from statefulspark_operator.api.spec import SavepointForm
from statefulspark_operator.lifecycle.savepoints import plan
from statefulspark_operator.lifecycle.savepoints.plan import Request, Turn

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def an_object_request(name: str, minute: int = 0, **changes: object) -> Request:
    request = Request(name, SavepointPhase.PENDING, NOON + timedelta(minutes=minute))
    return dataclasses.replace(request, **changes)  # type: ignore[arg-type]


RUNNING = an_object_request("running", phase=SavepointPhase.IN_PROGRESS)


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        pytest.param([], Turn(), id="nothing waits"),
        pytest.param(
            [an_object_request("b", 1), an_object_request("a", 0, location="s3://x")], Turn("a"), id="the oldest"
        ),
        pytest.param(
            [an_object_request("b"), an_object_request("a", location="s3://x")],
            Turn("a"),
            id="of equally old ones, by name",
        ),
        pytest.param(
            [RUNNING, an_object_request("b", 1)], Turn(), id="one is being taken, which a later request does not join"
        ),
        pytest.param(
            [an_object_request("b", 1), an_object_request("a"), an_object_request("c", 2)],
            Turn("a", ("b", "c")),
            id="equal ones share it",
        ),
        pytest.param(
            [an_object_request("a"), an_object_request("b", 1, form=SavepointForm.CANONICAL)],
            Turn("a"),
            id="another form waits",
        ),
        pytest.param([an_object_request("a", joined="b")], Turn(), id="what has joined does not wait for a turn"),
        pytest.param([an_object_request("a", phase=SavepointPhase.FAILED)], Turn(), id="what has failed is over"),
    ],
)
def test_the_turn_is(requests: list[Request], said: Turn) -> None:
    assert plan.choose(requests) == said


REQUESTS = st.lists(
    st.builds(
        Request,
        name=st.text("abcdefgh", min_size=1, max_size=4),
        phase=st.sampled_from(SavepointPhase),
        requested_at=st.integers(0, 5).map(lambda minute: NOON + timedelta(minutes=minute)),
        location=st.sampled_from([None, "s3://x"]),
        form=st.sampled_from(SavepointForm),
        joined=st.sampled_from([None, None, "z"]),
    ),
    max_size=8,
    unique_by=lambda request: request.name,
)


@given(requests=REQUESTS, data=st.data())
def test_a_driver_is_never_asked_for_two_and_never_idle_while_one_waits(
    requests: list[Request], data: st.DataObject
) -> None:
    said = plan.choose(requests)
    by_name = {request.name: request for request in requests}
    waiting = {
        request.name for request in requests if request.phase is SavepointPhase.PENDING and request.joined is None
    }
    is_busy = any(request.phase is SavepointPhase.IN_PROGRESS for request in requests)

    assert (said.start is not None) == (bool(waiting) and not is_busy)
    assert {*said.joins, *([said.start] if said.start else [])} <= waiting
    assert said.start not in said.joins
    for name in said.joins:
        host, guest = by_name[said.start or ""], by_name[name]
        assert (host.location, host.form) == (guest.location, guest.form)
    assert plan.choose(data.draw(st.permutations(requests))) == said
