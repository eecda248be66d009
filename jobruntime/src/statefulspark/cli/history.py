"""Results of `checkpoint history`: the list of snapshots, and the details of one. Pure."""

from __future__ import annotations

from datetime import datetime

from statefulspark.cli import output, tables
from statefulspark.contract import durations, sizes, statistics


def listed(checkpoints: statistics.Checkpoints, *, now: datetime) -> output.Result:
    """Return the counts and the history, newest first."""

    def draw(wide: bool) -> str:
        counts = checkpoints.counts
        head = (
            f"{counts.completed} completed, {counts.failed} failed, {counts.in_progress} in progress; end to end "
            f"{_distribution(checkpoints.summary.end_to_end_ms)}\n"
        )
        header = ["ID", "KIND", "STATE", "TRIGGER", "AGE", "TOOK", "SYNC", "ASYNC", "NEW", "SIZE"]
        extra = ["FILES", "ACKS", "WAITED", "REASON"]
        shown = header + extra if wide else header
        rows = [_row(details, now)[: len(shown)] for details in checkpoints.history]
        return head + tables.columns(shown, rows)

    return output.Result(checkpoints, [_name(details) for details in checkpoints.history], draw)


def described(details: statistics.SnapshotDetails, *, now: datetime) -> output.Result:
    """Return everything about one snapshot."""
    return output.Result(details, [_name(details)], lambda _: _describe(details, now))


def _name(details: statistics.SnapshotDetails) -> str:
    return f"{details.kind.value}/{details.id}"


def _row(details: statistics.SnapshotDetails, now: datetime) -> list[str]:
    return [
        str(details.id),
        details.kind.value,
        details.state.value,
        f"{details.trigger.value}, stop" if details.is_stop else details.trigger.value,
        durations.format_short(now - details.triggered_at),
        _milliseconds(details.end_to_end_ms),
        _milliseconds(details.sync_ms),
        _milliseconds(details.async_ms),
        sizes.format_short(details.incremental_size_bytes) if details.incremental_size_bytes is not None else "",
        sizes.format_short(details.size_bytes) if details.size_bytes is not None else "",
        str(details.files) if details.files is not None else "",
        f"{len(details.acknowledgements)}/{len(details.participants)}",
        _milliseconds(details.start_delay_ms),
        details.reason or ("discarded" if details.discarded else ""),
    ]


def _describe(details: statistics.SnapshotDetails, now: datetime) -> str:
    phases = ", ".join(f"{name} {_milliseconds(took_ms)}" for name, took_ms in details.phases_ms.items())
    head = tables.pairs(
        (
            ("Id", str(details.id)),
            ("Kind", details.kind.value),
            ("State", details.state.value),
            ("Reason", f"{details.reason}: {details.message}" if details.reason else None),
            ("Trigger", f"{details.trigger.value}, stops the job" if details.is_stop else details.trigger.value),
            ("Triggered at", details.triggered_at.isoformat(timespec="milliseconds")),
            ("Waited before", _milliseconds(details.start_delay_ms)),
            ("Synchronous", _milliseconds(details.sync_ms) or None),
            ("Asynchronous", _milliseconds(details.async_ms) or None),
            ("Of which", phases or None),
            ("End to end", _milliseconds(details.end_to_end_ms) or None),
            ("Size", sizes.format_short(details.size_bytes) if details.size_bytes is not None else None),
            (
                "New",
                sizes.format_short(details.incremental_size_bytes)
                if details.incremental_size_bytes is not None
                else None,
            ),
            ("Files", str(details.files) if details.files is not None else None),
            ("Location", details.location),
            ("Age", durations.format_short(now - details.triggered_at)),
        )
    )
    acks = {ack.participant: ack for ack in details.acknowledgements}
    rows = [
        (name, str(acks[name].batch_id), _milliseconds(acks[name].delay_ms)) if name in acks else (name, "", "waits")
        for name in details.participants
    ]
    return f"{head}\n{tables.columns(('PARTICIPANT', 'BATCH', 'ACKNOWLEDGED AFTER'), rows)}"


def _distribution(distribution: statistics.Distribution) -> str:
    shown = (("p50", distribution.p50), ("p95", distribution.p95), ("p99", distribution.p99), ("max", distribution.max))
    return ", ".join(f"{name} {_milliseconds(value)}" for name, value in shown)


def _milliseconds(value: float | None) -> str:
    """Write a duration that may be unknown."""
    return tables.milliseconds(value) if value is not None else ""
