"""`statefulspark code`: lay a job's code out that is not in its image.

The operator runs it in front of drivers and executors; what it writes is what an image would have had there.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from statefulspark import jobcode, launch, storage, telemetry
from statefulspark.cli import options
from statefulspark.commandline import commands, terminal
from statefulspark.contract.exit_codes import ExitCode

_EPILOG = """\
examples:
  Unpack a zip with several modules, and run the job in it:
    statefulspark code s3://bucket/code/flights.zip --sha256 9f86d08... --into /opt/job
    PYTHONPATH=/opt/job statefulspark run /opt/job/flights.py --storage s3://bucket/prefix

exit codes:
  0 done   2 wrong options   13 missing, too large, or not what its checksum says   16 storage unavailable
"""


@click.command(
    "code",
    cls=commands.Command,
    hidden=True,
    help="Fetch a job's code, a Python file or a zip, check it against its checksum, and write it into a folder.",
    epilog=_EPILOG,
)
@click.argument("uri", metavar="URI", help="s3://bucket/path/job.py, or a zip, which is unpacked")
@click.option("--sha256", required=True, metavar="SUM", help="its checksum, as sha256sum prints it")
@click.option("--into", required=True, type=click.Path(path_type=Path), metavar="FOLDER", help="an existing folder")
@click.option("--virtual-host", is_flag=True, help="address the bucket as a host's name, and not as a folder")
@options.connection
def command(uri: str, sha256: str, into: Path, virtual_host: bool, connection: options.StorageAccess) -> int:
    """Run the command; a failure is also written to the termination log, where the operator reads it."""
    telemetry.configure(None, detail=telemetry.Detail.BRIEF)

    def lay_out() -> int:
        folder, _, name = uri.rpartition("/")
        store = storage.open_store(folder, replace(connection.settings(), path_style=not virtual_host))
        jobcode.lay_out(jobcode.read(store, name, sha256), name, into)
        terminal.note(f"{uri} is in {into}")
        return ExitCode.SUCCESS

    return launch.guard(lay_out)
