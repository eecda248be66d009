"""Finds, lists, shows and verifies snapshots on storage, for `checkpoint` and `savepoint`."""

from __future__ import annotations

from statefulspark import clock, doctor, errors
from statefulspark.checkpoint import catalog, verify
from statefulspark.cli import options, snapshots
from statefulspark.commandline import output
from statefulspark.contract import layout
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.contract.manifest import Manifest, SnapshotKind
from statefulspark.recovery import external_savepoints
from statefulspark.storage import ObjectStore


def list_kind(job_folder: options.JobFolder, kind: SnapshotKind, printing: output.Printing) -> None:
    """Write the list of a job's snapshots of one kind, newest first."""
    store = job_folder.open_job()
    refs = [ref for ref in catalog.list_snapshots(store) if ref.kind is kind]
    listed = [
        snapshots.ListedSnapshot(ref.kind, ref.id, f"{store.uri}/{ref.folder}", manifest)
        for ref in refs
        for manifest in catalog.read_manifests(store, (ref,))
    ]
    if kind is SnapshotKind.SAVEPOINT:
        savepoints = external_savepoints.list_all(store, job_folder.open)
        listed = sorted(
            [
                *listed,
                *[
                    snapshots.ListedSnapshot(
                        SnapshotKind.SAVEPOINT, savepoint.id, savepoint.location, savepoint.manifest, is_elsewhere=True
                    )
                    for savepoint in savepoints
                ],
            ],
            key=lambda snapshot: snapshot.id,
            reverse=True,
        )
    if not listed and printing.is_for_people:
        printing.note(f"There are no {kind.value}s at {store.uri}.{_hint(store)}")
        return
    printing.write(snapshots.listed(listed, now=clock.utc_now()))
    for snapshot in listed if printing.is_for_people else ():
        if isinstance(snapshot.manifest, errors.StatefulSparkError):
            printing.note(f"{snapshot.kind.value} {snapshot.id} cannot be read now: {snapshot.manifest.message}")


def _hint(store: ObjectStore) -> str:
    """Return what the folder is, if it is no job's: the root of jobs, or a folder of savepoints."""
    jobs = doctor.jobs_below(store)
    if jobs:
        return f" It is no job's folder: name one with --job: {', '.join(jobs[:5])}."
    folders = [name.rstrip("/") for name in store.list_names("") if name.endswith("/")]
    savepoints = [folder for folder in folders[:100] if store.info(layout.snapshot_manifest(folder)) is not None]
    if not savepoints:
        return ""
    locations = ", ".join(f"{store.uri}/{folder}" for folder in savepoints[:5])
    return f" It is no job's folder, and holds {locations}: look at one with `statefulspark savepoint show LOCATION`."


def show(store: ObjectStore, folder: str, printing: output.Printing) -> None:
    """Write everything about one snapshot."""
    manifest = read(store, folder)
    printing.write(snapshots.described(manifest, location_of(store, folder)))


def verify_one(store: ObjectStore, folder: str, printing: output.Printing, *, deep: bool) -> int:
    """Verify one snapshot; list every broken file, and return an exit code other than 0 if there is one."""
    manifest = read(store, folder)
    root = "" if manifest.kind is SnapshotKind.CHECKPOINT else folder
    report = verify.verify(store, manifest, root=root, deep=deep)
    printing.write(snapshots.verified(manifest, location_of(store, folder), report))
    return ExitCode.SUCCESS if report.ok else ExitCode.STATE_UNKNOWN


def read(store: ObjectStore, folder: str) -> Manifest:
    """Read a manifest.

    Raises:
        SpecRejectedError: `SnapshotNotFound`.
        SnapshotCorruptError: It is unreadable.
    """
    try:
        return catalog.read_manifest(store, folder)
    except errors.ObjectNotFoundError as error:
        location = location_of(store, folder)
        if store.list_names(folder):
            raise errors.SpecRejectedError(
                "SnapshotNotFound",
                f"The folder {location} has no {layout.MANIFEST_NAME}, which is written last: the snapshot was never "
                "completed, or this is another folder; `statefulspark doctor` explains it.",
            ) from error
        raise errors.SpecRejectedError(
            "SnapshotNotFound",
            f"There is no completed snapshot at {location}; `statefulspark checkpoint list` and `statefulspark savepoint "
            "list` list the existing ones.",
        ) from error


def find(store: ObjectStore, kind: SnapshotKind, number: int | None) -> str:
    """Return the folder of a snapshot in the job's root.

    Args:
        store: The job's root.
        kind: Checkpoint or savepoint.
        number: Its number; None for the newest.

    Raises:
        SpecRejectedError: `SnapshotNotFound`, which names those that exist.
    """
    refs = [ref for ref in catalog.list_snapshots(store) if ref.kind is kind]
    match = next((ref for ref in refs if number is None or ref.id == number), None)
    if match is None:
        present = ", ".join(str(ref.id) for ref in refs[:10]) or "none"
        name = kind.value if number is None else f"{kind.value} {number}"
        raise errors.SpecRejectedError(
            "SnapshotNotFound", f"There is no {name} at {store.uri}; completed are: {present}."
        )
    return match.folder


def location_of(store: ObjectStore, folder: str) -> str:
    """Return the absolute URI of a folder."""
    return f"{store.uri}/{folder}" if folder else store.uri
