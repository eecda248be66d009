"""Notes about damage that only Spark detects while it loads state: one driver writes them, the next ones evaluate them.

Verification does not load state. A file that passes it and that Spark cannot load would make every start fail in the same
way. So a driver whose query failed like that writes a note with the generation, the query and the batch whose state was
loaded. After the first note the next start reads every file of every candidate, and tries again; after a
second note on the same batch the batch is unusable, and the start takes an older snapshot, as for any other damage.

A note does not name the damaged file. If a file of that batch was written again after the note, by the store's clock, the
file may have been repaired, and the note is outdated. The runtime itself never writes a file of a batch twice.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from statefulspark import clock, errors
from statefulspark.contract import layout
from statefulspark.contract.manifest import GenerationRecord, Manifest, QueryEntry
from statefulspark.contract.notes import DamageNote
from statefulspark.storage.port import ObjectStore

TRIES = 2
"""Number of drivers that must fail on the same batch before it counts as unusable."""


def note(store: ObjectStore, query_uid: str, batch_id: int, message: str, *, generation: int, epoch: int) -> None:
    """Write a note that Spark could not load a query's state as of a committed batch. Cost: one PUT.

    Args:
        store: The job's root.
        query_uid: The query.
        batch_id: The batch whose state it was.
        message: The message of the failure.
        generation: The generation of the driver.
        epoch: The epoch of the driver, which writes at most one note.

    Raises:
        TransientError, StateUnknownError: The object store failed; the next driver tries once more than with the note.
    """
    noted_at = clock.utc_now()
    write(
        store,
        DamageNote(
            generation=generation, epoch=epoch, query=query_uid, batch_id=batch_id, said=message, noted_at=noted_at
        ),
    )


def write(store: ObjectStore, note: DamageNote) -> None:
    """Write a note; a driver writes at most one. Cost: one PUT."""
    store.write(layout.damage_note(note.generation, note.epoch), note.to_json(indent=1).encode())


_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class StoredNote:
    """A note on storage.

    Attributes:
        note: Its content.
        uri: Its URI.
        written_at: When it was written, by the store's clock.
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
        notes: The valid notes, in no particular order.
        outdated: Notes on batches of which a file was written again later.
    """

    notes: tuple[StoredNote, ...] = ()
    outdated: tuple[StoredNote, ...] = ()

    def failures(self, queries: Iterable[QueryEntry]) -> int:
        """Return how many drivers failed to load the state of one of these queries, at this batch in this generation."""
        counts = Counter(noted.cut for noted in self.notes)
        return max((counts[(query.path, query.batch_id)] for query in queries), default=0)

    @property
    def is_suspected(self) -> bool:
        """Whether there is any note; then every candidate is read completely before it is used.

        Snapshots share files, so a fallback could otherwise copy the damaged file with an older snapshot.
        """
        return bool(self.notes or self.outdated)

    def problem(self, queries: Sequence[QueryEntry]) -> str | None:
        """Return why queries cannot be used; None if there are too few notes on them."""
        if self.failures(queries) < TRIES:
            return None
        cuts = _cuts(queries)
        matching = [noted for noted in self.notes if noted.cut in cuts]
        newest = max(matching, key=lambda noted: noted.note.epoch).note
        return (
            f"Spark could not load the state of query {newest.query!r} at batch {newest.batch_id} in {len(matching)} "
            f"starts: {newest.said} {_how_to_retry(matching)}"
        )

    @property
    def problem_of_copies(self) -> str:
        """Why a snapshot cannot be used if a copy of it could not be loaded."""
        return f"Spark could not load a copy of it. {_how_to_retry(self.notes)}"

    def is_rewritten(self, store: ObjectStore, queries: Iterable[QueryEntry], root: str) -> bool:
        """Tell whether files of queries were written after the newest note. Cost: a LIST per query and 1,000 files."""
        newest = max((noted.written_at for noted in self.notes), default=_NEVER)
        return any(_written_at(store, query, root) > newest for query in queries)

    def separate_outdated(self, store: ObjectStore, queries: Iterable[QueryEntry]) -> Damage:
        """Return the same notes, with the outdated ones separated.

        Cost: a LIST per 1,000 files for each query with a note on its batch; nothing without notes.

        Args:
            store: The job's root.
            queries: Queries of all known snapshots and generations.
        """
        cuts = {noted.cut for noted in self.notes}
        rewritten_at: dict[tuple[str, int], datetime] = {}
        for query in queries:
            cut = (query.path, query.batch_id)
            if cut in cuts:
                rewritten_at[cut] = max(_written_at(store, query, ""), rewritten_at.get(cut, _NEVER))
        outdated = tuple(noted for noted in self.notes if rewritten_at.get(noted.cut, _NEVER) > noted.written_at)
        return Damage(tuple(noted for noted in self.notes if noted not in outdated), (*self.outdated, *outdated))

    def unusable_sources(self, records: Sequence[GenerationRecord], checkpoints: Iterable[Manifest]) -> frozenset[str]:
        """Return the sources of generations that cannot be used, since Spark could not load a copy of them.

        Args:
            records: The generations, by number ascending.
            checkpoints: The completed ones.

        Returns:
            References as in generation records: `checkpoint:<id>` or a savepoint's URI.
        """
        named = {f"{layout.CHECKPOINT_REFERENCE}{manifest.id}": manifest for manifest in checkpoints}
        unusable: set[str] = set()
        for record in reversed(records):
            copied = [_cuts(named[name].queries) for name in unusable if name in named]
            is_bad = self.problem(record.queries) or _cuts(record.queries) in copied
            if record.source and record.queries and is_bad:
                unusable.add(record.source)
        return frozenset(unusable)


def read_all(store: ObjectStore) -> Damage:
    """Read every note. Cost: one listing, one GET per note."""
    written = {info.key: info.modified_at for info in store.list(layout.DAMAGE)}
    bodies = store.read_many(list(written)) if written else {}
    notes = []
    for key, body in bodies.items():
        # A damaged note is ignored, which costs one more try.
        with contextlib.suppress(errors.SnapshotCorruptError):
            uri = f"{store.uri}/{key}"
            notes.append(StoredNote(DamageNote.parse(body, uri), uri, written[key]))
    return Damage(tuple(notes))


def explain(store: ObjectStore, queries: Iterable[QueryEntry]) -> Iterator[str]:
    """Yield a message for every note, with how to clear it. Cost: as `read_all` and `Damage.separate_outdated`."""
    damage = read_all(store).separate_outdated(store, queries)
    for noted in damage.notes:
        note = noted.note
        yield (
            f"{noted.uri}: a driver could not load the state of query {note.query!r} at batch {note.batch_id} of generation "
            f"{note.generation}: {note.said} After {TRIES} such notes that state counts as unusable. A note counts until "
            "a checkpoint has a later batch, a file of the batch is written again, or the note is deleted."
        )
    for noted in damage.outdated:
        yield f"{noted.uri} is outdated: a file of its batch was written again. The next start removes it."


def obsolete(damage: Damage, *, in_use: int, checkpoints: Iterable[Manifest]) -> tuple[str, ...]:
    """Return the keys of the notes that no longer affect a start.

    These are the notes on older generations once the one in use has its own checkpoint, notes on batches of the generation
    in use that are older than a checkpoint, and outdated notes.
    """
    own = [query for manifest in checkpoints if manifest.generation == in_use for query in manifest.queries]
    stale = []
    for noted in damage.notes if own else ():
        path, batch_id = noted.cut
        is_left_behind = any(query.path == path and query.batch_id > batch_id for query in own)
        if noted.note.generation < in_use or is_left_behind:
            stale.append(noted)
    return tuple(noted.key for noted in (*stale, *damage.outdated))


def _how_to_retry(notes: Iterable[StoredNote]) -> str:
    uris = ", ".join(sorted(noted.uri for noted in notes))
    return f"The notes are {uris}. To try again, restore the damaged file from a backup, or delete the notes."


def _written_at(store: ObjectStore, query: QueryEntry, root: str) -> datetime:
    """Return when the newest file of a query was written; the earliest time if no file exists."""
    folder = f"{root}/{query.path}" if root else query.path
    needed = {f"{folder}/{file.path}" for file in query.files}
    return max((info.modified_at for info in store.list(folder) if info.key in needed), default=_NEVER)


def _cuts(queries: Iterable[QueryEntry]) -> set[tuple[str, int]]:
    return {(query.path, query.batch_id) for query in queries}
