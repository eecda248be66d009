"""Generations: Spark checkpoint roots of the job, one in use at a time.

A generation is reserved with a conditional create, filled, and becomes usable with its record, which is written last. The
newest generation with a record is in use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from statefulspark import errors
from statefulspark.checkpoint import lineage_records, listing
from statefulspark.contract import layout
from statefulspark.contract.manifest import GenerationRecord, Manifest, ReservationRecord
from statefulspark.storage.port import MOST_OF_A_DOCUMENT, ObjectStore


@dataclass(frozen=True, slots=True)
class Generations:
    """Every generation in a job's root.

    Attributes:
        records: The usable ones, by number ascending.
        highest: Highest number taken, usable or not; 0 if there is none.
        unfinished: Numbers above the one in use that a driver began to fill and has not completed.
        abandoned: Numbers that were begun and will never be completed.
        unreadable: An error message for each number with an unreadable record; `records` has a placeholder for it.
        newer: The same for unreadable records that are undamaged and have a version of a later release.
    """

    records: tuple[GenerationRecord, ...]
    highest: int
    unfinished: tuple[int, ...] = ()
    abandoned: frozenset[int] = frozenset()
    unreadable: Mapping[int, str] = field(default_factory=dict)
    newer: Mapping[int, str] = field(default_factory=dict)

    @property
    def current(self) -> GenerationRecord | None:
        """The one in use, None before the first."""
        return self.records[-1] if self.records else None

    def record(self, number: int | None) -> GenerationRecord | None:
        """Return a usable generation's record by number."""
        return next((record for record in self.records if record.generation == number), None)

    def ancestors(self, *, since: int) -> tuple[int, ...]:
        """Return the numbers of the generations that the one in use descends from, newest first, as far as records tell.

        Args:
            since: The oldest number that counts.
        """
        line: list[int] = []
        record = self.current
        while record is not None and record.parent_generation is not None and record.parent_generation >= since:
            line.append(record.parent_generation)
            record = self.record(record.parent_generation)
        return tuple(line)


def read_all(store: ObjectStore, *, above: int = 0) -> Generations:
    """Read every generation's record. Cost: one listing, one HEAD, and one GET per generation.

    The listing may lag; numbers are taken one after the other, so the next one is looked up by name.

    Args:
        store: The job's root.
        above: The highest generation of state that was deleted on purpose; what is left of it counts as absent.
    """
    listed = [number for number in _listed(store) if number > above]
    newest = max(listed, default=above)
    highest = listing.highest(store, newest, layout.generation_reservation)
    generations = _read(store, (*listed, *range(newest + 1, highest + 1)))
    return replace(generations, highest=max(generations.highest, above))


def list_recorded(store: ObjectStore, up_to: int) -> tuple[int, ...]:
    """Return the generations up to a number that have a record. Cost: one listing, one HEAD per generation."""
    numbers = [number for number in _listed(store) if number <= up_to]
    return tuple(number for number in numbers if store.info(layout.generation_record(number)) is not None)


def add_lost_records(
    generations: Generations, checkpoints: Collection[Manifest], lineages: lineage_records.Lineages
) -> Generations:
    """Add placeholders for generations whose record is lost although completed checkpoints belong to them. Pure.

    A checkpoint of a lineage that nothing else of the root names proves nothing: it is of a driver that has outlived state
    that was deleted.

    Args:
        generations: As read from storage.
        checkpoints: The completed checkpoints.
        lineages: The lineages of the root.
    """
    named = {record.lineage for record in generations.records} | {record.lineage for record in lineages.records}
    is_any = not named or bool(lineages.unreadable)
    in_use = {manifest.generation for manifest in checkpoints if is_any or manifest.lineage in named}
    lost = [number for number in generations.unfinished if number in in_use]
    if not lost:
        return generations
    records = tuple(sorted((*generations.records, *map(_placeholder, lost)), key=lambda record: record.generation))
    problems = {
        number: f"{layout.generation_record(number)} does not exist, although checkpoints of its generation are complete."
        for number in lost
    }
    return replace(
        generations,
        records=records,
        unfinished=tuple(number for number in generations.unfinished if number > records[-1].generation),
        unreadable={**generations.unreadable, **problems},
    )


def read_listed(store: ObjectStore) -> Generations:
    """Read the listed generations; only for callers that may miss the newest one. See `read_all`."""
    return _read(store, _listed(store))


def reserve(store: ObjectStore, *, above: int, holder: ReservationRecord) -> int:
    """Reserve a number for this driver alone. Cost: one PUT, one more per number that another driver has taken.

    Returns:
        The first free number above `above`.
    """
    number = above + 1
    while True:
        try:
            store.create(layout.generation_reservation(number), holder.to_json().encode())
        except errors.ObjectExistsError:
            number += 1
        else:
            return number


def publish(store: ObjectStore, record: GenerationRecord) -> None:
    """Make a filled generation usable. Cost: one PUT.

    Raises:
        PreconditionFailedError: `GenerationExists`.
    """
    key = layout.generation_record(record.generation)
    try:
        store.create(key, record.sealed(indent=1))
    except errors.ObjectExistsError as error:
        raise errors.PreconditionFailedError(
            "GenerationExists", f"{store.uri}/{key} was completed by another driver; plan the start again."
        ) from error


def abandon(store: ObjectStore, numbers: Sequence[int], *, epoch: int, now: datetime) -> None:
    """Make sure that unfinished generations are never completed, and delete their copied files.

    The driver that began one may still run, and may not know yet that a newer driver has taken over.
    Cost, per number: one PUT, a LIST and a DELETE per 1,000 files.

    Raises:
        PreconditionFailedError: `GenerationExists`: one was completed in the meantime; plan again.
    """
    for number in numbers:
        publish(store, GenerationRecord(generation=number, created_at=now, epoch=epoch, abandoned=True))
        retained = (layout.generation_record(number), layout.generation_reservation(number))
        store.delete_many([info.key for info in store.list(layout.generation(number)) if info.key not in retained])


def note_restore(store: ObjectStore, record: GenerationRecord, *, over: GenerationRecord) -> None:
    """Write into the record of the generation in use that a restore is done. Cost: a HEAD, a GET, one PUT. Idempotent.

    Only the driver that owns the job may call it, before it starts Spark. A driver that was replaced changes nothing, so
    that it does not overwrite the record of its successor.

    Args:
        store: The job's root.
        record: The new record.
        over: The record when the restore was decided.

    Raises:
        PreconditionFailedError: `GenerationChanged`: the record has changed; plan again.
    """
    key = layout.generation_record(record.generation)
    info, present = store.info(key), _read_if_present(store, record.generation)
    if present == record:
        return
    if info is None or present != over:
        raise _changed(store, record.generation)
    store.replace(key, record.sealed(indent=1), etag=info.etag)


def remember(store: ObjectStore, number: int, keys: Iterable[str]) -> None:
    """Write into the record of the generation in use that something was carried out. Idempotent.

    Cost: a HEAD, a GET, one PUT.

    Args:
        store: The job's root.
        number: The generation.
        keys: Of what was carried out; see `GenerationRecord.carried_out`.

    Raises:
        PreconditionFailedError: `GenerationChanged`: another driver has changed the record.
    """
    info, present = store.info(layout.generation_record(number)), _read_if_present(store, number)
    new = () if present is None else tuple(key for key in keys if key not in present.carried_out)
    if present is not None and info is not None and new:
        record = present.model_copy(update={"carried_out": (*present.carried_out, *new)})
        try:
            store.replace(layout.generation_record(number), record.sealed(indent=1), etag=info.etag)
        except errors.ObjectChangedError as error:
            raise _changed(store, number) from error


def _changed(store: ObjectStore, number: int) -> errors.PreconditionFailedError:
    key = layout.generation_record(number)
    return errors.PreconditionFailedError(
        "GenerationChanged", f"{store.uri}/{key} was changed by another driver; plan the start again."
    )


def reservation(epoch: int, *, claim_id: str, now: datetime) -> ReservationRecord:
    """Return the content of a reservation: the epoch that fills the generation, and its claim."""
    return ReservationRecord(epoch=epoch, claimed_at=now, holder=f"epoch {epoch}", claim_id=claim_id)


def reservation_of_standby(standby: str, epoch: int, *, claim_id: str, now: datetime) -> ReservationRecord:
    """Return the content of a standby's reservation.

    Args:
        standby: The standby, for people.
        epoch: The epoch of the running driver.
        claim_id: Unique for each standby.
        now: UTC.
    """
    return ReservationRecord(epoch=epoch, claimed_at=now, holder=standby, claim_id=claim_id, standby=standby)


def read_reservation(store: ObjectStore, number: int) -> ReservationRecord | None:
    """Return who has reserved a generation; None if nothing tells. Cost: one GET."""
    key = layout.generation_reservation(number)
    try:
        return ReservationRecord.parse(store.read(key, most_bytes=MOST_OF_A_DOCUMENT), f"{store.uri}/{key}")
    except (errors.ObjectNotFoundError, errors.SnapshotCorruptError):
        return None


def read_claim(store: ObjectStore, record: GenerationRecord) -> str | None:
    """Return the claim of the driver that began a generation; None if nothing tells. Cost: one GET.

    A standby that has filled it had no epoch then.
    """
    reserved = read_reservation(store, record.generation)
    is_told = reserved is not None and reserved.standby is None and reserved.epoch == record.epoch
    return reserved.claim_id if is_told and reserved is not None else None


def renew(store: ObjectStore, number: int, holder: ReservationRecord) -> bool:
    """Write a standby's own reservation anew, so that it is not taken for dead. Cost: two HEADs and a PUT.

    Returns:
        Whether the generation is still its own: false if it was closed off, or its reservation is gone.
    """
    key = layout.generation_reservation(number)
    info = store.info(key)
    if info is None or store.info(layout.generation_record(number)) is not None:
        return False
    try:
        store.replace(key, holder.to_json().encode(), etag=info.etag)
    except errors.ObjectChangedError:
        return False
    return True


def close_off(store: ObjectStore, numbers: Sequence[int], *, epoch: int, now: datetime) -> None:
    """Make sure that generations are never completed, unless they are; pruning removes their files. Cost: a PUT each."""
    for number in numbers:
        with contextlib.suppress(errors.PreconditionFailedError):
            publish(store, GenerationRecord(generation=number, created_at=now, epoch=epoch, abandoned=True))


def _listed(store: ObjectStore) -> tuple[int, ...]:
    names = store.list_names(layout.GENERATIONS)
    return tuple(sorted(number for name in names if (number := layout.parse_number(name))))


def _read(store: ObjectStore, numbers: Sequence[int]) -> Generations:
    records: list[GenerationRecord] = []
    unreadable: dict[int, str] = {}
    newer: dict[int, str] = {}
    abandoned: set[int] = set()
    for number in numbers:
        try:
            record = _read_if_present(store, number)
        except errors.SnapshotCorruptError as error:
            unreadable[number] = error.message
            if isinstance(error, errors.FormatVersionError):
                newer[number] = error.message
            record = _placeholder(number)
        if record is not None and record.abandoned:
            abandoned.add(number)
        elif record is not None:
            records.append(record)
    current = records[-1].generation if records else 0
    unfinished = tuple(number for number in numbers if number > current and number not in abandoned)
    return Generations(tuple(records), max(numbers, default=0), unfinished, frozenset(abandoned), unreadable, newer)


def _placeholder(number: int) -> GenerationRecord:
    """Return a record for a generation whose own record is unreadable: it only shows that the generation was in use."""
    return GenerationRecord(generation=number, created_at=datetime.min.replace(tzinfo=UTC), epoch=1)


def _read_if_present(store: ObjectStore, number: int) -> GenerationRecord | None:
    key = layout.generation_record(number)
    try:
        body = store.read(key)
    except errors.ObjectNotFoundError:
        return None
    return GenerationRecord.parse(body, f"{store.uri}/{key}")
