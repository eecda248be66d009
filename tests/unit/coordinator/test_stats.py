"""Statistics of snapshots, from the coordinator's own events (A.115, B.10, B.11)."""

from __future__ import annotations

import pytest
from coordination import PARTICIPANTS, a_checkpoint, a_savepoint, a_stop
from hypothesis import given
from hypothesis import strategies as st
from statefulspark.contract import statistics as wire
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.coordinator import model, stats
from watched import NOON, Watched, at


def test_a_completed_checkpoint_is_told_in_full() -> None:
    """B.11: trigger and acknowledgement times, sizes, both durations, where it is."""
    run = Watched()

    run.snapshot(a_checkpoint(at_s=1.0))

    assert stats.find(run.stats, 1) == wire.SnapshotDetails(
        id=1,
        kind=SnapshotKind.CHECKPOINT,
        state=wire.SnapshotState.COMPLETED,
        trigger=a_checkpoint().trigger,
        triggered_at=at(1.5),
        start_delay_ms=500,
        participants=("counts", "delays"),
        acknowledgements=(
            wire.Acknowledgement(participant="counts", batch_id=7, acknowledged_at=at(2.5), delay_ms=1000),
            wire.Acknowledgement(participant="delays", batch_id=7, acknowledged_at=at(2.5), delay_ms=1000),
        ),
        latest_ack_at=at(2.5),
        sync_ms=1000,
        async_ms=2000,
        phases_ms={"closure": 20, "manifest": 5},
        end_to_end_ms=3000,
        ended_at=at(4.5),
        size_bytes=100,
        incremental_size_bytes=10,
        files=7,
        location="s3://bucket/default/words/checkpoints/00000001",
    )


def test_a_checkpoint_with_master_hooks_is_counted_once_from_the_question_to_them() -> None:
    run = Watched()
    request = a_checkpoint(at_s=1.0)
    begun = model.Begin(1, request, PARTICIPANTS, frozenset({"ledger"}))

    after = stats.observe(run.stats, model.Tick(1.5, PARTICIPANTS), (begun,), at(1.5))
    later = stats.observe(after, model.HookAnswered(2.5, 1, "ledger"), (), at(2.5))

    assert stats.find(after, 1) == wire.SnapshotDetails(
        id=1,
        kind=SnapshotKind.CHECKPOINT,
        state=wire.SnapshotState.IN_PROGRESS,
        trigger=request.trigger,
        triggered_at=at(1.5),
        start_delay_ms=500,
        participants=("counts", "delays"),
    )
    assert stats.answer(after).counts.triggered == 1
    assert later == after


def test_a_checkpoint_in_progress_shows_who_has_acknowledged() -> None:
    run = Watched()
    run.begin(a_checkpoint())
    before = run.answer.history[0]
    run.ack(1, batches={"delays": 41, "counts": 12}, now_s=2)
    run.ack(1, batches={"delays": 42, "counts": 13}, now_s=3)

    (one,) = run.answer.history

    assert (before.state, before.sync_ms, before.acknowledgements) == (wire.SnapshotState.IN_PROGRESS, None, ())
    assert (one.state, one.sync_ms) == (wire.SnapshotState.IN_PROGRESS, 2000)
    assert [(ack.participant, ack.batch_id) for ack in one.acknowledgements] == [("delays", 41), ("counts", 12)]
    assert run.answer.counts.in_progress == 1


def test_a_failed_checkpoint_keeps_its_reason_and_how_long_it_was_tried() -> None:
    run = Watched()
    run.begin(a_checkpoint(), 1)
    run.send(model.Declined(4, 1, "delays", "disk full"))

    failed = run.answer.latest.failed

    assert failed is not None
    assert (failed.state, failed.reason) == (wire.SnapshotState.FAILED, "CHECKPOINT_DECLINED")
    assert failed.message == "delays declined: disk full"
    assert (failed.end_to_end_ms, failed.async_ms) == (3000, None)
    assert run.answer.failures == {"CHECKPOINT_DECLINED": 1}


def test_what_is_retired_is_marked_as_discarded() -> None:
    """B.11: discarded."""
    run = Watched(kept=1)
    run.snapshot(a_checkpoint("a"))
    run.snapshot(a_savepoint("b"))
    run.snapshot(a_checkpoint("c"))

    assert [(one.id, one.discarded) for one in run.answer.history] == [(3, False), (2, False), (1, True)]


@pytest.mark.parametrize(("size", "left"), [(10, [12, 11, 10, 9, 8, 7, 6, 5, 4, 3]), (2, [12, 11]), (0, [])])
def test_the_history_keeps_the_latest_that_ended(size: int, left: list[int]) -> None:
    """B.10: web.checkpoints.history is 10."""
    run = Watched(history_size=size)
    for number in range(12):
        run.snapshot(a_checkpoint(str(number)))

    assert [one.id for one in run.answer.history] == left
    assert run.answer.counts.completed == 12
    assert run.answer.latest.completed is not None
    assert run.answer.latest.completed.id == 12


def test_those_in_progress_come_first() -> None:
    run = Watched()
    run.begin(a_savepoint("slow"))
    run.snapshot(a_checkpoint())
    run.begin(a_checkpoint("next"))

    assert [one.id for one in run.answer.history] == [3, 1, 2]


def test_the_latest_of_each_kind_is_told() -> None:
    run = Watched()
    run.snapshot(a_checkpoint("a"))
    run.snapshot(a_savepoint("b"))
    run.snapshot(a_stop("c", kind=SnapshotKind.CHECKPOINT))

    latest = run.answer.latest

    assert latest.completed is not None
    assert latest.savepoint is not None
    assert (latest.completed.id, latest.completed.is_stop, latest.savepoint.id) == (3, True, 2)


def test_durations_and_sizes_are_distributed() -> None:
    run = Watched()
    for number, took_s in enumerate((2.0, 3.0, 7.0)):
        run.snapshot(a_checkpoint(str(number)), size=100 * (number + 1), new=number, took_s=took_s)

    summary = run.answer.summary

    assert summary.end_to_end_ms == wire.Distribution(min=2000, max=7000, avg=4000, p50=3000, p95=7000, p99=7000)
    assert summary.sync_ms == wire.Distribution(min=1000, max=1000, avg=1000, p50=1000, p95=1000, p99=1000)
    assert summary.async_ms == wire.Distribution(min=1000, max=6000, avg=3000, p50=2000, p95=6000, p99=6000)
    assert summary.size_bytes == wire.Distribution(min=100, max=300, avg=200, p50=200, p95=300, p99=300)
    assert summary.incremental_size_bytes == wire.Distribution(min=0, max=2, avg=1, p50=1, p95=2, p99=2)


def test_a_failure_is_in_no_distribution() -> None:
    run = Watched()
    run.fail(run.begin(a_checkpoint()))

    assert run.answer.summary == wire.SnapshotSummaryStatistics()


def test_a_refused_request_is_no_snapshot() -> None:
    run = Watched()
    run.send(model.ShutDown(0))
    run.request(a_savepoint())

    assert run.answer.counts.triggered == 0
    assert run.answer.history == ()


def test_what_was_restored_is_told() -> None:
    restored = wire.RestoredSnapshot(restored_from="checkpoint 41", restored_at=NOON, id=41)

    answer = stats.answer(stats.begin(restored=restored))

    assert (answer.latest.restored, answer.counts.restored) == (restored, 1)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200))
def test_percentiles_are_values_that_were_seen_and_ordered(values: list[float]) -> None:
    series = stats.Series()
    for value in values:
        series = series.add(value)

    told = series.distribution()

    assert (told.min, told.max) == (min(values), max(values))
    assert {told.p50, told.p95, told.p99} <= set(values)
    assert told.min <= told.p50 <= told.p95 <= told.p99 <= told.max
    assert sum(value <= told.p50 for value in values) * 2 >= len(values)


def test_old_values_leave_the_percentiles_and_stay_in_the_extremes() -> None:
    series = stats.Series().add(1e9)
    for _ in range(stats.WINDOW):
        series = series.add(1.0)

    told = series.distribution()

    assert (told.max, told.p99, len(series.window)) == (1e9, 1.0, stats.WINDOW)
