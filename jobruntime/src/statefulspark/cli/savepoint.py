"""`statefulspark savepoint`: ask a driver for one, and look after those on storage."""

from __future__ import annotations

import argparse

from statefulspark import errors, storage
from statefulspark.cli import options, reading, terminal, waiting
from statefulspark.contract import api
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.contract.manifest import MANIFEST_NAME, SnapshotKind
from statefulspark.snapshot import savepoint

_ROOT = "s3://bucket/prefix/default/words"
_ONE = f"{_ROOT}/savepoints/00000043-nightly"


def add_parser(commands: options.SubParsers) -> None:
    """Add the command and its verbs."""
    parser = commands.add_parser(
        "savepoint",
        help="take savepoints and look after them",
        description="Take savepoints through a job's driver, and look after those on storage, where no driver has to run.",
        epilog="example:\n  statefulspark savepoint create --name before-upgrade\n"
        f"  statefulspark savepoint list --root {_ROOT}",
        formatter_class=options.Help,
    )
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_create(verbs)
    _add_list(verbs)
    _add_show(verbs)
    _add_verify(verbs)
    _add_dispose(verbs)


def _add_create(verbs: options.SubParsers) -> None:
    parser = verbs.add_parser(
        "create",
        help="ask a running driver for a savepoint",
        description="Ask a running driver for a savepoint, wait for it, and print its location. The job goes on.",
        epilog="examples:\n  kubectl port-forward pod/words-driver-7 8090 &\n"
        "  statefulspark savepoint create --name before-upgrade\n\n"
        "  Ask, and look again later; the same request id never makes a second one:\n"
        "    statefulspark savepoint create --request-id nightly-2026-11-21 --detached\n"
        "    statefulspark savepoint create --request-id nightly-2026-11-21",
        formatter_class=options.Help,
    )
    parser.add_argument("--name", help="becomes part of the folder's name: a-z, 0-9 and '-'")
    parser.add_argument("--location", metavar="URI", help="folder to make it in; the job's default when omitted")
    waiting.add_flags(parser)
    options.add_output(parser)
    options.add_driver(parser)
    parser.set_defaults(handle=_create)


def _add_list(verbs: options.SubParsers) -> None:
    parser = verbs.add_parser(
        "list",
        help="list the savepoints in the job's folder, newest first",
        description="List the completed savepoints in the job's folder, newest first. Those at other locations are not "
        "in it.",
        epilog=f"example:\n  statefulspark savepoint list --root {_ROOT} -o wide",
        formatter_class=options.Help,
    )
    options.add_output(parser)
    options.add_root(parser)
    parser.set_defaults(handle=lambda args: reading.list_kind(args, SnapshotKind.SAVEPOINT))


def _add_show(verbs: options.SubParsers) -> None:
    parser = verbs.add_parser(
        "show",
        help="show everything about one savepoint",
        description="Show everything about one savepoint; -o wide lists its files, -o json prints the manifest.",
        epilog=f"examples:\n  statefulspark savepoint show {_ONE}\n  statefulspark savepoint show 43 --root {_ROOT}",
        formatter_class=options.Help,
    )
    _add_location(parser)
    options.add_output(parser)
    options.add_root(parser)
    parser.set_defaults(handle=_show)


def _add_verify(verbs: options.SubParsers) -> None:
    parser = verbs.add_parser(
        "verify",
        help="check that every file of a savepoint is there and unchanged",
        description="Check that every file of a savepoint is there, with the size and checksum of its manifest. Works on "
        "a savepoint that was moved as a folder, too.",
        epilog=f"example:\n  statefulspark savepoint verify {_ONE} --deep\n\n"
        "exit codes:\n  0 complete   15 no such savepoint   16 storage unavailable   17 broken",
        formatter_class=options.Help,
    )
    _add_location(parser)
    parser.add_argument("--deep", action="store_true", help="read every file, instead of trusting equal etags")
    options.add_output(parser)
    options.add_root(parser)
    parser.set_defaults(handle=_verify)


def _add_dispose(verbs: options.SubParsers) -> None:
    parser = verbs.add_parser(
        "dispose",
        help="delete a savepoint",
        description="Delete a savepoint, its manifest first. Other snapshots never depend on it. Run again after an "
        "interruption, it deletes the rest.",
        epilog=f"example:\n  statefulspark savepoint dispose {_ONE}",
        formatter_class=options.Help,
    )
    _add_location(parser)
    options.add_root(parser)
    parser.set_defaults(handle=_dispose)


def _add_location(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("location", metavar="LOCATION", help="URI of the savepoint's folder, or its number in the root")


def _find(args: argparse.Namespace) -> tuple[storage.ObjectStore, str]:
    """Return a store and the savepoint's folder below it; whether it exists is only known for a number."""
    location: str = args.location
    if location.isascii() and location.isdigit():
        store = options.open_root(args)
        return store, reading.find(store, SnapshotKind.SAVEPOINT, int(location))
    parent, _, folder = location.removesuffix(f"/{MANIFEST_NAME}").rstrip("/").rpartition("/")
    if "://" not in parent:
        raise errors.SpecRejectedError(
            "LocationInvalid", f"The savepoint {location!r} must be a number, or a URI like {_ONE}."
        )
    return options.open_location(parent, args), folder


def _show(args: argparse.Namespace) -> int:
    store, folder = _find(args)
    return reading.show(store, folder, args)


def _verify(args: argparse.Namespace) -> int:
    store, folder = _find(args)
    return reading.verify_one(store, folder, args)


def _dispose(args: argparse.Namespace) -> int:
    store, folder = _find(args)
    location = reading.location_of(store, folder)
    deleted = savepoint.dispose(store, folder)
    if deleted == 0:
        raise errors.SpecRejectedError(
            "SnapshotNotFound", f"There is nothing at {location}; `statefulspark savepoint list` shows what there is."
        )
    terminal.write(f"savepoint {location} deleted ({deleted} objects)")
    return ExitCode.FINISHED


def _create(args: argparse.Namespace) -> int:
    request = waiting.checked(
        api.SavepointRequest, request_id=waiting.request_id(args), location=args.location, name=args.name
    )
    driver = options.open_driver(args)
    return waiting.follow(driver, driver.create_savepoint(request), args)
