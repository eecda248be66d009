"""What `checkpoint` and `savepoint` share: find a snapshot on storage, list, show and verify it."""

from __future__ import annotations

import argparse

from statefulspark import clock, errors
from statefulspark.checkpoint import catalog, verify
from statefulspark.cli import options, output, snapshots, terminal
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.contract.manifest import MANIFEST_NAME, Manifest, SnapshotKind
from statefulspark.recovery import external_savepoints
from statefulspark.storage import ObjectStore


def list_kind(args: argparse.Namespace, kind: SnapshotKind) -> int:
    """Write the list of a job's snapshots of one kind, newest first."""
    store = options.open_root(args)
    refs = [ref for ref in catalog.list_snapshots(store) if ref.kind is kind]
    found = [
        snapshots.Listed(ref.kind, ref.id, f"{store.uri}/{ref.folder}", manifest)
        for ref in refs
        for manifest in catalog.read_manifests(store, (ref,))
    ]
    if kind is SnapshotKind.SAVEPOINT:
        found = sorted([*found, *_elsewhere(store, args)], key=lambda one: one.id, reverse=True)
    is_for_people = args.output in (terminal.OutputFormat.TABLE, terminal.OutputFormat.WIDE)
    if not found and is_for_people:
        if not args.quiet:
            terminal.note(f"There are no {kind.value}s at {store.uri}.")
        return ExitCode.FINISHED
    output.write(snapshots.listed(found, now=clock.utc_now()), args.output)
    for one in found if is_for_people and not args.quiet else ():
        if isinstance(one.manifest, errors.StatefulSparkError):
            terminal.note(f"{one.kind.value} {one.id} cannot be read now: {one.manifest.message}")
    return ExitCode.FINISHED


def _elsewhere(store: ObjectStore, args: argparse.Namespace) -> list[snapshots.Listed]:
    """Return the savepoints at other locations, whether they can be read now or not."""
    found = external_savepoints.look(store, lambda uri: options.open_location(uri, args))
    return [
        snapshots.Listed(SnapshotKind.SAVEPOINT, one.id, one.location, one.manifest, is_elsewhere=True) for one in found
    ]


def show(store: ObjectStore, folder: str, args: argparse.Namespace) -> int:
    """Write everything about one snapshot."""
    manifest = read(store, folder)
    output.write(snapshots.described(manifest, location_of(store, folder)), args.output)
    return ExitCode.FINISHED


def verify_one(store: ObjectStore, folder: str, args: argparse.Namespace) -> int:
    """Verify one snapshot; every broken file is listed, and the exit code says whether there is one."""
    manifest = read(store, folder)
    root = "" if manifest.kind is SnapshotKind.CHECKPOINT else folder
    report = verify.verify(store, manifest, root=root, deep=args.deep)
    output.write(snapshots.verified(manifest, location_of(store, folder), report), args.output)
    return ExitCode.FINISHED if report.ok else ExitCode.STATE_UNKNOWN


def read(store: ObjectStore, folder: str) -> Manifest:
    """Read a manifest.

    Raises:
        SpecRejectedError: `SnapshotNotFound`.
        SnapshotCorruptError: It is unreadable.
    """
    try:
        return catalog.read_manifest(store, folder)
    except errors.ObjectNotFoundError as error:
        raise _not_found(store, folder) from error


def _not_found(store: ObjectStore, folder: str) -> errors.SpecRejectedError:
    """Tell a folder without a manifest from one that is not there at all (A.166)."""
    location = location_of(store, folder)
    if store.list_names(folder):
        return errors.SpecRejectedError(
            "SnapshotNotFound",
            f"The folder {location} has no {MANIFEST_NAME}, which is written last: a snapshot that was never completed, or "
            "another folder; `statefulspark doctor` says what is there.",
        )
    return errors.SpecRejectedError(
        "SnapshotNotFound",
        f"There is no completed snapshot at {location}; `statefulspark checkpoint list` and `statefulspark savepoint list` "
        "show what there is.",
    )


def find(store: ObjectStore, kind: SnapshotKind, wanted: int | None) -> str:
    """Return the folder of a snapshot in the job's root.

    Args:
        store: The job's root.
        kind: Checkpoint or savepoint.
        wanted: Its number; None is the newest.

    Raises:
        SpecRejectedError: `SnapshotNotFound`, naming those that exist.
    """
    refs = [ref for ref in catalog.list_snapshots(store) if ref.kind is kind]
    found = next((ref for ref in refs if wanted is None or ref.id == wanted), None)
    if found is None:
        present = ", ".join(str(ref.id) for ref in refs[:10]) or "none"
        name = kind.value if wanted is None else f"{kind.value} {wanted}"
        raise errors.SpecRejectedError(
            "SnapshotNotFound", f"There is no {name} at {store.uri}; completed are: {present}."
        )
    return found.folder


def location_of(store: ObjectStore, folder: str) -> str:
    """Return the absolute URI of a folder."""
    return f"{store.uri}/{folder}" if folder else store.uri
