"""Whether the restore of a savepoint can go on in the generation in use, instead of copying the same files back. Pure.

After a stop with savepoint the generation in use is at the savepoint's cut. Going on there costs no copy, and it is the same
as a recovery: the same files, the same batches, the same output. It must be certain, though: a generation that is further
would keep what the restore is to leave behind. So every rule gives its reason to copy, and the first one decides.

A stop may complete its savepoint and yet not end the job: the answer of the request that wrote it is lost. The job goes on,
and whoever asked for the stop finds the savepoint. A start that is to go on after that stop goes on from the newest state.

A job whose plan differs from its state pays for a new generation in any case; `evolution` tells that later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from statefulspark.contract.manifest import GenerationRecord, Manifest, QueryEntry, SnapshotFormat, SnapshotKind


@dataclass(frozen=True, slots=True)
class InUse:
    """The generation in use.

    Attributes:
        record: Its record.
        root: URI of the job's root.
    """

    record: GenerationRecord
    root: str


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The newest batches in the logs of one query.

    Attributes:
        planned: The newest batch with offsets; -1 before the first.
        committed: The newest committed batch; -1 before the first.
    """

    planned: int
    committed: int


def why_other_state(manifest: Manifest | None, in_use: InUse) -> str | None:
    """Return why a snapshot has nothing to do with the generation in use; None if it was taken in it.

    Args:
        manifest: The snapshot's; None for the beginning of a generation.
        in_use: The generation in use.
    """
    if manifest is None or manifest.kind is not SnapshotKind.SAVEPOINT:
        return "only a savepoint names the end of a run"
    if manifest.format is not SnapshotFormat.NATIVE:
        return f"the state of a {manifest.format.value} savepoint has another form"
    why = _why_other_root(manifest, in_use)
    if why is not None:
        return why
    if manifest.generation != in_use.record.generation:
        return (
            f"it was taken in generation {manifest.generation}, and the job is in generation {in_use.record.generation}"
        )
    return None


def is_of_this_root(manifest: Manifest, in_use: InUse) -> bool:
    """Tell whether a snapshot was taken of this job in this root, in any generation."""
    return _why_other_root(manifest, in_use) is None


def _why_other_root(manifest: Manifest, in_use: InUse) -> str | None:
    if not in_use.root.endswith(f"/{manifest.namespace}/{manifest.job}"):
        return f"it was taken of the job {manifest.namespace}/{manifest.job}"
    if manifest.lineage is not None and manifest.lineage != in_use.record.lineage:
        return f"it was taken in another root ({manifest.root or manifest.lineage})"
    return None


def why_other_cut(queries: Iterable[QueryEntry], ends: Mapping[str, LogEnd]) -> str | None:
    """Return why the generation in use is not at the cut of a savepoint that was taken in it; None if it is.

    A batch that was planned and not committed counts, since a query that goes on would run it as it was planned.

    Args:
        queries: The queries of the savepoint.
        ends: The end of the logs of each query that has files in the generation, by uid.
    """
    cut = {query.uid: query.batch_id for query in queries}
    for uid in sorted(ends.keys() - cut.keys()):
        return f"query {uid!r} has run since, and is not in it"
    for uid, batch in sorted(cut.items()):
        end = ends.get(uid, LogEnd(-1, -1))
        if end.committed != batch:
            return f"query {uid!r} is at batch {end.committed}, and the savepoint at batch {batch}"
        if end.planned != batch:
            return f"query {uid!r} has planned batch {end.planned}, and the savepoint is at batch {batch}"
    return None


def has_gone_on(queries: Iterable[QueryEntry], ends: Mapping[str, LogEnd]) -> bool:
    """Tell whether a generation has every batch of a savepoint that was taken in it, and more than these.

    Args:
        queries: See `why_other_cut`.
        ends: See `why_other_cut`.
    """
    cut = {query.uid: query.batch_id for query in queries}
    has_all = all(ends.get(uid, LogEnd(-1, -1)).committed >= batch for uid, batch in cut.items())
    return has_all and why_other_cut(queries, ends) is not None
