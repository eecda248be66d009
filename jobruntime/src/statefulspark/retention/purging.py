"""Deletes all state of a job on purpose, and keeps the fence.

A driver on a node that reaches storage and not the API server may outlive its job. The deletion claims one more epoch, so
that this driver is fenced as by a successor, and leaves the record of that epoch for good: a few hundred bytes. A later job
of the name goes on from there, with numbers that the deleted state has not used; the record is the proof that it may start
empty.

The other epochs are deleted first, then the lineage: a start that makes a new one finds the record of the deletion, which is
the oldest one. Records of generations are deleted last. While there is one, such a start refuses, so nobody starts from a
half. A folder may have millions of files, so it is walked once, and each page of the walk is deleted before the next.

Nothing is deleted that is another's, or nobody's. The owner's document is looked at before the claim, so that another's
driver is not fenced, and again behind it. It goes at the very end, if it is still the same, so that a deletion that has died
can be repeated.
"""

from __future__ import annotations

import contextlib
import uuid
from datetime import datetime

from statefulspark import errors
from statefulspark.checkpoint import epochs
from statefulspark.contract import layout
from statefulspark.contract.manifest import EpochRecord, Purge
from statefulspark.retention import owners, ownership
from statefulspark.storage.port import DeletedObjects, ObjectStore, delete_listed, first

_MAX_ATTEMPTS = 5


def purge(store: ObjectStore, *, asker: owners.Asker, holder: str, now: datetime) -> DeletedObjects:
    """Delete everything below a job's root but the proof of it, and return how much that was. The call may be repeated.

    Cost: a LIST and two DELETEs per 1,000 objects; some 20 requests beside.

    Args:
        store: The job's root.
        asker: The job that is deleted.
        holder: Who deletes, for people.
        now: UTC.

    Raises:
        SpecRejectedError: `StateKept`: the state is not the job's; nothing was deleted.
        PreconditionFailedError: `EpochTaken`: drivers keep starting; nothing was deleted.
        TransientError: Storage did not answer; a part may already be deleted.
    """
    others = (name for name in store.list_names("") if name != f"{layout.CODE}/")
    if not any(first(store, name.rstrip("/")) if name.endswith("/") else True for name in others):
        return store.delete_folder("")  # Code is no state; markers of folders go, too.
    _require_own(store, asker)
    kept = layout.epoch(_claimed(store, holder, now))
    owner = store.info(layout.OWNER)
    _require_own(store, asker)
    deleted = delete_listed(store, layout.EPOCHS, lambda info: info.key != kept)
    deleted += delete_listed(store, layout.LINEAGES)
    folder, record = f"{layout.GENERATIONS}/", f"/{layout.GENERATION_RECORD}"
    deleted += delete_listed(
        store,
        "",
        lambda info: (
            info.key not in (kept, layout.OWNER) and not (info.key.startswith(folder) and info.key.endswith(record))
        ),
    )
    deleted += delete_listed(store, layout.GENERATIONS)
    if owner is not None and store.delete_unchanged(layout.OWNER, etag=owner.etag):
        deleted += DeletedObjects.count([owner])
    for name in store.list_names(""):
        if name != f"{layout.EPOCHS}/":
            deleted += store.delete_folder(name.rstrip("/"))
    return deleted


def _require_own(store: ObjectStore, asker: owners.Asker) -> None:
    """Refuse what is not the job's; the proof of an earlier deletion alone is nobody's state."""
    if not is_purged(store):
        ownership.require(owners.root_ownership(store, asker), ownership.Deletion.JOB, store.uri)


def is_purged(store: ObjectStore) -> bool:
    """Tell whether a folder holds nothing, or nothing but the proof that its state was deleted.

    Cost: a listing of two objects; if there is one alone, what looking for the proof costs.
    """
    keys = [info.key for info in first(store, "", most=2)]
    if len(keys) != 1:
        return not keys
    purge = epochs.last_purge(store)
    return purge is not None and keys == [layout.epoch(purge.epoch)]


def _claimed(store: ObjectStore, holder: str, now: datetime) -> int:
    """Claim an epoch for the deletion; one that died has claimed it already."""
    for _ in range(_MAX_ATTEMPTS):
        newest = epochs.newest(store)
        before = None
        with contextlib.suppress(errors.SnapshotCorruptError):
            before = epochs.read(store, newest) if newest else None
        if before is not None and before.purged is not None:
            return newest
        # The numbers that are not to be used again; those of an earlier deletion count.
        used = epochs.last_purge(store) or Purge(epoch=newest + 1, generation=0, snapshot=0)
        record = EpochRecord(
            epoch=newest + 1,
            claimed_at=now,
            holder=holder,
            claim_id=uuid.uuid4().hex,
            follows=before.claim_id if before is not None else None,
            purged=Purge(
                epoch=newest + 1,
                generation=max(used.generation, _highest(store, layout.GENERATIONS)),
                snapshot=max(used.snapshot, _highest(store, layout.CHECKPOINTS), _highest(store, layout.SAVEPOINTS)),
            ),
        )
        try:
            store.create(layout.epoch(record.epoch), record.to_json(indent=1).encode())
        except errors.ObjectExistsError:
            continue
        return record.epoch
    raise errors.PreconditionFailedError(
        "EpochTaken", f"Drivers keep claiming epochs at {store.uri}, so its state was not deleted; stop them."
    )


def _highest(store: ObjectStore, folder: str) -> int:
    return max((layout.parse_number(name) or 0 for name in store.list_names(folder)), default=0)
