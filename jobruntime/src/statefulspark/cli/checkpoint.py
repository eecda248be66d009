"""`statefulspark checkpoint`: show a job's checkpoints on storage, or take one in its driver."""

from __future__ import annotations

from datetime import datetime

import click

from statefulspark import clock, durations
from statefulspark.cli import options, reading, verbs, waiting
from statefulspark.commandline import commands, flags, output, tables, values
from statefulspark.contract import api, sizes, statistics
from statefulspark.contract.manifest import SnapshotKind

_LATEST = "latest"


def _id(text: str) -> int | None:
    """Read ID; None is the latest."""
    return None if text == _LATEST else values.CHECKPOINT_ID(text)


def _find(number: int | None, job_folder: options.JobFolder) -> verbs.SnapshotFolder:
    store = job_folder.open_job()
    return store, reading.find(store, SnapshotKind.CHECKPOINT, number)


command = commands.Group(
    "checkpoint",
    short_help="show a job's checkpoints, or take one",
    help="Show a job's checkpoints on storage, which needs no running driver, or ask its driver for a new one.",
    epilog=f"examples:\n  statefulspark checkpoint list --storage {options.EXAMPLE_STORAGE}\n"
    "  statefulspark checkpoint create",
)
verbs.add(
    command,
    verbs.Noun(
        kind=SnapshotKind.CHECKPOINT,
        example=f"latest --storage {options.EXAMPLE_STORAGE}",
        listing="List completed checkpoints, newest first; a driver can start from each of them.",
        verifying="",
        metavar="ID",
        meaning="number of the checkpoint, or `latest`",
        read=_id,
        find=_find,
    ),
)


@command.command(
    "create",
    short_help="ask a running driver for a checkpoint now",
    help="Ask a running driver for a checkpoint now, wait for it, and print its location. It ignores the minimum pause, and "
    "starts before a periodic checkpoint that waits.",
    epilog="examples:\n  kubectl port-forward pod/words-driver-7 8090 &\n  statefulspark checkpoint create\n"
    "  statefulspark checkpoint create -o name",
)
@waiting.request_option
@flags.waiting
@output.options
@options.driver
def create(request_id: str, waits: flags.Waiting, printing: output.Printing, driver: options.DriverAddress) -> None:
    """Run `create`."""
    request = waiting.build_request(api.CheckpointRequest, request_id=request_id)
    client = driver.open()
    waiting.follow(client, client.create_checkpoint(request), waits.limit(), printing)


@command.command(
    "history",
    short_help="show the last snapshots of a running driver",
    help="Show the last checkpoints and savepoints of a running driver, also failed ones: the duration of each phase, the "
    "size of new files, the acknowledgements. With an ID, show everything about that snapshot.",
    epilog="examples:\n  statefulspark checkpoint history\n  statefulspark checkpoint history 42",
)
@click.argument("number", type=int, required=False, metavar="[ID]", help="number of one snapshot")
@output.options
@options.driver
def history(number: int | None, printing: output.Printing, driver: options.DriverAddress) -> None:
    """Run `history`."""
    client = driver.open()
    now = clock.utc_now()
    if number is None:
        snapshots = client.checkpoints()
        names = [_name(details) for details in snapshots.history]
        printing.write(output.Result(snapshots, names, lambda wide: _draw_history(snapshots, now, wide=wide)))
    else:
        details = client.checkpoint(number)
        printing.write(output.Result(details, [_name(details)], lambda _: _describe(details, now)))


def _draw_history(checkpoints: statistics.Checkpoints, now: datetime, *, wide: bool) -> str:
    """Return the counts and the history, newest first."""
    counts, took = checkpoints.counts, checkpoints.summary.end_to_end_ms
    quantiles = (("p50", took.p50), ("p95", took.p95), ("p99", took.p99), ("max", took.max))
    times = ", ".join(f"{name} {_milliseconds(value)}" for name, value in quantiles)
    header = ["ID", "KIND", "STATE", "TRIGGER", "AGE", "TOOK", "SYNC", "ASYNC", "NEW", "SIZE"]
    if wide:
        header += ["FILES", "ACKS", "WAITED", "REASON"]
    rows = [
        [
            str(details.id),
            details.kind.value.capitalize(),
            details.state.value,
            f"{details.trigger.value.capitalize()}{', stop' if details.is_stop else ''}",
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
        ][: len(header)]
        for details in checkpoints.history
    ]
    return (
        f"{counts.completed} completed, {counts.failed} failed, {counts.in_progress} in progress; end to end {times}\n"
        + tables.columns(header, rows)
    )


def _name(details: statistics.SnapshotDetails) -> str:
    return f"{details.kind.value}/{details.id}"


def _describe(details: statistics.SnapshotDetails, now: datetime) -> str:
    phases = ", ".join(f"{name} {_milliseconds(took_ms)}" for name, took_ms in details.phases_ms.items())
    head = tables.pairs(
        (
            ("Id", str(details.id)),
            ("Kind", details.kind.value.capitalize()),
            ("State", details.state.value),
            ("Reason", f"{details.reason}: {details.message}" if details.reason else None),
            ("Trigger", f"{details.trigger.value.capitalize()}{', stops the job' if details.is_stop else ''}"),
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


def _milliseconds(value: float | None) -> str:
    """Write a duration that may be unknown."""
    return tables.milliseconds(value) if value is not None else ""
