"""Lineages: which root of state something belongs to, and what it descends from.

Every root has an identity of its own. Numbers of generations, batches and epochs begin anew in each root, so they compare
within one lineage only; what meets numbers of another one (a sink that remembers, a savepoint from elsewhere) looks at
the lineage first. A root that finds itself at another place than its record says was moved or copied, which it cannot
tell apart; in both cases it goes on as a new lineage that descends from the old one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from statefulspark import errors
from statefulspark.checkpoint import listing, read_cache
from statefulspark.contract import layout
from statefulspark.contract.manifest import Ancestor, GenerationRecord, LineageRecord, Manifest, QueryEntry
from statefulspark.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class Lineages:
    """Every lineage that a root has been, oldest first.

    Attributes:
        records: As they are on storage.
        unreadable: A sentence for each record that is damaged. Nothing depends on reading one: what was written in a lineage
            names it, so the root goes on as a new one, as it would at another place.
    """

    records: tuple[LineageRecord, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def taken(self) -> int:
        """How many numbers are taken."""
        return len(self.records) + len(self.unreadable)

    @property
    def current(self) -> LineageRecord | None:
        """The newest one, None before the first and if it cannot be read."""
        return self.records[-1] if self.records and self.records[-1].number == self.taken else None

    @property
    def lineage(self) -> str | None:
        """Identity of the root, None before the first."""
        return self.current.lineage if self.current else None

    @property
    def unnamed(self) -> str | None:
        """The lineage of whatever names none: the first, if the root was in use before that."""
        return next((record.lineage for record in self.records if record.adopts_unnamed), None)

    def named(self, lineage: str | None) -> str | None:
        """Return the lineage of a document below this root."""
        return self.unnamed if lineage is None else lineage

    def root_of(self, lineage: str | None) -> str | None:
        """Return where a lineage of this root lived; None if it never was here."""
        return next((record.root for record in self.records if record.lineage == lineage), None)


@dataclass(frozen=True, slots=True)
class Descent:
    """Where a cut comes from.

    Attributes:
        lineage: Its own; None for state of a release without lineages.
        generation: The generation of that lineage in which the cut lies.
        root: URI of the root it was taken in, for people.
        ancestors: Other lineages that it descends from, the oldest first.
        unnamed: The lineage of whatever names none; None if nothing here is that old.
    """

    lineage: str | None
    generation: int
    root: str | None = None
    ancestors: tuple[Ancestor, ...] = ()
    unnamed: str | None = None

    def below(self, own: str | None, queries: Sequence[QueryEntry]) -> tuple[Ancestor, ...]:
        """Return the ancestors of what a root makes of this cut.

        Args:
            own: The lineage of that root.
            queries: The cut.
        """
        if self.lineage == own:
            return self.ancestors
        batches = {query.uid: query.batch_id for query in queries}
        here = Ancestor(lineage=self.lineage, root=self.root, generation=self.generation, batches=batches)
        return (*self.ancestors, here)


def of_manifest(manifest: Manifest, known: Lineages) -> Descent:
    """Return where a snapshot comes from.

    Args:
        manifest: The snapshot's.
        known: Lineages of the root it lies in; none for a snapshot that lies elsewhere.
    """
    lineage = known.named(manifest.lineage)
    return Descent(lineage, manifest.generation, manifest.root or known.root_of(lineage), manifest.ancestors)


def of_generation(record: GenerationRecord, known: Lineages) -> Descent:
    """Return where a generation of a root belongs."""
    lineage = known.named(record.lineage)
    return Descent(lineage, record.generation, known.root_of(lineage), record.ancestors, known.unnamed)


def read_all(store: ObjectStore) -> Lineages:
    """Read every lineage of a root. Cost: one listing, one HEAD, one GET per lineage."""
    listed = max((layout.parse_number(name) or 0 for name in store.list_names(layout.LINEAGES)), default=0)
    keys = [layout.lineage(number) for number in range(1, listing.highest(store, listed, layout.lineage) + 1)]
    bodies = store.read_many(keys) if keys else {}
    records: list[LineageRecord] = []
    unreadable: list[str] = []
    for key in keys:
        try:
            records.append(LineageRecord.parse(bodies[key], f"{store.uri}/{key}"))
        except errors.SnapshotCorruptError as error:
            unreadable.append(error.message)
    return Lineages(tuple(records), tuple(unreadable))


def ensure(
    store: ObjectStore, *, lineage: str, epoch: int, now: datetime, seen: read_cache.Look | None = None
) -> Lineages:
    """Make sure that a root has a lineage of its own where it is now. Idempotent, and safe beside other drivers.

    Cost: one listing, one HEAD and a GET per lineage; two listings and a PUT the first time.

    Args:
        store: The job's root.
        lineage: The identity to give it if it has none.
        epoch: The driver's.
        now: UTC.
        seen: A look at the root since the epoch was claimed; remembers what is read here.

    Returns:
        Every lineage that the root has been; the newest one is its own.
    """
    seen = seen or read_cache.Look(store)
    known = read_all(seen)
    while known.current is None or known.current.root != store.uri:
        record = LineageRecord(
            number=known.taken + 1,
            lineage=lineage,
            root=store.uri,
            created_at=now,
            epoch=epoch,
            adopts_unnamed=not known.taken and _holds_state(seen),
        )
        try:
            store.create(layout.lineage(record.number), record.to_json(indent=1).encode())
            known = Lineages((*known.records, record), known.unreadable)
        except errors.ObjectExistsError:
            known = read_all(store)
    return known


def _holds_state(store: ObjectStore) -> bool:
    return bool(store.list_names(layout.GENERATIONS) or store.list(layout.CHECKPOINTS))
