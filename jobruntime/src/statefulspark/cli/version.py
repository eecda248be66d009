"""`statefulspark version`: print the versions that matter for state."""

from __future__ import annotations

import platform
from importlib import metadata

import click

from statefulspark._version import __version__
from statefulspark.commandline import commands, terminal
from statefulspark.contract import formats


@click.command(
    "version",
    cls=commands.Command,
    short_help="print versions",
    help="Print the versions of this release, of its manifests (format), of Python and of PySpark.",
    epilog="example:\n  statefulspark version",
)
def command() -> None:
    """Run the command."""
    try:
        pyspark = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        pyspark = "not installed"
    terminal.write(f"statefulspark {__version__}")
    terminal.write(f"format {formats.MANIFEST.writes}")
    terminal.write(f"python {platform.python_version()}")
    terminal.write(f"pyspark {pyspark}")
