"""Which prepared transactions completed snapshots name: a restore may commit them, so that nobody may give them up.

A transaction is a record in a generation, and rows that wait somewhere. A snapshot names the record; a savepoint holds a
copy of it, and no copy of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from statefulspark import errors
from statefulspark.checkpoint import catalog, transfer
from statefulspark.contract import layout
from statefulspark.contract.manifest import Manifest
from statefulspark.recovery import external_savepoints
from statefulspark.storage.port import ObjectStore


def transactions(store: ObjectStore, *, open_store: transfer.StoreOpener | None = None) -> frozenset[str]:
    """Return the keys of the records that the completed snapshots of a root name.

    Cost: three listings; a HEAD per savepoint; a GET per snapshot, and two per savepoint at another location.

    Args:
        store: The job's root.
        open_store: Opens savepoints at other locations.

    Raises:
        SnapshotCorruptError: A manifest cannot be read, so it cannot be told.
        SpecRejectedError: A savepoint's location cannot be opened here.
    """
    manifests = (*_inside(store), *_outside(store, open_store))
    return frozenset(
        f"{layout.query_root(manifest.generation, query.uid)}/{entry.path}"
        for manifest in manifests
        for query in manifest.queries
        for entry in query.prepared
    )


def _inside(store: ObjectStore) -> Iterable[Manifest]:
    for found in catalog.read_manifests(store, catalog.list_snapshots(store)):
        if isinstance(found, errors.SnapshotCorruptError):
            raise found
        yield found


def _outside(store: ObjectStore, open_store: transfer.StoreOpener | None) -> Iterable[Manifest]:
    for found in external_savepoints.list_all(store, open_store):
        if isinstance(found.manifest, Manifest):
            yield found.manifest
        elif not found.is_gone:
            raise found.manifest
