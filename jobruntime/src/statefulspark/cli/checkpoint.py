"""`statefulspark checkpoint`: look at a job's checkpoints on storage, with no driver alive."""

from __future__ import annotations

import argparse

from statefulspark.cli import options, reading
from statefulspark.contract.manifest import SnapshotKind

_ROOT = "--root s3://bucket/prefix/default/words"
_LATEST = "latest"


def add_parser(commands: options.SubParsers) -> None:
    """Add the command and its verbs."""
    parser = commands.add_parser(
        "checkpoint",
        help="look at a job's checkpoints on storage",
        description="Look at a job's checkpoints on storage. No driver has to run.",
        epilog=f"example:\n  statefulspark checkpoint list {_ROOT}",
        formatter_class=options.Help,
    )
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_list(verbs)
    _add_show(verbs)
    _add_verify(verbs)


def _add_list(verbs: options.SubParsers) -> None:
    parser = verbs.add_parser(
        "list",
        help="list completed checkpoints, newest first",
        description="List completed checkpoints, newest first: what a driver could start from.",
        epilog=f"example:\n  statefulspark checkpoint list {_ROOT} -o wide",
        formatter_class=options.Help,
    )
    options.add_output(parser)
    options.add_root(parser)
    parser.set_defaults(handle=lambda args: reading.list_kind(args, SnapshotKind.CHECKPOINT))


def _add_show(verbs: options.SubParsers) -> None:
    parser = verbs.add_parser(
        "show",
        help="show everything about one checkpoint",
        description="Show everything about one checkpoint; -o wide lists its files, -o json prints the manifest.",
        epilog=f"example:\n  statefulspark checkpoint show 42 {_ROOT}",
        formatter_class=options.Help,
    )
    _add_id(parser)
    options.add_output(parser)
    options.add_root(parser)
    parser.set_defaults(handle=_show)


def _add_verify(verbs: options.SubParsers) -> None:
    parser = verbs.add_parser(
        "verify",
        help="check that every file of a checkpoint is there and unchanged",
        description="Check that every file of a checkpoint is there, with the size and checksum of its manifest.",
        epilog=f"example:\n  statefulspark checkpoint verify latest --deep {_ROOT}\n\n"
        "exit codes:\n  0 complete   15 no such checkpoint   16 storage unavailable   17 broken",
        formatter_class=options.Help,
    )
    _add_id(parser)
    parser.add_argument("--deep", action="store_true", help="read every file, instead of trusting equal etags")
    options.add_output(parser)
    options.add_root(parser)
    parser.set_defaults(handle=_verify)


def _add_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", type=_id, metavar="ID", help=f"number of the checkpoint, or `{_LATEST}`")


def _id(text: str) -> int | None:
    """Read ID; None is the latest."""
    if text == _LATEST:
        return None
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} must be the number of a checkpoint, or {_LATEST!r}")
    return int(text)


def _show(args: argparse.Namespace) -> int:
    store = options.open_root(args)
    return reading.show(store, reading.find(store, SnapshotKind.CHECKPOINT, args.id), args)


def _verify(args: argparse.Namespace) -> int:
    store = options.open_root(args)
    return reading.verify_one(store, reading.find(store, SnapshotKind.CHECKPOINT, args.id), args)
