"""Damage that shows only when Spark loads state: noted by the driver that saw it, judged by the next ones.

Verification compares what can be compared without loading anything. A file that it passes and Spark refuses would end
every start in the same way. So a driver whose query ended like that leaves a note: the generation, the query and the
batch whose state was loaded. The first note makes the next start read every file that has a checksum, and try once more;
a second note on the same batch makes it unusable, and a start goes to the snapshot before, as for any other damage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.contract.manifest import GenerationRecord, Manifest, QueryEntry
from statefulspark.contract.notes import DamageNote
from statefulspark.snapshot import decision
from statefulspark.storage.port import ObjectStore

TRIES = 2
"""So many drivers have to fail on the same batch before it counts as unusable."""


def write(store: ObjectStore, note: DamageNote) -> None:
    """Leave a note; a driver leaves one at most. Cost: one PUT."""
    store.write(layout.damage_note(note.generation, note.epoch), note.to_json(indent=1).encode())


@dataclass(frozen=True, slots=True)
class Damage:
    """Every note in a job's root.

    Attributes:
        notes: In no particular order.
    """

    notes: tuple[DamageNote, ...] = ()

    def failures(self, queries: Iterable[QueryEntry]) -> int:
        """Tell how many drivers failed to load the state of one of these queries, at this batch in this generation."""
        counts = Counter((layout.query_root(note.generation, note.query), note.batch_id) for note in self.notes)
        return max((counts[(query.path, query.batch_id)] for query in queries), default=0)

    def problem(self, queries: Sequence[QueryEntry]) -> str | None:
        """Say why queries cannot be used; None if nothing is noted, or not often enough."""
        if self.failures(queries) < TRIES:
            return None
        at = {(query.path, query.batch_id) for query in queries}
        said = [one for one in self.notes if (layout.query_root(one.generation, one.query), one.batch_id) in at]
        newest = max(said, key=lambda note: note.epoch)
        return (
            f"Spark could not load the state of query {newest.query!r} at batch {newest.batch_id} in {len(said)} starts: "
            f"{newest.said}"
        )

    def unusable_sources(self, records: Sequence[GenerationRecord], checkpoints: Iterable[Manifest]) -> frozenset[str]:
        """Return what generations were made from and cannot be used either, since a copy of it could not be loaded.

        Args:
            records: The generations, by number ascending.
            checkpoints: The completed ones.

        Returns:
            References as generation records have them: `checkpoint:<id>` or a savepoint's URI.
        """
        named = {f"{decision.CHECKPOINT_PREFIX}{manifest.id}": manifest for manifest in checkpoints}
        found: set[str] = set()
        for record in reversed(records):
            copied = [named[name].queries for name in found if name in named]
            is_bad = self.problem(record.queries) or any(_same_cut(record.queries, queries) for queries in copied)
            if record.source and record.queries and is_bad:
                found.add(record.source)
        return frozenset(found)


def read_all(store: ObjectStore) -> Damage:
    """Read every note. Cost: one listing, one GET per note."""
    keys = [f"{layout.DAMAGE}/{name}" for name in store.list_names(layout.DAMAGE)]
    bodies = store.read_many(keys) if keys else {}
    notes = (_readable(body, f"{store.uri}/{key}") for key, body in bodies.items())
    return Damage(tuple(note for note in notes if note is not None))


def obsolete(damage: Damage, *, in_use: int, checkpoints: Iterable[Manifest]) -> tuple[str, ...]:
    """Return the keys of the notes that can no longer change a start.

    Those are the notes on older generations once the one in use has a checkpoint of its own, and on batches of the one in
    use that a checkpoint has left behind.
    """
    own = [query for manifest in checkpoints if manifest.generation == in_use for query in manifest.queries]
    past = (note for note in damage.notes if own and (note.generation < in_use or _is_left_behind(note, own)))
    return tuple(layout.damage_note(note.generation, note.epoch) for note in past)


def _is_left_behind(note: DamageNote, queries: Iterable[QueryEntry]) -> bool:
    path = layout.query_root(note.generation, note.query)
    return any(query.path == path and query.batch_id > note.batch_id for query in queries)


def _readable(body: bytes, source: str) -> DamageNote | None:
    """Read a note; a damaged one counts as none, since it only means one more try."""
    try:
        return DamageNote.parse(body, source)
    except errors.SnapshotCorruptError:
        return None


def _same_cut(queries: Sequence[QueryEntry], others: Sequence[QueryEntry]) -> bool:
    cut = {(query.path, query.batch_id) for query in queries}
    return bool(cut) and cut == {(query.path, query.batch_id) for query in others}
