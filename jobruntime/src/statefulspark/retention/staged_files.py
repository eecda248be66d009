"""Staged files of sinks, and scratch folders: who owns each folder, and which files are unneeded.

```
staging/<query uid>/<sink uid>/00000003-00000012-00000007-<unique>.parquet    generation, batch, epoch
scratch/00000007/…                                                            of epoch 7's start
scratch/rehearsal-<unique>/…                                                  of a standby, or of one that was killed
```
A sink cleans its own folder when it commits. The remaining files belong to a sink that the job no longer has, or to attempts
that a dead driver never recorded. A staged file is needed as long as a prepared transaction refers to it: one in a
generation, in one of the job's savepoints, or in a savepoint at another location. If a savepoint cannot be read, every file
is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from statefulspark import errors
from statefulspark.checkpoint import batch_records, catalog, epochs, transfer
from statefulspark.contract import layout
from statefulspark.contract.manifest import Manifest, SnapshotKind
from statefulspark.contract.notes import SavepointPointer
from statefulspark.recovery import candidates
from statefulspark.storage.port import ObjectInfo, ObjectStore

_STAGED = re.compile(
    rf"^{layout.STAGING}/(?P<query>[^/]+)/(?P<sink>[^/]+)/\d{{8,}}-\d{{8,}}-(?P<epoch>\d{{8,}})-[^/]+$"
)


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder beside the state.

    Attributes:
        path: Path below the job's root.
        owner: The sink or start that owns it, in words.
        files: All files in it.
        unneeded: The files that no snapshot needs.
    """

    path: str
    owner: str
    files: tuple[ObjectInfo, ...]
    unneeded: tuple[ObjectInfo, ...]


def list_folders(
    store: ObjectStore, generations: Sequence[ObjectInfo], *, open_store: transfer.StoreOpener | None = None
) -> tuple[Folder, ...]:
    """List the folders beside the state; changes nothing.

    Cost: three listings; if a dead driver has staged files, a GET per prepared transaction and savepoint too.

    Args:
        store: The job's root.
        generations: The files below `generations/`.
        open_store: Opens savepoints at other locations.
    """
    epoch = epochs.newest(store)
    staged = store.list(layout.STAGING)
    unneeded = frozenset(info.key for info in _unneeded(store, staged, generations, epoch, open_store))
    by_folder: dict[str, list[ObjectInfo]] = {}
    for info in staged:
        by_folder.setdefault(info.key.rpartition("/")[0], []).append(info)
    sinks = tuple(
        Folder(path, _owner_of(path), tuple(files), tuple(info for info in files if info.key in unneeded))
        for path, files in sorted(by_folder.items())
    )
    return (*sinks, *_scratch(store, epoch))


def unneeded(
    store: ObjectStore, generations: Sequence[ObjectInfo], *, open_store: transfer.StoreOpener | None = None
) -> tuple[ObjectInfo, ...]:
    """Return the staged files of dead drivers that no snapshot needs. Cost: as `list_folders`, one listing less.

    A driver of an older epoch may still commit one batch, whose transaction it has just recorded: the caller must call this
    again after a while before it deletes.
    """
    return _unneeded(store, store.list(layout.STAGING), generations, epochs.newest(store), open_store)


def _unneeded(
    store: ObjectStore,
    staged: Iterable[ObjectInfo],
    generations: Sequence[ObjectInfo],
    epoch: int,
    open_store: transfer.StoreOpener | None,
) -> tuple[ObjectInfo, ...]:
    old = [info for info in staged if (match := _STAGED.match(info.key)) and int(match["epoch"]) < epoch]
    if not old:
        return ()
    try:
        bodies = _transactions(store, generations, open_store)
    except (errors.StateUnknownError, errors.TransientError, errors.ObjectNotFoundError, errors.SpecRejectedError):
        return ()
    return tuple(info for info in old if not any(info.key.rpartition("/")[2].encode() in body for body in bodies))


def _transactions(
    store: ObjectStore, generations: Sequence[ObjectInfo], open_store: transfer.StoreOpener | None
) -> tuple[bytes, ...]:
    """Return the records of all prepared transactions as bytes; names of staged files are unique, so no parsing is needed.

    Raises:
        SnapshotCorruptError, ObjectNotFoundError, SpecRejectedError: A savepoint cannot be read.
    """
    keys = [info.key for info in generations if _is_prepared("/".join(info.key.split("/")[3:]))]
    bodies = [*catalog.read_present(store, keys).values()]
    for ref in catalog.list_snapshots(store):
        if ref.kind is SnapshotKind.SAVEPOINT:
            bodies += _of_savepoint(store, ref.folder, catalog.read_manifest(store, ref.folder))
    for name in store.list_names(layout.SAVEPOINTS):
        if name.endswith(".json"):
            bodies += _of_pointer(store, f"{layout.SAVEPOINTS}/{name}", open_store)
    return tuple(bodies)


def _of_pointer(store: ObjectStore, key: str, open_store: transfer.StoreOpener | None) -> Iterable[bytes]:
    location = SavepointPointer.parse(store.read(key), f"{store.uri}/{key}").location
    where, folder = candidates.locate(store, location, open_store)
    try:
        manifest = catalog.read_manifest(where, folder)
    except errors.ObjectNotFoundError:
        return ()  # Disposed of, or never completed.
    return _of_savepoint(where, folder, manifest)


def _of_savepoint(store: ObjectStore, folder: str, manifest: Manifest) -> Iterable[bytes]:
    prefix = f"{folder}/" if folder else ""
    keys = [f"{prefix}{query.path}/{entry.path}" for query in manifest.queries for entry in query.prepared]
    return store.read_many(keys).values() if keys else ()


def _is_prepared(name: str) -> bool:
    record = batch_records.of_key(name)
    return record is not None and record.kind is batch_records.RecordKind.PREPARED


def _owner_of(path: str) -> str:
    parts = path.split("/")
    return f"sink {parts[2]} of query {parts[1]}" if len(parts) == 3 else "not ours"


def _scratch(store: ObjectStore, epoch: int) -> Iterable[Folder]:
    """Return the scratch folders; a start deletes those of earlier epochs, and its own when it has finished."""
    by_name: dict[str, list[ObjectInfo]] = {}
    for info in store.list(layout.SCRATCH):
        by_name.setdefault(info.key.split("/")[1], []).append(info)
    for name, files in sorted(by_name.items()):
        number = layout.parse_number(name)
        is_over = number is not None and number < epoch
        yield Folder(f"{layout.SCRATCH}/{name}", _owner_of_scratch(name), tuple(files), tuple(files) if is_over else ())


def _owner_of_scratch(name: str) -> str:
    number = layout.parse_number(name)
    if number is not None:
        return f"start of epoch {number}"
    return "rehearsal of a standby" if layout.is_rehearsal(name) else "not ours"
