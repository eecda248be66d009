"""Candidates for a start: checkpoints, the beginning of a generation, savepoints; read and verified on demand.

A recovery takes the newest candidate that verifies; a restore takes the given one. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from statefulspark import errors
from statefulspark.checkpoint import catalog, epochs, lineage_records, progress, read_cache, transfer, verify
from statefulspark.contract import layout
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import (
    GenerationRecord,
    Manifest,
    Purge,
    QueryEntry,
    SnapshotKind,
)
from statefulspark.recovery import beginnings, damage, generations, lives, new_packs, plan
from statefulspark.storage.port import ObjectStore


@dataclass(slots=True)
class StorageView:
    """The content of a job's root at one time.

    Attributes:
        store: The job's root.
        cache: Earlier reads of the root.
        generations: Its generations.
        refs: Its completed snapshots.
        checkpoints: The readable manifests of completed checkpoints, by id.
        unreadable: An error message for each checkpoint whose manifest is unreadable.
        left_out: The manifests that do not count, as those of another life of the root; they are restored by name only.
        next_snapshot_id: The number of the next snapshot.
        damage: Notes of drivers about state that Spark could not load.
        lineages: The lineages of the root.
        begin_step: Begins each step that may take long.
        purge: The deletion of older state on purpose; what is left of that is in no other field.
        drivers: Those that have run in the root.
        mixture: Why what follows in the generation in use could not be told from another life of the root; None if it can.
        elsewhere: Newer generations that do not count, as drivers of another life of the root have begun them.
    """

    store: ObjectStore
    cache: read_cache.ReadCache
    generations: generations.Generations
    refs: tuple[catalog.SnapshotRef, ...]
    checkpoints: Mapping[int, Manifest]
    unreadable: tuple[str, ...]
    next_snapshot_id: int
    open_store: transfer.StoreOpener | None
    drivers: lives.Drivers
    damage: damage.Damage = field(default_factory=damage.Damage)
    lineages: lineage_records.Lineages = field(default_factory=lineage_records.Lineages)
    begin_step: progress.BeginStep = progress.ignore_steps
    purge: Purge | None = None
    mixture: str | None = None
    elsewhere: tuple[GenerationRecord, ...] = ()
    left_out: Mapping[int, Manifest] = field(default_factory=dict)
    _verdicts: dict[str, str | None] = field(default_factory=dict)

    @property
    def current(self) -> GenerationRecord:
        """The generation in use; called only after a decision that requires one."""
        if self.generations.current is None:
            raise errors.InternalError("NoGeneration", f"{self.store.uri} has no generation in use.")
        return self.generations.current

    def require_readable_checkpoints(self) -> None:
        """Refuse to continue if a later release has taken a checkpoint, since its state would be lost.

        Cost: a GET per checkpoint that is newer than the newest readable one of this generation.

        Raises:
            FormatVersionError: A checkpoint of the generation in use, newer than all readable ones, has a later version.
        """
        number = self.current.generation
        own = (checkpoint_id for checkpoint_id, manifest in self.checkpoints.items() if manifest.generation == number)
        newest_id = max(max(own, default=0), self.current.restored_in_place or 0)
        unread = [ref for ref in self.refs if ref.kind is SnapshotKind.CHECKPOINT and ref.id > newest_id]
        newer = catalog.first_of_later_release(self.cache, unread, number)
        if newer is not None:
            raise errors.FormatVersionError(
                newer.reason,
                f"{newer.message} To go back to this release, restore a snapshot that it can read.",
            ) from newer

    @property
    def carried_out(self) -> tuple[str, ...]:
        """Keys of everything that was carried out in this root, the oldest first, as far as its records tell."""
        return plan.carried_out((*self.generations.records, *reversed(self.elsewhere)))

    @property
    def is_moved_or_copied(self) -> bool:
        """True if the root was moved or copied after the generation in use was made."""
        newest = self.lineages.current
        if newest is None:
            return bool(self.lineages.taken)
        return newest.root != self.store.uri or self.current.lineage != newest.lineage

    def situation(self, restore: RestoreConfig) -> plan.Situation:
        """Summarise the content of the root for the decision."""
        kinds = [ref.kind for ref in self.refs]
        current = self.generations.current
        # A generation without a record that has files besides its reservation may have been in use.
        unfinished = self.generations.unfinished if current is None else ()
        reservations = {layout.generation_reservation(number) for number in unfinished}
        files = (info.key for number in unfinished for info in self.cache.list(layout.generation(number)))
        has_unfinished_files = any(key not in reservations for key in files)
        # The record of a generation that a deletion has left, or that was put back, matters unless a newer one is in use.
        half_purged = None
        if self.purge is not None and current is None:
            left = generations.list_recorded(self.cache, self.purge.generation)
            half_purged = layout.generation_record(left[-1]) if left else None
        return plan.Situation(
            restore=restore,
            current=current,
            unfinished_generation=has_unfinished_files,
            checkpoints=kinds.count(SnapshotKind.CHECKPOINT),
            savepoints=kinds.count(SnapshotKind.SAVEPOINT) if self.purge is None else 0,
            uri=self.store.uri,
            record_problem=self.generations.unreadable.get(current.generation) if current else None,
            carried_out=self.carried_out,
            traces=beginnings.traces(self.cache, self.purge) if current is None else (),
            half_purged=half_purged,
        )

    def latest(self) -> plan.Candidate:
        """Return the newest checkpoint of the generation in use, or its beginning."""
        return next(self.candidates())

    def left_out_problems(self, head: Sequence[QueryEntry]) -> tuple[str, ...]:
        """Return why checkpoints do not count, if something may be missed.

        Args:
            head: The queries with which a start goes on in the generation in use; none if it cannot go on there.
        """
        there = self.current.generation, head
        begun = (
            f"Generation {record.generation} was begun by epoch {record.epoch} of another life of this root, which was "
            "copied over an older one."
            for record in self.elsewhere
        )
        return (
            *self.unreadable,
            *begun,
            *self.drivers.accuse(self.left_out.values(), self.checkpoints.values(), head=there),
        )

    @property
    def unusable_sources(self) -> frozenset[str]:
        """Snapshots that cannot be used because Spark could not load a copy of them."""
        return self.damage.unusable_sources(self.generations.records, self.checkpoints.values())

    def candidates(self) -> Iterator[plan.Candidate]:
        """Yield the candidates of a recovery, newest state first; an unreadable savepoint raises its error."""
        numbers = {number: manifest.generation for number, manifest in self.checkpoints.items()}
        for candidate in plan.order_candidates(self.generations, numbers):
            if candidate.savepoint is not None:
                if candidate.savepoint not in self.unusable_sources:
                    yield self.resolve(candidate.savepoint)
            elif candidate.checkpoint_id is not None:
                yield self._checkpoint(self.checkpoints[candidate.checkpoint_id])
            else:
                record = self.generations.record(candidate.generation)
                if record is None:
                    raise errors.InternalError(
                        "NoGeneration", f"Generation {candidate.generation} at {self.store.uri} has no record."
                    )
                yield plan.Candidate(
                    label=record.restored_from,
                    queries=record.queries,
                    location=transfer.SnapshotLocation(self.store, cache=self.cache),
                    generation=record.parent_generation,
                    reference=record.source,
                    descent=lineage_records.generation_descent(record, self.lineages),
                    master_states=record.master_states,
                )

    def problem_of(self, candidate: plan.Candidate) -> str | None:
        """Verify a candidate once; return the problem, or None.

        If Spark could not load a candidate, it is read completely; after a second failure it counts as unusable.

        Raises:
            FormatVersionError: A later release wrote one of its files; it is undamaged, so no older state replaces it.
        """
        paths = [query.path for query in candidate.queries]
        key = f"{candidate.location.store.uri} {candidate.location.root} {candidate.reference} {paths}"
        if key not in self._verdicts:
            self._verdicts[key] = self._verdict(candidate)
        return self._verdicts[key]

    def _verdict(self, candidate: plan.Candidate) -> str | None:
        location = candidate.location
        is_unusable = candidate.reference in self.unusable_sources
        if is_unusable and not self.damage.is_rewritten(location.reader, candidate.queries, location.root):
            return self.damage.problem_of_copies
        problem = self.damage.problem(candidate.queries)
        if problem is not None:
            return problem
        report = self._verified(candidate, deep=self.damage.is_suspected)
        if report.ok:
            proven = self.proven_packs(candidate)
            return new_packs.problem(
                location.reader, candidate.queries, root=location.root, proven=proven, begin_step=self.begin_step
            )
        newer = [problem.detail for problem in report.problems if problem.kind is verify.ProblemKind.NEWER]
        if newer:
            raise errors.FormatVersionError("FormatVersionUnknown", newer[0])
        return report.sentence

    def proven_packs(self, candidate: plan.Candidate) -> frozenset[str]:
        """Return the packs that an older checkpoint than a candidate names, too: damage there would be in all of them."""
        number = self.next_snapshot_id if candidate.manifest is None else candidate.manifest.id
        older = (manifest for manifest in self.checkpoints.values() if manifest.id < number)
        return frozenset().union(*(new_packs.keys(manifest.queries) for manifest in older))

    def resolve(self, reference: str) -> plan.Candidate:
        """Find and verify the snapshot with the given reference.

        Args:
            reference: `checkpoint:<id>` or the URI of a snapshot's folder.

        Raises:
            SpecRejectedError: `SnapshotNotFound`.
            SnapshotCorruptError: `SnapshotBroken`, or its manifest is unreadable.
        """
        if reference.startswith(layout.CHECKPOINT_REFERENCE):
            number = reference.removeprefix(layout.CHECKPOINT_REFERENCE)
            ids = [ref.id for ref in self.refs if ref.kind is SnapshotKind.CHECKPOINT]
            if not number.isdigit() or int(number) not in ids:
                present = ", ".join(str(checkpoint_id) for checkpoint_id in sorted(ids)) or "none"
                raise _not_found(reference, f"{self.store.uri} holds these checkpoints: {present}")
            manifest = self.checkpoints.get(int(number)) or self.left_out.get(int(number))
            if manifest is None:
                raise errors.SnapshotCorruptError("SnapshotBroken", " ".join(self.unreadable))
            candidate = self._checkpoint(manifest)
        else:
            uri = f"s3://{reference[6:]}" if reference.startswith("s3a://") else reference
            candidate = find(self.store, uri, self.open_store, cache=self.cache, lineages=self.lineages)
        report = self._verified(candidate)
        if not report.ok:
            raise errors.SnapshotCorruptError(
                "SnapshotBroken", f"{reference} cannot be restored: {report.sentence} Restore another snapshot."
            )
        return candidate

    def _verified(self, candidate: plan.Candidate, *, deep: bool = False) -> verify.VerifyReport:
        return verify.verify_queries(
            candidate.location.reader,
            candidate.queries,
            root=candidate.location.root,
            deep=deep,
            on_progress=self.begin_step(f"Verifying {candidate.label or 'the state'}"),
        )

    def _checkpoint(self, manifest: Manifest) -> plan.Candidate:
        return plan.Candidate(
            label=manifest.label,
            queries=manifest.queries,
            location=transfer.SnapshotLocation(self.store, cache=self.cache),
            generation=manifest.generation,
            reference=f"{layout.CHECKPOINT_REFERENCE}{manifest.id}",
            manifest=manifest,
            descent=lineage_records.snapshot_descent(manifest, self.lineages),
            master_states=manifest.master_states,
        )


def read_storage(
    store: ObjectStore,
    open_store: transfer.StoreOpener | None = None,
    *,
    lineages: lineage_records.Lineages | None = None,
    cache: read_cache.ReadCache | None = None,
    begin_step: progress.BeginStep = progress.ignore_steps,
) -> StorageView:
    """Read a job's root. Cost: 6 listings, 11 HEADs, a HEAD per savepoint, a GET per other document.

    Epochs are read from the oldest checkpoint and the generation in use on.
    Listings may lag: the next number of generations, and the next few of checkpoints, are looked up by name.

    Args:
        store: The job's root.
        open_store: Opens other locations.
        lineages: The lineages of the root, if they were read already.
        cache: Earlier reads of the root.
        begin_step: Begins each step that may take long, also later, when the view is asked.
    """
    cache = cache or read_cache.ReadCache(store)
    listed = catalog.list_snapshots(cache)
    lineages = lineages if lineages and lineages.taken else lineage_records.read_all(cache)
    purge = lineages.purge if lineages.taken else epochs.last_purge(cache)
    used_generation, used_snapshot = (purge.generation, purge.snapshot) if purge is not None else (0, 0)
    following = max(catalog.next_snapshot_id(cache), used_snapshot + 1)
    refs = (*catalog.checkpoints_from(cache, following), *listed)
    checkpoints = tuple(ref for ref in refs if ref.kind is SnapshotKind.CHECKPOINT)
    answers = catalog.read_manifests(cache, checkpoints)
    readable = [manifest for manifest in answers if isinstance(manifest, Manifest)]
    outlived = {manifest.id for manifest in readable if manifest.generation <= used_generation}
    counting = [manifest for manifest in readable if manifest.id not in outlived]
    records = generations.read_all(cache, above=used_generation)
    drivers = lives.read(cache, records, counting)
    manifests, left_out = drivers.split_by_life(counting)
    history = generations.add_lost_records(records, manifests.values(), lineages)
    own = lives.split_generations(cache, drivers, history, manifests.values())
    cuts = [query for manifest in manifests.values() for query in manifest.queries]
    cuts += [query for record in own.every.records for query in record.queries]
    return StorageView(
        store=store,
        cache=cache,
        generations=own.every,
        refs=tuple(ref for ref in refs if ref.kind is SnapshotKind.SAVEPOINT or ref.id not in outlived),
        checkpoints=manifests,
        unreadable=tuple(error.message for error in answers if isinstance(error, errors.SnapshotCorruptError)),
        next_snapshot_id=max((following, *(ref.id + 1 for ref in refs))),
        open_store=open_store,
        damage=damage.read_all(cache).separate_outdated(cache, cuts),
        lineages=lineages,
        begin_step=begin_step,
        purge=purge,
        mixture=own.mixture,
        elsewhere=own.elsewhere,
        left_out=left_out,
        drivers=drivers,
    )


def find(
    store: ObjectStore,
    uri: str,
    open_store: transfer.StoreOpener | None,
    *,
    lineages: lineage_records.Lineages | None = None,
    cache: read_cache.ReadCache | None = None,
) -> plan.Candidate:
    """Find a snapshot by the URI of its folder or manifest, in this store or at another location.

    Args:
        store: The job's root.
        uri: The given URI.
        open_store: Opens other locations.
        lineages: The lineages of the root, if they were read already.
        cache: Earlier reads of the root.

    Raises:
        SpecRejectedError: `SnapshotNotFound`.
        SnapshotCorruptError: The manifest is unreadable.
    """
    folder = layout.snapshot_folder(uri)
    location = _locate(store, folder, open_store, cache)
    try:
        manifest = catalog.read_manifest(location.reader, location.root)
    except errors.ObjectNotFoundError as error:
        raise _not_found(uri, f"there is no {layout.snapshot_manifest(folder)}") from error
    is_own = location.store is store
    own_lineages = (lineages or lineage_records.read_all(location.reader)) if is_own else lineage_records.Lineages()
    files = location
    if manifest.kind is SnapshotKind.CHECKPOINT:
        job_root, _, _ = folder.rpartition(f"/{layout.CHECKPOINTS}/")
        files = _locate(store, job_root, open_store, cache)
    return plan.Candidate(
        label=folder,
        queries=manifest.queries,
        location=files,
        reference=folder,
        manifest=manifest,
        folder=location,
        descent=lineage_records.snapshot_descent(manifest, own_lineages),
        master_states=manifest.master_states,
    )


def _locate(
    store: ObjectStore, uri: str, open_store: transfer.StoreOpener | None, cache: read_cache.ReadCache | None
) -> transfer.SnapshotLocation:
    located, root = locate(store, uri, open_store)
    return transfer.SnapshotLocation(
        located, root, (cache if located is store else None) or read_cache.ReadCache(located)
    )


def locate(store: ObjectStore, uri: str, open_store: transfer.StoreOpener | None) -> tuple[ObjectStore, str]:
    """Return the store of a URI, and the folder below it.

    Raises:
        SpecRejectedError: `SnapshotNotFound`: it is outside the store, and `open_store` is None.
    """
    if uri == store.uri:
        return store, ""
    if uri.startswith(f"{store.uri}/"):
        return store, uri[len(store.uri) + 1 :]
    if open_store is None:
        raise _not_found(uri, f"it is outside {store.uri}, and no other location can be opened here")
    return open_store(uri), ""


def _not_found(reference: str, why: str) -> errors.SpecRejectedError:
    return errors.SpecRejectedError(
        "SnapshotNotFound", f"The snapshot {reference!r} does not exist: {why}. Name a snapshot that exists."
    )
