"""The prepared transactions in completed snapshots: a restore may commit them, so they must not be aborted.

A transaction consists of a record in a generation and of rows in an external system. A snapshot refers to the record; a
savepoint holds a copy of the record, and no copy of the rows.
"""

from __future__ import annotations

from statefulspark import errors
from statefulspark.checkpoint import catalog, transfer
from statefulspark.contract import layout
from statefulspark.contract.manifest import Manifest
from statefulspark.recovery import external_savepoints
from statefulspark.storage.port import ObjectStore


def transactions(store: ObjectStore, *, open_store: transfer.StoreOpener | None = None) -> frozenset[str]:
    """Return the keys of the records to which the completed snapshots of a root refer.

    Cost: three listings; a HEAD per savepoint; a GET per snapshot, and two per savepoint at another location.

    Args:
        store: The job's root.
        open_store: Opens savepoints at other locations.

    Raises:
        SnapshotCorruptError: A manifest cannot be read, so the answer is unknown.
        SpecRejectedError: The location of a savepoint cannot be opened.
    """
    manifests: list[Manifest] = []
    for manifest in catalog.read_manifests(store, catalog.list_snapshots(store)):
        if isinstance(manifest, errors.SnapshotCorruptError):
            raise manifest
        manifests.append(manifest)
    for savepoint in external_savepoints.list_all(store, open_store):
        if isinstance(savepoint.manifest, Manifest):
            manifests.append(savepoint.manifest)
        elif not savepoint.is_gone:
            raise savepoint.manifest
    return frozenset(
        f"{layout.query_root(manifest.generation, query.uid)}/{entry.path}"
        for manifest in manifests
        for query in manifest.queries
        for entry in query.prepared
    )
