"""Claims: a job that starts from a snapshot in claim mode CLAIM owns it from then on, and deletes it in the end.

`_claim.json` in the snapshot's folder is created conditionally, so of two jobs exactly one owns it. The generation that is
made from the snapshot is a complete copy, so nothing but a second fallback depends on it; it is deleted once as many
checkpoints as are retained have been completed since. Of another job's checkpoint only its manifest is deleted: the files
are that job's, and its pruning frees them.
"""

from __future__ import annotations

from datetime import datetime

from statefulspark import errors
from statefulspark.checkpoint import catalog, savepoint
from statefulspark.contract import layout
from statefulspark.contract.manifest import MANIFEST_NAME, SnapshotKind
from statefulspark.contract.notes import CLAIM_NAME, ClaimRecord
from statefulspark.storage.port import ObjectStore


def claim(store: ObjectStore, folder: str, *, root: str, owner_id: str, now: datetime) -> None:
    """Claim a snapshot for a job. Idempotent. Cost: one PUT, and a GET if it is claimed.

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
        present = ClaimRecord.parse(store.read(key), f"{store.uri}/{key}")
        if present.root == root:
            return
        raise errors.SpecRejectedError(
            "SnapshotClaimed",
            f"{store.uri}/{folder} has belonged to the job at {present.root} since {present.claimed_at.isoformat()}, which "
            f"will delete it; restore it with claim mode NO_CLAIM, or delete {key} there if that job is gone.",
        ) from error


def is_held(store: ObjectStore, folder: str, *, root: str) -> bool:
    """Tell whether a job owns a snapshot, or what is left of it. Cost: one GET."""
    try:
        key = _key(folder, CLAIM_NAME)
        return ClaimRecord.parse(store.read(key), f"{store.uri}/{key}").root == root
    except errors.ObjectNotFoundError:
        return False


def delete(store: ObjectStore, folder: str, *, root: str) -> None:
    """Delete a claimed snapshot: its manifest first, then its files, then the claim. Idempotent.

    Another snapshot that has taken its place, or one that another job has claimed since, is left alone.

    Args:
        store: Any store.
        folder: The snapshot's folder below it.
        root: URI of the root of the job that claimed it.
    """
    manifest, claim_info = store.info(_key(folder, MANIFEST_NAME)), store.info(_key(folder, CLAIM_NAME))
    if claim_info is None or not is_held(store, folder, root=root):
        return
    try:
        kind = catalog.read_manifest(store, folder).kind
    except errors.ObjectNotFoundError:
        kind = SnapshotKind.SAVEPOINT if layout.SAVEPOINT_FILES in _names(store, folder) else SnapshotKind.CHECKPOINT
    if manifest is not None and not store.delete_unchanged(_key(folder, MANIFEST_NAME), etag=manifest.etag):
        return
    if kind is SnapshotKind.SAVEPOINT:
        savepoint.dispose(store, folder)
    store.delete_unchanged(_key(folder, CLAIM_NAME), etag=claim_info.etag)


def _names(store: ObjectStore, folder: str) -> tuple[str, ...]:
    return tuple(name.rstrip("/") for name in store.list_names(folder))


def _key(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
