"""`statefulspark stop`: stops a running job at a batch boundary."""

from __future__ import annotations

import argparse

from statefulspark.cli import options, output, waiting
from statefulspark.contract import api
from statefulspark.contract.manifest import SnapshotFormat


def add_parser(commands: options.SubParsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "stop",
        help="stop a running job, optionally with a savepoint",
        description="Stop a running job: its batches end, a checkpoint (or savepoint) is completed at that boundary, and "
        "the driver exits. Prints the location of the snapshot. In a cluster, set `suspend: true` on the resource instead: "
        "the operator would start the job again.",
        epilog="examples:\n  statefulspark stop --savepoint --name final\n  statefulspark stop --drain --name the-end\n"
        "  statefulspark stop --format canonical --location s3://archive/words\n"
        "  statefulspark stop --url http://10.0.0.7:8090",
        formatter_class=options.Help,
    )
    parser.add_argument("--savepoint", action="store_true", help="take a savepoint at the last boundary")
    parser.add_argument(
        "--drain",
        action="store_true",
        help="before the savepoint, read what the sources have now, fire all event-time timers and close all windows; for a "
        "job that ends for good",
    )
    parser.add_argument(
        "--format", type=SnapshotFormat, choices=tuple(SnapshotFormat), default=None, metavar="FORMAT",
        help="of the savepoint: native (default, copied ahead) or canonical (Parquet, for any number of key groups)",
    )  # fmt: skip
    parser.add_argument("--name", help="becomes part of the savepoint's folder's name")
    parser.add_argument("--location", metavar="URI", help="folder for the savepoint; the job's default when omitted")
    waiting.add_flags(parser)
    output.add_flag(parser)
    options.add_driver(parser)
    parser.set_defaults(handle=_stop)


def _stop(args: argparse.Namespace) -> int:
    request = waiting.build_request(
        api.StopRequest,
        request_id=waiting.request_id(args),
        savepoint=bool(args.savepoint or args.drain or args.format or args.location or args.name),
        drain=args.drain,
        format=args.format or SnapshotFormat.NATIVE,
        location=args.location,
        name=args.name,
    )
    driver = options.open_driver(args)
    return waiting.follow(driver, driver.stop(request), args)
