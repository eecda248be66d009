"""Deletes a savepoint in the name of a job: only its own, and again after a deletion that has died.

The claim that is left in the folder until the end says whose the files are when the manifest is gone.
"""

from __future__ import annotations

from datetime import datetime

from statefulspark.checkpoint import savepoint
from statefulspark.contract.notes import CLAIM_NAME
from statefulspark.recovery import claims
from statefulspark.retention import owners, ownership
from statefulspark.storage.port import ObjectStore, first


def dispose(store: ObjectStore, folder: str, *, root: ObjectStore, asker: owners.Asker, now: datetime) -> int:
    """Delete a savepoint of a job. Idempotent. Cost: a LIST and a DELETE per 1,000 files; some ten requests beside.

    Args:
        store: The store above the savepoint's folder.
        folder: The savepoint's folder below it.
        root: The job's root.
        asker: The job.
        now: UTC.

    Returns:
        How many objects were deleted.

    Raises:
        SpecRejectedError: `StateKept`: it is not the job's; `NotASavepoint`: there is something else. Nothing was deleted.
        TransientError: Storage did not answer; a part may already be deleted.
    """
    if not first(store, folder):
        return 0
    standing = owners.savepoint_ownership(store, folder, root=root, asker=asker)
    ownership.require(standing, ownership.Deletion.SAVEPOINT, f"{store.uri}/{folder}")
    names = savepoint.require_savepoint(store, folder)
    claims.claim(store, folder, root=root.uri, owner_id=asker.owner_id or "", now=now)
    return savepoint.delete_named(store, folder, tuple({*names, CLAIM_NAME}))
