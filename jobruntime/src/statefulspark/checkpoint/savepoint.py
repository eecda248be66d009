"""Native savepoints: self-contained copies of a committed batch's files, owned by the user.

```
<location>/00000043-<name>/_writer.json, _metadata.json, files/<query uid>/…
```
A number may be given twice, by a driver that was replaced while it slept and by its successor. So the folder belongs to who
creates `_writer.json` in it, and nobody else writes or deletes there.

Files are copied on the server's side, and the manifest is written last. Most files never change, so a caller may copy
ahead while the job runs and only copy the difference after the barrier: `copy_missing` is the same call both times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from statefulspark import errors
from statefulspark.checkpoint import catalog, epochs, listing, progress, small_files, transfer
from statefulspark.contract import layout
from statefulspark.contract.manifest import (
    MANIFEST_NAME,
    Ancestor,
    FileEntry,
    Manifest,
    MasterStateEntry,
    QueryEntry,
    SnapshotFormat,
    SnapshotKind,
    Trigger,
)
from statefulspark.contract.notes import CLAIM_NAME, WRITER_NAME, SavepointPointer, SavepointWriter
from statefulspark.storage.port import ObjectInfo, ObjectStore


@dataclass(frozen=True, slots=True)
class SavepointTarget:
    """Where a savepoint goes.

    Attributes:
        store: The job's root, or another location's.
        folder: The savepoint's folder below it.
    """

    store: ObjectStore
    folder: str

    @property
    def uri(self) -> str:
        """Absolute URI of the savepoint's folder."""
        return f"{self.store.uri}/{self.folder}"


@dataclass(frozen=True, slots=True)
class SavepointRequest:
    """Everything about a savepoint but its files."""

    id: int
    namespace: str
    job: str
    trigger: Trigger
    epoch: int
    generation: int
    triggered_at: datetime
    name: str | None = None
    request_id: str | None = None
    restored_from: str | None = None
    revision: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    lineage: str | None = None
    root: str | None = None
    ancestors: tuple[Ancestor, ...] = ()
    master_states: tuple[MasterStateEntry, ...] = ()


def target(
    store: ObjectStore,
    request: SavepointRequest,
    *,
    location: str | None = None,
    open_store: transfer.StoreOpener | None = None,
) -> SavepointTarget:
    """Decide where a savepoint goes; nothing is written.

    Args:
        store: The job's root.
        request: The savepoint.
        location: URI of the folder to make it in; `savepoints/` in the job's own root when omitted.
        open_store: Opens the location.

    Raises:
        SpecRejectedError: `SavepointLocationInvalid`: the location cannot be opened here.
    """
    own = layout.savepoint(request.id, request.name)
    if location is None:
        return SavepointTarget(store, own)
    parent = location.rstrip("/")
    if parent.startswith(f"{store.uri}/"):
        return SavepointTarget(store, f"{parent[len(store.uri) + 1 :]}/{own.rpartition('/')[2]}")
    if open_store is None:
        raise errors.SpecRejectedError(
            "SavepointLocationInvalid", f"The savepoint location {location!r} is outside {store.uri}; leave it out."
        )
    return SavepointTarget(open_store(parent), f"{request.namespace}-{request.job}-{own.rpartition('/')[2]}")


def reserve(store: ObjectStore, request: SavepointRequest, place: SavepointTarget) -> None:
    """Make a savepoint's folder this driver's alone, before anything is written to it. Idempotent.

    The number of one at another location is kept in the job's root, so that later starts do not give it away again.

    Cost: one PUT, and one for another location; a GET each if it is taken.

    Raises:
        PreconditionFailedError: `SavepointExists`: another driver makes a savepoint there, or has made one.
    """
    if place.store.uri != store.uri or not place.folder.startswith(f"{layout.SAVEPOINTS}/"):
        _keep_number(store, request.id, place)
    key = f"{place.folder}/{WRITER_NAME}"
    try:
        place.store.create(key, SavepointWriter(root=store.uri, epoch=request.epoch).to_json().encode())
    except errors.ObjectExistsError as error:
        if not _is_ours(store, request, place):
            raise catalog.exists_already(place.store, place.folder, SnapshotKind.SAVEPOINT) from error


def give_up(store: ObjectStore, request: SavepointRequest, place: SavepointTarget) -> None:
    """Remove what this driver has copied for a savepoint whose manifest it has not begun to write. Idempotent.

    The folder of another driver is left alone, and so is a savepoint that is complete.

    Cost: a GET, a HEAD, a LIST and a DELETE per 1,000 files.
    """
    if not _is_ours(store, request, place) or place.store.info(f"{place.folder}/{MANIFEST_NAME}") is not None:
        return
    files = [info.key for info in place.store.list(f"{place.folder}/{layout.SAVEPOINT_FILES}")]
    place.store.delete_many(files)
    place.store.delete_many([f"{place.folder}/{WRITER_NAME}"])


def _is_ours(store: ObjectStore, request: SavepointRequest, place: SavepointTarget) -> bool:
    key = f"{place.folder}/{WRITER_NAME}"
    try:
        present = SavepointWriter.parse(place.store.read(key), f"{place.store.uri}/{key}")
    except errors.ObjectNotFoundError:
        return False
    return (present.root, present.epoch) == (store.uri, request.epoch)


def copy_missing(
    store: ObjectStore,
    queries: Sequence[QueryEntry],
    place: SavepointTarget,
    *,
    on_progress: progress.Report | None = None,
) -> int:
    """Copy the files that are not in the savepoint's folder yet. Cost: a LIST per 1,000 files, a copy per missing file.

    Args:
        store: The job's root, to which the queries' paths are relative.
        queries: Closures as of any committed batch; call it again with later ones.
        place: Where the savepoint goes.
        on_progress: Hears of every file that is copied.

    Returns:
        How many files were copied.
    """
    present = listing.below(place.store, place.folder)
    missing = [
        (query, file)
        for query in queries
        for file in query.files
        if not _is_there(present.get(f"{_folder(query)}/{file.path}"), file)
    ]
    pairs = [(f"{query.path}/{file.path}", f"{place.folder}/{_folder(query)}/{file.path}") for query, file in missing]
    on_files = progress.of_files([file.size_bytes for _, file in missing], on_progress) if on_progress else None
    transfer.copy(store, place.store, pairs, on_progress=on_files)
    return len(pairs)


def take_savepoint(
    store: ObjectStore,
    queries: Sequence[QueryEntry],
    request: SavepointRequest,
    place: SavepointTarget,
    *,
    completed_at: Callable[[], datetime],
    on_progress: progress.Report | None = None,
) -> Manifest:
    """Copy what is missing, drop what was copied ahead in vain, check it, and write the manifest.

    Cost: what `copy_missing` costs, a LIST per 1,000 files, a DELETE if something is left over, two HEADs, two PUTs, and
    another for a savepoint outside the job's root, whose number is kept there.

    Args:
        store: The job's root, to which the queries' paths are relative.
        queries: Closures at the barrier.
        request: Everything else about it.
        place: From `target`.
        completed_at: Tells the time, UTC, once the files are in place.
        on_progress: Hears of every file that is copied.

    Returns:
        The manifest, with paths relative to the savepoint's folder.

    Raises:
        SnapshotCorruptError: `CopyIncomplete`.
        PreconditionFailedError: `SavepointExists`; its files were not touched.
        FencedError: A newer driver owns the job, and may have cleaned the folder up meanwhile.
    """
    if place.store.info(f"{place.folder}/{MANIFEST_NAME}") is not None:
        raise catalog.exists_already(place.store, place.folder, SnapshotKind.SAVEPOINT)
    reserve(store, request, place)
    copy_missing(store, queries, place, on_progress=on_progress)
    needed = [f"{_folder(query)}/{file.path}" for query in queries for file in query.files]
    present = listing.below(place.store, place.folder, needed)
    entries = tuple(_relocated(query, present, place) for query in queries)
    wanted = {f"{query.path}/{file.path}" for query in entries for file in query.files}
    kept = {*wanted, MANIFEST_NAME, WRITER_NAME}
    place.store.delete_many([f"{place.folder}/{key}" for key in present if key not in kept])
    return publish(store, entries, request, place, completed_at=completed_at())


def publish(
    store: ObjectStore,
    entries: tuple[QueryEntry, ...],
    request: SavepointRequest,
    place: SavepointTarget,
    *,
    completed_at: datetime,
    written_as: SnapshotFormat = SnapshotFormat.NATIVE,
) -> Manifest:
    """Write the manifest of a savepoint whose files are all in place. Cost: a HEAD and a PUT.

    Args:
        store: The job's root.
        entries: Its queries, with paths relative to its folder.
        request: Everything else about it.
        place: Where it is.
        completed_at: When its files were in place.
        written_as: The form of its state.

    Raises:
        PreconditionFailedError: `SavepointExists`; a newer epoch owns the job.
    """
    manifest = Manifest(
        kind=SnapshotKind.SAVEPOINT,
        format=written_as,
        id=request.id,
        namespace=request.namespace,
        job=request.job,
        trigger=request.trigger,
        epoch=request.epoch,
        generation=request.generation,
        triggered_at=request.triggered_at,
        completed_at=completed_at,
        queries=entries,
        request_id=request.request_id,
        savepoint_name=request.name,
        restored_from=request.restored_from,
        lineage=request.lineage,
        root=request.root,
        ancestors=request.ancestors,
        revision=request.revision,
        versions=dict(request.versions),
        master_states=request.master_states,
    )
    epochs.require_current(store, request.epoch)
    catalog.write_manifest(place.store, place.folder, manifest)
    return manifest


def _keep_number(store: ObjectStore, number: int, place: SavepointTarget) -> None:
    """Write down which savepoint elsewhere has a number, unless another driver has given it away."""
    key = layout.savepoint_pointer(number)
    pointer = SavepointPointer(location=place.uri)
    try:
        store.create(key, pointer.to_json(indent=1).encode())
    except errors.ObjectExistsError as error:
        if SavepointPointer.parse(store.read(key), f"{store.uri}/{key}").location != place.uri:
            raise catalog.exists_already(store, key, SnapshotKind.SAVEPOINT) from error


def dispose(store: ObjectStore, folder: str) -> int:
    """Delete a savepoint: the manifest first, so that what is left after a crash is no snapshot. Idempotent.

    Args:
        store: Any store.
        folder: The savepoint's folder below it.

    Returns:
        How many objects were deleted.

    Raises:
        SpecRejectedError: `NotASavepoint`: the folder is a checkpoint, or no savepoint's.
    """
    keys = [info.key for info in store.list(folder)]
    manifest_key = f"{folder}/{MANIFEST_NAME}"
    notes = (f"{folder}/{CLAIM_NAME}", f"{folder}/{WRITER_NAME}")
    files = [key for key in keys if key.startswith(f"{folder}/{layout.SAVEPOINT_FILES}/")]
    is_savepoint = manifest_key not in keys or catalog.read_manifest(store, folder).kind is SnapshotKind.SAVEPOINT
    if not folder or not is_savepoint or len(files) < len([key for key in keys if key not in (manifest_key, *notes)]):
        raise errors.SpecRejectedError(
            "NotASavepoint", f"{store.uri}/{folder} is not a savepoint's folder; nothing was deleted."
        )
    store.delete_many([key for key in keys if key == manifest_key])
    store.delete_many(files)
    store.delete_many([key for key in keys if key in notes])
    return len(keys)


def _folder(query: QueryEntry) -> str:
    return f"{layout.SAVEPOINT_FILES}/{query.uid}"


def _is_there(info: ObjectInfo | None, file: FileEntry) -> bool:
    """Tell whether a copy is complete; a copied file never changes, so an equal size is enough."""
    return info is not None and info.size_bytes == file.size_bytes


def _relocated(query: QueryEntry, present: Mapping[str, ObjectInfo], place: SavepointTarget) -> QueryEntry:
    folder = _folder(query)
    for file in query.files:
        info = present.get(f"{folder}/{file.path}")
        if info is None or not _is_there(info, file):
            raise errors.SnapshotCorruptError(
                "CopyIncomplete",
                f"{place.uri}/{folder}/{file.path} is not complete after the copy; the savepoint was not made.",
            )
    files = tuple(
        small_files.file_entry(file.path, present[f"{folder}/{file.path}"], crc32=file.crc32) for file in query.files
    )
    return query.model_copy(update={"path": folder, "files": files})
