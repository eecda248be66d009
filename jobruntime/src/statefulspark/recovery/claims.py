"""Claims: a job that starts from a snapshot in claim mode Claim owns the snapshot, and deletes it later.

`_claim.json` in the snapshot's folder is created conditionally, so that exactly one job owns it. The generation that is
made from the snapshot is a complete copy, so the snapshot is needed only as a second fallback; the job deletes it once it
has completed as many checkpoints as it retains. Of another job's checkpoint only the manifest is deleted: the files belong
to that job, and its pruning deletes them.
"""

from __future__ import annotations

from datetime import datetime

from statefulspark import errors
from statefulspark.checkpoint import catalog, savepoint
from statefulspark.contract import layout
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.contract.notes import CLAIM_NAME, ClaimRecord
from statefulspark.storage.port import MOST_OF_A_DOCUMENT, ObjectStore


def claim(store: ObjectStore, folder: str, *, root: str, owner_id: str, now: datetime) -> None:
    """Claim a snapshot for a job. Idempotent. Cost: one PUT, and a GET if it is claimed already.

    Args:
        store: Any store.
        folder: The snapshot's folder below it; "" if the store is rooted there.
        root: URI of the job's root.
        owner_id: Uid of the job's resource.
        now: UTC.

    Raises:
        SpecRejectedError: `SnapshotClaimed`: another job owns it.
        SnapshotCorruptError: The claim is unreadable.
    """
    key = _key(folder, CLAIM_NAME)
    record = ClaimRecord(root=root, owner_id=owner_id, claimed_at=now)
    try:
        store.create(key, record.to_json(indent=1).encode())
    except errors.ObjectExistsError as error:
        present = _read(store, key)
        if present.root == root:
            return
        raise errors.SpecRejectedError(
            "SnapshotClaimed",
            f"{store.uri}/{folder} has belonged to the job at {present.root} since {present.claimed_at.isoformat()}, which "
            f"will delete it; restore it with claim mode NoClaim, or delete {key} there if that job is gone.",
        ) from error


def is_held(store: ObjectStore, folder: str, *, root: str) -> bool:
    """Tell whether a job owns a snapshot or its remaining files. Cost: one GET."""
    return holder(store, folder) == root


def holder(store: ObjectStore, folder: str) -> str | None:
    """Return the root of the job that owns a snapshot or its remaining files; None if no job does. Cost: one GET.

    Raises:
        SnapshotCorruptError: The claim is unreadable.
    """
    try:
        return _read(store, _key(folder, CLAIM_NAME)).root
    except errors.ObjectNotFoundError:
        return None


def delete(store: ObjectStore, folder: str, *, root: str) -> None:
    """Delete a claimed snapshot: its manifest first, then its files, then the claim. Idempotent.

    A snapshot that replaced it, or that another job claimed later, is not changed; nor is what is no part of a savepoint.

    Args:
        store: Any store.
        folder: The snapshot's folder below it.
        root: URI of the root of the job that claimed it.
    """
    manifest, claim_info = store.info(layout.snapshot_manifest(folder)), store.info(_key(folder, CLAIM_NAME))
    if claim_info is None or not is_held(store, folder, root=root):
        return
    try:
        kind = catalog.read_manifest(store, folder).kind
    except errors.ObjectNotFoundError:
        names = {name.rstrip("/") for name in store.list_names(folder)}
        kind = SnapshotKind.SAVEPOINT if layout.SAVEPOINT_FILES in names else SnapshotKind.CHECKPOINT
    if manifest is not None and not store.delete_unchanged(layout.snapshot_manifest(folder), etag=manifest.etag):
        return
    if kind is SnapshotKind.SAVEPOINT:
        savepoint.delete_named(store, folder, store.list_names(folder))
    store.delete_unchanged(_key(folder, CLAIM_NAME), etag=claim_info.etag)


def _read(store: ObjectStore, key: str) -> ClaimRecord:
    return ClaimRecord.parse(store.read(key, most_bytes=MOST_OF_A_DOCUMENT), f"{store.uri}/{key}")


def _key(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
