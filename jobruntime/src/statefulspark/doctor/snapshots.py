"""Is a snapshot whole, and what of it is broken? And the options with which it is examined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from statefulspark import errors
from statefulspark.checkpoint import catalog, transfer, verify
from statefulspark.contract import diagnosis, layout
from statefulspark.contract.manifest import Manifest, SnapshotKind
from statefulspark.recovery import external_savepoints
from statefulspark.retention import rules
from statefulspark.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class Examination:
    """The settings of an examination.

    Attributes:
        now: The current time in UTC.
        policy: What pruning would keep.
        deep: Read every file, instead of trusting equal etags.
        open_store: Opens other locations, of savepoints that the job started from or claimed.
    """

    now: datetime
    policy: rules.PrunePolicy
    deep: bool = False
    open_store: transfer.StoreOpener | None = None


def examine_one(store: ObjectStore, manifest: Manifest, examination: Examination) -> diagnosis.SnapshotHealth:
    """Examine a snapshot by its own folder; the files of a checkpoint are in the job's folder above it."""
    if manifest.kind is SnapshotKind.SAVEPOINT:
        return _verified(store, manifest, store.uri, root="", examination=examination)
    job_root = store.uri.rpartition(f"/{layout.CHECKPOINTS}/")[0]
    if not job_root or examination.open_store is None:
        sentence = "It is a checkpoint outside its job's folder; its files cannot be found, so they were not verified."
        return diagnosis.SnapshotHealth(label=manifest.label, location=store.uri, ok=False, problem=sentence)
    return _verified(examination.open_store(job_root), manifest, store.uri, root="", examination=examination)


def examine_in_job(
    store: ObjectStore,
    ref: catalog.SnapshotRef,
    manifest: Manifest | errors.SnapshotCorruptError,
    examination: Examination,
) -> diagnosis.SnapshotHealth:
    """Examine a snapshot in the folder of its job; one that cannot be read is its own problem."""
    location = f"{store.uri}/{ref.folder}"
    if isinstance(manifest, errors.SnapshotCorruptError):
        return diagnosis.SnapshotHealth(label=ref.label, location=location, ok=False, problem=manifest.message)
    root = "" if manifest.kind is SnapshotKind.CHECKPOINT else ref.folder
    return _verified(store, manifest, location, root=root, examination=examination)


def examine_external(
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
    broken = []
    for problem in report.problems:
        info = store.info(problem.path)
        size_bytes = sizes.get(problem.path)
        actual = "nothing" if info is None else f"{info.size_bytes} bytes"
        if problem.kind is verify.ProblemKind.CHECKSUM_DIFFERS:
            actual += " with other content"
        broken.append(
            diagnosis.BrokenFile(
                path=f"{store.uri}/{problem.path}",
                problem=problem.kind.value,
                expected=f"{size_bytes} bytes" if size_bytes is not None else "the file that was written",
                found=actual,
            )
        )
    return diagnosis.SnapshotHealth(
        label=manifest.label,
        location=location,
        ok=report.ok,
        completed_at=manifest.completed_at,
        trigger=manifest.trigger.value,
        size_bytes=report.size_bytes,
        files=report.files,
        broken=tuple(broken),
        uncompared=tuple(f"{store.uri}/{key}" for key in report.uncompared),
    )


def problems(health: diagnosis.SnapshotHealth) -> Iterable[str]:
    """Yield a sentence for a snapshot that cannot be read, and one for broken files."""
    if health.problem is not None:
        yield f"{health.label.capitalize()} cannot be read: {health.problem}"
    if health.broken:
        first, more = health.broken[0], len(health.broken) - 1
        rest = f", and {more} more files are broken" if more else ""
        yield (
            f"{health.label.capitalize()} is broken: {first.path}: expected {first.expected}, found {first.found}{rest}."
        )


def notes(health: diagnosis.SnapshotHealth) -> Iterable[str]:
    """Yield a sentence on the files of a snapshot whose content could not be compared."""
    if health.uncompared:
        first, more = health.uncompared[0], len(health.uncompared) - 1
        them = f"{first} and {more} more files" if more else first
        yield f"{health.label.capitalize()}: nothing tells what the content of {them} was; only the size was compared."
