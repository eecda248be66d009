"""The contents of a job's folder beside snapshots: its owner, generations, scratch, a restart, and what could be freed."""

from __future__ import annotations

from collections.abc import Iterable

from statefulspark import errors
from statefulspark.checkpoint import catalog, epochs, lineage_records
from statefulspark.contract import diagnosis, layout
from statefulspark.contract.config import RestoreConfig
from statefulspark.doctor.snapshots import Examination
from statefulspark.recovery import generations, recovery, stored_formats
from statefulspark.recovery.plan import StartMode
from statefulspark.retention import pruning, rules
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
        if number in records.unreadable:
            role = "damaged"
        elif records.current is not None and number == records.current.generation:
            role = "in use"
        elif number in records.abandoned:
            role = "abandoned"
        else:
            role = "older" if record is not None else "unfinished"
        yield diagnosis.GenerationHealth(
            generation=number,
            role=role,
            files=len(by_number[number]),
            size_bytes=sum(info.size_bytes for info in by_number[number]),
            made_from=record.restored_from if record is not None else None,
            problem=records.unreadable.get(number),
        )


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


def other_folders(
    generation_files: Iterable[ObjectInfo], scratch: Iterable[ObjectInfo]
) -> tuple[diagnosis.FolderHealth, ...]:
    """Return the folders beside the state of operators: of staged rows, then of scratch, each with its owner. Pure.

    ```
    generations/00000003/<query uid>/staged/<sink uid>/…     part of the state until it is committed, and a while longer
    scratch/00000007/…                                       of epoch 7's start
    scratch/rehearsal-<unique>/…                             of a standby, or of one that was killed
    ```

    Args:
        generation_files: The files below `generations/`.
        scratch: The files below `scratch/`.
    """
    staged = (info for info in generation_files if layout.staged_batch(info.key.split("/", 3)[-1]) is not None)
    return (*_group_folders(staged, depth=5), *_group_folders(scratch, depth=2))


def _group_folders(files: Iterable[ObjectInfo], *, depth: int) -> Iterable[diagnosis.FolderHealth]:
    by_folder: dict[str, list[ObjectInfo]] = {}
    for info in files:
        by_folder.setdefault("/".join(info.key.split("/")[:depth]), []).append(info)
    for path, infos in sorted(by_folder.items()):
        root, name, *below = path.split("/")
        if root == layout.GENERATIONS:
            whose = f"sink {below[-1]} of query {below[0]}"
        elif (epoch := layout.parse_number(name)) is not None:
            whose = f"start of epoch {epoch}"
        else:
            whose = "rehearsal of a standby" if layout.is_rehearsal(name) else "not ours"
        size_bytes = sum(info.size_bytes for info in infos)
        yield diagnosis.FolderHealth(path=path, whose=whose, files=len(infos), size_bytes=size_bytes)


def forecast(store: ObjectStore, examination: Examination) -> diagnosis.RestartForecast:
    """Return what a driver that starts now would do, without restore options."""
    try:
        plan = recovery.plan_recovery(store, restore=RestoreConfig(), open_store=examination.open_store)
        other_spark = stored_formats.other_spark(plan.restored)
        if other_spark is not None:
            stored_formats.require_readable(plan)
    except errors.TransientError:
        raise
    except errors.StatefulSparkError as error:
        return diagnosis.RestartForecast(possible=False, sentence=f"A driver refuses to start: {error.message}")
    source = plan.restored_from or "the generation's own beginning"
    if plan.mode is StartMode.EMPTY:
        sentence = "A driver starts with empty state: there is nothing to start from."
    elif plan.mode is StartMode.COPY:
        sentence = f"A driver copies {source} into new generation {plan.generation} and continues from there."
    elif plan.salvage:
        sentence = (
            f"A driver completes the batches that were committed after {source} as checkpoint {plan.next_snapshot_id}, "
            f"and continues in generation {plan.generation}."
        )
    else:
        sentence = f"A driver continues from {source} in generation {plan.generation}."
    return diagnosis.RestartForecast(
        possible=True,
        sentence=sentence,
        mode=plan.mode.value,
        restored_from=plan.restored_from,
        generation=plan.generation,
        batches=dict(plan.start_batches),
        salvages=bool(plan.salvage),
        fallback=plan.fallback,
        other_spark=other_spark,
    )


def restart_problems(restart: diagnosis.RestartForecast) -> Iterable[str]:
    """Yield why a start is refused, or why it would not use the newest state."""
    if not restart.possible:
        yield restart.sentence
    elif restart.fallback is not None:
        yield f"The newest state cannot be used: {restart.fallback}"


def notes(
    store: ObjectStore,
    names: tuple[str, ...],
    healths: tuple[diagnosis.GenerationHealth, ...],
    freeable: diagnosis.Freeable,
) -> Iterable[str]:
    """Yield a sentence on each thing of a job that is unusual and needs nobody."""
    if layout.OWNER not in names:
        yield f"There is no {layout.OWNER}: the next driver claims the state."
    lineages = lineage_records.read_all(store)
    for sentence in lineages.unreadable:
        yield f"{sentence} The next driver starts a new lineage, in a new generation."
    if lineages.current is not None and lineages.current.root != store.uri:
        yield (
            f"This folder was last used at {lineages.current.root}: it was moved or copied. A driver that starts here "
            "starts a new lineage, and sinks decide whether it may write to them."
        )
    for generation in healths:
        if generation.role == "unfinished":
            number = generation.generation
            reservation = generations.read_reservation(store, number)
            if reservation is None or reservation.standby is None:
                yield f"Generation {number} was never completed; no start uses it."
            else:
                yield (
                    f"The standby {reservation.standby} has carried state ahead into generation {number}, last at "
                    f"{reservation.claimed_at.isoformat()}; only that standby uses it, and without it pruning removes it."
                )
    for folder in catalog.list_all(store).unfinished:
        yield f"{store.uri}/{folder} has no manifest: a savepoint in progress, or one that was never completed."
    unknown_files = freeable.kept.get(rules.UNKNOWN, 0)
    if unknown_files:
        are = "1 file is" if unknown_files == 1 else f"{unknown_files} files are"
        yield (
            f"{are} below {layout.GENERATIONS}/ that no log of Spark names, for example what a source has noted for itself. "
            "That is no damage; such files are never deleted."
        )


def scratch_notes(store: ObjectStore, folders: Iterable[diagnosis.FolderHealth]) -> Iterable[str]:
    """Yield a sentence on each scratch folder."""
    for folder in folders:
        if folder.path.startswith(f"{layout.SCRATCH}/"):
            is_rehearsal = layout.is_rehearsal(folder.path.removeprefix(f"{layout.SCRATCH}/"))
            remover = "its end, or a start ten minutes later," if is_rehearsal else "the next start"
            yield f"{store.uri}/{folder.path} is scratch of the {folder.whose}: it holds no state, and {remover} removes it."
