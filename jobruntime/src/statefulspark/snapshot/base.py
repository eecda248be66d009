"""What a start can be based on: checkpoints, a generation's own beginning, savepoints; read and verified on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import GenerationRecord, Manifest, QueryEntry, SnapshotKind
from statefulspark.snapshot import catalog, decision, generations, restore, transfer, verify
from statefulspark.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class Base:
    """One thing to start from.

    Attributes:
        label: For people: `checkpoint 41`, a savepoint's URI, None for the beginning of an empty generation.
        queries: Its queries.
        place: Where its files are.
        generation: Generation that a new one descends from, None for savepoints.
        reference: `checkpoint:<id>` or a savepoint's URI; None for the beginning of an empty generation.
        manifest: None for a generation's beginning.
    """

    label: str | None
    queries: tuple[QueryEntry, ...]
    place: restore.SnapshotPlace
    generation: int | None = None
    reference: str | None = None
    manifest: Manifest | None = None

    @property
    def holds_state(self) -> bool:
        """True if at least one query has committed something."""
        return any(query.batch_id >= 0 for query in self.queries)


@dataclass(slots=True)
class View:
    """A job's root as of one look.

    Attributes:
        store: The job's root.
        known: Its generations.
        refs: Its completed snapshots.
        checkpoints: Manifests of the completed checkpoints by id, as far as they are readable.
        unreadable: A sentence for each checkpoint whose manifest is not.
        next_snapshot_id: The number for the next snapshot.
    """

    store: ObjectStore
    known: generations.Generations
    refs: tuple[catalog.SnapshotRef, ...]
    checkpoints: Mapping[int, Manifest]
    unreadable: tuple[str, ...]
    next_snapshot_id: int
    open_store: transfer.StoreOpener | None
    _verdicts: dict[str, str | None] = field(default_factory=dict)

    @property
    def current(self) -> GenerationRecord:
        """The generation in use; only asked for where the decision found one."""
        if self.known.current is None:
            raise errors.InternalError("NoGeneration", f"{self.store.uri} has no generation in use.")
        return self.known.current

    def situation(self, wish: RestoreConfig) -> decision.Situation:
        """Summarise the look for the decision."""
        kinds = [ref.kind for ref in self.refs]
        return decision.Situation(
            restore=wish,
            current=self.known.current,
            unfinished_generation=self.known.current is None and self.known.highest > 0,
            checkpoints=kinds.count(SnapshotKind.CHECKPOINT),
            savepoints=kinds.count(SnapshotKind.SAVEPOINT),
            uri=self.store.uri,
        )

    def latest(self) -> Base:
        """Return the newest checkpoint of the generation in use, or its beginning."""
        return next(self.candidates())

    def candidates(self) -> Iterator[Base]:
        """Yield what a recovery may start from, best first; a savepoint that cannot be read ends the line."""
        numbers = {number: manifest.generation for number, manifest in self.checkpoints.items()}
        for candidate in decision.candidates(self.known, numbers):
            if candidate.savepoint is not None:
                yield self.resolve(candidate.savepoint)
            elif candidate.checkpoint_id is not None:
                yield self._checkpoint(self.checkpoints[candidate.checkpoint_id])
            else:
                yield self._beginning(candidate.generation)

    def problem_of(self, base: Base) -> str | None:
        """Verify a base, once; None if nothing is wrong."""
        key = f"{base.place.store.uri} {base.place.root} {base.reference} {[query.path for query in base.queries]}"
        if key not in self._verdicts:
            report = verify.verify_queries(base.place.store, base.queries, root=base.place.root)
            self._verdicts[key] = None if report.ok else report.sentence
        return self._verdicts[key]

    def resolve(self, reference: str) -> Base:
        """Find and verify the snapshot that somebody named.

        Args:
            reference: `checkpoint:<id>` or the URI of a snapshot's folder.

        Raises:
            SpecRejectedError: `SnapshotNotFound`.
            SnapshotCorruptError: `SnapshotBroken`, or its manifest is unreadable.
        """
        if reference.startswith(decision.CHECKPOINT_PREFIX):
            base = self._checkpoint_by_name(reference)
        else:
            base = find(self.store, _as_s3(reference), self.open_store)
        problem = self.problem_of(base)
        if problem is not None:
            raise errors.SnapshotCorruptError(
                "SnapshotBroken", f"{reference} cannot be restored: {problem} Restore another snapshot."
            )
        return base

    def _checkpoint_by_name(self, reference: str) -> Base:
        number = reference.removeprefix(decision.CHECKPOINT_PREFIX)
        ids = [ref.id for ref in self.refs if ref.kind is SnapshotKind.CHECKPOINT]
        if not number.isdigit() or int(number) not in ids:
            held = ", ".join(str(found) for found in sorted(ids)) or "none"
            raise _not_found(reference, f"{self.store.uri} holds these checkpoints: {held}")
        if int(number) not in self.checkpoints:
            raise errors.SnapshotCorruptError("SnapshotBroken", " ".join(self.unreadable))
        return self._checkpoint(self.checkpoints[int(number)])

    def _checkpoint(self, manifest: Manifest) -> Base:
        return Base(
            label=manifest.label,
            queries=manifest.queries,
            place=restore.SnapshotPlace(self.store),
            generation=manifest.generation,
            reference=f"{decision.CHECKPOINT_PREFIX}{manifest.id}",
            manifest=manifest,
        )

    def _beginning(self, generation: int) -> Base:
        record = self.known.record(generation)
        if record is None:
            raise errors.InternalError("NoGeneration", f"Generation {generation} at {self.store.uri} has no record.")
        return Base(
            label=record.restored_from,
            queries=record.queries,
            place=restore.SnapshotPlace(self.store),
            generation=record.parent_generation,
            reference=record.source,
        )


def look(store: ObjectStore, open_store: transfer.StoreOpener | None = None) -> View:
    """Look at a job's root. Cost: 5 listings, a HEAD per savepoint, a GET per checkpoint and per generation."""
    refs = catalog.list_snapshots(store)
    checkpoints = tuple(ref for ref in refs if ref.kind is SnapshotKind.CHECKPOINT)
    found = catalog.read_manifests(store, checkpoints)
    return View(
        store=store,
        known=generations.read_all(store),
        refs=refs,
        checkpoints={manifest.id: manifest for manifest in found if isinstance(manifest, Manifest)},
        unreadable=tuple(error.message for error in found if isinstance(error, errors.SnapshotCorruptError)),
        next_snapshot_id=catalog.next_snapshot_id(store),
        open_store=open_store,
    )


def find(store: ObjectStore, uri: str, open_store: transfer.StoreOpener | None) -> Base:
    """Find a snapshot by the URI of its folder: in this store, or wherever the opener reaches.

    Raises:
        SpecRejectedError: `SnapshotNotFound`.
        SnapshotCorruptError: The manifest is unreadable.
    """
    folder = uri.rstrip("/")
    where, root = _locate(store, folder, open_store)
    try:
        manifest = catalog.read_manifest(where, root)
    except errors.ObjectNotFoundError as error:
        raise _not_found(uri, f"there is no {folder}/_metadata.json") from error
    if manifest.kind is SnapshotKind.SAVEPOINT:
        place, generation = restore.SnapshotPlace(where, root), None
        return Base(folder, manifest.queries, place, generation, folder, manifest)
    job_root, _, _ = folder.rpartition(f"/{layout.CHECKPOINTS}/")
    owner, prefix = _locate(store, job_root, open_store)
    return Base(folder, manifest.queries, restore.SnapshotPlace(owner, prefix), None, folder, manifest)


def _locate(store: ObjectStore, uri: str, open_store: transfer.StoreOpener | None) -> tuple[ObjectStore, str]:
    if uri == store.uri:
        return store, ""
    if uri.startswith(f"{store.uri}/"):
        return store, uri[len(store.uri) + 1 :]
    if open_store is None:
        raise _not_found(uri, f"it is outside {store.uri}, and no other place can be opened here")
    return open_store(uri), ""


def _as_s3(uri: str) -> str:
    return f"s3://{uri[6:]}" if uri.startswith("s3a://") else uri


def _not_found(reference: str, why: str) -> errors.SpecRejectedError:
    return errors.SpecRejectedError(
        "SnapshotNotFound", f"The snapshot {reference!r} does not exist: {why}. Name a snapshot that exists."
    )
