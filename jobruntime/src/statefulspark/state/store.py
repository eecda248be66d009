"""The store of one key group: chunks in a log, a head that says which of them count, and how they are compacted.

The engine gives durability and atomicity: everything written to a `ChunkLog` during a batch becomes visible with the
batch or not at all. On top of that, each batch that changes a key group makes one new version of it, with an id that
no other attempt has. The head lists the chunks ("runs") that make up the version, oldest first, and the ids of the
latest versions. A copy of the tables kept in memory is used only when its version and id are in that list: equal to
the head's it is current, older it catches up by the runs after it, and otherwise it is thrown away and the tables are
built from the chunks. A retried, speculative or lost attempt therefore never serves another attempt's data.

When runs are merged is told by `compaction`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import msgpack

from statefulspark import errors
from statefulspark.state import chunks, compaction, evolution, expiry, tables

AnyTable = tables.CellTable | tables.ListTable | tables.MapTable

LINEAGE_LENGTH = 32
"""How many of the latest version ids a head remembers: a copy that is older than that is built anew."""
_LAYOUT_VERSIONS = (1, 2)
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
            SnapshotCorruptError: The layout has a version that this release does not know.
        """
        layout_version, runs, lineage, *more = msgpack.unpackb(layout)
        if layout_version not in _LAYOUT_VERSIONS:
            raise errors.SnapshotCorruptError(
                "FormatVersionUnknown",
                f"The head of a key group has layout version {layout_version}; this release reads versions 1 and 2. Use "
                "the release that wrote it, or a newer one.",
            )
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


class GroupTables:
    """The tables of all states of one key group, by name. States that the job no longer declares stay in it."""

    __slots__ = ("metas", "must_rewrite", "tables")

    def __init__(self) -> None:
        self.metas: dict[str, chunks.StateMeta] = {}
        self.tables: dict[str, AnyTable] = {}
        self.must_rewrite = False

    def table(self, meta: chunks.StateMeta) -> AnyTable:
        """Return the table of a state, an empty one if it is new.

        Raises:
            SpecRejectedError: The stored state has another kind or type, or a time to live where there is none now.
        """
        stored = self.metas.get(meta.name)
        if stored is not None and stored != meta:
            self.adopt(evolution.resolve(stored, evolution.Declaration(meta)), now_ms=0)
        elif stored is None:
            self.metas[meta.name] = meta
            self.tables[meta.name] = meta.shape.table()
        return self.tables[meta.name]

    def adopt(self, resolution: evolution.Resolution, *, now_ms: int) -> None:
        """Take stored values over as what is declared now; rewritten values are written with the next commit.

        Args:
            resolution: How.
            now_ms: Last renewal of values that get a time to live.
        """
        meta = resolution.meta
        if resolution.rewrites:
            stored = self.metas[meta.name]
            expiry.convert_cells(self.tables[meta.name], _rewriting(resolution, stored.has_ttl, now_ms))
            self.must_rewrite = True
        self.metas[meta.name] = meta

    def apply(self, chunk: chunks.Chunk) -> None:
        """Bring the tables up to date with a chunk."""
        for section in chunk.sections:
            name = section.meta.name
            if name not in self.tables:
                self.tables[name] = section.meta.shape.table()
            self.metas[name] = section.meta
            self.tables[name].apply(section.changes)

    def take_changes(self) -> chunks.Chunk:
        """Return what changed since the last call as a delta, and forget it."""
        sections = ((self.metas[name], table.take_changes()) for name, table in self.tables.items())
        kept = tuple(chunks.Section(meta, changes) for meta, changes in sections if changes)
        return chunks.Chunk(chunks.ChunkKind.DELTA, kept)

    def full(self) -> chunks.Chunk:
        """Return everything as a full chunk."""
        kept = (chunks.Section(self.metas[name], table.full()) for name, table in self.tables.items() if table.rows)
        return chunks.Chunk(chunks.ChunkKind.FULL, tuple(kept))

    @property
    def keys(self) -> int:
        """Number of keys, counted once per state."""
        return sum(len(table.rows) for table in self.tables.values())


def _rewriting(resolution: evolution.Resolution, had_ttl: bool, now_ms: int) -> Callable[[object], object]:
    convert, change, has_ttl = resolution.convert, resolution.ttl_change, resolution.meta.has_ttl

    def rewrite(cell: object) -> object:
        value, renewed_ms = cast("tuple[object, int]", cell) if had_ttl else (cell, now_ms)
        if convert is not None and value is not None:
            value = convert(value)
        return (value, now_ms if change == "on" else renewed_ms) if has_ttl else value

    return rewrite


@dataclass(frozen=True, slots=True)
class CachedGroup:
    """Tables in memory, and the version that they are."""

    version: int
    unique_id: str
    tables: GroupTables
    size_bytes: int


class GroupCache(Protocol):
    """Where tables wait for the next batch. May forget at any time, must never change what it was given."""

    def take(self, group: int) -> CachedGroup | None:
        """Remove and return what is there for a group."""

    def put(self, group: int, cached: CachedGroup) -> None:
        """Keep tables."""


@dataclass(frozen=True, slots=True)
class LoadedGroup:
    """A key group that a batch works on."""

    group: int
    head: Head | None
    tables: GroupTables


@dataclass(frozen=True, slots=True)
class Written:
    """What a commit cost.

    Attributes:
        delta_bytes: What changed.
        total_bytes: What was written, with everything that was merged in.
    """

    delta_bytes: int
    total_bytes: int


def load(log: ChunkLog, cache: GroupCache, group: int) -> LoadedGroup:
    """Get the tables of a key group as of its head: from memory if they are valid there, else from the chunks.

    The cache no longer has the group afterwards: a batch that fails half way leaves nothing behind.

    Raises:
        SnapshotCorruptError: A chunk that the head names is missing or unreadable.
    """
    head, cached = log.head(), cache.take(group)
    if head is None:
        return LoadedGroup(group, None, GroupTables())
    # A full chunk says nothing about what was deleted before it, so only a copy from its time or later can catch up.
    if cached is not None and cached.version >= head.base and head.has_ancestor(cached.version, cached.unique_id):
        found, after = cached.tables, cached.version
    else:
        found, after = GroupTables(), 0
    for run in head.runs:
        if run.version > after:
            found.apply(_read(log, group, run))
    return LoadedGroup(group, head, found)


def _read(log: ChunkLog, group: int, run: compaction.Run) -> chunks.Chunk:
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
    before_full: Callable[[GroupTables], None] = lambda _: None,
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
        before_full(loaded.tables)
        chunk = loaded.tables.full()
        blob = chunks.encode(chunk)
    else:
        chunk, blob = _merged(log, loaded.group, head.runs[len(kept) :], delta, delta_blob)
    unique_id = new_id()
    log.put_chunk(version, unique_id, blob)
    for run in head.runs[len(kept) :] if head else ():
        log.remove_chunk(run.version)
    lineage = ((head.lineage if head else ()) + (unique_id,))[-LINEAGE_LENGTH:]
    runs = (*kept, compaction.Run(version, len(blob), chunk.count))
    new_head = Head(version, unique_id, runs, lineage, key_type or (head.key_type if head else ""))
    log.set_head(new_head)
    loaded.tables.must_rewrite = False
    _keep(cache, loaded, new_head)
    return Written(len(delta_blob), len(blob))


def _count_merged(loaded: LoadedGroup, head: Head | None, new_bytes: int, policy: compaction.Policy | None) -> int:
    runs = head.runs if head else ()
    if loaded.tables.must_rewrite:
        return len(runs)
    return (policy or compaction.policy_of(loaded.group)).runs_to_merge(runs, new_bytes)


def _keep(cache: GroupCache, loaded: LoadedGroup, head: Head) -> None:
    size_bytes = loaded.tables.keys * _KEY_BYTES + 2 * sum(run.size_bytes for run in head.runs)
    cache.put(loaded.group, CachedGroup(head.version, head.unique_id, loaded.tables, size_bytes))


def _merged(
    log: ChunkLog, group: int, runs: Sequence[compaction.Run], delta: chunks.Chunk, delta_blob: bytes
) -> tuple[chunks.Chunk, bytes]:
    if not runs:
        return delta, delta_blob
    oldest, *newer = (_read(log, group, run) for run in runs)
    together = chunks.merge(oldest, [*newer, delta])
    return together, chunks.encode(together)
