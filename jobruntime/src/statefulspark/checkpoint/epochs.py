"""Epochs: who may write. Each start of a driver claims the next number with a conditional create.

Claims are contiguous, and the highest one owns the job. A number that was assigned (by the operator, before the pod
existed) and passes over others fills those too, so that a late driver with an older number finds it taken.
"""

from __future__ import annotations

from datetime import datetime

from statefulspark import errors
from statefulspark.checkpoint import listing
from statefulspark.contract import layout
from statefulspark.contract.manifest import EpochRecord, OwnerRecord
from statefulspark.storage.port import ObjectStore


def newest(store: ObjectStore) -> int:
    """Return the highest claimed epoch, 0 if there is none. Cost: one listing, one HEAD.

    The listing may lag; numbers are claimed one after the other, so the next one is looked up by name.
    """
    listed = max((layout.parse_number(name) or 0 for name in store.list_names(layout.EPOCHS)), default=0)
    return listing.highest(store, listed, layout.epoch)


def read(store: ObjectStore, epoch: int) -> EpochRecord:
    """Return the record of an epoch. Cost: one GET.

    Raises:
        ObjectNotFoundError: Nobody claimed it.
        SnapshotCorruptError: `DocumentUnreadable`.
    """
    key = layout.epoch(epoch)
    return EpochRecord.parse(store.read(key), f"{store.uri}/{key}")


def claim(store: ObjectStore, *, assigned: int | None, holder: str, claim_id: str, now: datetime) -> int:
    """Claim the right to write.

    Repeating a claim with the same `claim_id`, after a lost answer for example, returns the same epoch.

    Args:
        store: The job's root.
        assigned: The epoch to claim; None takes the next one, whatever it is.
        holder: Who claims, for people.
        claim_id: Unique per process.
        now: UTC.

    Returns:
        The claimed epoch. Cost: one listing, one HEAD and one PUT; a GET more where the answer to a PUT was lost, a PUT
        more for each number passed over.

    Raises:
        FencedError: The assigned epoch, or a newer one, belongs to somebody else.
    """
    highest = newest(store)
    if highest and (mine := read(store, highest)).claim_id == claim_id and not mine.filled:
        return highest
    target = assigned if assigned is not None else highest + 1
    if target <= highest:
        raise _fenced(store, target, holder, highest)
    for number in range(highest + 1, target + 1):
        record = EpochRecord(
            epoch=number,
            claimed_at=now,
            holder=holder,
            claim_id=claim_id,
            filled=number < target,
            notes_beginning=True,
        )
        if not _create(store, record):
            return _lost(store, assigned=assigned, record=record, target=target)
    return target


def require_current(store: ObjectStore, epoch: int) -> None:
    """Check that no newer epoch was claimed. Cost: one HEAD.

    Raises:
        FencedError: A newer one was.
    """
    if store.info(layout.epoch(epoch + 1)) is not None:
        highest = newest(store)
        raise errors.FencedError(
            f"Epoch {epoch} at {store.uri} was followed by epoch {highest}, held by {read(store, highest).holder}."
        )


def ensure_owner(store: ObjectStore, record: OwnerRecord, *, take_over: bool) -> OwnerRecord:
    """Make sure that the state belongs to this resource, and claim it if nobody has.

    Cost: one PUT; a HEAD and a GET if somebody has, and one PUT more to take over.

    Args:
        store: The job's root.
        record: Who wants to own it.
        take_over: Replace another owner. Only on somebody's explicit word.

    Returns:
        The record on storage.

    Raises:
        SpecRejectedError: `StateOwnedByAnother`: another resource owns it.
        SnapshotCorruptError: The record is unreadable.
        PreconditionFailedError: `ObjectChanged`: somebody else took it over meanwhile; that is the later word.
    """
    body = record.to_json(indent=1).encode()
    try:
        store.create(layout.OWNER, body)
        return record
    except errors.ObjectExistsError:
        seen = store.info(layout.OWNER)
        present = OwnerRecord.parse(store.read(layout.OWNER), f"{store.uri}/{layout.OWNER}")
    if present.owner_id == record.owner_id:
        return present
    if not take_over:
        raise errors.SpecRejectedError(
            "StateOwnedByAnother",
            f"The state at {store.uri} belongs to {present.namespace}/{present.job} with uid {present.owner_id}, and "
            f"this is uid {record.owner_id}. Set restore.takeOver to true to let it go on with that state, or give "
            "the job another name or storage.uri.",
        )
    if seen is None:
        raise errors.ObjectChangedError(f"{store.uri}/{layout.OWNER}")
    store.replace(layout.OWNER, body, etag=seen.etag)
    return record


def _create(store: ObjectStore, record: EpochRecord) -> bool:
    key = layout.epoch(record.epoch)
    try:
        store.create(key, record.to_json(indent=1).encode())
    except errors.ObjectExistsError:
        return read(store, record.epoch).claim_id == record.claim_id
    return True


def _lost(store: ObjectStore, *, assigned: int | None, record: EpochRecord, target: int) -> int:
    """Somebody else was faster: an assigned epoch may still be free further up, an unassigned claim tries again."""
    if assigned is not None and newest(store) >= target:
        raise _fenced(store, target, record.holder, newest(store))
    return claim(store, assigned=assigned, holder=record.holder, claim_id=record.claim_id, now=record.claimed_at)


def _fenced(store: ObjectStore, wanted: int, holder: str, highest: int) -> errors.FencedError:
    return errors.FencedError(
        f"{holder} was to run as epoch {wanted} at {store.uri}, and epoch {highest} is held by "
        f"{read(store, highest).holder} already; the newer one goes on."
    )
