"""Generations: Spark checkpoint roots of the job, one in use at a time.

A generation is reserved by a conditional create, filled, and becomes usable with its record, written last. The newest
generation with a record is the one in use.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.contract.manifest import EpochRecord, GenerationRecord
from statefulspark.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class Generations:
    """Every generation in a job's root.

    Attributes:
        records: The usable ones, by number ascending.
        highest: Highest number taken, usable or not; 0 if there is none.
    """

    records: tuple[GenerationRecord, ...]
    highest: int

    @property
    def current(self) -> GenerationRecord | None:
        """The one in use, None before the first."""
        return self.records[-1] if self.records else None

    def record(self, number: int | None) -> GenerationRecord | None:
        """Return a usable generation's record by number."""
        return next((record for record in self.records if record.generation == number), None)


def read_all(store: ObjectStore) -> Generations:
    """Read every generation's record. Cost: one listing, and one GET per generation."""
    numbers = sorted(number for name in store.list_names(layout.GENERATIONS) if (number := layout.parse_number(name)))
    records = [record for number in numbers if (record := _read_if_present(store, number)) is not None]
    return Generations(tuple(records), max(numbers, default=0))


def reserve(store: ObjectStore, *, above: int, holder: EpochRecord) -> int:
    """Reserve a number that nobody else fills. Cost: one PUT, one more per number lost to somebody else.

    Returns:
        The first free number above `above`.
    """
    number = above + 1
    while not _reserved(store, number, holder):
        number += 1
    return number


def publish(store: ObjectStore, record: GenerationRecord) -> None:
    """Make a filled generation usable. Cost: one PUT.

    Raises:
        PreconditionFailedError: `GenerationExists`.
    """
    key = layout.generation_record(record.generation)
    try:
        store.create(key, record.to_json(indent=1).encode())
    except errors.ObjectExistsError as error:
        raise errors.PreconditionFailedError(
            "GenerationExists", f"{store.uri}/{key} was completed by somebody else; look again."
        ) from error


def note_restore(store: ObjectStore, record: GenerationRecord) -> None:
    """Note in the record of the generation in use that a restore is done. Cost: one PUT. Idempotent.

    Only the driver that owns the job may call it, before it starts Spark.
    """
    store.write(layout.generation_record(record.generation), record.to_json(indent=1).encode())


def reservation(epoch: int, *, now: datetime) -> EpochRecord:
    """Return what a reservation says: the epoch that fills the generation."""
    return EpochRecord(epoch=epoch, claimed_at=now, holder=f"epoch {epoch}", claim_id=f"epoch-{epoch}")


def _reserved(store: ObjectStore, number: int, holder: EpochRecord) -> bool:
    try:
        store.create(layout.generation_reservation(number), holder.to_json().encode())
    except errors.ObjectExistsError:
        return False
    return True


def _read_if_present(store: ObjectStore, number: int) -> GenerationRecord | None:
    key = layout.generation_record(number)
    try:
        body = store.read(key)
    except errors.ObjectNotFoundError:
        return None
    return GenerationRecord.parse(body, f"{store.uri}/{key}")
