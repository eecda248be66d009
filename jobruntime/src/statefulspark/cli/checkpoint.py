"""`statefulspark checkpoint`: show a job's checkpoints on storage, or trigger one in its driver."""

from __future__ import annotations

import argparse
from datetime import datetime

from statefulspark import clock, durations
from statefulspark.cli import options, output, reading, tables, verbs, waiting
from statefulspark.contract import api, sizes, statistics
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.contract.manifest import SnapshotKind

_LATEST = "latest"


def add_parser(commands: options.SubParsers) -> None:
    """Add the command and its verbs."""
    parser = commands.add_parser(
        "checkpoint",
        help="show a job's checkpoints, or take one",
        description="Show a job's checkpoints on storage, which needs no running driver, or ask its driver for a new one.",
        epilog=f"examples:\n  statefulspark checkpoint list --root {options.EXAMPLE_ROOT}\n"
        "  statefulspark checkpoint trigger",
        formatter_class=options.Help,
    )
    children = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    noun = verbs.Noun(
        kind=SnapshotKind.CHECKPOINT,
        example=f"latest --root {options.EXAMPLE_ROOT}",
        listing="List completed checkpoints, newest first; a driver can start from each of them.",
        verifying="",
        add_reference=_add_id,
        find=_find,
    )
    verbs.add(children, noun)
    trigger = children.add_parser(
        "trigger",
        help="ask a running driver for a checkpoint now",
        description="Ask a running driver for a checkpoint now, wait for it, and print its location. It ignores the "
        "minimum pause, and starts before a periodic checkpoint that waits.",
        epilog="examples:\n  kubectl port-forward pod/words-driver-7 8090 &\n  statefulspark checkpoint trigger\n"
        "  statefulspark checkpoint trigger -o name",
        formatter_class=options.Help,
    )
    waiting.add_flags(trigger)
    output.add_flag(trigger)
    options.add_driver(trigger)
    trigger.set_defaults(handle=_trigger)
    history_parser = children.add_parser(
        "history",
        help="show the last snapshots of a running driver",
        description="Show the last checkpoints and savepoints of a running driver, also failed ones: the duration of each "
        "phase, the size of new files, the acknowledgements. With an ID, show everything about that snapshot.",
        epilog="examples:\n  statefulspark checkpoint history\n  statefulspark checkpoint history 42",
        formatter_class=options.Help,
    )
    history_parser.add_argument("id", type=int, nargs="?", metavar="ID", help="number of one snapshot")
    output.add_flag(history_parser)
    options.add_driver(history_parser)
    history_parser.set_defaults(handle=_history)


def _add_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", type=_id, metavar="ID", help=f"number of the checkpoint, or `{_LATEST}`")


def _id(text: str) -> int | None:
    """Read ID; None is the latest."""
    if text == _LATEST:
        return None
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} must be the number of a checkpoint, or {_LATEST!r}")
    return int(text)


def _find(args: argparse.Namespace) -> verbs.SnapshotFolder:
    store = options.open_root(args)
    return store, reading.find(store, SnapshotKind.CHECKPOINT, args.id)


def _trigger(args: argparse.Namespace) -> int:
    request = waiting.build_request(api.CheckpointRequest, request_id=waiting.request_id(args))
    driver = options.open_driver(args)
    return waiting.follow(driver, driver.trigger_checkpoint(request), args)


def _history(args: argparse.Namespace) -> int:
    driver = options.open_driver(args)
    now = clock.utc_now()
    if args.id is None:
        snapshots = driver.checkpoints()
        names = [_name(details) for details in snapshots.history]
        result = output.Result(snapshots, names, lambda wide: _draw_history(snapshots, now, wide=wide))
    else:
        details = driver.checkpoint(args.id)
        result = output.Result(details, [_name(details)], lambda _: _describe(details, now))
    output.write(result, args.output)
    return ExitCode.FINISHED


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
