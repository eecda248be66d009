"""Lineages: the identity of a root of state, and the roots that it descends from.

Every root has its own identity. Numbers of generations, batches and epochs start again in each root, so they can be compared
within one lineage only. Code that meets numbers of another lineage (in a sink's marker, or in a savepoint of another root)
compares the lineage first. If a root's URI differs from its record, the root was moved or copied, which cannot be told
apart; in both cases it continues as a new lineage that descends from the old one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from statefulspark import errors
from statefulspark.checkpoint import epochs, listing, read_cache
from statefulspark.contract import layout
from statefulspark.contract.manifest import Ancestor, GenerationRecord, LineageRecord, Manifest, Purge, QueryEntry
from statefulspark.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class Lineages:
    """Every lineage that a root has been, oldest first.

    Attributes:
        records: As they are on storage.
        unreadable: An error message for each damaged record. No other document needs the record, since each names its
            lineage itself; so the root continues as a new lineage, as it does after a move.
    """

    records: tuple[LineageRecord, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def taken(self) -> int:
        """Count of the numbers in use."""
        return len(self.records) + len(self.unreadable)

    @property
    def current(self) -> LineageRecord | None:
        """The newest lineage; None if there is none or it cannot be read."""
        return self.records[-1] if self.records and self.records[-1].number == self.taken else None

    @property
    def lineage(self) -> str | None:
        """Identity of the root, None before the first."""
        return self.current.lineage if self.current else None

    @property
    def purge(self) -> Purge | None:
        """The deletion after which the root began, if there was one."""
        return next((record.after for record in self.records if record.after is not None), None)

    def root_of(self, lineage: str | None) -> str | None:
        """Return the URI that the root had in a lineage; None if it is not a lineage of this root."""
        return next((record.root for record in self.records if record.lineage == lineage), None)


@dataclass(frozen=True, slots=True)
class Descent:
    """Where a snapshot or a generation comes from.

    Attributes:
        lineage: Its own; None if the record of its generation is damaged.
        generation: Its generation in that lineage.
        root: URI of the root it was taken in; for messages only.
        ancestors: Other lineages that it descends from, the oldest first.
    """

    lineage: str | None
    generation: int
    root: str | None = None
    ancestors: tuple[Ancestor, ...] = ()

    def below(self, own: str | None, queries: Sequence[QueryEntry]) -> tuple[Ancestor, ...]:
        """Return the ancestors of a generation that a root makes from this snapshot.

        Args:
            own: The lineage of that root.
            queries: The snapshot's queries.
        """
        if self.lineage == own:
            return self.ancestors
        return (*self.ancestors, self.cut(queries))

    def cut(self, queries: Sequence[QueryEntry]) -> Ancestor:
        """Return the cut that a generation is made from, by the snapshot's queries."""
        batches = {query.uid: query.batch_id for query in queries}
        return Ancestor(lineage=self.lineage, root=self.root, generation=self.generation, batches=batches)


def snapshot_descent(manifest: Manifest, lineages: Lineages) -> Descent:
    """Return where a snapshot comes from.

    Args:
        manifest: Manifest of the snapshot.
        lineages: Lineages of the root that holds it; empty for a snapshot at another location.
    """
    lineage = manifest.lineage
    return Descent(lineage, manifest.generation, manifest.root or lineages.root_of(lineage), manifest.ancestors)


def generation_descent(record: GenerationRecord, lineages: Lineages) -> Descent:
    """Return where a generation of a root comes from."""
    return Descent(record.lineage, record.generation, lineages.root_of(record.lineage), record.ancestors)


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
    store: ObjectStore, *, lineage: str, epoch: int, now: datetime, cache: read_cache.ReadCache | None = None
) -> Lineages:
    """Make sure that a root has its own lineage at its present URI. Idempotent, and safe with concurrent drivers.

    Cost: one listing, one HEAD and a GET per lineage; three listings and a PUT the first time.

    Args:
        store: The job's root.
        lineage: The new identity, if it needs one.
        epoch: The driver's epoch.
        now: UTC.
        cache: Reads of the root since the epoch was claimed; reads made here are added.

    Returns:
        Every lineage that the root has been; the newest one is its own.
    """
    cache = cache or read_cache.ReadCache(store)
    lineages = read_all(cache)
    while lineages.current is None or lineages.current.root != store.uri:
        record = LineageRecord(
            number=lineages.taken + 1,
            lineage=lineage,
            root=store.uri,
            created_at=now,
            epoch=epoch,
            after=None if lineages.taken else epochs.last_purge(cache),
        )
        try:
            store.create(layout.lineage(record.number), record.to_json(indent=1).encode())
            lineages = Lineages((*lineages.records, record), lineages.unreadable)
        except errors.ObjectExistsError:
            lineages = read_all(store)
    return lineages
