"""Explains a storage folder: what is there, what a restart would use, what is broken, what could be freed.

Reads only; a driver may run meanwhile. Whatever cannot be read becomes a sentence in the answer instead of an error, except
that storage itself cannot be asked: then nothing may be said about the folder.
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

_OURS = frozenset(
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
    """How to look.

    Attributes:
        now: UTC.
        policy: What pruning would keep.
        deep: Read every file that has a checksum.
        open_store: Opens other places, of savepoints that the job started from or claimed.
    """

    now: datetime
    policy: rules.PrunePolicy
    deep: bool = False
    open_store: transfer.StoreOpener | None = None


def examine(store: ObjectStore, how: Examination) -> diagnosis.Diagnosis:
    """Explain a folder, whatever it is: a root of jobs, a job, one snapshot.

    Cost per job: a dozen listings, a GET per checkpoint, savepoint and generation, a listing per query and snapshot; with
    `deep` a GET per file.

    Args:
        store: Rooted at the folder.
        how: How to look.

    Raises:
        TransientError, StateUnknownError: The object store cannot be asked.
    """
    names = store.list_names("")
    if MANIFEST_NAME in names:
        return _snapshot_diagnosis(store, how)
    if _is_job(names):
        job = examine_job(store, how)
        return diagnosis.Diagnosis(
            location=store.uri, kind=diagnosis.PlaceKind.JOB, healthy=not job.problems, jobs=(job,)
        )
    return _root_diagnosis(store, names, how)


def examine_job(store: ObjectStore, how: Examination) -> diagnosis.JobHealth:
    """Explain one job's folder; see `examine`."""
    survey = [
        (ref, manifest) for ref in catalog.list_snapshots(store) for manifest in catalog.read_manifests(store, [ref])
    ]
    checkpoints, savepoints = (
        tuple(_health(store, ref, manifest, how) for ref, manifest in survey if ref.kind is kind)
        for kind in (SnapshotKind.CHECKPOINT, SnapshotKind.SAVEPOINT)
    )
    away = tuple(_away(one, how) for one in external_savepoints.look(store, how.open_store))
    files = store.list(layout.GENERATIONS)
    known = tuple(_generations(store, files))
    owner, owner_problems = _owner(store)
    restart = forecast(store, how)
    beside = staged_files.take_stock(store, files, open_store=how.open_store)
    freeable, freeable_problem = _freeable(store, (*files, *(info for one in beside for info in one.files)), how)
    names = store.list_names("")
    return diagnosis.JobHealth(
        location=store.uri,
        owner=owner,
        generations=known,
        checkpoints=checkpoints,
        savepoints=savepoints,
        elsewhere=away,
        beside=tuple(_folder(one) for one in beside),
        restart=restart,
        freeable=freeable,
        foreign=tuple(name for name in names if name not in _OURS),
        notes=(
            *_notes(store, names, known, freeable),
            *_notes_beside(store, beside),
            *damage.explain(
                store, [one for _, found in survey if isinstance(found, Manifest) for one in found.queries]
            ),
            *(sentence for one in away for sentence in _sentences(one)),
        ),
        problems=(
            *owner_problems,
            *(one.problem for one in known if one.problem is not None),
            *(sentence for one in (*checkpoints, *savepoints) for sentence in _sentences(one)),
            *freeable_problem,
            *_restart_problems(restart),
        ),
    )


def forecast(store: ObjectStore, how: Examination) -> diagnosis.RestartForecast:
    """Tell what a driver that starts now would do, with nothing asked for."""
    try:
        plan = recovery.plan_recovery(store, restore=RestoreConfig(), open_store=how.open_store)
    except errors.TransientError:
        raise
    except errors.StatefulSparkError as error:
        return diagnosis.RestartForecast(possible=False, sentence=f"A driver refuses to start: {error.message}")
    return diagnosis.RestartForecast(
        possible=True,
        sentence=_in_words(plan),
        mode=plan.mode.value,
        restored_from=plan.restored_from,
        generation=plan.generation,
        batches=dict(plan.start_batches),
        salvages=bool(plan.salvage),
        fallback=plan.fallback,
    )


def _in_words(plan: StartPlan) -> str:
    source = plan.restored_from or "the generation's own beginning"
    if plan.mode is StartMode.EMPTY:
        return "A driver starts with empty state: there is nothing to start from."
    if plan.mode is StartMode.COPY:
        return f"A driver copies {source} into new generation {plan.generation} and goes on from there."
    if plan.salvage:
        return (
            f"A driver completes the batches that were committed after {source} as checkpoint {plan.next_snapshot_id}, "
            f"and goes on in generation {plan.generation}."
        )
    return f"A driver goes on from {source} in generation {plan.generation}."


def _restart_problems(restart: diagnosis.RestartForecast) -> Iterable[str]:
    if not restart.possible:
        yield restart.sentence
    elif restart.fallback is not None:
        yield f"The newest state cannot be used: {restart.fallback}"


def _is_job(names: Iterable[str]) -> bool:
    folders = {f"{folder}/" for folder in (layout.EPOCHS, layout.GENERATIONS, layout.CHECKPOINTS)}
    return any(name == layout.OWNER or name in folders for name in names)


def _root_diagnosis(store: ObjectStore, names: tuple[str, ...], how: Examination) -> diagnosis.Diagnosis:
    jobs: list[diagnosis.JobHealth] = []
    foreign: list[str] = []
    for name in names:
        found = _jobs_below(store, name) if name.endswith("/") else ()
        jobs += [examine_job(store.child(path), how) for path in found]
        foreign += [] if found else [name]
    kind = diagnosis.PlaceKind.ROOT if jobs else diagnosis.PlaceKind.FOREIGN if names else diagnosis.PlaceKind.EMPTY
    return diagnosis.Diagnosis(
        location=store.uri,
        kind=kind,
        healthy=not any(job.problems for job in jobs),
        jobs=tuple(jobs),
        foreign=tuple(foreign),
    )


def _jobs_below(store: ObjectStore, name: str) -> tuple[str, ...]:
    """Return the jobs in a folder of a root: in a namespace, or, if a namespace was given as the root, the folder itself."""
    folder = name.rstrip("/")
    names = store.list_names(folder)
    if _is_job(names):
        return (folder,)
    children = (f"{folder}/{one.rstrip('/')}" for one in names if one.endswith("/"))
    return tuple(child for child in children if _is_job(store.list_names(child)))


def _snapshot_diagnosis(store: ObjectStore, how: Examination) -> diagnosis.Diagnosis:
    """Explain a snapshot that was named by its own folder; a checkpoint's files lie in the job's folder above it."""
    try:
        manifest = catalog.read_manifest(store, "")
    except errors.SnapshotCorruptError as error:
        health = diagnosis.SnapshotHealth(label="snapshot", location=store.uri, ok=False, problem=error.message)
    else:
        health = _named_snapshot(store, manifest, how)
    return diagnosis.Diagnosis(
        location=store.uri, kind=diagnosis.PlaceKind.SNAPSHOT, healthy=health.ok, snapshot=health
    )


def _named_snapshot(store: ObjectStore, manifest: Manifest, how: Examination) -> diagnosis.SnapshotHealth:
    if manifest.kind is SnapshotKind.SAVEPOINT:
        return _verified(store, manifest, store.uri, root="", how=how)
    job_root = store.uri.rpartition(f"/{layout.CHECKPOINTS}/")[0]
    if not job_root or how.open_store is None:
        sentence = "It is a checkpoint outside its job's folder; its files cannot be found, so they were not looked at."
        return diagnosis.SnapshotHealth(label=manifest.label, location=store.uri, ok=False, problem=sentence)
    return _verified(how.open_store(job_root), manifest, store.uri, root="", how=how)


def _health(
    store: ObjectStore, ref: catalog.SnapshotRef, manifest: Manifest | errors.SnapshotCorruptError, how: Examination
) -> diagnosis.SnapshotHealth:
    location = f"{store.uri}/{ref.folder}"
    if isinstance(manifest, errors.SnapshotCorruptError):
        return diagnosis.SnapshotHealth(label=ref.label, location=location, ok=False, problem=manifest.message)
    root = "" if manifest.kind is SnapshotKind.CHECKPOINT else ref.folder
    return _verified(store, manifest, location, root=root, how=how)


def _away(one: external_savepoints.Elsewhere, how: Examination) -> diagnosis.SnapshotHealth:
    """Look at a savepoint at another location, which may be out of reach: then that is the answer."""
    found, label = one.manifest, f"savepoint {one.id}"
    if isinstance(found, Manifest) and one.store is not None:
        try:
            return _verified(one.store, found, one.location, root=one.folder, how=how)
        except errors.StatefulSparkError as error:
            found = error
    problem = found.message if isinstance(found, errors.StatefulSparkError) else None
    return diagnosis.SnapshotHealth(label=label, location=one.location, ok=False, problem=problem)


def _verified(
    store: ObjectStore, manifest: Manifest, location: str, *, root: str, how: Examination
) -> diagnosis.SnapshotHealth:
    report = verify.verify(store, manifest, root=root, deep=how.deep)
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
    found = "nothing" if info is None else f"{info.size_bytes} bytes"
    if problem.kind is verify.ProblemKind.CHECKSUM_DIFFERS:
        found += " with other content"
    return diagnosis.BrokenFile(
        path=f"{store.uri}/{problem.path}",
        problem=problem.kind.value,
        expected=f"{size_bytes} bytes" if size_bytes is not None else "the file that was written",
        found=found,
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
    known = generations.read_all(store)
    by_number: dict[int, list[ObjectInfo]] = {}
    for info in files:
        number = layout.parse_number(info.key.split("/")[1])
        if number is not None:
            by_number.setdefault(number, []).append(info)
    for number in sorted(by_number, reverse=True):
        record = known.record(number)
        problem = known.unreadable.get(number)
        yield diagnosis.GenerationHealth(
            generation=number,
            role=_role(known, number),
            files=len(by_number[number]),
            size_bytes=sum(info.size_bytes for info in by_number[number]),
            made_from=record.restored_from if record is not None else None,
            problem=problem,
        )


def _role(known: generations.Generations, number: int) -> str:
    if number in known.unreadable:
        return "damaged"
    if known.current is not None and number == known.current.generation:
        return "in use"
    if number in known.abandoned:
        return "abandoned"
    return "older" if known.record(number) is not None else "unfinished"


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
    store: ObjectStore, files: tuple[ObjectInfo, ...], how: Examination
) -> tuple[diagnosis.Freeable, tuple[str, ...]]:
    try:
        plan = pruning.plan(store, how.policy, how.now, open_store=how.open_store, staging=True)
    except errors.SnapshotCorruptError as error:
        return diagnosis.Freeable(), (f"Nothing can be freed: {error.message}",)
    sizes = {info.key: info.size_bytes for info in files}
    told = diagnosis.Freeable(
        checkpoints=plan.delete_checkpoints,
        snapshots=plan.delete_claimed,
        files=len(plan.delete_files),
        size_bytes=plan.freed_bytes,
        waiting_files=len(plan.marks),
        waiting_size_bytes=sum(sizes.get(key, 0) for key in plan.marks),
        kept=dict(plan.keep_reasons),
    )
    return told, ()


def _folder(of: staged_files.Folder) -> diagnosis.FolderHealth:
    return diagnosis.FolderHealth(
        path=of.path,
        whose=of.whose,
        files=len(of.files),
        size_bytes=sum(info.size_bytes for info in of.files),
        unneeded_files=len(of.unneeded),
        unneeded_size_bytes=sum(info.size_bytes for info in of.unneeded),
    )


def _notes_beside(store: ObjectStore, folders: Iterable[staged_files.Folder]) -> Iterable[str]:
    for one in folders:
        where = f"{store.uri}/{one.path}"
        if one.path.startswith(f"{layout.SCRATCH}/"):
            yield f"{where} is what the {one.whose} works on or left behind: never state, and the next start removes it."
        elif one.unneeded:
            yield (
                f"{where} holds {len(one.unneeded)} files of drivers that are over, which no snapshot needs; the next "
                "driver prunes them."
            )


def _notes(
    store: ObjectStore,
    names: tuple[str, ...],
    known: tuple[diagnosis.GenerationHealth, ...],
    freeable: diagnosis.Freeable,
) -> Iterable[str]:
    if layout.OWNER not in names:
        yield f"There is no {layout.OWNER}: the next driver makes the state its own."
    yield from _notes_on_identity(store)
    for one in known:
        if one.role == "unfinished":
            yield f"Generation {one.generation} was never completed; nothing starts from it."
    for folder in catalog.survey(store).unfinished:
        yield f"{store.uri}/{folder} has no manifest: a savepoint that is being made, or was never completed."
    strange = freeable.kept.get(rules.UNKNOWN, 0)
    if strange:
        yield f"{strange} files below {layout.GENERATIONS}/ are not ours; they are never deleted."


def _notes_on_identity(store: ObjectStore) -> Iterable[str]:
    lineages = lineage_records.read_all(store)
    for sentence in lineages.unreadable:
        yield f"{sentence} The next driver goes on as a new lineage, in a new generation."
    if lineages.current is not None and lineages.current.root != store.uri:
        yield (
            f"This folder was last used at {lineages.current.root}: it was moved, or copied. A driver that starts here "
            "goes on as a lineage of its own, and sinks decide whether it may write to them."
        )
