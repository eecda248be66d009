"""`statefulspark checkpoint`: show a job's checkpoints on storage, or trigger one in its driver."""

from __future__ import annotations

import argparse

from statefulspark import clock
from statefulspark.cli import history, options, output, reading, verbs, waiting
from statefulspark.contract import api
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
    _add_trigger(children)
    _add_history(children)


def _add_trigger(children: options.SubParsers) -> None:
    parser = children.add_parser(
        "trigger",
        help="ask a running driver for a checkpoint now",
        description="Ask a running driver for a checkpoint now, wait for it, and print its location. It ignores the "
        "minimum pause, and starts before a periodic checkpoint that waits.",
        epilog="examples:\n  kubectl port-forward pod/words-driver-7 8090 &\n  statefulspark checkpoint trigger\n"
        "  statefulspark checkpoint trigger -o name",
        formatter_class=options.Help,
    )
    waiting.add_flags(parser)
    output.add_flag(parser)
    options.add_driver(parser)
    parser.set_defaults(handle=_trigger)


def _add_history(children: options.SubParsers) -> None:
    parser = children.add_parser(
        "history",
        help="show the last snapshots of a running driver",
        description="Show the last checkpoints and savepoints of a running driver, also failed ones: the duration of each "
        "phase, the size of new files, the acknowledgements. With an ID, show everything about that snapshot.",
        epilog="examples:\n  statefulspark checkpoint history\n  statefulspark checkpoint history 42",
        formatter_class=options.Help,
    )
    parser.add_argument("id", type=int, nargs="?", metavar="ID", help="number of one snapshot")
    output.add_flag(parser)
    options.add_driver(parser)
    parser.set_defaults(handle=_history)


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
    if args.id is None:
        output.write(history.listed(driver.checkpoints(), now=clock.utc_now()), args.output)
    else:
        output.write(history.described(driver.checkpoint(args.id), now=clock.utc_now()), args.output)
    return ExitCode.FINISHED
