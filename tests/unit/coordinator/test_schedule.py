"""When periodic checkpoints are triggered (A.70, A.73, A.83 to A.88)."""

from __future__ import annotations

from coordination import PARTICIPANTS, Run, a_checkpoint, a_periodic, a_savepoint, a_stop
from statefulspark.coordinator import model

NOTHING: frozenset[str] = frozenset()


def test_the_first_trigger_comes_after_the_first_delay() -> None:
    """A.85."""
    run = Run(first_delay_s=3)

    assert run.tick(2.9) == ()
    assert run.tick(3.0) == (model.Begin(1, a_periodic(3.0), PARTICIPANTS),)


def test_triggers_keep_a_fixed_rate_although_a_tick_comes_late() -> None:
    """A.84."""
    run = Run(interval_s=10, first_delay_s=10)
    run.tick(10.4)
    run.ack(1, 11)
    run.finalized(1, 11)

    assert run.state.next_trigger_at_s == 20


def test_slots_that_were_missed_are_skipped() -> None:
    run = Run(interval_s=10, first_delay_s=10)

    run.tick(45)

    assert run.pending_ids == (1,)
    assert run.state.next_trigger_at_s == 55


def test_a_tick_while_a_checkpoint_is_pending_queues_one_only() -> None:
    """A.88 (3), (4)."""
    run = Run(interval_s=10, first_delay_s=10)
    for now_s in (10, 20, 30):
        run.tick(now_s)

    assert run.pending_ids == (1,)
    assert run.state.queue == (a_periodic(20),)


def test_an_interval_shorter_than_the_pause_is_raised_to_it() -> None:
    """A.73."""
    assert model.CoordinatorSettings(interval_s=0.3, min_pause_s=1.5).base_interval_s == 1.5


def test_a_periodic_trigger_within_the_pause_is_refused_and_comes_when_it_is_over() -> None:
    """A.73, A.88 (5): measured from the completion, and the timer is armed for the remainder."""
    run = Run(interval_s=10, min_pause_s=8, first_delay_s=10)
    run.tick(10)
    run.ack(1, 15)
    run.finalized(1, 15)

    (refused,) = run.tick(20)

    assert isinstance(refused, model.Refuse)
    assert refused.reason is model.AbortReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS
    assert run.state.next_trigger_at_s == 23
    assert run.tick(23) == (model.Begin(2, a_periodic(23), PARTICIPANTS),)


def test_the_pause_is_counted_from_a_savepoints_completion_too() -> None:
    """A.73: previous snapshot, A.101."""
    run = Run(interval_s=10, min_pause_s=8, first_delay_s=10)
    run.complete(a_savepoint(), now_s=5)

    run.tick(10)

    assert run.pending_ids == ()
    assert run.state.next_trigger_at_s == 13


def test_a_waiting_periodic_request_is_subject_to_the_pause_when_its_turn_comes() -> None:
    """A.88 (5)."""
    run = Run(interval_s=10, min_pause_s=8, first_delay_s=10)
    run.tick(10)
    run.tick(20)
    run.ack(1, 21)

    commands = run.finalized(1, 21)

    assert isinstance(commands[-1], model.Refuse)
    assert commands[-1].reason is model.AbortReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS
    assert run.tick(29) == (model.Begin(2, a_periodic(29), PARTICIPANTS),)


def test_after_an_expiry_the_waiting_periodic_checkpoint_starts_immediately() -> None:
    """A.114."""
    run = Run(interval_s=10, timeout_s=15, first_delay_s=10, tolerable_failures=5)
    run.tick(10)
    run.tick(20)

    commands = run.tick(25)

    assert [type(command) for command in commands] == [model.NotifyAborted, model.Begin]
    assert run.pending_ids == (2,)


def test_a_completed_stop_ends_the_schedule() -> None:
    """A.83, A.84, A.86."""
    run = Run(interval_s=10, first_delay_s=10)
    run.complete(a_stop())

    assert run.tick(100) == ()
    assert run.state.next_trigger_at_s is None


def test_nothing_is_scheduled_before_every_query_runs() -> None:
    """A.83."""
    assert Run(started=False, first_commits=PARTICIPANTS).tick(100) == ()


def test_a_due_checkpoint_without_news_is_passed_over_and_comes_with_the_next_commit() -> None:
    """Differs from Flink on purpose: retained checkpoints of an idle job stay different cuts."""
    run = Run(interval_s=10, first_delay_s=10)

    assert run.tick(10, NOTHING) == ()
    assert run.tick(12, NOTHING) == ()
    assert run.tick(13) == (model.Begin(1, a_periodic(13), PARTICIPANTS),)
    run.ack(1, 13)
    run.finalized(1, 13)
    assert run.tick(22.9) == (), "the interval counts from there"
    assert run.tick(23) == (model.Begin(2, a_periodic(23), PARTICIPANTS),)


def test_the_first_commit_of_each_query_after_a_start_is_checkpointed_at_once() -> None:
    one, other = sorted(PARTICIPANTS)
    run = Run(interval_s=60, first_delay_s=45, first_commits=PARTICIPANTS)

    assert run.tick(1, NOTHING) == ()
    assert run.tick(2, frozenset({one})) == (model.Begin(1, a_periodic(2), PARTICIPANTS),)
    assert run.tick(3, frozenset({one})) == (), "it is in the pending one"
    run.ack(1, 3)
    run.finalized(1, 3)
    assert run.tick(4, frozenset({other})) == (model.Begin(2, a_periodic(4), PARTICIPANTS),)
    run.ack(2, 5)
    run.finalized(2, 5)
    assert run.tick(63.9) == ()
    assert run.tick(64) == (model.Begin(3, a_periodic(64), PARTICIPANTS),)


def test_what_the_driver_before_has_committed_is_no_first_commit() -> None:
    """It is checkpointed at once, to be visible; the first batch of this driver is, too."""
    run = Run(interval_s=60, first_delay_s=45, first_commits=PARTICIPANTS)

    assert run.tick(1, PARTICIPANTS, NOTHING) == (model.Begin(1, a_periodic(1), PARTICIPANTS),)
    assert run.tick(2, PARTICIPANTS, NOTHING) == (), "it is in the pending one"
    run.ack(1, 2)
    run.finalized(1, 2)
    assert run.tick(3, NOTHING, NOTHING) == ()
    assert run.tick(4, PARTICIPANTS, PARTICIPANTS) == (model.Begin(2, a_periodic(4), PARTICIPANTS),)


def test_a_first_commit_that_a_checkpoint_has_is_not_checkpointed_again() -> None:
    run = Run(interval_s=60, first_delay_s=45, first_commits=PARTICIPANTS)
    run.complete(a_checkpoint(), now_s=1)

    assert run.tick(2, NOTHING, PARTICIPANTS) == ()


def test_a_first_commit_waits_for_the_pause_only() -> None:
    """A.73 holds for it, as for every periodic checkpoint."""
    run = Run(interval_s=60, min_pause_s=8, first_delay_s=45, first_commits=PARTICIPANTS)
    run.complete(a_checkpoint(), now_s=1)

    (refused,) = run.tick(2)

    assert isinstance(refused, model.Refuse)
    assert run.tick(8.9) == ()
    assert run.tick(9) == (model.Begin(2, a_periodic(9), PARTICIPANTS),)
