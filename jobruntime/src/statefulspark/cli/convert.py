"""`statefulspark savepoint convert`: converts any snapshot to a canonical savepoint, without a job."""

from __future__ import annotations

import argparse

from statefulspark import errors, state_reading
from statefulspark.cli import options, output, progress, snapshots
from statefulspark.contract.exit_codes import ExitCode


def add_parser(children: options.SubParsers) -> None:
    """Add the verb."""
    example = f"{options.EXAMPLE_ROOT}/savepoints/00000043-nightly"
    parser = children.add_parser(
        "convert",
        help="convert a snapshot to a canonical savepoint",
        description="Write a checkpoint or native savepoint as a canonical savepoint: Parquet, which can be restored with "
        "any number of partitions and key groups. No job has to run; Spark reads the state on this machine, one query at "
        "a time, and needs disk for it.",
        epilog=f"example:\n  statefulspark savepoint convert {example} s3://bucket/archive/words-43\n\n"
        "exit codes:\n  0 done   1 the target exists already   15 no such snapshot   16 storage unavailable   17 broken",
        formatter_class=options.Help,
    )
    parser.add_argument("source", metavar="SOURCE", help="URI of the snapshot's folder")
    parser.add_argument("target", metavar="TARGET", help="URI of the new savepoint's folder")
    output.add_flag(parser)
    options.add_connection(parser)
    parser.set_defaults(handle=_convert)


def _convert(args: argparse.Namespace) -> int:
    parent, _, folder = args.target.rstrip("/").rpartition("/")
    if "://" not in parent:
        raise errors.SpecRejectedError(
            "LocationInvalid", f"{args.target!r} must be the URI of a folder below a bucket or directory."
        )
    with progress.Bar("converting", quiet=args.quiet) as bar:
        manifest = state_reading.convert(
            args.source, parent, folder, options.storage_options(args), on_progress=bar.report
        )
    output.write(snapshots.converted(manifest, args.target.rstrip("/")), args.output)
    return ExitCode.FINISHED
