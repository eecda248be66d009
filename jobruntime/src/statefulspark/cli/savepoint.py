"""`statefulspark savepoint`: triggers savepoints in a driver, and manages savepoints on storage."""

from __future__ import annotations

import argparse

from statefulspark import errors, state_reading
from statefulspark.checkpoint import relocate, savepoint
from statefulspark.cli import options, output, progress, reading, snapshots, terminal, verbs, waiting
from statefulspark.contract import api, layout, sizes
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.contract.manifest import SnapshotFormat, SnapshotKind
from statefulspark.recovery import external_savepoints
from statefulspark.retention import owners, ownership

_EXAMPLE = f"{options.EXAMPLE_ROOT}/savepoints/00000043-nightly"


def add_parser(commands: options.SubParsers) -> None:
    """Add the command and its verbs."""
    parser = commands.add_parser(
        "savepoint",
        help="take and manage savepoints",
        description="Take savepoints through a job's driver, and manage those on storage, which needs no running driver.",
        epilog="examples:\n  statefulspark savepoint create --name before-upgrade\n"
        f"  statefulspark savepoint list --root {options.EXAMPLE_ROOT}",
        formatter_class=options.Help,
    )
    children = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_requests(children)
    noun = verbs.Noun(
        kind=SnapshotKind.SAVEPOINT,
        example=_EXAMPLE,
        listing="List the job's savepoints, newest first: those in its folder, and those at other locations, with their "
        "location and whether they can be read now.",
        verifying=" A savepoint whose folder was moved can be verified, too.",
        add_reference=_add_location,
        find=_find,
    )
    verbs.add(children, noun)
    _add_copies(children)
    dispose = children.add_parser(
        "dispose",
        help="delete a savepoint",
        description="Delete a savepoint, its manifest first. Other snapshots never depend on it. After an interruption, "
        "run it again to delete the rest.",
        epilog=f"example:\n  statefulspark savepoint dispose {_EXAMPLE}",
        formatter_class=options.Help,
    )
    _add_location(dispose)
    options.add_root(dispose)
    dispose.set_defaults(handle=_dispose)


def _add_requests(children: options.SubParsers) -> None:
    """Add what asks a running driver."""
    create = children.add_parser(
        "create",
        help="ask a running driver for a savepoint",
        description="Ask a running driver for a savepoint, wait for it, and print its location. The job continues.",
        epilog="examples:\n  kubectl port-forward pod/words-driver-7 8090 &\n"
        "  statefulspark savepoint create --name before-upgrade\n\n"
        "  Ask now and wait later; the same request id never makes a second one:\n"
        "    statefulspark savepoint create --request-id nightly-2026-11-21 --detach\n"
        "    statefulspark savepoint wait nightly-2026-11-21\n\n"
        "exit codes:\n  0 completed   1 failed   2 refused   16 no answer, or not complete in time: it may continue",
        formatter_class=options.Help,
    )
    create.add_argument("--name", help="becomes part of the folder's name: a-z, 0-9 and '-'")
    create.add_argument(
        "--location", metavar="URI", help="folder in which it is created; the job's default when omitted"
    )
    create.add_argument(
        "--format", type=SnapshotFormat, choices=tuple(SnapshotFormat), default=SnapshotFormat.NATIVE, metavar="FORMAT",
        help="native (default: fast, for the same number of key groups) or canonical (Parquet, for any)",
    )  # fmt: skip
    waiting.add_flags(create)
    output.add_flag(create)
    options.add_driver(create)
    create.set_defaults(handle=_create)
    wait = children.add_parser(
        "wait",
        help="wait for a savepoint (or checkpoint, or stop) that was requested earlier",
        description="Wait for the operation with this request id, and print its location. A driver forgets its requests "
        "when it ends, and remembers only the last 200.",
        epilog="example:\n  statefulspark savepoint wait nightly-2026-11-21 --timeout 1h",
        formatter_class=options.Help,
    )
    wait.add_argument("request_id", metavar="ID", help="the request id")
    waiting.add_timeout(wait)
    output.add_flag(wait)
    options.add_driver(wait)
    wait.set_defaults(handle=_wait, detach=False)


def _add_copies(children: options.SubParsers) -> None:
    """Add what writes a snapshot on storage to another folder."""
    copy = children.add_parser(
        "copy",
        help="copy a savepoint to another folder or bucket",
        description="Copy a savepoint to another folder or bucket. The copy is equal to the original, which stays. An "
        "interrupted copy continues when the command is run again. On one server no byte passes this machine.",
        epilog=f"examples:\n  statefulspark savepoint copy {_EXAMPLE} s3://archive/words/\n"
        f"  statefulspark savepoint copy {_EXAMPLE} s3://archive/words-2026\n\n"
        "exit codes:\n  0 copied   1 another savepoint is there   15 no such savepoint   16 storage unavailable   17 broken",
        formatter_class=options.Help,
    )
    _add_location(copy)
    copy.add_argument(
        "target", metavar="TARGET", help="folder of the copy; with a trailing / the copy becomes a folder inside it"
    )
    output.add_flag(copy)
    options.add_root(copy)
    copy.set_defaults(handle=_copy)
    conversion = children.add_parser(
        "convert",
        help="convert a snapshot to a canonical savepoint",
        description="Write a checkpoint or native savepoint as a canonical savepoint: Parquet, which can be restored with "
        "any number of partitions and key groups. No job has to run; Spark reads the state on this machine, one query at "
        "a time, and needs disk for it.",
        epilog=f"example:\n  statefulspark savepoint convert {_EXAMPLE} s3://bucket/archive/words-43\n\n"
        "exit codes:\n  0 done   1 the target exists already   15 no such snapshot   16 storage unavailable   17 broken",
        formatter_class=options.Help,
    )
    conversion.add_argument("source", metavar="SOURCE", help="URI of the snapshot's folder")
    conversion.add_argument("target", metavar="TARGET", help="URI of the new savepoint's folder")
    output.add_flag(conversion)
    options.add_connection(conversion)
    conversion.set_defaults(handle=_convert)


def _add_location(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("location", metavar="LOCATION", help="URI of the savepoint's folder, or its number in the root")


def _find(args: argparse.Namespace) -> verbs.SnapshotFolder:
    """Return a store and the savepoint's folder below it; only for a number it is known to exist."""
    location: str = args.location
    if location.isascii() and location.isdigit():
        store = options.open_root(args)
        external_location = external_savepoints.location_of(store, int(location))
        if external_location is not None:
            return _split(external_location, args)
        return store, reading.find(store, SnapshotKind.SAVEPOINT, int(location))
    return _split(layout.snapshot_folder(location), args)


def _split(location: str, args: argparse.Namespace) -> verbs.SnapshotFolder:
    """Return the store above a folder, and the folder's name."""
    parent, _, folder = location.rstrip("/").rpartition("/")
    if "://" not in parent or parent.endswith(":/"):
        raise errors.SpecRejectedError(
            "LocationInvalid", f"The savepoint {location!r} must be a number, or a URI like {_EXAMPLE}."
        )
    return options.open_location(parent, args), folder


def _create(args: argparse.Namespace) -> int:
    request = waiting.build_request(
        api.SavepointRequest,
        request_id=waiting.request_id(args),
        location=args.location,
        name=args.name,
        format=args.format,
    )
    driver = options.open_driver(args)
    return waiting.follow(driver, driver.create_savepoint(request), args)


def _wait(args: argparse.Namespace) -> int:
    driver = options.open_driver(args)
    return waiting.follow(driver, driver.operation(args.request_id, wait_s=0), args)


def _copy(args: argparse.Namespace) -> int:
    store, folder = _find(args)
    requested: str = args.target
    location = f"{requested}{folder.rpartition('/')[2]}" if requested.endswith("/") else requested
    target, target_folder = _split(location, args)
    reading.read(store, folder)  # Raises the error that explains a wrong folder.
    with progress.Bar("copying", quiet=args.quiet) as bar:
        copied = relocate.relocate(store, folder, target, target_folder, on_progress=bar.show)
    location = f"{target.uri}/{target_folder}"
    data = {
        "location": location,
        "id": copied.manifest.id,
        "files": copied.files,
        "sizeBytes": copied.size_bytes,
        "copiedFiles": copied.copied_files,
    }
    size = sizes.format_short(copied.size_bytes)
    sentence = f"{copied.manifest.label} copied to {location} ({copied.files} files, {size})\n"
    output.write(output.Result(data, [f"savepoint/{copied.manifest.id}"], lambda _: sentence), args.output)
    return ExitCode.FINISHED


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


def _dispose(args: argparse.Namespace) -> int:
    store, folder = _find(args)
    location = reading.location_of(store, folder)
    ownership.require(owners.named_savepoint_ownership(store, folder), ownership.Deletion.COMMAND, location)
    deleted = savepoint.dispose(store, folder)
    if deleted == 0:
        raise errors.SpecRejectedError(
            "SnapshotNotFound",
            f"There is nothing at {location}; `statefulspark savepoint list` shows the existing ones.",
        )
    terminal.write(f"savepoint {location} deleted ({deleted} objects)")
    return ExitCode.FINISHED
