"""The catalog of manifests on storage: writes each manifest last and once, lists, reads and numbers them.

A folder without `_metadata.json` is not a snapshot, whatever it contains. In the folder of a savepoint whose files are
pruned, an empty one takes its place (`give_up`). Checkpoints and savepoints share one sequence of numbers, and no number is
used twice, so folders without a manifest take a number too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from statefulspark import errors
from statefulspark.checkpoint import listing
from statefulspark.contract import layout
from statefulspark.contract.base import WireModel
from statefulspark.contract.manifest import Manifest, SnapshotKind
from statefulspark.storage.port import MOST_BYTES, MOST_OF_A_MANIFEST, ObjectStore

_MAX_GAP = 8
"""After so many consecutive numbers without a checkpoint, no higher number is looked up."""
_FOLDERS = ((SnapshotKind.CHECKPOINT, layout.CHECKPOINTS), (SnapshotKind.SAVEPOINT, layout.SAVEPOINTS))


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """A completed snapshot in the job's own root.

    Attributes:
        kind: Checkpoint or savepoint.
        id: Its number.
        folder: Below the job's root, for example `checkpoints/00000042`.
    """

    kind: SnapshotKind
    id: int
    folder: str

    @property
    def label(self) -> str:
        """The snapshot in words, for example `checkpoint 42`."""
        return f"{self.kind.value} {self.id}"


def write_checkpoint(store: ObjectStore, manifest: Manifest) -> str:
    """Complete a checkpoint: write its manifest if none exists. Cost: one PUT.

    Returns:
        The checkpoint's folder.

    Raises:
        PreconditionFailedError: `CheckpointExists`: another driver completed a checkpoint of that number.
    """
    if manifest.kind is not SnapshotKind.CHECKPOINT:
        raise errors.InternalError("WrongKind", f"write_checkpoint was given {manifest.label}.")
    folder = layout.checkpoint(manifest.id)
    write_manifest(store, folder, manifest)
    return folder


def write_manifest(store: ObjectStore, folder: str, manifest: Manifest) -> None:
    """Write the manifest of a snapshot whose files are all in place. Cost: one PUT.

    Raises:
        PreconditionFailedError: `CheckpointExists` or `SavepointExists`.
    """
    key = layout.snapshot_manifest(folder)
    try:
        store.create(key, manifest.sealed(indent=1))
    except errors.ObjectExistsError as error:
        raise exists_already(store, folder, manifest.kind) from error


def give_up(store: ObjectStore, folder: str) -> bool:
    """Take the place of a savepoint's manifest, so that nobody completes it any more. Cost: a PUT, or a PUT and a HEAD.

    A request that a driver sent before it was replaced may arrive at any later time. Without this, it would complete a
    savepoint whose files are gone.

    Returns:
        False if the savepoint has been completed.
    """
    key = layout.snapshot_manifest(folder)
    try:
        store.create(key, b"")
    except errors.ObjectExistsError:
        info = store.info(key)
        return info is not None and info.size_bytes == 0
    return True


def exists_already(store: ObjectStore, folder: str, kind: SnapshotKind) -> errors.PreconditionFailedError:
    """Return the error for a folder that holds another snapshot already."""
    where = f"{store.uri}/{folder}" if folder else store.uri
    return errors.PreconditionFailedError(
        f"{kind.value.capitalize()}Exists", f"{where} was completed by another process; nothing was overwritten."
    )


def read_manifest(store: ObjectStore, folder: str) -> Manifest:
    """Read the manifest of a snapshot. Cost: one GET.

    Args:
        store: Any store.
        folder: The snapshot's folder below it; "" if the store is rooted there.

    Raises:
        ObjectNotFoundError: The folder is not a snapshot.
        SnapshotCorruptError: `DocumentUnreadable`.
        FormatVersionError: This release cannot read the manifest's version.
    """
    key = layout.snapshot_manifest(folder)
    return Manifest.parse(store.read(key, most_bytes=MOST_OF_A_MANIFEST), f"{store.uri}/{key}")


class _ManifestGeneration(WireModel):
    """The generation in a manifest of any version."""

    generation: int | None = None


def first_of_later_release(
    store: ObjectStore, refs: Sequence[SnapshotRef], generation: int
) -> errors.FormatVersionError | None:
    """Return why a snapshot of a generation cannot be read, for the first one that a later release took.

    A snapshot whose generation this release cannot read counts too. Cost: one GET each.
    """
    for ref in refs:
        try:
            read_manifest(store, ref.folder)
        except errors.FormatVersionError as error:
            try:
                body = store.read(layout.snapshot_manifest(ref.folder), most_bytes=MOST_OF_A_MANIFEST)
                number = _ManifestGeneration.model_validate_json(body).generation
            except (ValidationError, errors.ObjectNotFoundError):
                number = None
            if number in (None, generation):
                return error
        except (errors.SnapshotCorruptError, errors.ObjectNotFoundError):
            continue
    return None


def read_manifests(
    store: ObjectStore, refs: Sequence[SnapshotRef]
) -> tuple[Manifest | errors.SnapshotCorruptError, ...]:
    """Read several manifests in parallel, in the given order; an unreadable one is returned as its error.

    A snapshot that was deleted in the meantime is left out. Cost: one GET each.
    """
    keys = {ref: layout.snapshot_manifest(ref.folder) for ref in refs}
    bodies = read_present(store, tuple(keys.values()), most_bytes=MOST_OF_A_MANIFEST)
    manifests: list[Manifest | errors.SnapshotCorruptError] = []
    for key in (key for key in keys.values() if key in bodies):
        try:
            manifests.append(Manifest.parse(bodies[key], f"{store.uri}/{key}"))
        except errors.SnapshotCorruptError as error:
            manifests.append(error)
    return tuple(manifests)


def list_snapshots(store: ObjectStore) -> tuple[SnapshotRef, ...]:
    """Return the completed snapshots in the job's root, newest first. Cost: two listings, a HEAD per savepoint.

    Folders without a manifest are left out. `external_savepoints` lists the savepoints at other locations.
    """
    return list_all(store).completed


@dataclass(frozen=True, slots=True)
class SnapshotListing:
    """Every snapshot in a job's root.

    Attributes:
        completed: Newest first.
        unfinished: Folders of savepoints without a manifest: in progress, left by a dead driver, or given up.
    """

    completed: tuple[SnapshotRef, ...]
    unfinished: tuple[str, ...]


def list_all(store: ObjectStore) -> SnapshotListing:
    """List the completed and the unfinished snapshots. Cost: as for `list_snapshots`."""
    manifests = [info.key for info in store.list(layout.CHECKPOINTS) if info.key.endswith(f"/{layout.MANIFEST_NAME}")]
    refs = [_ref(SnapshotKind.CHECKPOINT, key.rsplit("/", 1)[0]) for key in manifests if key.count("/") == 2]
    unfinished: list[str] = []
    names = [name.rstrip("/") for name in store.list_names(layout.SAVEPOINTS) if name.endswith("/")]
    folders = {f"{layout.SAVEPOINTS}/{name}": layout.parse_number(name) for name in names}
    infos = store.info_many([layout.snapshot_manifest(folder) for folder in folders])
    for folder, number in folders.items():
        manifest = infos[layout.snapshot_manifest(folder)]
        if manifest is not None and manifest.size_bytes > 0:
            refs.append(_ref(SnapshotKind.SAVEPOINT, folder))
        elif number:
            unfinished.append(folder)
    completed = sorted((ref for ref in refs if ref is not None), key=lambda ref: ref.id, reverse=True)
    return SnapshotListing(tuple(completed), tuple(unfinished))


def checkpoints_from(store: ObjectStore, number: int) -> tuple[SnapshotRef, ...]:
    """Return the checkpoints from a number on that a listing does not show yet, newest first.

    Numbers are not contiguous: savepoints use some of them, and an aborted checkpoint leaves no file. So the look-up skips
    as many numbers without a checkpoint as can occur between two listings.

    Cost: a HEAD for each of so many numbers, in parallel; as many again if one of them exists.
    """
    ids: list[int] = []
    first = number
    while True:
        names = {
            f"{layout.number(checkpoint_id)}/{layout.MANIFEST_NAME}": checkpoint_id
            for checkpoint_id in range(first, first + _MAX_GAP)
        }
        present = [names[name] for name in listing.look_up(store, layout.CHECKPOINTS, names)]
        if not present:
            break
        ids += present
        first = max(present) + 1
    ordered = sorted(ids, reverse=True)
    return tuple(
        SnapshotRef(SnapshotKind.CHECKPOINT, checkpoint_id, layout.checkpoint(checkpoint_id))
        for checkpoint_id in ordered
    )


def next_snapshot_id(store: ObjectStore) -> int:
    """Return the number after the highest one of all checkpoints and savepoints, finished or not. Cost: two listings."""
    names = [name for _, folder in _FOLDERS for name in store.list_names(folder)]
    return max((layout.parse_number(name) or 0 for name in names), default=0) + 1


def newest_checkpoint(store: ObjectStore) -> int:
    """Return the highest number of a checkpoint in a listing, 0 if there is none. Cost: one listing.

    A listing may lag: a checkpoint that has just been completed may not be in it yet.
    """
    return max((layout.parse_number(name) or 0 for name in store.list_names(layout.CHECKPOINTS)), default=0)


def _ref(kind: SnapshotKind, folder: str) -> SnapshotRef | None:
    number = layout.parse_number(folder.rsplit("/", 1)[1])
    return SnapshotRef(kind, number, folder) if number else None


def read_present(store: ObjectStore, keys: Sequence[str], *, most_bytes: int = MOST_BYTES) -> dict[str, bytes]:
    """Read several objects in parallel; those that are absent are left out."""
    try:
        return dict(store.read_many(keys, most_bytes=most_bytes))
    except errors.ObjectNotFoundError:
        bodies = {}
        for key in keys:
            with contextlib.suppress(errors.ObjectNotFoundError):
                bodies[key] = store.read(key, most_bytes=most_bytes)
        return bodies
