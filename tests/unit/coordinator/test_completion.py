"""From the trigger to completion: acknowledgements, subsuming, retention (A.93 to A.106)."""

from __future__ import annotations

import pytest
from coordination import PARTICIPANTS, Run, a_checkpoint, a_savepoint, a_stop
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.coordinator import model


def test_every_participant_is_asked() -> None:
    """A.82, A.94."""
    run = Run()

    assert run.request(a_checkpoint()) == (model.Begin(1, a_checkpoint(), PARTICIPANTS),)


def test_the_batches_that_are_acknowledged_are_finalized() -> None:
    """A.99."""
    run = Run()
    run.begin(a_checkpoint())
    batches = {"delays": 41, "counts": 12}

    assert run.ack(1, batches=batches) == (model.Finalize(1, a_checkpoint(), batches),)


@pytest.mark.parametrize("snapshot_id", [1, 2, 9], ids=["aborted before", "acknowledged before", "never begun"])
def test_an_acknowledgement_that_nobody_waits_for_changes_nothing(snapshot_id: int) -> None:
    """A.99, A.114."""
    run = Run(tolerable_failures=1)
    run.fail(run.begin(a_checkpoint("aborted")))
    run.ack(run.begin(a_checkpoint("current")))
    before = run.state

    assert run.ack(snapshot_id) == ()
    assert run.state == before


def test_a_checkpoint_is_announced_once_its_manifest_is_written() -> None:
    """A.101."""
    run = Run()
    run.begin(a_checkpoint())
    run.ack(1)

    assert run.finalized(1, now_s=4) == (model.NotifyComplete(1, a_checkpoint()),)
    assert run.state.retained == (1,)
    assert run.state.last_completion_at_s == 4


def test_completing_twice_announces_once() -> None:
    run = Run()
    run.complete(a_checkpoint())

    assert run.finalized(1) == ()


def test_a_newer_completed_checkpoint_subsumes_an_older_pending_one() -> None:
    """A.101, A.113 CHECKPOINT_SUBSUMED."""
    run = Run(max_concurrent=2)
    run.begin(a_checkpoint("old"))
    run.begin(a_checkpoint("new"))
    run.ack(2)

    commands = run.finalized(2)

    assert commands == (
        model.NotifyComplete(2, a_checkpoint("new")),
        model.NotifyAborted(
            1, a_checkpoint("old"), model.AbortReason.CHECKPOINT_SUBSUMED, "Checkpoint 2 completed first."
        ),
    )
    assert run.state.consecutive_failures == 0


def test_an_older_completion_leaves_a_newer_pending_checkpoint_alone() -> None:
    """A.101."""
    run = Run(max_concurrent=2)
    run.begin(a_checkpoint("old"))
    run.begin(a_checkpoint("new"))
    run.ack(1)
    run.finalized(1)

    assert run.pending_ids == (2,)


def test_a_pending_savepoint_is_never_subsumed() -> None:
    """A.103."""
    run = Run(max_concurrent=2)
    run.begin(a_savepoint())

    run.complete(a_checkpoint())

    assert run.pending_ids == (1,)


def test_an_intermediate_savepoint_neither_subsumes_nor_serves_recovery() -> None:
    """A.102, A.137: no store entry, older pending checkpoints stay."""
    run = Run(retained=(3,), next_id=4)
    run.begin(a_checkpoint())

    run.complete(a_savepoint())

    assert run.pending_ids == (4,)
    assert run.state.retained == (3,)


def test_a_stop_with_savepoint_drops_older_pending_checkpoints_and_is_not_retained() -> None:
    """A.102."""
    run = Run()
    run.begin(a_checkpoint())
    run.begin(a_stop())
    run.ack(2)

    commands = run.finalized(2)

    assert [type(command) for command in commands] == [model.NotifyComplete, model.NotifyAborted]
    assert run.state.retained == ()


@pytest.mark.parametrize("kind", SnapshotKind)
def test_a_checkpoint_that_waited_for_a_stop_does_not_begin_after_it(kind: SnapshotKind) -> None:
    """A.86, A.162: it would be written while the driver ends, aborted in name and newest on storage."""
    run = Run()
    run.begin(a_stop(kind=kind))
    run.request(a_checkpoint("waiting"))
    run.ack(1)

    commands = run.finalized(1)

    assert [type(command) for command in commands] == [model.NotifyComplete, model.Refuse]
    assert run.pending_ids == ()
    assert run.tick(1000) == ()


def test_a_stop_ends_what_else_is_pending_when_it_completes() -> None:
    """A.86: a savepoint, too, which would be written while the driver ends."""
    run = Run()
    run.begin(a_savepoint())
    run.ack(run.begin(a_stop()))

    commands = run.finalized(2)

    assert commands == (
        model.NotifyComplete(2, a_stop()),
        model.NotifyAborted(
            1, a_savepoint(), model.AbortReason.CHECKPOINT_COORDINATOR_SUSPEND, "The job stopped running."
        ),
    )


def test_a_drain_completes_a_checkpoint_that_is_retained() -> None:
    run = Run()

    run.complete(a_stop(kind=SnapshotKind.CHECKPOINT))

    assert run.state.retained == (1,)


@pytest.mark.parametrize(
    ("kept", "completions", "retained", "last_subsumed"),
    [
        pytest.param(1, 1, (1,), None, id="A.77 the newest stays"),
        pytest.param(1, 3, (3,), (2,), id="A.105 the one before goes when the next is there"),
        pytest.param(3, 3, (1, 2, 3), None, id="A.77 as many as set stay"),
        pytest.param(3, 5, (3, 4, 5), (2,), id="A.105 the oldest goes first"),
    ],
)
def test_as_many_checkpoints_are_retained_as_set(
    kept: int, completions: int, retained: tuple[int, ...], last_subsumed: tuple[int, ...] | None
) -> None:
    run = Run(kept=kept)
    for number in range(completions):
        run.complete(a_checkpoint(str(number)))

    subsumed = [command.checkpoint_ids for command in run.commands if isinstance(command, model.Subsume)]
    assert run.state.retained == retained
    assert (subsumed[-1] if subsumed else None) == last_subsumed


def test_a_lower_setting_retires_what_an_earlier_driver_left() -> None:
    """A.105: while size > retained, oldest first."""
    run = Run(kept=2, retained=(4, 5, 6, 7), next_id=8)

    run.complete(a_checkpoint())

    assert model.Subsume((4, 5, 6)) in run.commands
    assert run.state.retained == (7, 8)


def test_checkpoints_before_a_start_stay_until_every_restored_state_has_been_loaded() -> None:
    """A query that was slow to load damaged state lost the last checkpoint without the damage to the batches of another."""
    run = Run(kept=2, retained=(3, 4), next_id=5, restored={"delays": 7})
    for number in range(4):
        run.complete(a_checkpoint(str(number)))
    waiting = run.state.retained

    run.ack(run.begin(a_checkpoint("loaded")), batches={"delays": 8, "counts": 7})
    run.finalized(9)

    assert waiting == (3, 4, 7, 8)
    assert run.state.retained == (4, 8, 9)


def test_checkpoints_that_a_dead_driver_completed_without_loading_its_state_do_not_count() -> None:
    run = Run(kept=2, retained=(3, 4, 7, 8), untried=frozenset({7, 8}), next_id=9, restored={"delays": 7})

    run.complete(a_checkpoint())

    assert run.state.retained == (3, 4, 8, 9)


def test_the_new_checkpoint_is_announced_before_old_ones_are_retired() -> None:
    """A.106."""
    run = Run(kept=1)
    run.complete(a_checkpoint("a"))
    run.begin(a_checkpoint("b"))
    run.ack(2)

    assert [type(command) for command in run.finalized(2)] == [model.NotifyComplete, model.Subsume]


def test_ids_go_on_above_everything_that_was_used_before() -> None:
    """A.144."""
    run = Run(next_id=42, retained=(40, 41))

    assert run.begin(a_checkpoint()) == 42
