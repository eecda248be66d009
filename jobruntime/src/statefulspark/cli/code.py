"""`statefulspark code`: lay a job's code out that is not in its image.

The operator runs it in front of drivers and executors; what it writes is what an image would have had there.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from statefulspark import jobcode, launch, storage, telemetry
from statefulspark.cli import options, terminal
from statefulspark.contract.exit_codes import ExitCode

_EPILOG = """\
examples:
  Unpack a zip with several modules, and run the job in it:
    statefulspark code s3://bucket/code/flights.zip --sha256 9f86d08... --into /opt/job
    PYTHONPATH=/opt/job statefulspark run /opt/job/flights.py --storage s3://bucket/prefix

exit codes:
  0 done   2 wrong flags   13 missing, too large, or not what its checksum says   16 storage unavailable
"""


def add_parser(commands: options.SubParsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "code",
        help="fetch a job's code by its checksum",
        description="Fetch a job's code, a Python file or a zip, check it against its checksum, and write it into a folder.",
        epilog=_EPILOG,
        formatter_class=options.Help,
    )
    parser.add_argument("uri", metavar="URI", help="s3://bucket/path/job.py, or a zip, which is unpacked")
    parser.add_argument("--sha256", required=True, metavar="SUM", help="its checksum, as sha256sum prints it")
    parser.add_argument("--into", required=True, type=Path, metavar="FOLDER", help="an existing folder")
    options.add_connection(parser)
    parser.add_argument("--virtual-host", action="store_true",
                        help="address the bucket as a host's name, and not as a folder")  # fmt: skip
    parser.set_defaults(handle=run)


def run(args: argparse.Namespace) -> int:
    """Run the command; a failure is also written to the termination log, where the operator reads it."""
    telemetry.configure(None, detail=telemetry.Detail.BRIEF)
    return launch.guard(lambda: _run(args))


def _run(args: argparse.Namespace) -> int:
    folder, _, name = args.uri.rpartition("/")
    connection = replace(options.storage_options(args), path_style=not args.virtual_host)
    store = storage.open_store(folder, connection)
    jobcode.lay_out(jobcode.read(store, name, args.sha256), name, args.into)
    terminal.note(f"{args.uri} is in {args.into}")
    return ExitCode.FINISHED
