"""Statistics of snapshots, derived from the coordinator's events and commands.

Pure: `observe` takes the event and the commands of one step and returns the next statistics; the caller passes the time.
Values are frozen, so that another thread may read the latest ones at any time. Durations come from the events' monotonic
clock, points in time from the wall clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from statefulspark.contract import statistics as wire
from statefulspark.contract.api import CheckpointCounts, SnapshotSummary
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.coordinator import model

DEFAULT_HISTORY = 10
"""Number of ended snapshots that are remembered with all details; Flink: web.checkpoints.history."""

WINDOW = 1000
"""Number of values that percentiles are computed from."""


@dataclass(frozen=True, slots=True)
class Series:
    """Values of one quantity: minimum, maximum and mean of all values, percentiles of the latest ones."""

    count: int = 0
    low: float = 0.0
    high: float = 0.0
    total: float = 0.0
    window: tuple[float, ...] = ()

    def add(self, value: float | None) -> Series:
        """Return the series with one more value; None adds nothing."""
        if value is None:
            return self
        return Series(
            count=self.count + 1,
            low=min(self.low, value) if self.count else value,
            high=max(self.high, value) if self.count else value,
            total=self.total + value,
            window=(*self.window, value)[-WINDOW:],
        )

    def distribution(self) -> wire.Distribution:
        """Return the distribution of the values; all zero if there are none."""
        if not self.count:
            return wire.Distribution()
        ordered = sorted(self.window)

        def percentile(share: float) -> float:
            return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

        return wire.Distribution(
            min=self.low, max=self.high, avg=self.total / self.count,
            p50=percentile(0.5), p95=percentile(0.95), p99=percentile(0.99),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Open:
    """A snapshot in progress."""

    details: wire.SnapshotDetails
    triggered_s: float
    acknowledged_s: float | None = None
    """When all participants had acknowledged."""
    summary: SnapshotSummary | None = None
    """Summary of the written snapshot; None before it is written."""


@dataclass(frozen=True, slots=True)
class Stats:
    """All statistics of a driver."""

    history_size: int = DEFAULT_HISTORY
    restored: wire.RestoredSnapshot | None = None
    counts: CheckpointCounts = field(default_factory=CheckpointCounts)
    failures: Mapping[str, int] = field(default_factory=dict)
    in_progress: Mapping[int, Open] = field(default_factory=dict)
    ended: tuple[wire.SnapshotDetails, ...] = ()
    """Newest first."""
    completed: wire.SnapshotDetails | None = None
    savepoint: wire.SnapshotDetails | None = None
    failed: wire.SnapshotDetails | None = None
    series: Mapping[str, Series] = field(default_factory=dict)
    """By field of `contract.statistics.SnapshotSummaryStatistics`."""
    durations: wire.Durations = field(default_factory=wire.Durations)


def begin(*, history_size: int = DEFAULT_HISTORY, restored: wire.RestoredSnapshot | None = None) -> Stats:
    """Return the statistics of a driver that has just started (A.115).

    Args:
        history_size: Ended snapshots to remember.
        restored: The snapshot that it started from; None for empty state.
    """
    counts = CheckpointCounts(restored=int(restored is not None))
    return Stats(history_size=history_size, restored=restored, counts=counts)


def observe(stats: Stats, event: model.Event, commands: tuple[model.Command, ...], now: datetime) -> Stats:
    """Add one step of the coordinator to the statistics.

    Args:
        stats: The statistics so far.
        event: The event of the step.
        commands: The commands of the step.
        now: The time, UTC.
    """
    for command in commands:
        match command:
            case model.Begin():
                request = command.request
                begun = wire.SnapshotDetails(
                    id=command.snapshot_id,
                    kind=request.kind,
                    state=wire.SnapshotState.IN_PROGRESS,
                    trigger=request.trigger,
                    is_stop=request.is_stop,
                    triggered_at=now,
                    start_delay_ms=_milliseconds(event.now_s - request.requested_at_s),
                    participants=tuple(sorted(command.participants)),
                )
                stats = _count(_put(stats, Open(begun, event.now_s)), triggered=1)
            case model.Finalize():
                pending = stats.in_progress[command.snapshot_id]
                delay_ms = _milliseconds(event.now_s - pending.triggered_s)
                acknowledgements = tuple(
                    wire.Acknowledgement(
                        participant=participant, batch_id=batch_id, acknowledged_at=now, delay_ms=delay_ms
                    )
                    for participant, batch_id in command.batches.items()
                )
                changes = {"acknowledgements": acknowledgements, "latest_ack_at": now, "sync_ms": delay_ms}
                acknowledged = pending.details.model_copy(update=changes)
                stats = _put(stats, replace(pending, details=acknowledged, acknowledged_s=event.now_s))
            case model.NotifyComplete():
                stats = _completed(stats, command.snapshot_id, event.now_s, now)
            case model.NotifyAborted():
                failure = {
                    "state": wire.SnapshotState.FAILED,
                    "reason": command.reason.value,
                    "message": command.message,
                }
                details = _end(stats.in_progress[command.snapshot_id], event.now_s, now, failure)
                failures = {**stats.failures, command.reason.value: stats.failures.get(command.reason.value, 0) + 1}
                stats = _remember(_count(replace(stats, failures=failures, failed=details), failed=1), details)
            case model.Subsume():
                subsumed = frozenset(command.checkpoint_ids)
                ended = tuple(
                    snapshot.model_copy(update={"discarded": True})
                    if snapshot.id in subsumed and snapshot.kind is SnapshotKind.CHECKPOINT
                    else snapshot
                    for snapshot in stats.ended
                )
                stats = replace(stats, ended=ended)
            case model.Refuse() | model.FailJob():
                pass
    return stats


def written(stats: Stats, summary: SnapshotSummary) -> Stats:
    """Record the summary of a snapshot that is about to be announced as complete."""
    snapshot = stats.in_progress.get(summary.id)
    return stats if snapshot is None else _put(stats, replace(snapshot, summary=summary))


def find(stats: Stats, snapshot_id: int) -> wire.SnapshotDetails | None:
    """Return a snapshot in progress or in the history."""
    snapshot = stats.in_progress.get(snapshot_id)
    if snapshot is not None:
        return snapshot.details
    return next((ended for ended in stats.ended if ended.id == snapshot_id), None)


def answer(stats: Stats) -> wire.Checkpoints:
    """Return the statistics in the form of the API."""
    running = sorted(stats.in_progress.values(), key=lambda snapshot: snapshot.details.id, reverse=True)
    return wire.Checkpoints(
        counts=stats.counts,
        failures=dict(stats.failures),
        summary=wire.SnapshotSummaryStatistics(
            **{name: series.distribution() for name, series in stats.series.items()}
        ),
        durations=stats.durations,
        latest=wire.LatestSnapshots(
            completed=stats.completed, savepoint=stats.savepoint, failed=stats.failed, restored=stats.restored
        ),
        history=(*(snapshot.details for snapshot in running), *stats.ended),
    )


def _completed(stats: Stats, snapshot_id: int, now_s: float, now: datetime) -> Stats:
    snapshot = stats.in_progress[snapshot_id]
    summary = snapshot.summary
    written_facts: dict[str, object] = {}
    if summary is not None:
        written_facts = {
            "size_bytes": summary.size_bytes,
            "incremental_size_bytes": summary.incremental_size_bytes,
            "files": summary.files,
            "phases_ms": summary.phases_ms or {},
            "location": summary.location,
        }
    details = _end(snapshot, now_s, now, {"state": wire.SnapshotState.COMPLETED, **written_facts})
    series = {
        name: stats.series.get(name, Series()).add(getattr(details, name))
        for name in wire.SnapshotSummaryStatistics.model_fields
    }
    is_savepoint = details.kind is SnapshotKind.SAVEPOINT
    stats = replace(
        stats,
        series=series,
        durations=stats.durations.add(details.end_to_end_ms or 0),
        savepoint=details if is_savepoint else stats.savepoint,
        completed=stats.completed if is_savepoint else details,
    )
    return _remember(_count(stats, completed=1), details)


def _end(snapshot: Open, now_s: float, now: datetime, outcome: Mapping[str, object]) -> wire.SnapshotDetails:
    durations: dict[str, object] = {"ended_at": now, "end_to_end_ms": _milliseconds(now_s - snapshot.triggered_s)}
    if snapshot.acknowledged_s is not None:
        durations["async_ms"] = _milliseconds(now_s - snapshot.acknowledged_s)
    return snapshot.details.model_copy(update={**durations, **outcome})


def _remember(stats: Stats, details: wire.SnapshotDetails) -> Stats:
    remaining = {number: snapshot for number, snapshot in stats.in_progress.items() if number != details.id}
    counts = stats.counts.model_copy(update={"in_progress": len(remaining)})
    ended = (details, *stats.ended)[: stats.history_size]
    return replace(stats, in_progress=remaining, counts=counts, ended=ended)


def _put(stats: Stats, snapshot: Open) -> Stats:
    in_progress = {**stats.in_progress, snapshot.details.id: snapshot}
    counts = stats.counts.model_copy(update={"in_progress": len(in_progress)})
    return replace(stats, in_progress=in_progress, counts=counts)


def _count(stats: Stats, *, triggered: int = 0, completed: int = 0, failed: int = 0) -> Stats:
    counts = stats.counts
    changes = {
        "triggered": counts.triggered + triggered,
        "completed": counts.completed + completed,
        "failed": counts.failed + failed,
    }
    return replace(stats, counts=counts.model_copy(update=changes))


def _milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1000))
