"""`statefulspark savepoint`: takes savepoints in a driver, and manages savepoints on storage."""

from __future__ import annotations

from datetime import timedelta

import click

from statefulspark import errors, state_reading
from statefulspark.checkpoint import relocate, savepoint
from statefulspark.cli import options, progress, reading, snapshots, verbs, waiting
from statefulspark.commandline import commands, flags, output, terminal, values
from statefulspark.contract import api, layout, sizes
from statefulspark.contract.manifest import SnapshotFormat, SnapshotKind
from statefulspark.recovery import external_savepoints
from statefulspark.retention import owners, ownership

_LOCATION = "URI of the savepoint's folder, or its number in the job's folder"
_EXAMPLE = "s3://bucket/prefix/default/words/savepoints/00000043-nightly"


def _find(location: str, job_folder: options.JobFolder) -> verbs.SnapshotFolder:
    """Return a store and the savepoint's folder below it; only for a number it is known to exist."""
    if location.isascii() and location.isdigit() and len(location) <= values.MOST_DIGITS:
        store = job_folder.open_job()
        external_location = external_savepoints.location_of(store, int(location))
        if external_location is not None:
            return _split(external_location, job_folder)
        return store, reading.find(store, SnapshotKind.SAVEPOINT, int(location))
    return _split(layout.snapshot_folder(location), job_folder)


def _split(location: str, job_folder: options.JobFolder) -> verbs.SnapshotFolder:
    """Return the store above a folder, and the folder's name."""
    parent, _, folder = location.rstrip("/").rpartition("/")
    if "://" not in parent or parent.endswith(":/"):
        raise errors.SpecRejectedError(
            "LocationInvalid", f"The savepoint {location!r:.100} must be a number, or a URI like {_EXAMPLE}."
        )
    return job_folder.open(parent), folder


command = commands.Group(
    "savepoint",
    short_help="take and manage savepoints",
    help="Take savepoints through a job's driver, and manage those on storage, which needs no running driver.",
    epilog="examples:\n  statefulspark savepoint create --name before-upgrade\n"
    f"  statefulspark savepoint list --storage {options.EXAMPLE_STORAGE}",
)


@command.command(
    "create",
    short_help="ask a running driver for a savepoint",
    help="Ask a running driver for a savepoint, wait for it, and print its location. The job continues.",
    epilog="examples:\n  kubectl port-forward pod/words-driver-7 8090 &\n"
    "  statefulspark savepoint create --name before-upgrade\n\n"
    "  Request it now and wait later; the same request id never makes a second one:\n"
    "    statefulspark savepoint create --request-id nightly-2026-11-21 --no-wait\n"
    "    statefulspark savepoint wait nightly-2026-11-21\n\n"
    "exit codes:\n  0 completed   1 failed   2 refused   16 no answer, or not complete in time: it may continue",
)
@waiting.savepoint_options
@waiting.request_option
@flags.waiting
@output.options
@options.driver
def create(
    asked: waiting.AskedSavepoint,
    request_id: str,
    waits: flags.Waiting,
    printing: output.Printing,
    driver: options.DriverAddress,
) -> None:
    """Run `create`."""
    request = waiting.build_request(
        api.SavepointRequest,
        request_id=request_id,
        location=asked.location,
        name=asked.name,
        format=asked.format or SnapshotFormat.NATIVE,
    )
    client = driver.open()
    waiting.follow(client, client.create_savepoint(request), waits.limit(), printing)


@command.command(
    "wait",
    short_help="wait for a savepoint (or checkpoint, or stop) that was requested earlier",
    help="Wait for the operation with this request id, and print its location. A driver forgets its requests when it ends, "
    "and remembers only the last 200.",
    epilog="example:\n  statefulspark savepoint wait nightly-2026-11-21 --timeout 1h",
)
@click.argument("request_id", metavar="ID", help="the request id")
@flags.TIMEOUT
@output.options
@options.driver
def wait(request_id: str, timeout: timedelta | None, printing: output.Printing, driver: options.DriverAddress) -> None:
    """Run `wait`."""
    client = driver.open()
    waiting.follow(client, client.operation(request_id, wait_s=0), timeout or flags.DEFAULT_TIMEOUT, printing)


verbs.add(
    command,
    verbs.Noun(
        kind=SnapshotKind.SAVEPOINT,
        example=_EXAMPLE,
        listing="List the job's savepoints, newest first: those in its folder, and those at other locations, with their "
        "location and whether they can be read now.",
        verifying=" A savepoint whose folder was moved can be verified, too.",
        metavar="LOCATION",
        meaning=_LOCATION,
        read=str,
        find=_find,
    ),
)


@command.command(
    "copy",
    short_help="copy a savepoint to another folder or bucket",
    help="Copy a savepoint to another folder or bucket. The copy is equal to the original, which stays. An interrupted copy "
    "continues when the command is run again. On one server no byte passes this machine.",
    epilog=f"examples:\n  statefulspark savepoint copy {_EXAMPLE} s3://archive/words/\n"
    f"  statefulspark savepoint copy {_EXAMPLE} s3://archive/words-2026\n\n"
    "exit codes:\n  0 copied   1 another savepoint is there   15 no such savepoint   16 storage unavailable   17 broken",
)
@click.argument("location", help=_LOCATION)
@click.argument("target", help="folder of the copy; with a trailing / the copy becomes a folder inside it")
@output.options
@options.job_folder
def copy(location: str, target: str, printing: output.Printing, job_folder: options.JobFolder) -> None:
    """Run `copy`."""
    store, folder = _find(location, job_folder)
    target_store, target_folder = _split(
        f"{target}{folder.rpartition('/')[2]}" if target.endswith("/") else target, job_folder
    )
    reading.read(store, folder)  # Raises the error that explains a wrong folder.
    with progress.Bar("copying", quiet=printing.quiet) as bar:
        copied = relocate.relocate(store, folder, target_store, target_folder, on_progress=bar.show)
    copy_location = f"{target_store.uri}/{target_folder}"
    data = {
        "location": copy_location,
        "id": copied.manifest.id,
        "files": copied.files,
        "sizeBytes": copied.size_bytes,
        "copiedFiles": copied.copied_files,
    }
    size = sizes.format_short(copied.size_bytes)
    sentence = f"{copied.manifest.label} copied to {copy_location} ({copied.files} files, {size})\n"
    printing.write(output.Result(data, [f"savepoint/{copied.manifest.id}"], lambda _: sentence))


@command.command(
    "convert",
    short_help="convert a snapshot to a canonical savepoint",
    help="Write a checkpoint or native savepoint as a canonical savepoint: Parquet, which can be restored with any number "
    "of partitions and key groups. No job has to run; Spark reads the state on this machine, one query at a time, and "
    "needs disk for it.",
    epilog=f"example:\n  statefulspark savepoint convert {_EXAMPLE} s3://bucket/archive/words-43\n\n"
    "exit codes:\n  0 done   1 the target exists already   15 no such snapshot   16 storage unavailable   17 broken",
)
@options.location
@click.argument("target", help="URI of the new savepoint's folder")
@output.options
@options.connection
def convert(location: str, target: str, printing: output.Printing, connection: options.StorageAccess) -> None:
    """Run `convert`."""
    parent, _, folder = target.rstrip("/").rpartition("/")
    if "://" not in parent:
        raise errors.SpecRejectedError(
            "LocationInvalid", f"{target!r} must be the URI of a folder below a bucket or directory."
        )
    with progress.Bar("converting", quiet=printing.quiet) as bar:
        manifest = state_reading.convert(location, parent, folder, connection.settings(), on_progress=bar.report)
    printing.write(snapshots.converted(manifest, target.rstrip("/")))


@command.command(
    "dispose",
    short_help="delete a savepoint",
    help="Delete a savepoint, its manifest first. Other snapshots never depend on it. After an interruption, run it again "
    "to delete the rest.",
    epilog=f"example:\n  statefulspark savepoint dispose {_EXAMPLE}",
)
@click.argument("location", help=_LOCATION)
@options.job_folder
def dispose(location: str, job_folder: options.JobFolder) -> None:
    """Run `dispose`."""
    store, folder = _find(location, job_folder)
    folder_uri = reading.location_of(store, folder)
    ownership.require(owners.named_savepoint_ownership(store, folder), ownership.Deletion.COMMAND, folder_uri)
    deleted = savepoint.dispose(store, folder)
    if deleted == 0:
        raise errors.SpecRejectedError(
            "SnapshotNotFound",
            f"There is nothing at {folder_uri}; `statefulspark savepoint list` shows the existing ones.",
        )
    terminal.write(f"savepoint {folder_uri} deleted ({deleted} objects)")
