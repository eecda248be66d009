"""Explains a folder: a root of jobs, a job, or one snapshot."""

from __future__ import annotations

from collections.abc import Iterable

from statefulspark import errors
from statefulspark.checkpoint import catalog
from statefulspark.contract import diagnosis, layout
from statefulspark.contract.manifest import Manifest, SnapshotKind
from statefulspark.doctor import contents, snapshots
from statefulspark.doctor.snapshots import Examination
from statefulspark.recovery import damage, external_savepoints
from statefulspark.storage.port import ObjectStore

_PRODUCT_NAMES = frozenset({layout.OWNER, *(f"{folder}/" for folder in (*layout.OWN_FOLDERS, layout.SAVEPOINTS))})
"""Names directly below a job's root."""


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
    if layout.MANIFEST_NAME in names:
        try:
            manifest = catalog.read_manifest(store, "")
        except errors.SnapshotCorruptError as error:
            health = diagnosis.SnapshotHealth(label="snapshot", location=store.uri, ok=False, problem=error.message)
        else:
            health = snapshots.examine_one(store, manifest, examination)
        return diagnosis.Diagnosis(
            location=store.uri, kind=diagnosis.PlaceKind.SNAPSHOT, healthy=health.ok, snapshot=health
        )
    if _is_job(names):
        job = examine_job(store, examination)
        return diagnosis.Diagnosis(
            location=store.uri, kind=diagnosis.PlaceKind.JOB, healthy=not job.problems, jobs=(job,)
        )
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


def examine_job(store: ObjectStore, examination: Examination) -> diagnosis.JobHealth:
    """Explain one job's folder; see `examine`."""
    survey = [
        (ref, manifest) for ref in catalog.list_snapshots(store) for manifest in catalog.read_manifests(store, [ref])
    ]
    checkpoints, savepoints = (
        tuple(
            snapshots.examine_in_job(store, ref, manifest, examination) for ref, manifest in survey if ref.kind is kind
        )
        for kind in (SnapshotKind.CHECKPOINT, SnapshotKind.SAVEPOINT)
    )
    external = tuple(
        snapshots.examine_external(savepoint, examination)
        for savepoint in external_savepoints.list_all(store, examination.open_store)
    )
    files = store.list(layout.GENERATIONS)
    generation_healths = tuple(contents.generation_healths(store, files))
    owner, owner_problems = contents.owner(store)
    forecast = contents.forecast(store, examination)
    folders = contents.other_folders(files, store.list(layout.SCRATCH))
    freeable, freeable_problem = contents.find_freeable(store, files, examination)
    names = store.list_names("")
    return diagnosis.JobHealth(
        location=store.uri,
        owner=owner,
        generations=generation_healths,
        checkpoints=checkpoints,
        savepoints=savepoints,
        elsewhere=external,
        beside=folders,
        restart=forecast,
        freeable=freeable,
        foreign=tuple(name for name in names if name not in _PRODUCT_NAMES),
        notes=(
            *contents.notes(store, names, generation_healths, freeable),
            *((forecast.other_spark,) if forecast.other_spark is not None else ()),
            *contents.scratch_notes(store, folders),
            *damage.explain(
                store, [query for _, manifest in survey if isinstance(manifest, Manifest) for query in manifest.queries]
            ),
            *(sentence for health in external for sentence in snapshots.problems(health)),
            *(sentence for health in (*checkpoints, *savepoints, *external) for sentence in snapshots.notes(health)),
        ),
        problems=(
            *owner_problems,
            *(health.problem for health in generation_healths if health.problem is not None),
            *(sentence for health in (*checkpoints, *savepoints) for sentence in snapshots.problems(health)),
            *freeable_problem,
            *contents.restart_problems(forecast),
        ),
    )


def jobs_below(store: ObjectStore) -> tuple[str, ...]:
    """Return the folders of the jobs below a root or a namespace; nothing for a job's own folder. Cost: a listing each."""
    names = store.list_names("")
    if _is_job(names):
        return ()
    return tuple(path for name in names if name.endswith("/") for path in _jobs_below(store, name))


def _is_job(names: Iterable[str]) -> bool:
    folders = {f"{folder}/" for folder in (layout.EPOCHS, layout.GENERATIONS, layout.CHECKPOINTS)}
    return any(name == layout.OWNER or name in folders for name in names)


def _jobs_below(store: ObjectStore, name: str) -> tuple[str, ...]:
    """Return the jobs in a folder of a root: those of a namespace, or the folder itself if the root is a namespace."""
    folder = name.rstrip("/")
    names = store.list_names(folder)
    if _is_job(names):
        return (folder,)
    children = (f"{folder}/{child.rstrip('/')}" for child in names if child.endswith("/"))
    return tuple(child for child in children if _is_job(store.list_names(child)))
