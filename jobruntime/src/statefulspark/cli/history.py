"""A driver's statistics of snapshots as results: the history, and one snapshot in full. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from statefulspark.cli import output, tables
from statefulspark.contract import durations, statistics


def listed(checkpoints: statistics.Checkpoints, *, now: datetime) -> output.Result:
    """Return the history, newest first, below the counts."""

    def draw(wide: bool) -> str:
        counts = checkpoints.counts
        head = (
            f"{counts.completed} completed, {counts.failed} failed, {counts.in_progress} in progress; end to end "
            f"{_distribution(checkpoints.summary.end_to_end_ms)}\n"
        )
        header = ["ID", "KIND", "STATE", "TRIGGER", "AGE", "TOOK", "SYNC", "ASYNC", "NEW", "SIZE"]
        extra = ["FILES", "ACKS", "WAITED", "REASON"]
        shown = header + extra if wide else header
        rows = [_row(one, now)[: len(shown)] for one in checkpoints.history]
        return head + tables.columns(shown, rows)

    return output.Result(checkpoints, [_name(one) for one in checkpoints.history], draw)


def described(details: statistics.SnapshotDetails, *, now: datetime) -> output.Result:
    """Return everything about one snapshot."""
    return output.Result(details, [_name(details)], lambda _: _describe(details, now))


def _name(details: statistics.SnapshotDetails) -> str:
    return f"{details.kind.value}/{details.id}"


def _row(one: statistics.SnapshotDetails, now: datetime) -> list[str]:
    return [
        str(one.id),
        one.kind.value,
        one.state.value,
        f"{one.trigger.value}, stop" if one.is_stop else one.trigger.value,
        durations.format_short(now - one.triggered_at),
        _milliseconds(one.end_to_end_ms),
        _milliseconds(one.sync_ms),
        _milliseconds(one.async_ms),
        tables.size(one.incremental_size_bytes) if one.incremental_size_bytes is not None else "",
        tables.size(one.size_bytes) if one.size_bytes is not None else "",
        str(one.files) if one.files is not None else "",
        f"{len(one.acknowledgements)}/{len(one.participants)}",
        _milliseconds(one.start_delay_ms),
        one.reason or ("discarded" if one.discarded else ""),
    ]


def _describe(one: statistics.SnapshotDetails, now: datetime) -> str:
    phases = ", ".join(f"{name} {_milliseconds(took_ms)}" for name, took_ms in one.phases_ms.items())
    head = tables.pairs(
        (
            ("Id", str(one.id)),
            ("Kind", one.kind.value),
            ("State", one.state.value),
            ("Reason", f"{one.reason}: {one.message}" if one.reason else None),
            ("Trigger", f"{one.trigger.value}, stops the job" if one.is_stop else one.trigger.value),
            ("Triggered at", one.triggered_at.isoformat(timespec="milliseconds")),
            ("Waited before", _milliseconds(one.start_delay_ms)),
            ("Synchronous", _milliseconds(one.sync_ms) or None),
            ("Asynchronous", _milliseconds(one.async_ms) or None),
            ("Of which", phases or None),
            ("End to end", _milliseconds(one.end_to_end_ms) or None),
            ("Size", tables.size(one.size_bytes) if one.size_bytes is not None else None),
            ("New", tables.size(one.incremental_size_bytes) if one.incremental_size_bytes is not None else None),
            ("Files", str(one.files) if one.files is not None else None),
            ("Location", one.location),
            ("Age", durations.format_short(now - one.triggered_at)),
        )
    )
    acks = {ack.participant: ack for ack in one.acknowledgements}
    rows = [
        (name, str(acks[name].batch_id), _milliseconds(acks[name].delay_ms)) if name in acks else (name, "", "waits")
        for name in one.participants
    ]
    return f"{head}\n{tables.columns(('PARTICIPANT', 'BATCH', 'ACKNOWLEDGED AFTER'), rows)}"


def _distribution(of: statistics.Distribution) -> str:
    shown = (("p50", of.p50), ("p95", of.p95), ("p99", of.p99), ("max", of.max))
    return ", ".join(f"{name} {_milliseconds(value)}" for name, value in shown)


def _milliseconds(value: float | None) -> str:
    """Write a duration exactly below a second, and as ages are written above."""
    if value is None:
        return ""
    return f"{value:.0f}ms" if value < 1000 else durations.format_short(timedelta(milliseconds=value))
