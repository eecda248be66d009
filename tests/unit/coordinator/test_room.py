"""Requests that had to wait, and what a stop leaves: times count from the beginning, not from the request (A.86 to A.98)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from coordination import Run, a_checkpoint, a_savepoint
from statefulspark.coordinator import model


def _with(request: model.Request) -> Callable[[], Run]:
    def begun() -> Run:
        run = Run(timeout_s=600, first_delay_s=10_000, tolerable_failures=9, cleans_up=False)
        run.begin(request)
        return run

    return begun


def _cleaning_two() -> Run:
    run = _with(a_checkpoint("a"))()
    run.fail(1)
    run.fail(run.begin(a_checkpoint("b")))
    return run


@pytest.mark.parametrize(
    ("blocked", "event"),
    [
        pytest.param(_with(a_checkpoint()), model.Declined(50, 1, "delays", "x"), id="A.107 one is declined"),
        pytest.param(
            _with(a_checkpoint()), model.Failed(50, 1, model.AbortReason.TASK_FAILURE, "x"), id="A.104, A.109 one fails"
        ),
        pytest.param(
            _with(a_checkpoint()),
            model.Failed(50, 1, model.AbortReason.FINALIZE_CHECKPOINT_FAILURE, "x"),
            id="A.104 one cannot be finalized",
        ),
        pytest.param(_with(a_checkpoint()), model.Finalized(50, 1), id="A.98 a checkpoint completes"),
        pytest.param(_with(a_savepoint()), model.Finalized(50, 1), id="A.98 a savepoint completes"),
        pytest.param(_cleaning_two, model.Cleaned(50, 1), id="A.88 an aborted one is cleaned up"),
    ],
)
def test_a_request_that_waited_has_its_whole_timeout_from_when_it_begins(
    blocked: Callable[[], Run], event: model.Event
) -> None:
    """A.94: it would otherwise expire for the time it was not allowed to run."""
    run = blocked()
    assert run.request(a_checkpoint("waiting"), now_s=1) == ()

    run.send(event)

    assert [pending.timed_from_s for pending in run.state.pending] == [50]


def test_a_tick_that_is_late_by_a_whole_interval_triggers_once() -> None:
    """A.84: the slot it would have to make up for is now, and is skipped."""
    run = Run(interval_s=10, first_delay_s=10)

    run.tick(20)

    assert run.state.next_trigger_at_s == 30


def test_a_stopped_coordinator_has_forgotten_the_schedule_the_queue_and_who_took_part() -> None:
    """A.86: nothing begins before every query runs again; numbers and completed checkpoints stay."""
    run = Run(retained=(1,), next_id=2)
    run.complete(a_checkpoint("done"), now_s=1)
    before = run.state

    run.send(model.ShutDown(5))

    assert run.state == replace(before, next_trigger_at_s=None, participants=frozenset())
    assert [type(one) for one in run.request(a_checkpoint())] == [model.Refuse]
