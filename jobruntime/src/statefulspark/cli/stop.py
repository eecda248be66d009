"""`statefulspark stop`: end a running job at a batch boundary."""

from __future__ import annotations

import argparse

from statefulspark.cli import options, output, waiting
from statefulspark.contract import api


def add_parser(commands: options.SubParsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "stop",
        help="stop a running job, with a savepoint if wanted",
        description="Stop a running job: its batches end, a checkpoint (or savepoint) is completed at that boundary, and "
        "the driver exits. Prints the location of the snapshot. In a cluster, set `suspend: true` on the resource instead: "
        "the operator would start the job again.",
        epilog="examples:\n  statefulspark stop --savepoint --name final\n  statefulspark stop --url http://10.0.0.7:8090",
        formatter_class=options.Help,
    )
    parser.add_argument("--savepoint", action="store_true", help="take a savepoint at the last boundary")
    parser.add_argument("--name", help="becomes part of the savepoint's folder's name")
    parser.add_argument("--location", metavar="URI", help="folder for the savepoint; the job's default when omitted")
    waiting.add_flags(parser)
    output.add_flag(parser)
    options.add_driver(parser)
    parser.set_defaults(handle=_stop)


def _stop(args: argparse.Namespace) -> int:
    request = waiting.checked(
        api.StopRequest,
        request_id=waiting.request_id(args),
        savepoint=args.savepoint or args.location is not None or args.name is not None,
        location=args.location,
        name=args.name,
    )
    driver = options.open_driver(args)
    return waiting.follow(driver, driver.stop(request), args)
