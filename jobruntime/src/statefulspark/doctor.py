"""Explains a storage folder: its contents, what a restart would use, what is broken, what could be freed.

It only reads; a driver may run meanwhile. An unreadable document becomes a sentence of the diagnosis instead of an error.
Only an unavailable store raises, because then nothing is known about the folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from statefulspark import errors
from statefulspark.checkpoint import catalog, epochs, lineage_records, transfer, verify
from statefulspark.contract import diagnosis, layout
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import MANIFEST_NAME, Manifest, OwnerRecord, SnapshotKind
from statefulspark.recovery import damage, external_savepoints, generations, recovery
from statefulspark.recovery.plan import StartMode, StartPlan
from statefulspark.retention import pruning, rules, staged_files
from statefulspark.storage.port import ObjectInfo, ObjectStore

_PRODUCT_NAMES = frozenset(
    {
        layout.OWNER,
        *(
            f"{folder}/"
            for folder in (
                layout.EPOCHS, layout.GENERATIONS, layout.CHECKPOINTS, layout.SAVEPOINTS, layout.SCRATCH, layout.STAGING,
                layout.DAMAGE, layout.LINEAGES, layout.PRUNE_MARKS.partition("/")[0],
            )
        ),
    }
)  # fmt: skip
"""Names directly below a job's root."""


@dataclass(frozen=True, slots=True)
class Examination:
    """The settings of an examination.

    Attributes:
        now: The current time in UTC.
        policy: What pruning would keep.
        deep: Read every file that has a checksum.
        open_store: Opens other locations, of savepoints that the job started from or claimed.
    """

    now: datetime
    policy: rules.PrunePolicy
    deep: bool = False
    open_store: transfer.StoreOpener | None = None


def examine(store: ObjectStore, examination: Examination) -> diagnosis.Diagnosis:
    """Explain a folder: a root of jobs, a job, or one snapshot.

    Cost per job: a dozen listings, a GET per checkpoint, savepoint and generation, a listing per query and snapshot; with
    `deep` a GET per file.

    Args:
        store: Rooted at the folder.
        examination: What to examine, and how.

    Raises:
        TransientError, StateUnknownError: The object store is unavailable.
    """
    names = store.list_names("")
    if MANIFEST_NAME in names:
        return _snapshot_diagnosis(store, examination)
    if _is_job(names):
        job = examine_job(store, examination)
        return diagnosis.Diagnosis(
            location=store.uri, kind=diagnosis.PlaceKind.JOB, healthy=not job.problems, jobs=(job,)
        )
    return _root_diagnosis(store, names, examination)


def examine_job(store: ObjectStore, examination: Examination) -> diagnosis.JobHealth:
    """Explain one job's folder; see `examine`."""
    survey = [
        (ref, manifest) for ref in catalog.list_snapshots(store) for manifest in catalog.read_manifests(store, [ref])
    ]
    checkpoints, savepoints = (
        tuple(_health(store, ref, manifest, examination) for ref, manifest in survey if ref.kind is kind)
        for kind in (SnapshotKind.CHECKPOINT, SnapshotKind.SAVEPOINT)
    )
    external = tuple(
        _external_health(savepoint, examination)
        for savepoint in external_savepoints.list_all(store, examination.open_store)
    )
    files = store.list(layout.GENERATIONS)
    generation_healths = tuple(_generations(store, files))
    owner, owner_problems = _owner(store)
    restart = forecast(store, examination)
    folders = staged_files.list_folders(store, files, open_store=examination.open_store)
    freeable, freeable_problem = _freeable(
        store, (*files, *(info for folder in folders for info in folder.files)), examination
    )
    names = store.list_names("")
    return diagnosis.JobHealth(
        location=store.uri,
        owner=owner,
        generations=generation_healths,
        checkpoints=checkpoints,
        savepoints=savepoints,
        elsewhere=external,
        beside=tuple(_folder(folder) for folder in folders),
        restart=restart,
        freeable=freeable,
        foreign=tuple(name for name in names if name not in _PRODUCT_NAMES),
        notes=(
            *_notes(store, names, generation_healths, freeable),
            *_notes_on_folders(store, folders),
            *damage.explain(
                store, [query for _, manifest in survey if isinstance(manifest, Manifest) for query in manifest.queries]
            ),
            *(sentence for health in external for sentence in _sentences(health)),
        ),
        problems=(
            *owner_problems,
            *(health.problem for health in generation_healths if health.problem is not None),
            *(sentence for health in (*checkpoints, *savepoints) for sentence in _sentences(health)),
            *freeable_problem,
            *_restart_problems(restart),
        ),
    )


def forecast(store: ObjectStore, examination: Examination) -> diagnosis.RestartForecast:
    """Return what a driver that starts now would do, without restore options."""
    try:
        plan = recovery.plan_recovery(store, restore=RestoreConfig(), open_store=examination.open_store)
    except errors.TransientError:
        raise
    except errors.StatefulSparkError as error:
        return diagnosis.RestartForecast(possible=False, sentence=f"A driver refuses to start: {error.message}")
    return diagnosis.RestartForecast(
        possible=True,
        sentence=_forecast_sentence(plan),
        mode=plan.mode.value,
        restored_from=plan.restored_from,
        generation=plan.generation,
        batches=dict(plan.start_batches),
        salvages=bool(plan.salvage),
        fallback=plan.fallback,
    )


def _forecast_sentence(plan: StartPlan) -> str:
    source = plan.restored_from or "the generation's own beginning"
    if plan.mode is StartMode.EMPTY:
        return "A driver starts with empty state: there is nothing to start from."
    if plan.mode is StartMode.COPY:
        return f"A driver copies {source} into new generation {plan.generation} and continues from there."
    if plan.salvage:
        return (
            f"A driver completes the batches that were committed after {source} as checkpoint {plan.next_snapshot_id}, "
            f"and continues in generation {plan.generation}."
        )
    return f"A driver continues from {source} in generation {plan.generation}."


def _restart_problems(restart: diagnosis.RestartForecast) -> Iterable[str]:
    if not restart.possible:
        yield restart.sentence
    elif restart.fallback is not None:
        yield f"The newest state cannot be used: {restart.fallback}"


def _is_job(names: Iterable[str]) -> bool:
    folders = {f"{folder}/" for folder in (layout.EPOCHS, layout.GENERATIONS, layout.CHECKPOINTS)}
    return any(name == layout.OWNER or name in folders for name in names)


def _root_diagnosis(store: ObjectStore, names: tuple[str, ...], examination: Examination) -> diagnosis.Diagnosis:
    jobs: list[diagnosis.JobHealth] = []
    foreign: list[str] = []
    for name in names:
        job_folders = _jobs_below(store, name) if name.endswith("/") else ()
        jobs += [examine_job(store.child(path), examination) for path in job_folders]
        foreign += [] if job_folders else [name]
    kind = diagnosis.PlaceKind.ROOT if jobs else diagnosis.PlaceKind.FOREIGN if names else diagnosis.PlaceKind.EMPTY
    return diagnosis.Diagnosis(
        location=store.uri,
        kind=kind,
        healthy=not any(job.problems for job in jobs),
        jobs=tuple(jobs),
        foreign=tuple(foreign),
    )


def _jobs_below(store: ObjectStore, name: str) -> tuple[str, ...]:
    """Return the jobs in a folder of a root: those of a namespace, or the folder itself if the root is a namespace."""
    folder = name.rstrip("/")
    names = store.list_names(folder)
    if _is_job(names):
        return (folder,)
    children = (f"{folder}/{child.rstrip('/')}" for child in names if child.endswith("/"))
    return tuple(child for child in children if _is_job(store.list_names(child)))


def _snapshot_diagnosis(store: ObjectStore, examination: Examination) -> diagnosis.Diagnosis:
    """Explain a snapshot by its own folder; the files of a checkpoint are in the job's folder above it."""
    try:
        manifest = catalog.read_manifest(store, "")
    except errors.SnapshotCorruptError as error:
        health = diagnosis.SnapshotHealth(label="snapshot", location=store.uri, ok=False, problem=error.message)
    else:
        health = _named_snapshot(store, manifest, examination)
    return diagnosis.Diagnosis(
        location=store.uri, kind=diagnosis.PlaceKind.SNAPSHOT, healthy=health.ok, snapshot=health
    )


def _named_snapshot(store: ObjectStore, manifest: Manifest, examination: Examination) -> diagnosis.SnapshotHealth:
    if manifest.kind is SnapshotKind.SAVEPOINT:
        return _verified(store, manifest, store.uri, root="", examination=examination)
    job_root = store.uri.rpartition(f"/{layout.CHECKPOINTS}/")[0]
    if not job_root or examination.open_store is None:
        sentence = "It is a checkpoint outside its job's folder; its files cannot be found, so they were not verified."
        return diagnosis.SnapshotHealth(label=manifest.label, location=store.uri, ok=False, problem=sentence)
    return _verified(examination.open_store(job_root), manifest, store.uri, root="", examination=examination)


def _health(
    store: ObjectStore,
    ref: catalog.SnapshotRef,
    manifest: Manifest | errors.SnapshotCorruptError,
    examination: Examination,
) -> diagnosis.SnapshotHealth:
    location = f"{store.uri}/{ref.folder}"
    if isinstance(manifest, errors.SnapshotCorruptError):
        return diagnosis.SnapshotHealth(label=ref.label, location=location, ok=False, problem=manifest.message)
    root = "" if manifest.kind is SnapshotKind.CHECKPOINT else ref.folder
    return _verified(store, manifest, location, root=root, examination=examination)


def _external_health(
    savepoint: external_savepoints.ExternalSavepoint, examination: Examination
) -> diagnosis.SnapshotHealth:
    """Examine a savepoint at another location; if it is unavailable, the error is its problem."""
    manifest, label = savepoint.manifest, f"savepoint {savepoint.id}"
    if isinstance(manifest, Manifest) and savepoint.store is not None:
        try:
            return _verified(
                savepoint.store, manifest, savepoint.location, root=savepoint.folder, examination=examination
            )
        except errors.StatefulSparkError as error:
            manifest = error
    problem = manifest.message if isinstance(manifest, errors.StatefulSparkError) else None
    return diagnosis.SnapshotHealth(label=label, location=savepoint.location, ok=False, problem=problem)


def _verified(
    store: ObjectStore, manifest: Manifest, location: str, *, root: str, examination: Examination
) -> diagnosis.SnapshotHealth:
    report = verify.verify(store, manifest, root=root, deep=examination.deep)
    above = f"{root}/" if root else ""
    sizes = {f"{above}{query.path}/{file.path}": file.size_bytes for query in manifest.queries for file in query.files}
    return diagnosis.SnapshotHealth(
        label=manifest.label,
        location=location,
        ok=report.ok,
        completed_at=manifest.completed_at,
        trigger=manifest.trigger.value,
        size_bytes=report.size_bytes,
        files=report.files,
        broken=tuple(_broken(store, problem, sizes) for problem in report.problems),
    )


def _broken(store: ObjectStore, problem: verify.Problem, sizes: Mapping[str, int]) -> diagnosis.BrokenFile:
    info = store.info(problem.path)
    size_bytes = sizes.get(problem.path)
    actual = "nothing" if info is None else f"{info.size_bytes} bytes"
    if problem.kind is verify.ProblemKind.CHECKSUM_DIFFERS:
        actual += " with other content"
    return diagnosis.BrokenFile(
        path=f"{store.uri}/{problem.path}",
        problem=problem.kind.value,
        expected=f"{size_bytes} bytes" if size_bytes is not None else "the file that was written",
        found=actual,
    )


def _sentences(health: diagnosis.SnapshotHealth) -> Iterable[str]:
    if health.problem is not None:
        yield f"{health.label.capitalize()} cannot be read: {health.problem}"
    if health.broken:
        first, more = health.broken[0], len(health.broken) - 1
        rest = f", and {more} more files are broken" if more else ""
        yield (
            f"{health.label.capitalize()} is broken: {first.path}: expected {first.expected}, found {first.found}{rest}."
        )


def _generations(store: ObjectStore, files: tuple[ObjectInfo, ...]) -> Iterable[diagnosis.GenerationHealth]:
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


def _owner(store: ObjectStore) -> tuple[diagnosis.OwnerFacts, tuple[str, ...]]:
    problems: list[str] = []
    owner_id = holder = claimed_at = None
    try:
        owner_id = OwnerRecord.parse(store.read(layout.OWNER), f"{store.uri}/{layout.OWNER}").owner_id
    except errors.ObjectNotFoundError:
        pass  # The first driver writes it; `_notes` says so.
    except errors.SnapshotCorruptError as error:
        problems.append(error.message)
    epoch = epochs.newest(store)
    try:
        record = epochs.read(store, epoch) if epoch else None
        holder, claimed_at = (record.holder, record.claimed_at) if record else (None, None)
    except errors.SnapshotCorruptError as error:
        problems.append(error.message)
    return diagnosis.OwnerFacts(owner_id=owner_id, epoch=epoch, holder=holder, claimed_at=claimed_at), tuple(problems)


def _freeable(
    store: ObjectStore, files: tuple[ObjectInfo, ...], examination: Examination
) -> tuple[diagnosis.Freeable, tuple[str, ...]]:
    try:
        plan = pruning.plan(store, examination.policy, examination.now, open_store=examination.open_store, staging=True)
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


def _folder(folder: staged_files.Folder) -> diagnosis.FolderHealth:
    return diagnosis.FolderHealth(
        path=folder.path,
        whose=folder.owner,
        files=len(folder.files),
        size_bytes=sum(info.size_bytes for info in folder.files),
        unneeded_files=len(folder.unneeded),
        unneeded_size_bytes=sum(info.size_bytes for info in folder.unneeded),
    )


def _notes_on_folders(store: ObjectStore, folders: Iterable[staged_files.Folder]) -> Iterable[str]:
    for folder in folders:
        location = f"{store.uri}/{folder.path}"
        if folder.path.startswith(f"{layout.SCRATCH}/"):
            yield f"{location} is scratch of the {folder.owner}: it holds no state, and the next start removes it."
        elif folder.unneeded:
            yield (
                f"{location} holds {len(folder.unneeded)} files of drivers that have ended, which no snapshot needs; the "
                "next driver prunes them."
            )


def _notes(
    store: ObjectStore,
    names: tuple[str, ...],
    generation_healths: tuple[diagnosis.GenerationHealth, ...],
    freeable: diagnosis.Freeable,
) -> Iterable[str]:
    if layout.OWNER not in names:
        yield f"There is no {layout.OWNER}: the next driver claims the state."
    yield from _notes_on_identity(store)
    for generation in generation_healths:
        if generation.role == "unfinished":
            yield f"Generation {generation.generation} was never completed; no start uses it."
    for folder in catalog.list_all(store).unfinished:
        yield f"{store.uri}/{folder} has no manifest: a savepoint in progress, or one that was never completed."
    unknown_files = freeable.kept.get(rules.UNKNOWN, 0)
    if unknown_files:
        yield f"{unknown_files} files below {layout.GENERATIONS}/ are unknown; they are never deleted."


def _notes_on_identity(store: ObjectStore) -> Iterable[str]:
    lineages = lineage_records.read_all(store)
    for sentence in lineages.unreadable:
        yield f"{sentence} The next driver starts a new lineage, in a new generation."
    if lineages.current is not None and lineages.current.root != store.uri:
        yield (
            f"This folder was last used at {lineages.current.root}: it was moved or copied. A driver that starts here "
            "starts a new lineage, and sinks decide whether it may write to them."
        )
