"""Manifests on storage: written last and once, listed, read and numbered.

A folder without `_metadata.json` is no snapshot, whatever else lies in it. Numbers are one sequence for checkpoints and
savepoints and are never used twice, so folders without a manifest count too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from statefulspark import errors
from statefulspark.checkpoint import listing
from statefulspark.contract import layout
from statefulspark.contract.base import WireModel
from statefulspark.contract.manifest import MANIFEST_NAME, Manifest, SnapshotKind
from statefulspark.storage.port import ObjectStore

_GAP = 8
"""Numbers in a row that are looked up before it is believed that no checkpoint has a higher one than those listed."""
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
    """Complete a checkpoint: write its manifest, if nobody has. Cost: one PUT.

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
    key = f"{folder}/{MANIFEST_NAME}" if folder else MANIFEST_NAME
    try:
        store.create(key, manifest.sealed(indent=1))
    except errors.ObjectExistsError as error:
        raise exists_already(store, folder, manifest.kind) from error


def exists_already(store: ObjectStore, folder: str, kind: SnapshotKind) -> errors.PreconditionFailedError:
    """Return the error for a snapshot whose place is taken."""
    where = f"{store.uri}/{folder}" if folder else store.uri
    return errors.PreconditionFailedError(
        f"{kind.value.capitalize()}Exists", f"{where} was completed by somebody else; nothing was overwritten."
    )


def read_manifest(store: ObjectStore, folder: str) -> Manifest:
    """Read the manifest of a snapshot. Cost: one GET.

    Args:
        store: Any store.
        folder: The snapshot's folder below it; "" if the store is rooted there.

    Raises:
        ObjectNotFoundError: The folder is no snapshot.
        SnapshotCorruptError: `DocumentUnreadable`.
        FormatVersionError: It is of a version that this release cannot read.
    """
    key = f"{folder}/{MANIFEST_NAME}" if folder else MANIFEST_NAME
    return Manifest.parse(store.read(key), f"{store.uri}/{key}")


class _Place(WireModel):
    """What a manifest of any version says about where its cut is."""

    generation: int | None = None


def newer_of(store: ObjectStore, refs: Sequence[SnapshotRef], generation: int) -> errors.FormatVersionError | None:
    """Return why the first of these snapshots cannot be read, of those that a later release took in a generation.

    One that does not say its generation in the way of this release counts. Cost: one GET each.
    """
    for ref in refs:
        try:
            read_manifest(store, ref.folder)
        except errors.FormatVersionError as error:
            if _generation_told(store, ref) in (None, generation):
                return error
        except (errors.SnapshotCorruptError, errors.ObjectNotFoundError):
            continue
    return None


def _generation_told(store: ObjectStore, ref: SnapshotRef) -> int | None:
    try:
        return _Place.model_validate_json(store.read(f"{ref.folder}/{MANIFEST_NAME}")).generation
    except (ValidationError, errors.ObjectNotFoundError):
        return None


def read_manifests(
    store: ObjectStore, refs: Sequence[SnapshotRef]
) -> tuple[Manifest | errors.SnapshotCorruptError, ...]:
    """Read several manifests in parallel, in the order asked for; an unreadable one is returned as its error.

    A snapshot that was deleted meanwhile is left out. Cost: one GET each.
    """
    keys = {ref: f"{ref.folder}/{MANIFEST_NAME}" for ref in refs}
    bodies = read_present(store, tuple(keys.values()))
    return tuple(_parsed(bodies[key], f"{store.uri}/{key}") for key in keys.values() if key in bodies)


def list_snapshots(store: ObjectStore) -> tuple[SnapshotRef, ...]:
    """Return the completed snapshots in the job's root, newest first. Cost: two listings, a HEAD per savepoint.

    Folders without a manifest are left out. Savepoints at other locations are found by `elsewhere`.
    """
    return survey(store).completed


@dataclass(frozen=True, slots=True)
class Survey:
    """Every snapshot in a job's root.

    Attributes:
        completed: Newest first.
        unfinished: Folders of savepoints without a manifest: being made, or left behind.
    """

    completed: tuple[SnapshotRef, ...]
    unfinished: tuple[str, ...]


def survey(store: ObjectStore) -> Survey:
    """Look for snapshots, finished or not. Cost: as for `list_snapshots`."""
    manifests = [info.key for info in store.list(layout.CHECKPOINTS) if info.key.endswith(f"/{MANIFEST_NAME}")]
    found = [_ref(SnapshotKind.CHECKPOINT, key.rsplit("/", 1)[0]) for key in manifests if key.count("/") == 2]
    unfinished: list[str] = []
    for name in store.list_names(layout.SAVEPOINTS):
        folder = f"{layout.SAVEPOINTS}/{name.rstrip('/')}"
        if not name.endswith("/"):
            continue
        if store.info(f"{folder}/{MANIFEST_NAME}"):
            found.append(_ref(SnapshotKind.SAVEPOINT, folder))
        elif layout.parse_number(name):
            unfinished.append(folder)
    completed = sorted((ref for ref in found if ref is not None), key=lambda ref: ref.id, reverse=True)
    return Survey(tuple(completed), tuple(unfinished))


def checkpoints_from(store: ObjectStore, number: int) -> tuple[SnapshotRef, ...]:
    """Return the checkpoints from a number on that a listing does not show yet, newest first.

    Numbers are not contiguous: savepoints have some, and a checkpoint that was given up leaves nothing behind. So the
    look-up steps over as many numbers without a checkpoint as can come between two listings.

    Cost: a HEAD for each of so many numbers, at the same time; as many again if one of them is there.
    """
    found: list[int] = []
    first = number
    while True:
        names = {f"{layout.number(one)}/{MANIFEST_NAME}": one for one in range(first, first + _GAP)}
        present = [names[name] for name in listing.look_up(store, layout.CHECKPOINTS, names)]
        if not present:
            break
        found += present
        first = max(present) + 1
    ordered = sorted(found, reverse=True)
    return tuple(SnapshotRef(SnapshotKind.CHECKPOINT, one, layout.checkpoint(one)) for one in ordered)


def next_snapshot_id(store: ObjectStore) -> int:
    """Return the number after every checkpoint's and savepoint's, finished or not. Cost: two listings."""
    names = [name for _, folder in _FOLDERS for name in store.list_names(folder)]
    return max((layout.parse_number(name) or 0 for name in names), default=0) + 1


def _ref(kind: SnapshotKind, folder: str) -> SnapshotRef | None:
    number = layout.parse_number(folder.rsplit("/", 1)[1])
    return SnapshotRef(kind, number, folder) if number else None


def read_present(store: ObjectStore, keys: Sequence[str]) -> dict[str, bytes]:
    """Read several objects in parallel; those that are absent are left out."""
    try:
        return dict(store.read_many(keys))
    except errors.ObjectNotFoundError:
        return {key: body for key in keys if (body := _read_if_present(store, key)) is not None}


def _read_if_present(store: ObjectStore, key: str) -> bytes | None:
    try:
        return store.read(key)
    except errors.ObjectNotFoundError:
        return None


def _parsed(body: bytes, source: str) -> Manifest | errors.SnapshotCorruptError:
    try:
        return Manifest.parse(body, source)
    except errors.SnapshotCorruptError as error:
        return error
