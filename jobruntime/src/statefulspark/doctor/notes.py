"""Sentences on what is not wrong, but worth knowing."""

from __future__ import annotations

from collections.abc import Iterable

from statefulspark.checkpoint import catalog, lineage_records
from statefulspark.contract import diagnosis, layout
from statefulspark.recovery import generations
from statefulspark.retention import rules
from statefulspark.storage.port import ObjectStore


def on_job(
    store: ObjectStore,
    names: tuple[str, ...],
    generation_healths: tuple[diagnosis.GenerationHealth, ...],
    freeable: diagnosis.Freeable,
) -> Iterable[str]:
    """Yield a sentence on each thing of a job that is unusual and needs nobody."""
    if layout.OWNER not in names:
        yield f"There is no {layout.OWNER}: the next driver claims the state."
    yield from _on_identity(store)
    for generation in generation_healths:
        if generation.role == "unfinished":
            yield _on_unfinished(store, generation.generation)
    for folder in catalog.list_all(store).unfinished:
        yield f"{store.uri}/{folder} has no manifest: a savepoint in progress, or one that was never completed."
    unknown_files = freeable.kept.get(rules.UNKNOWN, 0)
    if unknown_files:
        are = "1 file is" if unknown_files == 1 else f"{unknown_files} files are"
        yield (
            f"{are} below {layout.GENERATIONS}/ that no log of Spark names, for example what a source has noted for itself. "
            "That is no damage; such files are never deleted."
        )


def on_scratch(store: ObjectStore, folders: Iterable[diagnosis.FolderHealth]) -> Iterable[str]:
    """Yield a sentence on each scratch folder."""
    for folder in folders:
        if folder.path.startswith(f"{layout.SCRATCH}/"):
            yield (
                f"{store.uri}/{folder.path} is scratch of the {folder.whose}: it holds no state, and "
                f"{_end_of_scratch(folder)} removes it."
            )


def _end_of_scratch(folder: diagnosis.FolderHealth) -> str:
    is_rehearsal = layout.is_rehearsal(folder.path.removeprefix(f"{layout.SCRATCH}/"))
    return "its end, or a start ten minutes later," if is_rehearsal else "the next start"


def _on_unfinished(store: ObjectStore, generation: int) -> str:
    reservation = generations.read_reservation(store, generation)
    if reservation is None or reservation.standby is None:
        return f"Generation {generation} was never completed; no start uses it."
    return (
        f"Generation {generation} is what {reservation.standby} has carried ahead as a standby, last at "
        f"{reservation.claimed_at.isoformat()}; only that standby uses it, and without it pruning removes it."
    )


def _on_identity(store: ObjectStore) -> Iterable[str]:
    lineages = lineage_records.read_all(store)
    for sentence in lineages.unreadable:
        yield f"{sentence} The next driver starts a new lineage, in a new generation."
    if lineages.current is not None and lineages.current.root != store.uri:
        yield (
            f"This folder was last used at {lineages.current.root}: it was moved or copied. A driver that starts here "
            "starts a new lineage, and sinks decide whether it may write to them."
        )
