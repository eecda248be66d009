"""Epochs: who may write. Each start of a driver claims the next number with a conditional create.

Claims are contiguous, and the driver with the highest one owns the job. The operator may assign a number before the pod
exists; a claim of it fills the numbers below too, so that a late driver with an older number finds that one taken.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from statefulspark import errors
from statefulspark.checkpoint import catalog, listing
from statefulspark.contract import config, layout
from statefulspark.contract.config import OwnershipMode
from statefulspark.contract.manifest import EpochRecord, OwnerRecord, Purge
from statefulspark.storage.port import MOST_OF_A_DOCUMENT, ObjectInfo, ObjectStore

_NO_ETAG = "0" * 32
"""The MD5 of nothing that anybody stores."""


@dataclass(frozen=True, slots=True)
class LifeOfRoot:
    """The drivers of one life of a root, from an epoch on; see `life_since`.

    Attributes:
        claims: The epoch of each claim.
        other: The first epoch after them that is of another life; None if there is none.
    """

    claims: Mapping[str, int]
    other: int | None = None


@dataclass(frozen=True, slots=True)
class KnownDriver:
    """A driver that is known to be of a life of the root.

    Attributes:
        epoch: Its epoch; 0 if none is known.
        claim: Its claim of that epoch; None if only the epoch is known.
    """

    epoch: int = 0
    claim: str | None = None


def newest(store: ObjectStore) -> int:
    """Return the highest claimed epoch, 0 if there is none. Cost: one listing, one HEAD.

    The listing may lag; numbers are claimed one after the other, so the next one is looked up by name.
    """
    listed = max((layout.parse_number(name) or 0 for name in store.list_names(layout.EPOCHS)), default=0)
    return listing.highest(store, listed, layout.epoch)


def read(store: ObjectStore, epoch: int) -> EpochRecord:
    """Return the record of an epoch. Cost: one GET.

    Raises:
        ObjectNotFoundError: The epoch is not claimed.
        SnapshotCorruptError: `DocumentUnreadable`.
    """
    key = layout.epoch(epoch)
    return EpochRecord.parse(store.read(key, most_bytes=MOST_OF_A_DOCUMENT), f"{store.uri}/{key}")


def claim_of(store: ObjectStore, epoch: int) -> str | None:
    """Return the id of the claim of an epoch; None if no driver ran under it. Cost: one GET."""
    try:
        record = read(store, epoch)
    except errors.ObjectNotFoundError:
        return None
    return None if record.filled else record.claim_id


def claim_in_life(store: ObjectStore, epoch: int, *, known: KnownDriver) -> str | None:
    """Return the id of the claim of an epoch, if it is of the same life of the root as a driver that is known.

    Records that cannot be read accuse nobody.

    Args:
        store: The job's root.
        epoch: The epoch.
        known: The driver, of an earlier or a later epoch.

    Returns:
        None if no driver ran under the epoch, or if it is of another life. Cost: one GET for each epoch from this one to the
        driver's, and one more if one of them cannot be read.
    """
    first, last = sorted((epoch, known.epoch or epoch))
    records = records_since(store, first, until=last)
    if records is None:
        return claim_of(store, epoch)
    claims = {record.epoch: record.claim_id for record in records}
    is_other = known.claim is not None and claims[known.epoch] != known.claim
    if is_other or life_of(records, first).other is not None:
        return None
    return None if records[epoch - first].filled else claims[epoch]


def claim(store: ObjectStore, *, assigned: int | None, holder: str, claim_id: str, now: datetime) -> int:
    """Claim the right to write.

    Repeating a claim with the same `claim_id`, after a lost answer for example, returns the same epoch.

    Args:
        store: The job's root.
        assigned: The epoch to claim; None takes the next free one.
        holder: Who claims; for log and error messages.
        claim_id: Unique per process.
        now: UTC.

    Returns:
        The claimed epoch. Cost: one listing, two HEADs, a GET and one PUT; one GET more if the answer to a PUT was lost, one
        PUT more for each number that is skipped.

    Raises:
        FencedError: The assigned epoch, or a newer one, belongs to another driver.
    """
    highest = newest(store)
    before = read(store, highest) if highest else None
    if before is not None and before.claim_id == claim_id and not before.filled:
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
            follows=(before.claim_id if before is not None else None) if number == highest + 1 else claim_id,
            filled=number < target,
        )
        if not _create(store, record):
            # Another driver claimed the number first: an assigned epoch may be free still, else the next one is claimed.
            if assigned is not None and newest(store) >= target:
                raise _fenced(store, target, holder, newest(store))
            return claim(store, assigned=assigned, holder=holder, claim_id=claim_id, now=now)
    if highest and store.info(layout.epoch(highest)) is None:
        # All state was deleted since the listing, so the number was free again. The record of the deletion is the oldest.
        store.delete_many([layout.epoch(target)])
        raise _deleted(store, target)
    return target


def life_since(store: ObjectStore, epoch: int) -> LifeOfRoot | None:
    """Return the drivers since an epoch, in its life of the root; None if a record cannot be read.

    Cost: a listing, a HEAD, and a GET for each epoch.
    """
    records = records_since(store, epoch)
    return life_of(records, epoch) if records is not None else None


def records_since(store: ObjectStore, epoch: int, *, until: int | None = None) -> tuple[EpochRecord, ...] | None:
    """Return the records of an epoch and the later ones; None if one cannot be read.

    Args:
        store: The job's root.
        epoch: The first one.
        until: The last one; None for the newest. Cost: as of `life_since`, without listing and HEAD where it is given.
    """
    keys = {number: layout.epoch(number) for number in range(epoch, (until or newest(store)) + 1)}
    bodies = catalog.read_present(store, list(keys.values()), most_bytes=MOST_OF_A_DOCUMENT)
    try:
        return tuple(EpochRecord.parse(bodies.get(key, b""), f"{store.uri}/{key}") for key in keys.values())
    except errors.SnapshotCorruptError:
        return None


def life_of(records: Sequence[EpochRecord], epoch: int) -> LifeOfRoot:
    """Return the drivers since an epoch, in its life of the root. Pure.

    Where a root was copied over an older life of itself, records of two lives lie side by side. One of the other life does
    not follow the one before it.

    Args:
        records: Those of this epoch and all later ones; older ones do not matter.
        epoch: The first that counts.
    """
    claims: dict[str, int] = {}
    since = [record for record in records if record.epoch >= epoch]
    for before, record in zip((None, *since), since, strict=False):
        if before is not None and record.follows != before.claim_id:
            return LifeOfRoot(claims, other=record.epoch)
        claims[record.claim_id] = record.epoch
    return LifeOfRoot(claims)


def require_current(store: ObjectStore, epoch: int) -> None:
    """Check that no newer epoch was claimed, and that the state was not deleted. Cost: two HEADs.

    Raises:
        FencedError: A newer one was, or the record of this one is gone.
    """
    if store.info(layout.epoch(epoch + 1)) is not None:
        highest = newest(store)
        raise errors.FencedError(
            f"Epoch {epoch} at {store.uri} was followed by epoch {highest}, held by {_holder(store, highest)}."
        )
    if store.info(layout.epoch(epoch)) is None:
        raise _deleted(store, epoch)


def last_purge(store: ObjectStore) -> Purge | None:
    """Return the last deletion of all state on purpose; None if there was none. Cost: one listing, and one GET then.

    Such a deletion leaves its own record alone, so that one is the oldest.
    """
    oldest = min(
        (number for name in store.list_names(layout.EPOCHS) if (number := layout.parse_number(name))), default=1
    )
    try:
        return read(store, oldest).purged if oldest > 1 else None
    except (errors.SnapshotCorruptError, errors.ObjectNotFoundError):
        return None


def _deleted(store: ObjectStore, epoch: int) -> errors.FencedError:
    return errors.FencedError(
        f"The state at {store.uri} was deleted, with the record of epoch {epoch} or the one before."
    )


def read_owner(store: ObjectStore) -> OwnerRecord:
    """Return the record of the resource that the state belongs to. Cost: one GET.

    Raises:
        ObjectNotFoundError: There is none.
        SnapshotCorruptError: `DocumentUnreadable`.
    """
    return OwnerRecord.parse(store.read(layout.OWNER, most_bytes=MOST_OF_A_DOCUMENT), f"{store.uri}/{layout.OWNER}")


def ensure_owner(
    store: ObjectStore, record: OwnerRecord, *, ownership: OwnershipMode = OwnershipMode.EXCLUSIVE
) -> OwnerRecord:
    """Make sure that the state belongs to this resource; claim it if it has no owner.

    A word counts once: who has owned the state and lost it does not take it over again by the word that it had then. So two
    resources that both say it do not take the state from each other in turn. State of a deleted resource has nobody to lose
    it, so `AdoptOrphaned` needs no count.

    Cost: one PUT; where it had no owner, two more that the store refuses, and two HEADs; where it had one, a HEAD and a GET,
    and one PUT more to take it over, or if the owner's word has changed.

    Args:
        store: The job's root.
        record: The resource that claims it.
        ownership: Whose state it may change.

    Returns:
        The record on storage.

    Raises:
        SpecRejectedError: `StateOwnedByAnother`: another resource owns it. `StorageConditionsIgnored`: the store has written
            what it must refuse.
        SnapshotCorruptError: The record is unreadable.
        PreconditionFailedError: `ObjectChanged`: another resource took it over in the meantime, and keeps it.
    """
    body = record.to_json(indent=1).encode()
    try:
        store.create(layout.OWNER, body)
    except errors.ObjectExistsError:
        info = store.info(layout.OWNER)
        present = read_owner(store)
    else:
        _require_conditions(store, body)
        return record
    if present.owner_id == record.owner_id:
        named = {"word": record.word, "cluster_id": record.cluster_id or present.cluster_id}
        current = present.model_copy(update=named)
        return present if current == present else _replaced(store, current, info)
    is_taken_over = ownership is OwnershipMode.TAKE_OVER and record.key not in present.spent
    is_adopted = ownership is OwnershipMode.ADOPT_ORPHANED and present.reason_to_doubt(record) is None
    if not is_taken_over and not is_adopted:
        raise errors.SpecRejectedError(
            "StateOwnedByAnother",
            f"The state at {store.uri} has belonged to {present.namespace}/{present.job} with uid {present.owner_id} since "
            f"{present.created_at:%Y-%m-%d %H:%M:%S} UTC, and this job has uid {record.owner_id}. "
            f"{_way_out(present, record, ownership)} The steps are in docs/howto/rebuild-a-cluster.md.",
        )
    return _replaced(store, record.model_copy(update={"spent": (*present.spent, present.key)}), info)


def _way_out(present: OwnerRecord, record: OwnerRecord, ownership: OwnershipMode) -> str:
    """Return what a resource can do that does not get the state of another owner."""
    other, doubt = "give the job another name or storage.uri.", present.reason_to_doubt(record)
    if record.key in present.spent:
        return (
            "This job owned the state before, and its storage.ownership: TakeOver counts once. Change restore.nonce to "
            "take the state over again (on the command line --ownership TakeOver --restore-again), after the other one has "
            f"ended; or {other} {config.ANOTHER_NONCE}"
        )
    if doubt is None:
        return (
            "That resource does not exist any more in this cluster. Set storage.ownership to AdoptOrphaned or to TakeOver "
            f"to continue with that state, or {other}"
        )
    take_over = f"Set storage.ownership to TakeOver to continue with that state, or {other}"
    if ownership is OwnershipMode.ADOPT_ORPHANED:
        return f"AdoptOrphaned does not take it: {doubt}. Make sure that nothing writes there any more. {take_over}"
    return take_over


def _replaced(store: ObjectStore, record: OwnerRecord, over: ObjectInfo | None) -> OwnerRecord:
    if over is None:
        raise errors.ObjectChangedError(f"{store.uri}/{layout.OWNER}")
    store.replace(layout.OWNER, record.to_json(indent=1).encode(), etag=over.etag)
    return record


def _require_conditions(store: ObjectStore, body: bytes) -> None:
    """Write the owner's record, which is there, twice more, under conditions that do not hold.

    A store that ignores conditions creates it in every start, so this finds it out whether or not it is the first one.
    """
    with contextlib.suppress(errors.ObjectExistsError):
        store.create(layout.OWNER, body)
        raise _unconditional(store, "If-None-Match: *", "although the object existed")
    with contextlib.suppress(errors.ObjectChangedError):
        store.replace(layout.OWNER, body, etag=_NO_ETAG)
        raise _unconditional(store, "If-Match", "although the object had another ETag")


def _unconditional(store: ObjectStore, condition: str, although: str) -> errors.SpecRejectedError:
    return errors.SpecRejectedError(
        "StorageConditionsIgnored",
        f"The object store of {store.uri} has accepted a PUT with {condition} {although}. With a store that ignores "
        "conditions two drivers can write the same state; nothing was started. Use a store, or a release of it, that "
        "keeps them.",
    )


def _create(store: ObjectStore, record: EpochRecord) -> bool:
    key = layout.epoch(record.epoch)
    try:
        store.create(key, record.to_json(indent=1).encode())
    except errors.ObjectExistsError:
        return read(store, record.epoch).claim_id == record.claim_id
    return True


def _fenced(store: ObjectStore, epoch: int, holder: str, highest: int) -> errors.FencedError:
    return errors.FencedError(
        f"{holder} cannot run as epoch {epoch} at {store.uri}: {_holder(store, highest)} already holds epoch {highest}, "
        "and the newer driver continues."
    )


def _holder(store: ObjectStore, epoch: int) -> str:
    """Return who holds an epoch, for people: that it is taken is certain, whatever its record says."""
    try:
        return read(store, epoch).holder
    except (errors.SnapshotCorruptError, errors.ObjectNotFoundError):
        return "a driver whose record cannot be read"
