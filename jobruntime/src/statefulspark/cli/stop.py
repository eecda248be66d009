"""`statefulspark stop`: stops a running job at a batch boundary."""

from __future__ import annotations

import click

from statefulspark.cli import options, waiting
from statefulspark.commandline import commands, flags, output
from statefulspark.contract import api
from statefulspark.contract.manifest import SnapshotFormat


@click.command(
    "stop",
    cls=commands.Command,
    short_help="stop a running job, optionally with a savepoint",
    help="Stop a running job: its batches end, a checkpoint (or savepoint) is completed at that boundary, and the driver "
    "exits. Prints the location of the snapshot. In a cluster, set `suspend: true` on the resource instead: the operator "
    "would start the job again.",
    epilog="examples:\n  statefulspark stop --savepoint --name final\n  statefulspark stop --drain --name the-end\n"
    "  statefulspark stop --format canonical --location s3://archive/words\n"
    "  statefulspark stop --url http://10.0.0.7:8090",
)
@click.option("--savepoint", is_flag=True, help="take a savepoint at the last boundary")
@click.option(
    "--drain", is_flag=True, help="before the savepoint, read what the sources have now, fire all event-time timers and "
    "close all windows; for a job that ends for good",
)  # fmt: skip
@waiting.savepoint_options
@waiting.request_option
@flags.waiting
@output.options
@options.driver
def command(
    savepoint: bool,
    drain: bool,
    asked: waiting.AskedSavepoint,
    request_id: str,
    waits: flags.Waiting,
    printing: output.Printing,
    driver: options.DriverAddress,
) -> None:
    """Run the command."""
    request = waiting.build_request(
        api.StopRequest,
        request_id=request_id,
        savepoint=bool(savepoint or drain or asked.format or asked.location or asked.name),
        drain=drain,
        format=asked.format or SnapshotFormat.NATIVE,
        location=asked.location,
        name=asked.name,
    )
    client = driver.open()
    waiting.follow(client, client.stop(request), waits.limit(), printing)
