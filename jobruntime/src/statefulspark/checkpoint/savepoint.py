"""Native savepoints: self-contained copies of a committed batch's files, owned by the user.

```
<location>/00000043-<name>/_writer.json, _metadata.json, files/<query uid>/…
```
A number may be assigned twice, by a paused driver that was replaced and by its successor. So the folder belongs to the
driver that creates `_writer.json` in it, and no other driver writes or deletes there.

Files are copied on the server's side, and the manifest is written last. Most files never change, so a caller may copy
them while the job runs and copy only the difference after the barrier; `copy_missing` does both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from statefulspark import errors
from statefulspark.checkpoint import catalog, checksums, epochs, listing, progress, transfer
from statefulspark.contract import layout
from statefulspark.contract.manifest import (
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
from statefulspark.storage.port import MOST_OF_A_DOCUMENT, DeletedObjects, ObjectInfo, ObjectStore

_FILES = f"{layout.SAVEPOINT_FILES}/"
_NOTES = (CLAIM_NAME, WRITER_NAME)
"""What is noted beside a savepoint's files."""


@dataclass(frozen=True, slots=True)
class SavepointTarget:
    """Where a savepoint is written.

    Attributes:
        store: The store of the job's root, or of another location.
        folder: The savepoint's folder below it.
    """

    store: ObjectStore
    folder: str

    @property
    def uri(self) -> str:
        """Absolute URI of the savepoint's folder."""
        return f"{self.store.uri}/{self.folder}"


@dataclass(frozen=True, slots=True)
class SavepointProperties:
    """The properties of a savepoint without its files."""

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


def resolve_target(
    store: ObjectStore,
    properties: SavepointProperties,
    *,
    location: str | None = None,
    open_store: transfer.StoreOpener | None = None,
) -> SavepointTarget:
    """Decide where a savepoint is written; writes nothing.

    Args:
        store: The job's root.
        properties: Properties of the savepoint.
        location: URI of its parent folder; `savepoints/` in the job's own root when omitted.
        open_store: Opens the location.

    Raises:
        SpecRejectedError: `SavepointLocationInvalid`: the location is outside the job's root, and `open_store` is None; or
            it is among the files that the runtime deletes.
    """
    own = layout.savepoint(properties.id, properties.name)
    if location is None:
        return SavepointTarget(store, own)
    uri = f"s3://{location[6:]}" if location.startswith("s3a://") else location
    parent = uri.rstrip("/")
    if parent.startswith(f"{store.uri}/"):
        inside = parent[len(store.uri) + 1 :]
        if inside.split("/")[0] in layout.OWN_FOLDERS:
            raise errors.SpecRejectedError(
                "SavepointLocationInvalid",
                f"The savepoint location {parent} is among the job's own files, of which the job deletes what it does not "
                f"need; leave the location out to use {store.uri}/{layout.SAVEPOINTS}, or name another folder.",
            )
        return SavepointTarget(store, f"{inside}/{own.rpartition('/')[2]}")
    if open_store is None:
        raise errors.SpecRejectedError(
            "SavepointLocationInvalid", f"The savepoint location {location!r} is outside {store.uri}; leave it out."
        )
    # A namespace has no dot, so that a/b-c and a-b/c do not share names where all jobs have their savepoints.
    return SavepointTarget(open_store(parent), f"{properties.namespace}.{properties.job}-{own.rpartition('/')[2]}")


def reserve(store: ObjectStore, properties: SavepointProperties, target: SavepointTarget) -> None:
    """Reserve a savepoint's folder for this driver, before anything is written to it. Idempotent.

    The number of a savepoint that is not directly in `savepoints/` is recorded there, so that no later start uses it again.

    Cost: one PUT, and one for another location; a GET each if it is taken.

    Raises:
        PreconditionFailedError: `SavepointExists`: another driver is writing a savepoint there, or has written one.
    """
    if target.store.uri != store.uri or target.folder.rpartition("/")[0] != layout.SAVEPOINTS:
        pointer_key = layout.savepoint_pointer(properties.id)
        try:
            store.create(pointer_key, SavepointPointer(location=target.uri).to_json(indent=1).encode())
        except errors.ObjectExistsError as error:
            body = store.read(pointer_key, most_bytes=MOST_OF_A_DOCUMENT)
            if SavepointPointer.parse(body, f"{store.uri}/{pointer_key}").location != target.uri:
                raise catalog.exists_already(store, pointer_key, SnapshotKind.SAVEPOINT) from error
    key = f"{target.folder}/{WRITER_NAME}"
    try:
        target.store.create(key, SavepointWriter(root=store.uri, epoch=properties.epoch).to_json().encode())
    except errors.ObjectExistsError as error:
        if not _is_own(store, properties, target):
            raise catalog.exists_already(target.store, target.folder, SnapshotKind.SAVEPOINT) from error


def give_up(store: ObjectStore, properties: SavepointProperties, target: SavepointTarget) -> None:
    """Delete the files that this driver copied for a savepoint whose manifest it has not begun to write. Idempotent.

    The folder of another driver and a completed savepoint are not changed. `_writer.json` stays, so no other driver uses
    the folder: a network may deliver a deletion a second time, at any time.

    Cost: a GET, a HEAD, a LIST and a DELETE per 1,000 files.
    """
    if not _is_own(store, properties, target) or target.store.info(layout.snapshot_manifest(target.folder)) is not None:
        return
    files = [info.key for info in target.store.list(f"{target.folder}/{layout.SAVEPOINT_FILES}")]
    target.store.delete_many(files)


def _is_own(store: ObjectStore, properties: SavepointProperties, target: SavepointTarget) -> bool:
    key = f"{target.folder}/{WRITER_NAME}"
    try:
        present = SavepointWriter.parse(
            target.store.read(key, most_bytes=MOST_OF_A_DOCUMENT), f"{target.store.uri}/{key}"
        )
    except errors.ObjectNotFoundError:
        return False
    return (present.root, present.epoch) == (store.uri, properties.epoch)


def copy_missing(
    store: ObjectStore,
    queries: Sequence[QueryEntry],
    target: SavepointTarget,
    *,
    on_progress: progress.Report | None = None,
) -> int:
    """Copy the files that the savepoint's folder lacks. Cost: a LIST per 1,000 files, a copy per missing file.

    Args:
        store: The job's root, to which the queries' paths are relative.
        queries: Closures of any committed batch; call it again with later ones.
        target: Where the savepoint is written.
        on_progress: Called after every copied file.

    Returns:
        How many files were copied.
    """
    present = listing.below(target.store, target.folder)
    missing = [
        (query, file)
        for query in queries
        for file in query.files
        if not _is_complete(present.get(f"{_folder(query)}/{file.path}"), file)
    ]
    pairs = [(f"{query.path}/{file.path}", f"{target.folder}/{_folder(query)}/{file.path}") for query, file in missing]
    on_files = progress.count_files([file.size_bytes for _, file in missing], on_progress) if on_progress else None
    transfer.copy(store, target.store, pairs, on_progress=on_files)
    return len(pairs)


def take_savepoint(
    store: ObjectStore,
    queries: Sequence[QueryEntry],
    properties: SavepointProperties,
    target: SavepointTarget,
    *,
    completed_at: Callable[[], datetime],
    on_progress: progress.Report | None = None,
) -> Manifest:
    """Copy the missing files, delete early copies that are not needed, check the files, and write the manifest.

    Cost: the cost of `copy_missing`, a LIST per 1,000 files, a DELETE if a file is not needed, two HEADs, two PUTs, and
    another PUT for a savepoint outside the job's root, whose number is recorded there.

    Args:
        store: The job's root, to which the queries' paths are relative.
        queries: Closures at the barrier.
        properties: Properties of the savepoint.
        target: From `resolve_target`.
        completed_at: Returns the time, UTC; called once all files exist.
        on_progress: Called after every copied file.

    Returns:
        The manifest, with paths relative to the savepoint's folder.

    Raises:
        SnapshotCorruptError: `CopyIncomplete`.
        PreconditionFailedError: `SavepointExists`; its files were not changed.
        FencedError: A newer driver owns the job, and may have cleaned up the folder in the meantime.
    """
    if target.store.info(layout.snapshot_manifest(target.folder)) is not None:
        raise catalog.exists_already(target.store, target.folder, SnapshotKind.SAVEPOINT)
    reserve(store, properties, target)
    copy_missing(store, queries, target, on_progress=on_progress)
    needed = [f"{_folder(query)}/{file.path}" for query in queries for file in query.files]
    present = listing.below(target.store, target.folder, needed)
    entries = []
    for query in queries:
        files = []
        for file in query.files:
            info = present.get(f"{_folder(query)}/{file.path}")
            if info is None or not _is_complete(info, file):
                raise errors.SnapshotCorruptError(
                    "CopyIncomplete",
                    f"{target.uri}/{_folder(query)}/{file.path} is not complete after the copy; the savepoint was not "
                    "written.",
                )
            files.append(checksums.file_entry(file.path, info, crc32=file.crc32))
        entries.append(query.model_copy(update={"path": _folder(query), "files": tuple(files)}))
    retained = {*needed, layout.MANIFEST_NAME, WRITER_NAME}
    target.store.delete_many([f"{target.folder}/{key}" for key in present if key not in retained])
    return publish(store, tuple(entries), properties, target, completed_at=completed_at())


def publish(
    store: ObjectStore,
    entries: tuple[QueryEntry, ...],
    properties: SavepointProperties,
    target: SavepointTarget,
    *,
    completed_at: datetime,
    written_as: SnapshotFormat = SnapshotFormat.NATIVE,
) -> Manifest:
    """Write the manifest of a savepoint whose files all exist. Cost: a HEAD and a PUT.

    Args:
        store: The job's root.
        entries: Its queries, with paths relative to its folder.
        properties: Properties of the savepoint.
        target: Its folder.
        completed_at: The time when all files existed, UTC.
        written_as: The format of its state.

    Raises:
        PreconditionFailedError: `SavepointExists`.
        FencedError: A newer driver owns the job.
    """
    manifest = Manifest(
        kind=SnapshotKind.SAVEPOINT,
        format=written_as,
        id=properties.id,
        namespace=properties.namespace,
        job=properties.job,
        trigger=properties.trigger,
        epoch=properties.epoch,
        generation=properties.generation,
        triggered_at=properties.triggered_at,
        completed_at=completed_at,
        queries=entries,
        request_id=properties.request_id,
        savepoint_name=properties.name,
        restored_from=properties.restored_from,
        lineage=properties.lineage,
        root=properties.root,
        ancestors=properties.ancestors,
        revision=properties.revision,
        versions=dict(properties.versions),
        master_states=properties.master_states,
    )
    epochs.require_current(store, properties.epoch)
    catalog.write_manifest(target.store, target.folder, manifest)
    return manifest


def dispose(store: ObjectStore, folder: str) -> int:
    """Delete a savepoint: the manifest first, so that the files left after a crash are not a snapshot. Idempotent.

    Args:
        store: Any store.
        folder: The savepoint's folder below it.

    Returns:
        How many objects were deleted.

    Raises:
        SpecRejectedError: `NotASavepoint`: the folder is a checkpoint, or not a snapshot.
    """
    names = require_savepoint(store, folder)
    return delete_named(store, folder, names)


def delete_named(store: ObjectStore, folder: str, names: Sequence[str]) -> int:
    """Delete what `require_savepoint` has seen: the manifest first, then the files page by page, what is noted last.

    Returns:
        How many objects were deleted.
    """
    objects = [name for name in names if name != _FILES]
    store.delete_many([f"{folder}/{name}" for name in objects if name == layout.MANIFEST_NAME])
    files = store.delete_folder(f"{folder}/{layout.SAVEPOINT_FILES}") if _FILES in names else DeletedObjects()
    store.delete_many([f"{folder}/{name}" for name in objects if name in _NOTES])
    return len(objects) + files.objects


def require_savepoint(store: ObjectStore, folder: str) -> tuple[str, ...]:
    """Return the names in a folder that has a savepoint, what is left of one, or nothing.

    Cost: a listing of one level, and a GET.

    Args:
        store: Any store.
        folder: The folder below it.

    Raises:
        SpecRejectedError: `NotASavepoint`: it is a checkpoint, or has something else.
    """
    names = store.list_names(folder)
    is_whole = layout.MANIFEST_NAME in names
    is_savepoint = not is_whole or catalog.read_manifest(store, folder).kind is SnapshotKind.SAVEPOINT
    if not folder or not is_savepoint or not {layout.MANIFEST_NAME, _FILES, *_NOTES}.issuperset(names):
        raise errors.SpecRejectedError(
            "NotASavepoint", f"{store.uri}/{folder} is not a savepoint's folder; nothing was deleted."
        )
    return names


def is_part(name: str) -> bool:
    """Tell whether an object, by its name in the folder of a savepoint, is one of its files, or noted beside them."""
    return name.startswith(_FILES) or name in _NOTES


def _folder(query: QueryEntry) -> str:
    return f"{layout.SAVEPOINT_FILES}/{query.uid}"


def _is_complete(info: ObjectInfo | None, file: FileEntry) -> bool:
    """Tell whether a copy is complete; a copied file never changes, so an equal size is enough."""
    return info is not None and info.size_bytes == file.size_bytes
