"""Deletes all state of a job on purpose, and keeps the fence.

A driver on a node that reaches storage and not the API server may outlive its job. The deletion claims one more epoch, so
that this driver is fenced as by a successor, and leaves the record of that epoch for good: a few hundred bytes. A later job
of the name goes on from there, with numbers that the deleted state has not used; the record is the proof that it may start
empty.

The other epochs are deleted first, then the lineage: a start that makes a new one finds the record of the deletion, which is
the oldest one. Records of generations are deleted last. While there is one, such a start refuses, so nobody starts from a
half.

Nothing is deleted that is another's, or nobody's. The owner's document is looked at before the claim, so that another's
driver is not fenced, and again behind it. It goes at the very end, if it is still the same, so that a deletion that has died
can be repeated.
"""

from __future__ import annotations

import uuid
from datetime import datetime

from statefulspark import errors
from statefulspark.checkpoint import epochs
from statefulspark.contract import layout
from statefulspark.contract.manifest import EpochRecord, Purge
from statefulspark.retention import owners, ownership
from statefulspark.storage.port import ObjectInfo, ObjectStore

_MAX_ATTEMPTS = 5


def purge(store: ObjectStore, *, asker: owners.Asker, holder: str, now: datetime) -> tuple[ObjectInfo, ...]:
    """Delete everything below a job's root but the proof of it, and return what that was. The call may be repeated.

    Cost: five listings of the whole folder, and what deleting it costs; a PUT.

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
    before = store.list("")
    if all(info.key.startswith(f"{layout.CODE}/") for info in before):
        store.delete_folder("")  # Nothing but code, which is no state, and markers of folders.
        return before
    _require_own(store, asker)
    kept = layout.epoch(_claimed(store, holder, now))
    owner = store.info(layout.OWNER)
    _require_own(store, asker)
    infos = [info for info in store.list("") if info.key != kept]
    for folder in (layout.EPOCHS, layout.LINEAGES):
        store.delete_many([info.key for info in infos if info.key.startswith(f"{folder}/")])
    records = [info.key for info in infos if info.key.endswith(f"/{layout.GENERATION_RECORD}")]
    store.delete_many([info.key for info in infos if info.key not in (*records, layout.OWNER)])
    store.delete_many(records)
    if owner is not None:
        store.delete_unchanged(layout.OWNER, etag=owner.etag)
    for name in store.list_names(""):
        if name != f"{layout.EPOCHS}/":
            store.delete_folder(name.rstrip("/"))
    return tuple(infos)


def _require_own(store: ObjectStore, asker: owners.Asker) -> None:
    """Refuse what is not the job's; the proof of an earlier deletion alone is nobody's state."""
    if not is_purged(store):
        ownership.require(owners.of_root(store, asker), ownership.Deletion.JOB, store.uri)


def is_purged(store: ObjectStore) -> bool:
    """Tell whether a folder holds nothing, or nothing but the proof that its state was deleted."""
    infos = store.list("")
    purge = epochs.last_purge(store)
    return not infos or (purge is not None and [info.key for info in infos] == [layout.epoch(purge.epoch)])


def _claimed(store: ObjectStore, holder: str, now: datetime) -> int:
    """Claim an epoch for the deletion; one that died has claimed it already."""
    for _ in range(_MAX_ATTEMPTS):
        newest = epochs.newest(store)
        before = _read(store, newest)
        if before is not None and before.purged is not None:
            return newest
        record = EpochRecord(
            epoch=newest + 1,
            claimed_at=now,
            holder=holder,
            claim_id=uuid.uuid4().hex,
            follows=before.claim_id if before is not None else None,
            purged=_used(store, newest + 1),
        )
        try:
            store.create(layout.epoch(record.epoch), record.to_json(indent=1).encode())
        except errors.ObjectExistsError:
            continue
        return record.epoch
    raise errors.PreconditionFailedError(
        "EpochTaken", f"Drivers keep claiming epochs at {store.uri}, so its state was not deleted; stop them."
    )


def _read(store: ObjectStore, epoch: int) -> EpochRecord | None:
    try:
        return epochs.read(store, epoch) if epoch else None
    except errors.SnapshotCorruptError:
        return None


def _used(store: ObjectStore, epoch: int) -> Purge:
    """Return the numbers that are not to be used again; those of an earlier deletion count."""
    before = epochs.last_purge(store) or Purge(epoch=epoch, generation=0, snapshot=0)
    return Purge(
        epoch=epoch,
        generation=max(before.generation, _highest(store, layout.GENERATIONS)),
        snapshot=max(before.snapshot, _highest(store, layout.CHECKPOINTS), _highest(store, layout.SAVEPOINTS)),
    )


def _highest(store: ObjectStore, folder: str) -> int:
    return max((layout.parse_number(name) or 0 for name in store.list_names(folder)), default=0)
