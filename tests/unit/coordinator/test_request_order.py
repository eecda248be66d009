"""Which request goes first, and which is refused before it becomes a snapshot (A.73, A.87 to A.92)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coordination import PARTICIPANTS, Run, a_checkpoint, a_periodic, a_savepoint, a_stop
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.coordinator import machine, model

_STOP_AT_CHECKPOINT = a_stop(key="drain", kind=SnapshotKind.CHECKPOINT)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(a_savepoint(at_s=9), a_checkpoint(at_s=1), id="A.89 a savepoint before an older checkpoint"),
        pytest.param(
            a_savepoint(at_s=9), a_periodic(at_s=1), id="A.89 a savepoint before an older periodic checkpoint"
        ),
        pytest.param(
            replace(_STOP_AT_CHECKPOINT, requested_at_s=9), a_checkpoint(at_s=1), id="A.89 forced before unforced"
        ),
        pytest.param(a_savepoint(at_s=9), _STOP_AT_CHECKPOINT, id="A.89 a savepoint before a forced checkpoint"),
        pytest.param(a_checkpoint(at_s=9), a_periodic(at_s=1), id="A.89 asked for by a user before periodic"),
        pytest.param(a_checkpoint("a", at_s=1), a_checkpoint("b", at_s=2), id="A.89 of equals the older first"),
        pytest.param(a_savepoint("a", at_s=1), a_savepoint("b", at_s=2), id="A.89 of two savepoints the older first"),
    ],
)
def test_the_queue_is_ordered_by_importance_then_age(first: model.Request, second: model.Request) -> None:
    for arrival in ((first, second), (second, first)):
        queue: tuple[model.Request, ...] = ()
        for request in arrival:
            queue, _ = machine.enqueue(queue, request)

        assert queue == (first, second)


def test_a_second_periodic_request_adds_nothing_to_a_waiting_one() -> None:
    """A.88 (3)."""
    queue, _ = machine.enqueue((), a_periodic(1))

    assert machine.enqueue(queue, a_periodic(2)) == ((a_periodic(1),), None)


def test_a_full_queue_of_users_requests_refuses_the_new_one() -> None:
    """A.89: when full with only user requests the new one is dropped."""
    queue = tuple(a_checkpoint(str(number), number) for number in range(model.MAX_QUEUED_REQUESTS))
    newcomer = a_savepoint("late")

    assert machine.enqueue(queue, newcomer) == (queue, newcomer)


def test_a_full_queue_pushes_out_the_periodic_request() -> None:
    """A.89: otherwise the lowest-priority entry is failed."""
    users = tuple(a_checkpoint(str(number), number) for number in range(model.MAX_QUEUED_REQUESTS - 1))
    newcomer = a_checkpoint("late", 5000)

    assert machine.enqueue((*users, a_periodic()), newcomer) == ((*users, newcomer), a_periodic())


def test_a_full_queue_tells_the_refused_user_to_try_again() -> None:
    """A.113 TOO_MANY_CHECKPOINT_REQUESTS."""
    run = Run()
    run.begin(a_checkpoint("first"))
    for number in range(model.MAX_QUEUED_REQUESTS):
        assert run.request(a_checkpoint(str(number))) == ()

    (refused,) = run.request(a_checkpoint("late"))

    assert refused == model.Refuse(
        a_checkpoint("late"),
        model.AbortReason.TOO_MANY_CHECKPOINT_REQUESTS,
        "1000 requests are waiting already; try again when some have ended.",
    )


def test_nothing_is_triggered_before_every_query_runs() -> None:
    """A.88 (6), A.92 NOT_ALL_REQUIRED_TASKS_RUNNING."""
    run = Run(started=False)

    (refused,) = run.request(a_savepoint())

    assert isinstance(refused, model.Refuse)
    assert refused.reason is model.AbortReason.NOT_ALL_REQUIRED_TASKS_RUNNING


def test_a_request_beyond_the_concurrent_limit_waits_and_then_begins() -> None:
    """A.88 (4), A.98."""
    run = Run()
    first = run.begin(a_checkpoint("first"))
    assert run.request(a_checkpoint("second")) == ()
    run.ack(first)

    commands = run.finalized(first)

    assert commands[-1] == model.Begin(2, a_checkpoint("second"), PARTICIPANTS)


def test_as_many_checkpoints_run_at_once_as_are_allowed() -> None:
    """A.74."""
    run = Run(max_concurrent=2)
    for key in ("a", "b", "c"):
        run.request(a_checkpoint(key))

    assert run.pending_ids == (1, 2)
    assert run.state.queue == (a_checkpoint("c"),)


@pytest.mark.parametrize("forced", [a_savepoint(), a_stop(), _STOP_AT_CHECKPOINT], ids=["savepoint", "stop", "drain"])
def test_a_forced_request_passes_a_pending_checkpoint(forced: model.Request) -> None:
    """A.90: savepoints may exceed max concurrent."""
    run = Run()
    run.begin(a_checkpoint("slow"))

    assert run.request(forced) == (model.Begin(2, forced, PARTICIPANTS),)


@pytest.mark.parametrize("waiting", [a_periodic(), a_checkpoint()], ids=["periodic", "manual"])
def test_no_checkpoint_begins_while_the_job_stops(waiting: model.Request) -> None:
    """A.162: the periodic scheduler pauses for a stop, and goes on if the stop fails."""
    run = Run(max_concurrent=5)
    run.begin(a_stop())

    assert run.request(waiting) == ()
    assert run.fail(1)[-1] == model.Begin(2, waiting, PARTICIPANTS)


def test_a_savepoint_overtakes_a_waiting_checkpoint() -> None:
    """A.89, A.90."""
    run = Run()
    run.begin(a_checkpoint("slow"))
    run.request(a_checkpoint("waiting"))

    run.request(a_savepoint())

    assert run.pending_ids == (1, 2)
    assert run.state.pending[1].request == a_savepoint()
    assert run.state.queue == (a_checkpoint("waiting"),)


def test_a_forced_request_ignores_the_minimum_pause() -> None:
    """A.73, A.90: the pause applies to periodic requests only."""
    run = Run(min_pause_s=100)
    run.complete(a_checkpoint("first"), now_s=1)

    assert run.begin(a_savepoint(), now_s=2) == 2


def test_a_request_of_a_user_ignores_the_minimum_pause() -> None:
    """A.73."""
    run = Run(min_pause_s=100)
    run.complete(a_checkpoint("first"), now_s=1)

    assert run.begin(a_checkpoint("second"), now_s=2) == 2


def test_savepoints_work_without_periodic_checkpoints() -> None:
    """A.178."""
    run = Run(first_delay_s=float("inf"))

    assert run.complete(a_savepoint()) == 1
