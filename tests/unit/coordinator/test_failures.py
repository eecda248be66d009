"""Aborts and what they lead to: reasons, counting, the end of the job (A.86, A.94, A.104, A.107 to A.114)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from coordination import PARTICIPANTS, Run, a_checkpoint, a_savepoint, a_stop
from statefulspark.coordinator import model


def _aborted(commands: tuple[model.Command, ...]) -> list[tuple[int, model.AbortReason]]:
    return [(one.snapshot_id, one.reason) for one in commands if isinstance(one, model.NotifyAborted)]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        pytest.param(
            model.Declined(1, 1, "delays", "it is closing"),
            model.AbortReason.CHECKPOINT_DECLINED,
            id="A.107 a participant declines",
        ),
        pytest.param(
            model.Failed(1, 1, model.AbortReason.FINALIZE_CHECKPOINT_FAILURE, "AccessDenied"),
            model.AbortReason.FINALIZE_CHECKPOINT_FAILURE,
            id="A.104 the manifest cannot be written",
        ),
        pytest.param(
            model.Declined(1, 1, "delays", "no", model.AbortReason.CHECKPOINT_DECLINED_TASK_CLOSING),
            model.AbortReason.CHECKPOINT_DECLINED_TASK_CLOSING,
            id="A.116 a participant is closing",
        ),
        pytest.param(
            model.Failed(1, 1, model.AbortReason.IO_EXCEPTION, "503"),
            model.AbortReason.IO_EXCEPTION,
            id="A.93 the store fails at the start",
        ),
        pytest.param(model.Tick(600, PARTICIPANTS), model.AbortReason.CHECKPOINT_EXPIRED, id="A.94 it takes too long"),
        pytest.param(
            model.ShutDown(1), model.AbortReason.CHECKPOINT_COORDINATOR_SHUTDOWN, id="A.88 (1) the driver goes down"
        ),
    ],
)
@pytest.mark.parametrize("request_", [a_checkpoint(), a_savepoint(), a_stop()], ids=["checkpoint", "savepoint", "stop"])
def test_a_pending_snapshot_ends_with_a_reason(
    request_: model.Request, event: model.Event, reason: model.AbortReason
) -> None:
    run = Run(first_delay_s=10_000, tolerable_failures=1)
    run.begin(request_)

    assert _aborted(run.send(event)) == [(1, reason)]
    assert run.pending_ids == ()


def test_every_abort_reason_is_reached_or_reserved() -> None:
    """A.113: of Flink's names these are used; the others are about what a micro-batch engine does not have."""
    assert {reason.value for reason in model.AbortReason} == {
        "TRIGGER_CHECKPOINT_FAILURE",
        "CHECKPOINT_DECLINED_TASK_NOT_READY",
        "CHECKPOINT_DECLINED_TASK_CLOSING",
        "TASK_FAILURE",
        "TOO_MANY_CHECKPOINT_REQUESTS",
        "MINIMUM_TIME_BETWEEN_CHECKPOINTS",
        "NOT_ALL_REQUIRED_TASKS_RUNNING",
        "CHECKPOINT_EXPIRED",
        "CHECKPOINT_SUBSUMED",
        "CHECKPOINT_DECLINED",
        "CHECKPOINT_COORDINATOR_SUSPEND",
        "CHECKPOINT_COORDINATOR_SHUTDOWN",
        "FINALIZE_CHECKPOINT_FAILURE",
        "IO_EXCEPTION",
    }


def test_an_expiry_names_who_has_not_answered() -> None:
    """A.94."""
    run = Run(timeout_s=30, first_delay_s=10_000)
    run.begin(a_checkpoint())

    aborted = run.tick(30)[0]

    assert isinstance(aborted, model.NotifyAborted)
    assert aborted.message == (
        "Checkpoint expired before completing: it began 30 s ago and still waits for counts, delays."
    )


def test_a_checkpoint_does_not_expire_a_moment_too_early() -> None:
    """A.72, A.94."""
    run = Run(timeout_s=30, first_delay_s=10_000)
    run.begin(a_checkpoint())

    assert run.tick(29.999) == ()


def test_the_time_of_a_savepoint_begins_when_the_one_before_it_has_ended() -> None:
    """A.94."""
    run = Run(timeout_s=30, first_delay_s=10_000)
    first, second, stop = (run.begin(request) for request in (a_savepoint("a"), a_savepoint("b"), a_stop()))
    run.tick(29)
    run.finalized(first, 29)

    assert _aborted(run.tick(58)) == []
    assert _aborted(run.tick(59)) == [(second, model.AbortReason.CHECKPOINT_EXPIRED)]
    assert _aborted(run.tick(88)) == []
    assert _aborted(run.tick(89)) == [(stop, model.AbortReason.CHECKPOINT_EXPIRED)]


def test_a_late_acknowledgement_of_an_expired_checkpoint_changes_nothing() -> None:
    """A.114."""
    run = Run(timeout_s=30, first_delay_s=10_000, tolerable_failures=1)
    run.begin(a_checkpoint())
    run.tick(30)
    before = run.state

    assert run.ack(1) == ()
    assert run.finalized(1) == ()
    assert run.state == before


def test_an_id_is_not_used_again_after_a_failure() -> None:
    """A.109: after failing checkpoint 3 the next is 4."""
    run = Run(next_id=3, tolerable_failures=1)
    run.fail(run.begin(a_checkpoint("a")))

    assert run.begin(a_checkpoint("b")) == 4


@pytest.mark.parametrize("tolerable", [0, 1, 2, 5])
def test_the_job_fails_after_one_more_failure_than_tolerated(tolerable: int) -> None:
    """A.110: tolerable=2 means that the third consecutive failure fails the job."""
    run = Run(tolerable_failures=tolerable)
    for number in range(tolerable):
        assert not any(isinstance(one, model.FailJob) for one in run.fail(run.begin(a_checkpoint(str(number)))))

    commands = run.fail(run.begin(a_checkpoint("last")))

    failed = [command.message for command in commands if isinstance(command, model.FailJob)]
    assert len(failed) == 1
    assert failed[0].startswith("Exceeded checkpoint tolerable failure threshold")
    assert "the store said no" in failed[0]
    assert run.state.consecutive_failures == 0


def test_any_completion_sets_the_count_back() -> None:
    """A.110: any success resets to 0."""
    for success in (a_checkpoint("good"), a_savepoint("good")):
        run = Run(tolerable_failures=1)
        run.fail(run.begin(a_checkpoint("a")))
        run.complete(success)

        run.fail(run.begin(a_checkpoint("b")))

        assert not any(isinstance(one, model.FailJob) for one in run.commands)


@pytest.mark.parametrize("request_", [a_savepoint(), a_stop()], ids=["savepoint", "stop with savepoint"])
def test_a_failed_savepoint_never_fails_the_job(request_: model.Request) -> None:
    """A.112."""
    run = Run(tolerable_failures=0)

    commands = run.fail(run.begin(request_))

    assert [type(command) for command in commands] == [model.NotifyAborted]


@pytest.mark.parametrize(
    ("abort", "counts"),
    [
        pytest.param(lambda run: run.send(model.Declined(0, 1, "delays", "no")), True, id="A.110 declined counts"),
        pytest.param(lambda run: run.tick(600), True, id="A.110 expired counts"),
        pytest.param(lambda run: run.fail(1), True, id="finalizing counts, since that is where storage is written"),
        pytest.param(
            lambda run: run.send(model.Failed(0, 1, model.AbortReason.IO_EXCEPTION, "503")),
            True,
            id="A.110 storage counts",
        ),
        pytest.param(
            lambda run: run.send(model.Failed(0, 1, model.AbortReason.TRIGGER_CHECKPOINT_FAILURE, "bug")),
            False,
            id="A.110 another failure to trigger does not count",
        ),
        pytest.param(
            lambda run: run.send(model.Failed(0, 1, model.AbortReason.TASK_FAILURE, "x")),
            False,
            id="A.110 a task's failure does not count: it has consequences of its own",
        ),
        pytest.param(
            lambda run: run.send(
                model.Declined(0, 1, "delays", "no", model.AbortReason.CHECKPOINT_DECLINED_TASK_NOT_READY)
            ),
            False,
            id="A.110 not being ready does not count",
        ),
        pytest.param(lambda run: run.send(model.ShutDown(0)), False, id="A.110 a shut down one does not count"),
    ],
)
def test_only_some_reasons_count_as_failures(abort: Callable[[Run], object], counts: bool) -> None:
    run = Run(tolerable_failures=5, first_delay_s=10_000)
    run.begin(a_checkpoint())

    abort(run)

    assert run.state.consecutive_failures == int(counts)


def test_a_subsumed_checkpoint_does_not_count() -> None:
    """A.110."""
    run = Run(max_concurrent=2, tolerable_failures=0)
    run.begin(a_checkpoint("old"))
    run.complete(a_checkpoint("new"))

    assert run.state.consecutive_failures == 0
    assert not any(isinstance(one, model.FailJob) for one in run.commands)


def test_a_failure_of_what_a_newer_completion_made_pointless_does_not_count() -> None:
    """A.110: ids not above the last successful one are ignored."""
    run = Run(tolerable_failures=0, retained=(5,), next_id=3)
    run.begin(a_checkpoint())

    commands = run.fail(3)

    assert [type(command) for command in commands] == [model.NotifyAborted]


def test_a_failure_of_what_a_newer_savepoint_followed_does_not_count() -> None:
    """A.110: the last successful id is a savepoint's, too."""
    run = Run(max_concurrent=2, tolerable_failures=0)
    run.begin(a_checkpoint())
    run.complete(a_savepoint())

    commands = run.fail(1)

    assert [type(command) for command in commands] == [model.NotifyAborted]


def test_one_checkpoint_counts_once_however_often_it_fails() -> None:
    """A.110: one count per checkpoint id."""
    run = Run(tolerable_failures=1, first_delay_s=10_000)
    run.begin(a_checkpoint())

    run.fail(1)
    run.fail(1)
    run.send(model.Declined(0, 1, "delays", "too late"))

    assert run.state.consecutive_failures == 1
    assert not any(isinstance(one, model.FailJob) for one in run.commands)


def test_no_more_aborted_snapshots_are_cleaned_up_at_once_than_may_be_pending() -> None:
    """A.88: while more than the allowed number is still being removed, requests wait."""
    run = Run(tolerable_failures=10, first_delay_s=10_000, cleans_up=False)
    run.fail(run.begin(a_checkpoint("a")))
    run.fail(run.begin(a_checkpoint("b")))

    assert run.request(a_checkpoint("c")) == ()
    assert [type(one) for one in run.request(a_savepoint("d"))] == [model.Begin]
    run.fail(3)
    assert run.cleaned(3) == ()
    assert [type(one) for one in run.cleaned(1)] == [model.Begin]


@pytest.mark.parametrize("cleans_up", [True, False], ids=["cleaned up at once", "cleaned up later"])
def test_a_failure_lets_the_next_request_begin(cleans_up: bool) -> None:
    """A.98, A.108, A.114: it does not wait until what failed is cleaned up."""
    run = Run(tolerable_failures=1, cleans_up=cleans_up)
    run.begin(a_checkpoint("first"))
    run.request(a_checkpoint("second"))

    commands = run.fail(1)

    assert [type(command) for command in commands] == [model.NotifyAborted, model.Begin]


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(model.Declined(7, 1, "delays", "it is closing"), id="a participant declines"),
        pytest.param(
            model.Failed(7, 1, model.AbortReason.FINALIZE_CHECKPOINT_FAILURE, "AccessDenied"),
            id="the manifest cannot be written",
        ),
    ],
)
def test_what_begins_after_a_failure_begins_at_that_time(failure: model.Event) -> None:
    """A.94: its timeout counts from there."""
    run = Run(tolerable_failures=1)
    run.begin(a_checkpoint("first"))
    run.request(a_checkpoint("second"))

    run.send(failure)

    assert [pending.timed_from_s for pending in run.state.pending] == [7]


def test_a_driver_that_goes_down_refuses_new_requests() -> None:
    """A.88 (1): its queries do not run any more."""
    run = Run()
    run.send(model.ShutDown(0))

    (refused,) = run.request(a_savepoint())

    assert isinstance(refused, model.Refuse)
    assert refused.reason is model.AbortReason.NOT_ALL_REQUIRED_TASKS_RUNNING


@pytest.mark.parametrize(
    "event",
    [
        model.Tick(100, PARTICIPANTS),
        model.Finalized(0, 1),
        model.Failed(0, 1, model.AbortReason.IO_EXCEPTION, "x"),
        model.Declined(0, 1, "a", "x"),
    ],
    ids=["tick", "finalized", "failed", "declined"],
)
def test_after_shutdown_nothing_happens_any_more(event: model.Event) -> None:
    run = Run()
    run.begin(a_checkpoint())
    run.send(model.ShutDown(0))
    before = run.state

    assert run.send(event) == ()
    assert run.state == before


def test_a_stop_that_fails_leaves_the_schedule_running() -> None:
    """A.162: the periodic scheduler goes on after a failed stop."""
    run = Run(interval_s=10, first_delay_s=10)
    run.fail(run.begin(a_stop(), now_s=1), now_s=2)

    run.tick(10)

    assert run.pending_ids == (2,)


def test_an_event_about_a_snapshot_that_is_not_pending_changes_nothing() -> None:
    """A.107: unknown or expired, nothing but a line in the log."""
    run = Run()
    before = run.state

    for event in (
        model.Declined(0, 9, "delays", "x"),
        model.Finalized(0, 9),
        model.Failed(0, 9, model.AbortReason.IO_EXCEPTION, "x"),
    ):
        assert run.send(event) == ()
    assert run.state == before
