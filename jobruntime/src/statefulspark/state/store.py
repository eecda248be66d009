"""The store of one key group: chunks in a log, a head that says which of them count, and how they are compacted.

The engine gives durability and atomicity: everything written to a `ChunkLog` during a batch becomes visible with the
batch or not at all. On top of that, each batch that changes a key group makes one new version of it, with an id that
no other attempt has. The head lists the chunks ("runs") that make up the version, oldest first, and the ids of the
latest versions. A copy of the tables kept in memory is used only when its version and id are in that list: equal to
the head's it is current, older it catches up by the runs after it, and otherwise it is thrown away and the tables are
built from the chunks. A retried, speculative or lost attempt therefore never serves another attempt's data.

A key group that does not fit into memory is loaded in part: the rows of the batch's keys, from a tier on disk that is
held to the same rule.

When runs are merged is told by `compaction`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgpack

from statefulspark import errors
from statefulspark.contract import formats
from statefulspark.state import chunks, compaction, grouptables, numbers

LINEAGE_LENGTH = 32
"""How many of the latest version ids a head remembers: a copy that is older than that is built anew."""
_KEY_BYTES = 200
"""Rough memory of one key with a small value in a dict."""


@dataclass(frozen=True, slots=True)
class Head:
    """The current version of a key group.

    Attributes:
        version: Number of batches that changed the group.
        unique_id: Id of the attempt that wrote it.
        runs: The chunks that make it up, oldest first; the first one is full.
        lineage: Ids of the latest versions, oldest first, ending with `unique_id`.
        key_type: Types of the key columns, for example `string, bigint`; empty when it was never written down.
    """

    version: int
    unique_id: str
    runs: tuple[compaction.Run, ...]
    lineage: tuple[str, ...]
    key_type: str = ""

    @property
    def base(self) -> int:
        """Version of the full chunk."""
        return self.runs[0].version

    @property
    def size_bytes(self) -> int:
        """Length of all chunks."""
        return sum(run.size_bytes for run in self.runs)

    @property
    def count(self) -> int:
        """Number of entries in all chunks; a key that was changed again counts again."""
        return sum(run.count for run in self.runs)

    def has_ancestor(self, version: int, unique_id: str) -> bool:
        """Tell whether a version was once the head before this one, or is this one."""
        position = len(self.lineage) - 1 - (self.version - version)
        return 0 <= position < len(self.lineage) and self.lineage[position] == unique_id

    def pack_layout(self) -> bytes:
        """Write runs, lineage and key type as they are stored beside version, id and base."""
        runs = [[run.version, run.size_bytes, run.count] for run in self.runs]
        layout: list[object] = [1, runs, list(self.lineage)]
        if self.key_type:
            layout = [2, runs, list(self.lineage), self.key_type]
        body: bytes = msgpack.packb(layout)
        return body

    @staticmethod
    def from_layout(version: int, unique_id: str, layout: bytes) -> Head:
        """Read what `pack_layout` of any release wrote.

        Raises:
            FormatVersionError: The layout has a version that this release does not know.
        """
        layout_version, *fields = msgpack.unpackb(layout)
        formats.HEAD.require_known(layout_version, "The head of a key group")
        runs, lineage, *more = fields
        key_type = str(more[0]) if more else ""
        return Head(version, unique_id, tuple(compaction.Run(*run) for run in runs), tuple(lineage), key_type)


class ChunkLog(Protocol):
    """Where the chunks of one key group are: a view into the engine's state for the running batch."""

    def head(self) -> Head | None:
        """Return the head, or None for a group that was never written."""

    def set_head(self, head: Head) -> None:
        """Replace the head."""

    def chunk(self, version: int) -> tuple[str, bytes] | None:
        """Return id and bytes of a chunk, or None when there is none."""

    def put_chunk(self, version: int, unique_id: str, blob: bytes) -> None:
        """Store a chunk."""

    def remove_chunk(self, version: int) -> None:
        """Remove a chunk."""


@dataclass(frozen=True, slots=True)
class CachedGroup:
    """Tables in memory, and the version that they are."""

    version: int
    unique_id: str
    tables: grouptables.GroupTables
    size_bytes: int


class Tier(Protocol):
    """Where key groups are that do not fit into memory. May forget at any time; what it returns is as of the head."""

    def read(self, group: int, head: Head, log: ChunkLog, keys: Collection[object]) -> grouptables.GroupTables | None:
        """Return the rows of some keys, or None when only all of them can be had."""

    def scan(self, group: int, head: Head) -> grouptables.GroupTables | None:
        """Return all rows, or None when they are not there."""

    def note(self, group: int, before: Head, after: Head, delta: bytes) -> None:
        """Keep what leads from a version to one that is stored in full."""


class GroupCache(Protocol):
    """Where tables wait for the next batch. May forget at any time, must never change what it was given."""

    def tier_for(self, group: int, size_bytes: int) -> Tier | None:
        """Return what to read a part of a key group from, or None when there is memory for all of it."""

    def take(self, group: int) -> CachedGroup | None:
        """Remove and return what is there for a group."""

    def put(self, group: int, cached: CachedGroup) -> None:
        """Keep tables."""


@dataclass(frozen=True, slots=True)
class LoadedGroup:
    """A key group that a batch works on.

    Attributes:
        group: Its number.
        head: Its version; None when there is no state yet.
        tables: Its rows.
        tier: Where its other rows are; None when the tables have all of them.
    """

    group: int
    head: Head | None
    tables: grouptables.GroupTables
    tier: Tier | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What a commit cost.

    Attributes:
        delta_bytes: What changed.
        total_bytes: What was written, with everything that was merged in.
    """

    delta_bytes: int
    total_bytes: int


def load(
    log: ChunkLog,
    cache: GroupCache,
    group: int,
    *,
    keys: Callable[[], Collection[object]] | None = None,
    in_arrays: bool = False,
) -> LoadedGroup:
    """Get the tables of a key group as of its head: from memory if they are valid there, else from the chunks.

    The cache no longer has the group afterwards: a batch that fails half way leaves nothing behind.

    Args:
        log: The key group's log.
        cache: Where tables of earlier batches may be.
        group: Number of the key group.
        keys: Returns the keys that the batch works on. With it, a key group that does not fit into memory is loaded in
            part, and the tables have the rows of no other keys.
        in_arrays: Whether the tables will be arrays, which take little memory.

    Raises:
        SnapshotCorruptError: A chunk that the head names is missing or unreadable.
    """
    head, cached = log.head(), cache.take(group)
    if head is None:
        return LoadedGroup(group, None, grouptables.GroupTables())
    # A full chunk says nothing about what was deleted before it, so only a copy from its time or later can catch up.
    if cached is not None and cached.version >= head.base and head.has_ancestor(cached.version, cached.unique_id):
        return LoadedGroup(group, head, _build(log, group, head, cached))
    size_bytes = head.count * numbers.KEY_BYTES if in_arrays else _size_bytes(head, head.count)
    tier = None if keys is None else cache.tier_for(group, size_bytes)
    part = None if tier is None or keys is None else tier.read(group, head, log, keys())
    if part is not None:
        return LoadedGroup(group, head, part, tier)
    return LoadedGroup(group, head, _build(log, group, head))


def _build(log: ChunkLog, group: int, head: Head, cached: CachedGroup | None = None) -> grouptables.GroupTables:
    found = grouptables.GroupTables() if cached is None else cached.tables
    for run in head.runs:
        if cached is None or run.version > cached.version:
            found.apply(read_chunk(log, group, run))
    return found


def read_chunk(log: ChunkLog, group: int, run: compaction.Run) -> chunks.Chunk:
    """Read a chunk that a head names.

    Raises:
        SnapshotCorruptError: It is missing or unreadable.
    """
    stored = log.chunk(run.version)
    if stored is None:
        raise errors.SnapshotCorruptError(
            "ChunkMissing",
            f"Chunk {run.version} of key group {group} is missing from the keyed state, though its head names it. "
            "Restore from another checkpoint or savepoint.",
        )
    return chunks.decode(stored[1], f"{run.version} of key group {group}")


def commit(
    log: ChunkLog,
    cache: GroupCache,
    loaded: LoadedGroup,
    *,
    new_id: Callable[[], str],
    before_full: Callable[[grouptables.GroupTables], None] = lambda _: None,
    policy: compaction.Policy | None = None,
    key_type: str = "",
) -> Written:
    """Write what a batch changed as a new version, compact where it is due, and keep the tables in memory.

    Args:
        log: The key group's log; what is written to it counts when the engine commits the batch.
        cache: Gets the tables under the new version and id.
        loaded: What `load` returned, with the batch's changes in its tables.
        new_id: Makes ids; no two attempts may get the same.
        before_full: Called before all tables are written, to drop what need not be kept.
        policy: When runs are merged; the default for the group when omitted.
        key_type: Types of the key columns, written down with the state.

    Raises:
        SpecRejectedError: A value has a type that cannot be stored.
    """
    head, delta = loaded.head, loaded.tables.take_changes()
    if not delta.sections and not loaded.tables.must_rewrite:
        if head is not None:
            _keep(cache, loaded, head)
        return Written(0, 0)
    chunks.check_types(delta)
    delta_blob = chunks.encode(delta)
    version = head.version + 1 if head else 1
    merged = _count_merged(loaded, head, len(delta_blob), policy)
    kept = head.runs[: len(head.runs) - merged] if head else ()
    if head is None or not kept:
        whole = loaded.tables if loaded.tier is None else _whole(log, loaded, delta)
        before_full(whole)
        chunk = whole.full()
        blob = chunks.encode(chunk)
    else:
        chunk, blob = _merged(log, loaded.group, head.runs[len(kept) :], delta, delta_blob)
    unique_id = new_id()
    log.put_chunk(version, unique_id, chunks.seal(blob))
    for run in head.runs[len(kept) :] if head else ():
        log.remove_chunk(run.version)
    lineage = ((head.lineage if head else ()) + (unique_id,))[-LINEAGE_LENGTH:]
    runs = (*kept, compaction.Run(version, len(blob), chunk.count))
    new_head = Head(version, unique_id, runs, lineage, key_type or (head.key_type if head else ""))
    log.set_head(new_head)
    if loaded.tier is not None and head is not None and new_head.base == version and not _rewrote(loaded.tables):
        loaded.tier.note(loaded.group, head, new_head, delta_blob)
    loaded.tables.written()
    _keep(cache, loaded, new_head)
    return Written(len(delta_blob), len(blob))


def _count_merged(loaded: LoadedGroup, head: Head | None, new_bytes: int, policy: compaction.Policy | None) -> int:
    runs = head.runs if head else ()
    if loaded.tables.must_rewrite:
        return len(runs)
    return (policy or compaction.policy_of(loaded.group)).runs_to_merge(runs, new_bytes)


def _whole(log: ChunkLog, loaded: LoadedGroup, delta: chunks.Chunk) -> grouptables.GroupTables:
    """Put a key group that was loaded in part together, with what the batch changed."""
    if loaded.tier is None or loaded.head is None:
        return loaded.tables
    whole = loaded.tier.scan(loaded.group, loaded.head) or _build(log, loaded.group, loaded.head)
    whole.adopt_like(loaded.tables)
    whole.apply(delta)
    return whole


def _rewrote(part: grouptables.GroupTables) -> bool:
    """Tell whether writing a key group in full changed rows that the delta does not name."""
    return part.must_rewrite or any(meta.has_ttl for meta in part.metas.values())


def _size_bytes(head: Head, keys: int) -> int:
    return int(keys * (_KEY_BYTES + 2 * head.size_bytes / max(1, head.count)))


def _keep(cache: GroupCache, loaded: LoadedGroup, head: Head) -> None:
    if loaded.tier is None:
        keys, array_bytes = loaded.tables.arrays
        size_bytes = array_bytes + _size_bytes(head, loaded.tables.keys - keys)
        cache.put(loaded.group, CachedGroup(head.version, head.unique_id, loaded.tables, size_bytes))


def _merged(
    log: ChunkLog, group: int, runs: Sequence[compaction.Run], delta: chunks.Chunk, delta_blob: bytes
) -> tuple[chunks.Chunk, bytes]:
    if not runs:
        return delta, delta_blob
    oldest, *newer = (read_chunk(log, group, run) for run in runs)
    together = chunks.merge(oldest, [*newer, delta])
    return together, chunks.encode(together)
