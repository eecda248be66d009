"""What a start can go on from: checkpoints, a generation's own beginning, savepoints; read and verified on demand.

A recovery takes the best candidate that verifies; a restore takes the one that was named. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from statefulspark import errors
from statefulspark.checkpoint import catalog, lineage_records, read_cache, transfer, verify
from statefulspark.contract import layout
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import (
    MANIFEST_NAME,
    GenerationRecord,
    Manifest,
    QueryEntry,
    SnapshotKind,
)
from statefulspark.recovery import beginnings, damage, generations, plan
from statefulspark.storage.port import ObjectStore


@dataclass(slots=True)
class View:
    """A job's root as of one look.

    Attributes:
        store: The job's root.
        cache: What has been read of it.
        known: Its generations.
        refs: Its completed snapshots.
        checkpoints: Manifests of the completed checkpoints by id, as far as they are readable.
        unreadable: A sentence for each checkpoint whose manifest is not.
        next_snapshot_id: The number for the next snapshot.
        damage: What drivers noted about state that Spark could not load.
        lineages: What the root has been.
    """

    store: ObjectStore
    cache: read_cache.ReadCache
    known: generations.Generations
    refs: tuple[catalog.SnapshotRef, ...]
    checkpoints: Mapping[int, Manifest]
    unreadable: tuple[str, ...]
    next_snapshot_id: int
    open_store: transfer.StoreOpener | None
    damage: damage.Damage = field(default_factory=damage.Damage)
    lineages: lineage_records.Lineages = field(default_factory=lineage_records.Lineages)
    _verdicts: dict[str, str | None] = field(default_factory=dict)

    @property
    def current(self) -> GenerationRecord:
        """The generation in use; only asked for where the decision found one."""
        if self.known.current is None:
            raise errors.InternalError("NoGeneration", f"{self.store.uri} has no generation in use.")
        return self.known.current

    def require_known(self) -> None:
        """Refuse to go on where a later release has worked: what it left is whole, and would be given up.

        Cost: a GET per checkpoint that is newer than the newest one of this generation that can be read.

        Raises:
            FormatVersionError: A checkpoint of the generation in use, after all that can be read, is of a later version.
        """
        number = self.current.generation
        own = (found for found, manifest in self.checkpoints.items() if manifest.generation == number)
        known = max(max(own, default=0), self.current.restored_in_place or 0)
        unread = [ref for ref in self.refs if ref.kind is SnapshotKind.CHECKPOINT and ref.id > known]
        newer = catalog.first_of_later_release(self.cache, unread, number)
        if newer is not None:
            raise errors.FormatVersionError(
                newer.reason,
                f"{newer.message} To go back to this release, restore a snapshot by name that it can read.",
            ) from newer

    @property
    def is_elsewhere(self) -> bool:
        """True if the generation in use was made where the root is no more: it was moved, or copied."""
        newest = self.lineages.current
        if newest is None:
            return bool(self.lineages.taken)
        return newest.root != self.store.uri or self.lineages.named(self.current.lineage) != newest.lineage

    def situation(self, wish: RestoreConfig) -> plan.Situation:
        """Summarise the look for the decision."""
        kinds = [ref.kind for ref in self.refs]
        return plan.Situation(
            restore=wish,
            current=self.known.current,
            unfinished_generation=self.known.current is None and self._holds_unfinished_files,
            checkpoints=kinds.count(SnapshotKind.CHECKPOINT),
            savepoints=kinds.count(SnapshotKind.SAVEPOINT),
            uri=self.store.uri,
            record_problem=self.known.unreadable.get(self.current.generation) if self.known.current else None,
            traces=beginnings.traces(self.cache) if self.known.current is None else (),
        )

    @property
    def _holds_unfinished_files(self) -> bool:
        """Tell whether more than its reservation exists of a generation without a record: then it may have been in use."""
        reservations = {layout.generation_reservation(number) for number in self.known.unfinished}
        files = (info.key for number in self.known.unfinished for info in self.cache.list(layout.generation(number)))
        return any(key not in reservations for key in files)

    def latest(self) -> plan.Candidate:
        """Return the newest checkpoint of the generation in use, or its beginning."""
        return next(self.candidates())

    @property
    def unusable_sources(self) -> frozenset[str]:
        """What cannot be used because a copy of it could not be loaded."""
        return self.damage.unusable_sources(self.known.records, self.checkpoints.values())

    def candidates(self) -> Iterator[plan.Candidate]:
        """Yield what a recovery may start from, best first; a savepoint that cannot be read ends the line."""
        numbers = {number: manifest.generation for number, manifest in self.checkpoints.items()}
        for candidate in plan.in_order(self.known, numbers):
            if candidate.savepoint is not None:
                if candidate.savepoint not in self.unusable_sources:
                    yield self.resolve(candidate.savepoint)
            elif candidate.checkpoint_id is not None:
                yield self._checkpoint(self.checkpoints[candidate.checkpoint_id])
            else:
                yield self._beginning(candidate.generation)

    def problem_of(self, candidate: plan.Candidate) -> str | None:
        """Verify a candidate, once; None if nothing is wrong.

        One that Spark could not load is read completely, and given up when it happened again.

        Raises:
            FormatVersionError: A later release wrote a file of it: it is whole, so no older state is taken for it.
        """
        paths = [query.path for query in candidate.queries]
        key = f"{candidate.place.store.uri} {candidate.place.root} {candidate.reference} {paths}"
        if key not in self._verdicts:
            self._verdicts[key] = self._verdict(candidate)
        return self._verdicts[key]

    def _verdict(self, candidate: plan.Candidate) -> str | None:
        where = candidate.place
        is_unusable = candidate.reference in self.unusable_sources
        if is_unusable and not self.damage.is_past(where.reader, candidate.queries, where.root):
            return self.damage.problem_of_copies
        noted = self.damage.problem(candidate.queries)
        if noted is not None:
            return noted
        report = _verified(candidate, deep=self.damage.is_feared)
        newer = [problem.detail for problem in report.problems if problem.kind is verify.ProblemKind.NEWER]
        if newer:
            raise errors.FormatVersionError("FormatVersionUnknown", newer[0])
        return None if report.ok else report.sentence

    def resolve(self, reference: str) -> plan.Candidate:
        """Find and verify the snapshot that somebody named.

        Args:
            reference: `checkpoint:<id>` or the URI of a snapshot's folder.

        Raises:
            SpecRejectedError: `SnapshotNotFound`.
            SnapshotCorruptError: `SnapshotBroken`, or its manifest is unreadable.
        """
        if reference.startswith(layout.CHECKPOINT_REFERENCE):
            candidate = self._checkpoint_by_name(reference)
        else:
            candidate = find(self.store, _as_s3(reference), self.open_store, cache=self.cache, lineages=self.lineages)
        report = _verified(candidate)
        if not report.ok:
            raise errors.SnapshotCorruptError(
                "SnapshotBroken", f"{reference} cannot be restored: {report.sentence} Restore another snapshot."
            )
        return candidate

    def _checkpoint_by_name(self, reference: str) -> plan.Candidate:
        number = reference.removeprefix(layout.CHECKPOINT_REFERENCE)
        ids = [ref.id for ref in self.refs if ref.kind is SnapshotKind.CHECKPOINT]
        if not number.isdigit() or int(number) not in ids:
            held = ", ".join(str(found) for found in sorted(ids)) or "none"
            raise _not_found(reference, f"{self.store.uri} holds these checkpoints: {held}")
        if int(number) not in self.checkpoints:
            raise errors.SnapshotCorruptError("SnapshotBroken", " ".join(self.unreadable))
        return self._checkpoint(self.checkpoints[int(number)])

    def _checkpoint(self, manifest: Manifest) -> plan.Candidate:
        return plan.Candidate(
            label=manifest.label,
            queries=manifest.queries,
            place=transfer.SnapshotLocation(self.store, cache=self.cache),
            generation=manifest.generation,
            reference=f"{layout.CHECKPOINT_REFERENCE}{manifest.id}",
            manifest=manifest,
            descent=lineage_records.of_manifest(manifest, self.lineages),
            master_states=manifest.master_states,
        )

    def _beginning(self, generation: int) -> plan.Candidate:
        record = self.known.record(generation)
        if record is None:
            raise errors.InternalError("NoGeneration", f"Generation {generation} at {self.store.uri} has no record.")
        return plan.Candidate(
            label=record.restored_from,
            queries=record.queries,
            place=transfer.SnapshotLocation(self.store, cache=self.cache),
            generation=record.parent_generation,
            reference=record.source,
            descent=lineage_records.of_generation(record, self.lineages),
            master_states=record.master_states,
        )


def survey(
    store: ObjectStore,
    open_store: transfer.StoreOpener | None = None,
    *,
    lineages: lineage_records.Lineages | None = None,
    cache: read_cache.ReadCache | None = None,
) -> View:
    """Look at a job's root. Cost: 5 listings, 10 HEADs, a HEAD per savepoint, a GET per other document.

    Listings may lag: the next number of generations, and the next few of checkpoints, are looked up by name.

    Args:
        store: The job's root.
        open_store: Opens other places.
        lineages: What the root has been, where that is known already.
        cache: What has been read of it already.
    """
    cache = cache or read_cache.ReadCache(store)
    listed = catalog.list_snapshots(cache)
    following = catalog.next_snapshot_id(cache)
    refs = (*catalog.checkpoints_from(cache, following), *listed)
    checkpoints = tuple(ref for ref in refs if ref.kind is SnapshotKind.CHECKPOINT)
    answers = catalog.read_manifests(cache, checkpoints)
    manifests = {manifest.id: manifest for manifest in answers if isinstance(manifest, Manifest)}
    in_use = {manifest.generation for manifest in manifests.values()}
    known = generations.with_lost_records(generations.read_all(cache), in_use)
    return View(
        store=store,
        cache=cache,
        known=known,
        refs=refs,
        checkpoints=manifests,
        unreadable=tuple(error.message for error in answers if isinstance(error, errors.SnapshotCorruptError)),
        next_snapshot_id=max((following, *(ref.id + 1 for ref in refs))),
        open_store=open_store,
        damage=damage.read_all(cache).standing(cache, _cuts(manifests.values(), known)),
        lineages=lineages if lineages and lineages.taken else lineage_records.read_all(cache),
    )


def _cuts(manifests: Iterable[Manifest], known: generations.Generations) -> Iterator[QueryEntry]:
    """Yield every cut in a root that is known by its files."""
    for manifest in manifests:
        yield from manifest.queries
    for record in known.records:
        yield from record.queries


def find(
    store: ObjectStore,
    uri: str,
    open_store: transfer.StoreOpener | None,
    *,
    lineages: lineage_records.Lineages | None = None,
    cache: read_cache.ReadCache | None = None,
) -> plan.Candidate:
    """Find a snapshot by the URI of its folder, or of its manifest: in this store, or wherever the opener reaches.

    Args:
        store: The job's root.
        uri: As somebody named it.
        open_store: Opens other places.
        lineages: What the root has been, where that is known already.
        cache: What has been read of the root already.

    Raises:
        SpecRejectedError: `SnapshotNotFound`.
        SnapshotCorruptError: The manifest is unreadable.
    """
    folder = uri.rstrip("/").removesuffix(f"/{MANIFEST_NAME}")
    where = _place(store, folder, open_store, cache)
    try:
        manifest = catalog.read_manifest(where.reader, where.root)
    except errors.ObjectNotFoundError as error:
        raise _not_found(uri, f"there is no {folder}/_metadata.json") from error
    is_own = where.store is store
    known = (lineages or lineage_records.read_all(where.reader)) if is_own else lineage_records.Lineages()
    files = where
    if manifest.kind is SnapshotKind.CHECKPOINT:
        job_root, _, _ = folder.rpartition(f"/{layout.CHECKPOINTS}/")
        files = _place(store, job_root, open_store, cache)
    return plan.Candidate(
        label=folder,
        queries=manifest.queries,
        place=files,
        reference=folder,
        manifest=manifest,
        folder=where,
        descent=lineage_records.of_manifest(manifest, known),
        master_states=manifest.master_states,
    )


def _place(
    store: ObjectStore, uri: str, open_store: transfer.StoreOpener | None, cache: read_cache.ReadCache | None
) -> transfer.SnapshotLocation:
    where, root = locate(store, uri, open_store)
    return transfer.SnapshotLocation(where, root, (cache if where is store else None) or read_cache.ReadCache(where))


def locate(store: ObjectStore, uri: str, open_store: transfer.StoreOpener | None) -> tuple[ObjectStore, str]:
    """Return the store and the folder below it that a URI names.

    Raises:
        SpecRejectedError: `SnapshotNotFound`: it lies elsewhere, and nothing can be opened here.
    """
    if uri == store.uri:
        return store, ""
    if uri.startswith(f"{store.uri}/"):
        return store, uri[len(store.uri) + 1 :]
    if open_store is None:
        raise _not_found(uri, f"it is outside {store.uri}, and no other place can be opened here")
    return open_store(uri), ""


def _verified(candidate: plan.Candidate, *, deep: bool = False) -> verify.VerifyReport:
    return verify.verify_queries(candidate.place.reader, candidate.queries, root=candidate.place.root, deep=deep)


def _as_s3(uri: str) -> str:
    return f"s3://{uri[6:]}" if uri.startswith("s3a://") else uri


def _not_found(reference: str, why: str) -> errors.SpecRejectedError:
    return errors.SpecRejectedError(
        "SnapshotNotFound", f"The snapshot {reference!r} does not exist: {why}. Name a snapshot that exists."
    )
