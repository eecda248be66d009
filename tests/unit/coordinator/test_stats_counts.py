"""Counts, the latest of each kind and what is found by number: whole values, after every kind of end (A.115, B.11)."""

from __future__ import annotations

import pytest
from coordination import a_checkpoint, a_savepoint
from fakecontrol import a_summary
from statefulspark.contract import statistics as wire
from statefulspark.contract.api import CheckpointCounts
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.coordinator import model, stats
from watched import Watched, at


def test_counts_add_up_whatever_became_of_a_snapshot() -> None:
    """A.115: triggered is the sum of in progress, completed and failed."""
    run = Watched()
    run.snapshot(a_checkpoint("a"))
    run.snapshot(a_savepoint("b"))
    for key in ("c", "d"):
        run.fail(run.begin(a_checkpoint(key)))
    run.begin(a_savepoint("e"))

    assert run.answer.counts == CheckpointCounts(triggered=5, in_progress=1, completed=2, failed=2)


def test_nothing_is_in_progress_when_all_have_ended() -> None:
    run = Watched()
    run.snapshot(a_checkpoint("a"))
    run.fail(run.begin(a_checkpoint("b")))

    assert run.answer.counts == CheckpointCounts(triggered=2, in_progress=0, completed=1, failed=1)


def test_failures_are_counted_by_reason() -> None:
    run = Watched()
    run.fail(run.begin(a_checkpoint("a")))
    run.fail(run.begin(a_checkpoint("b")))
    run.begin(a_checkpoint("c"))
    run.send(model.Declined(0, 3, "delays", "no"))

    assert run.answer.failures == {"FINALIZE_CHECKPOINT_FAILURE": 2, "CHECKPOINT_DECLINED": 1}


def test_a_savepoint_is_not_taken_for_the_latest_checkpoint() -> None:
    """B.11: recovery never starts from a savepoint by itself, so it must not look like what recovery would use."""
    run = Watched()
    run.snapshot(a_checkpoint("a"))
    run.snapshot(a_savepoint("b"))

    latest = run.answer.latest

    assert latest.completed is not None
    assert latest.savepoint is not None
    assert (latest.completed.id, latest.savepoint.id) == (1, 2)


def test_a_failed_snapshot_is_told_in_full() -> None:
    run = Watched()
    run.begin(a_checkpoint(at_s=1.0), 1.0)

    run.send(model.Declined(4, 1, "delays", "disk full"))

    assert stats.find(run.stats, 1) == wire.SnapshotDetails(
        id=1,
        kind=SnapshotKind.CHECKPOINT,
        state=wire.SnapshotState.FAILED,
        trigger=a_checkpoint().trigger,
        triggered_at=at(1),
        start_delay_ms=0,
        participants=("counts", "delays"),
        end_to_end_ms=3000,
        ended_at=at(4),
        reason="CHECKPOINT_DECLINED",
        message="delays declined: disk full",
    )


def test_a_snapshot_is_found_while_it_runs_and_after_it_ended_and_no_other_is() -> None:
    run = Watched()
    run.snapshot(a_checkpoint("a"))
    run.begin(a_checkpoint("b"))

    found = [stats.find(run.stats, number) for number in (1, 2, 3)]

    assert [one and (one.id, one.state) for one in found] == [
        (1, wire.SnapshotState.COMPLETED),
        (2, wire.SnapshotState.IN_PROGRESS),
        None,
    ]


def test_what_was_written_for_a_snapshot_nobody_knows_changes_nothing() -> None:
    run = Watched()

    assert stats.written(run.stats, a_summary(number=9)) == run.stats


def test_a_completion_of_which_nothing_was_told_still_counts() -> None:
    run = Watched()
    run.ack(run.begin(a_checkpoint(), 1), 2)

    run.finalized(1, 3)

    completed = run.answer.latest.completed
    assert completed is not None
    assert (completed.state, completed.end_to_end_ms, completed.size_bytes) == (
        wire.SnapshotState.COMPLETED,
        2000,
        None,
    )


@pytest.mark.parametrize("value", [-5.0, 5.0])
def test_the_extremes_of_one_value_are_that_value(value: float) -> None:
    told = stats.Series().add(value).distribution()

    assert (told.min, told.max, told.avg) == (value, value, value)
