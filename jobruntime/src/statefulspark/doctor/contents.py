"""The contents of a job's folder beside snapshots: its owner, generations, scratch folders, and what could be freed."""

from __future__ import annotations

from collections.abc import Iterable

from statefulspark import errors
from statefulspark.checkpoint import epochs
from statefulspark.contract import diagnosis, layout
from statefulspark.doctor.examination import Examination
from statefulspark.recovery import generations
from statefulspark.retention import pruning
from statefulspark.storage.port import ObjectInfo, ObjectStore


def owner(store: ObjectStore) -> tuple[diagnosis.OwnerFacts, tuple[str, ...]]:
    """Return who owns the job and has claimed it, and a sentence for each record that cannot be read."""
    problems: list[str] = []
    owner_id = holder = claimed_at = None
    try:
        owner_id = epochs.read_owner(store).owner_id
    except errors.ObjectNotFoundError:
        pass  # The first driver writes it; `notes` says so.
    except errors.SnapshotCorruptError as error:
        problems.append(error.message)
    epoch = epochs.newest(store)
    try:
        record = epochs.read(store, epoch) if epoch else None
        holder, claimed_at = (record.holder, record.claimed_at) if record else (None, None)
    except errors.SnapshotCorruptError as error:
        problems.append(error.message)
    return diagnosis.OwnerFacts(owner_id=owner_id, epoch=epoch, holder=holder, claimed_at=claimed_at), tuple(problems)


def generation_healths(store: ObjectStore, files: tuple[ObjectInfo, ...]) -> Iterable[diagnosis.GenerationHealth]:
    """Yield the generations, newest first, each with its role and size."""
    records = generations.read_all(store)
    by_number: dict[int, list[ObjectInfo]] = {}
    for info in files:
        number = layout.parse_number(info.key.split("/")[1])
        if number is not None:
            by_number.setdefault(number, []).append(info)
    for number in sorted(by_number, reverse=True):
        record = records.record(number)
        problem = records.unreadable.get(number)
        yield diagnosis.GenerationHealth(
            generation=number,
            role=_role(records, number),
            files=len(by_number[number]),
            size_bytes=sum(info.size_bytes for info in by_number[number]),
            made_from=record.restored_from if record is not None else None,
            problem=problem,
        )


def _role(records: generations.Generations, number: int) -> str:
    if number in records.unreadable:
        return "damaged"
    if records.current is not None and number == records.current.generation:
        return "in use"
    if number in records.abandoned:
        return "abandoned"
    return "older" if records.record(number) is not None else "unfinished"


def find_freeable(
    store: ObjectStore, files: tuple[ObjectInfo, ...], examination: Examination
) -> tuple[diagnosis.Freeable, tuple[str, ...]]:
    """Return what pruning would free now; nothing, and why, if that cannot be decided."""
    try:
        plan = pruning.plan(store, examination.policy, examination.now, open_store=examination.open_store)
    except errors.SnapshotCorruptError as error:
        return diagnosis.Freeable(), (f"Nothing can be freed: {error.message}",)
    sizes = {info.key: info.size_bytes for info in files}
    freeable = diagnosis.Freeable(
        checkpoints=plan.delete_checkpoints,
        snapshots=plan.delete_claimed,
        files=len(plan.delete_files),
        size_bytes=plan.freed_bytes,
        waiting_files=len(plan.marks),
        waiting_size_bytes=sum(sizes.get(key, 0) for key in plan.marks),
        kept=dict(plan.keep_reasons),
    )
    return freeable, ()
