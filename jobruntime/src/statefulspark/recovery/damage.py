"""Damage that shows only when Spark loads state: noted by the driver that saw it, judged by the next ones.

Verification compares what can be compared without loading anything. A file that it passes and Spark refuses would end
every start in the same way. So a driver whose query ended like that leaves a note: the generation, the query and the
batch whose state was loaded. The first note makes the next start read every file that has a checksum, of whatever it
could start from, and try once more; a second note on the same batch makes it unusable, and a start goes to the snapshot
before, as for any other damage.

A note says that a file is damaged, not which one. Once a file of that batch was written anew after the note, by the store's
clock, somebody may have mended it, and the note does not count any more. Files of a batch are never written twice by us.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.contract.manifest import GenerationRecord, Manifest, QueryEntry
from statefulspark.contract.notes import DamageNote
from statefulspark.storage.port import ObjectStore

TRIES = 2
"""So many drivers have to fail on the same batch before it counts as unusable."""


def write(store: ObjectStore, note: DamageNote) -> None:
    """Leave a note; a driver leaves one at most. Cost: one PUT."""
    store.write(layout.damage_note(note.generation, note.epoch), note.to_json(indent=1).encode())


_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Noted:
    """A note on storage.

    Attributes:
        note: What it says.
        uri: Where it is.
        written_at: When it was written, by the store's clock, as files are.
    """

    note: DamageNote
    uri: str
    written_at: datetime

    @property
    def key(self) -> str:
        """Its key below the job's root."""
        return layout.damage_note(self.note.generation, self.note.epoch)

    @property
    def cut(self) -> tuple[str, int]:
        """The query's root and the batch whose state could not be loaded."""
        return layout.query_root(self.note.generation, self.note.query), self.note.batch_id


@dataclass(frozen=True, slots=True)
class Damage:
    """Every note in a job's root.

    Attributes:
        notes: Those that count, in no particular order.
        past: Those on batches of which a file was written anew since.
    """

    notes: tuple[Noted, ...] = ()
    past: tuple[Noted, ...] = ()

    def failures(self, queries: Iterable[QueryEntry]) -> int:
        """Tell how many drivers failed to load the state of one of these queries, at this batch in this generation."""
        counts = Counter(noted.cut for noted in self.notes)
        return max((counts[(query.path, query.batch_id)] for query in queries), default=0)

    @property
    def is_feared(self) -> bool:
        """Whether there is any note: then all that can be read is read before anything is used.

        Cuts share files, so a start that leaves one behind would else copy the damaged file with the next one.
        """
        return bool(self.notes or self.past)

    def problem(self, queries: Sequence[QueryEntry]) -> str | None:
        """Say why queries cannot be used; None if nothing is noted, or not often enough."""
        if self.failures(queries) < TRIES:
            return None
        at = {(query.path, query.batch_id) for query in queries}
        said = [noted for noted in self.notes if noted.cut in at]
        newest = max(said, key=lambda noted: noted.note.epoch).note
        return (
            f"Spark could not load the state of query {newest.query!r} at batch {newest.batch_id} in {len(said)} starts: "
            f"{newest.said} {_way_out(said)}"
        )

    @property
    def problem_of_copies(self) -> str:
        """Say why what was copied cannot be used."""
        return f"Spark could not load a copy of it. {_way_out(self.notes)}"

    def is_past(self, store: ObjectStore, queries: Iterable[QueryEntry], root: str) -> bool:
        """Tell whether files of queries were written anew since the newest note. Cost: a LIST per query and 1,000 files."""
        newest = max((noted.written_at for noted in self.notes), default=_NEVER)
        return any(_written_at(store, query, root) > newest for query in queries)

    def standing(self, store: ObjectStore, queries: Iterable[QueryEntry]) -> Damage:
        """Return the same notes, those set apart that do not count any more.

        Cost: a LIST per 1,000 files for each query with a note on its batch; nothing without notes.

        Args:
            store: The job's root.
            queries: Cuts, as far as they are known.
        """
        cuts = {noted.cut for noted in self.notes}
        anew: dict[tuple[str, int], datetime] = {}
        for query in queries:
            cut = (query.path, query.batch_id)
            if cut in cuts:
                anew[cut] = max(_written_at(store, query, ""), anew.get(cut, _NEVER))
        past = tuple(noted for noted in self.notes if anew.get(noted.cut, _NEVER) > noted.written_at)
        return Damage(tuple(noted for noted in self.notes if noted not in past), (*self.past, *past))

    def unusable_sources(self, records: Sequence[GenerationRecord], checkpoints: Iterable[Manifest]) -> frozenset[str]:
        """Return what generations were made from and cannot be used either, since a copy of it could not be loaded.

        Args:
            records: The generations, by number ascending.
            checkpoints: The completed ones.

        Returns:
            References as generation records have them: `checkpoint:<id>` or a savepoint's URI.
        """
        named = {f"{layout.CHECKPOINT_REFERENCE}{manifest.id}": manifest for manifest in checkpoints}
        found: set[str] = set()
        for record in reversed(records):
            copied = [named[name].queries for name in found if name in named]
            is_bad = self.problem(record.queries) or any(_same_cut(record.queries, queries) for queries in copied)
            if record.source and record.queries and is_bad:
                found.add(record.source)
        return frozenset(found)


def read_all(store: ObjectStore) -> Damage:
    """Read every note. Cost: one listing, one GET per note."""
    written = {info.key: info.modified_at for info in store.list(layout.DAMAGE)}
    bodies = store.read_many(list(written)) if written else {}
    found = ((key, _readable(body, f"{store.uri}/{key}")) for key, body in bodies.items())
    return Damage(tuple(Noted(note, f"{store.uri}/{key}", written[key]) for key, note in found if note is not None))


def explain(store: ObjectStore, queries: Iterable[QueryEntry]) -> Iterator[str]:
    """Tell people of every note, and how it is cleared. Cost: as `read_all` and `Damage.standing`."""
    damage = read_all(store).standing(store, queries)
    for noted in damage.notes:
        note = noted.note
        yield (
            f"{noted.uri}: a driver could not load the state of query {note.query!r} at batch {note.batch_id} of generation "
            f"{note.generation}: {note.said} After {TRIES} such notes that state counts as unusable. A note counts until a "
            "newer checkpoint leaves the batch behind, a file of the batch is written anew, or the note is deleted."
        )
    for noted in damage.past:
        yield f"{noted.uri} does not count any more: a file of its batch was written anew. The next start removes it."


def obsolete(damage: Damage, *, in_use: int, checkpoints: Iterable[Manifest]) -> tuple[str, ...]:
    """Return the keys of the notes that can no longer change a start.

    Those are the notes on older generations once the one in use has a checkpoint of its own, on batches of the one in use
    that a checkpoint has left behind, and those that do not count any more.
    """
    own = [query for manifest in checkpoints if manifest.generation == in_use for query in manifest.queries]
    past = (one for one in damage.notes if own and (one.note.generation < in_use or _is_left_behind(one.note, own)))
    return tuple(noted.key for noted in (*past, *damage.past))


def _way_out(notes: Iterable[Noted]) -> str:
    uris = ", ".join(sorted(noted.uri for noted in notes))
    return f"Noted in {uris}; write the damaged file anew, or delete the notes, to have it tried again."


def _written_at(store: ObjectStore, query: QueryEntry, root: str) -> datetime:
    """Return when the newest file of a cut was written; before everything if none is there."""
    folder = f"{root}/{query.path}" if root else query.path
    wanted = {f"{folder}/{file.path}" for file in query.files}
    return max((info.modified_at for info in store.list(folder) if info.key in wanted), default=_NEVER)


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
