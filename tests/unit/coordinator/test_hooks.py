"""Master hooks in the coordinator: asked when a snapshot is triggered, before anybody else (A.95)."""

from __future__ import annotations

import pytest
from coordination import PARTICIPANTS, Run, a_checkpoint, a_savepoint, a_stop
from statefulspark.coordinator import model


def a_run_with_hooks(**settings: float) -> Run:
    """Return a coordinator of a job with two hooks."""
    run = Run(started=False, **settings)  # type: ignore[arg-type]
    run.send(model.Started(0, PARTICIPANTS, 10_000, frozenset({"one", "other"})))
    return run


@pytest.mark.parametrize("request_", [a_checkpoint(), a_savepoint(), a_stop()], ids=["checkpoint", "savepoint", "stop"])
def test_participants_are_asked_when_every_hook_has_answered(request_: model.Request) -> None:
    run = a_run_with_hooks()

    begun = run.request(request_)
    first = (run.send(model.HookAnswered(1, 1, "one")), run.state.pending[0].is_awaited, run.ack(1))
    second = (run.send(model.HookAnswered(2, 1, "other")), run.state.pending[0].is_awaited)

    assert begun == (model.Begin(1, request_, PARTICIPANTS, frozenset({"one", "other"})),)
    assert first == ((), False, ()), "an acknowledgement before the last answer is not taken"
    assert second == ((), True)
    assert [type(command) for command in run.ack(1)] == [model.Finalize]


def test_a_job_without_hooks_asks_its_participants_at_once() -> None:
    run = Run()
    run.begin(a_checkpoint())

    assert run.state.pending[0].is_awaited


@pytest.mark.parametrize(
    "event",
    [model.HookAnswered(1, 1, "one"), model.HookAnswered(1, 1, "stranger"), model.HookAnswered(1, 9, "other")],
    ids=["twice", "unknown hook", "unknown snapshot"],
)
def test_an_answer_that_nobody_waits_for_changes_nothing(event: model.HookAnswered) -> None:
    run = a_run_with_hooks()
    run.request(a_checkpoint())
    run.send(model.HookAnswered(1, 1, "one"))
    before = run.state

    assert run.send(event) == ()
    assert run.state == before


def test_a_hook_that_fails_declines_the_snapshot_and_counts() -> None:
    run = a_run_with_hooks(tolerable_failures=1)
    run.request(a_checkpoint())

    (aborted,) = run.send(model.Declined(1, 1, "hook:one", "closed"))
    late = run.send(model.HookAnswered(2, 1, "other"))

    assert isinstance(aborted, model.NotifyAborted)
    assert (aborted.reason, aborted.message) == (model.AbortReason.CHECKPOINT_DECLINED, "hook:one declined: closed")
    assert run.state.consecutive_failures == 1
    assert late == ()


def test_an_expiry_names_the_hooks_that_have_not_answered() -> None:
    run = a_run_with_hooks(timeout_s=30, tolerable_failures=1)
    run.request(a_checkpoint())
    run.send(model.HookAnswered(1, 1, "one"))

    (aborted,) = run.tick(30)

    assert isinstance(aborted, model.NotifyAborted)
    assert aborted.message.endswith("still waits for hook:other.")
