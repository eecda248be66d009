"""The store of one key group: chunks in a log, a head that lists the valid chunks, and their compaction.

Spark provides durability and atomicity: everything written to a `ChunkLog` during a batch becomes visible with the
batch or not at all. In addition, each batch that changes a key group creates one new version of it, with an id that no
other attempt has. The head lists the chunks ("runs") that make up the version, oldest first, and the ids of the
latest versions. Cached tables are used only when their version and id are in that list: if equal to the
head's, they are current; if older, the later runs are applied to them. Otherwise they are discarded and the tables are
rebuilt from the chunks. So a retried, speculative or lost attempt never serves data of another attempt.

Of a key group of which a batch has few keys, or for whose tables there is no memory, only the rows of these keys are
loaded, from a view with the same rule (`views`).

`compaction` decides when runs are merged.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from statefulspark import errors
from statefulspark.packs import ranges
from statefulspark.state import chunks, compaction, expiry, grouptables, heads, numbers, views
from statefulspark.state.columns import PackedKeys

_KEY_BYTES = 200
"""Rough memory of one key with a small value in a dict."""
_FEW = 8
"""Tables of a whole key group are built for a batch that has at least one of so many of its keys."""


class ChunkLog(Protocol):
    """The chunks of one key group: a view of Spark's state for the running batch."""

    def head(self) -> heads.GroupHead | None:
        """Return the head, or None if the group was never written."""

    def set_head(self, head: heads.GroupHead) -> None:
        """Replace the head."""

    def chunk(self, version: int) -> tuple[str, bytes] | None:
        """Return id and bytes of a chunk, or None when there is none."""

    def packed_chunk(self, where: ranges.PackRange) -> bytes:
        """Return the bytes of a chunk in a pack.

        Raises:
            SnapshotCorruptError: `ChunkMissing`: the pack does not exist; `ChunkUnreadable`: the bytes are damaged.
        """

    def put_chunk(self, version: int, unique_id: str, blob: bytes) -> None:
        """Store a chunk."""

    def remove_chunk(self, version: int) -> None:
        """Remove a chunk."""


@dataclass(frozen=True, slots=True)
class CachedGroup:
    """What is cached of a key group, and its version.

    Attributes:
        version: The version.
        unique_id: Its id.
        tables: All rows, as tables or as a view.
        size_bytes: Estimated memory.
    """

    version: int
    unique_id: str
    tables: grouptables.GroupTables | views.GroupView
    size_bytes: int

    @staticmethod
    def of(view: views.GroupView) -> CachedGroup:
        """Return an entry for a view."""
        return CachedGroup(view.version, view.unique_id, view, view.size_bytes + view.disk_bytes)


class GroupCache(Protocol):
    """Keeps tables and views until the next batch. It may drop entries at any time and must never change them."""

    def take(self, group: int) -> CachedGroup | None:
        """Remove and return the cached entry of a key group."""

    def put(self, group: int, cached: CachedGroup) -> None:
        """Cache the tables of a key group."""

    def admits(self, group: int, size_bytes: int) -> bool:
        """Tell whether there is memory for tables of this size."""

    def keep(self, group: int, view: views.GroupView) -> None:
        """Keep a view."""


@dataclass(frozen=True, slots=True)
class LoadedGroup:
    """A key group that a batch processes.

    Attributes:
        group: Its number.
        head: Its version; None when there is no state yet.
        tables: Its rows.
        view: Has the other rows; None when the tables have all rows.
        may_be_part: Whether a batch may do with the rows of its keys.
        next_ms: When the earliest timer may be of keys that the tables do not have, by name of the state.
    """

    group: int
    head: heads.GroupHead | None
    tables: grouptables.GroupTables
    view: views.GroupView | None = None
    may_be_part: bool = False
    next_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Written:
    """The bytes that a commit wrote.

    Attributes:
        delta_bytes: Size of the changes.
        total_bytes: Size written, including merged chunks.
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
    due_ms: Mapping[str, int] = types.MappingProxyType({}),
) -> LoadedGroup:
    """Load the tables of a key group at its head: from the cache if valid, else from the chunks.

    Tables are removed from the cache: a batch that fails leaves no partial changes in it. A view stays in it.

    Args:
        log: The key group's log.
        cache: May have tables or a view of earlier batches.
        group: Number of the key group.
        keys: Returns the keys of the batch. With it, only the rows of these keys, and of those with due timers, are loaded
            if they are few, or if tables of all would not fit into memory.
        in_arrays: Whether the tables will be arrays, which take little memory.
        due_ms: Until when timers are due, by name of the state.

    Raises:
        SnapshotCorruptError: A chunk that the head names is missing or unreadable.
    """
    head, cached = log.head(), cache.take(group)
    if head is None:
        return LoadedGroup(group, None, grouptables.GroupTables())
    may_be_part = keys is not None and not in_arrays
    kept = None if cached is None else cached.tables
    if isinstance(kept, grouptables.GroupTables):
        # A full chunk has no deletions, so only a copy of its version or a later one can be updated from the chunks.
        if cached is not None and cached.version >= head.base and head.has_ancestor(cached.version, cached.unique_id):
            whole = _build(log, group, head, kept, cached.version)
            return LoadedGroup(group, head, whole, may_be_part=may_be_part)
        kept = None
    batch_keys = None if keys is None else keys()
    size_bytes = head.count * numbers.KEY_BYTES if in_arrays else _size_bytes(head, head.count)

    def is_part(keys_of_batch: Collection[object]) -> bool:
        return (may_be_part and _are_few(len(keys_of_batch), head.count)) or not cache.admits(group, size_bytes)

    if batch_keys is not None and is_part(batch_keys):
        kept = _view_at(log, group, head, kept)
        if kept is not None:
            with_due = kept.with_due(PackedKeys.of(batch_keys), due_ms)
            if is_part(with_due.keys):
                cache.keep(group, kept)
                part = kept.part(with_due)
                return LoadedGroup(group, head, part.tables, kept, next_ms=part.next_ms)
    return LoadedGroup(group, head, _whole(log, group, head, kept), may_be_part=may_be_part)


def _are_few(keys: int, count: int) -> bool:
    return keys * _FEW <= count


def _view_at(
    log: ChunkLog, group: int, head: heads.GroupHead, cached: views.GroupView | None
) -> views.GroupView | None:
    """Return a view at the head, the cached one if it can be brought there; None where there can be none."""
    view = cached if cached is not None and cached.follow(head) else views.GroupView()
    for run in head.runs:
        if run.version > view.version and not view.apply(read_chunk(log, group, run)):
            return None
    view.at(head.version, head.unique_id)
    return view


def _whole(
    log: ChunkLog, group: int, head: heads.GroupHead, view: views.GroupView | None = None
) -> grouptables.GroupTables:
    """Return tables with all rows, of a view if that is possible."""
    if view is not None and view.follow(head):
        return _build(log, group, head, view.whole(), view.version)
    return _build(log, group, head, grouptables.GroupTables(), 0)


def _build(
    log: ChunkLog, group: int, head: heads.GroupHead, group_tables: grouptables.GroupTables, version: int
) -> grouptables.GroupTables:
    """Apply the chunks after a version."""
    for run in head.runs:
        if run.version > version:
            group_tables.apply(read_chunk(log, group, run))
    return group_tables


def read_chunk(log: ChunkLog, group: int, run: heads.ChunkRun) -> chunks.Chunk:
    """Read a chunk that a head names.

    Raises:
        SnapshotCorruptError: It is missing or unreadable.
    """
    source = f"{run.version} of key group {group}"
    if run.packed is not None:
        return chunks.decode(log.packed_chunk(run.packed), source)
    stored = log.chunk(run.version)
    if stored is None:
        raise errors.SnapshotCorruptError(
            "ChunkMissing",
            f"Chunk {run.version} of key group {group} is missing from the keyed state, though its head names it. "
            "Restore from another checkpoint or savepoint.",
        )
    return chunks.decode(stored[1], source)


def commit(
    log: ChunkLog,
    cache: GroupCache,
    loaded: LoadedGroup,
    *,
    new_id: Callable[[], str],
    cutoffs_ms: Mapping[str, int] = types.MappingProxyType({}),
    policy: compaction.Policy | None = None,
    key_type: str = "",
) -> Written:
    """Write the changes of a batch as a new version, compact if due, and cache the tables.

    Args:
        log: The key group's log; writes become effective when Spark commits the batch.
        cache: Gets the tables under the new version and id.
        loaded: What `load` returned, with the batch's changes in its tables.
        new_id: Returns a new id, unique over all attempts.
        cutoffs_ms: Until when entries were renewed that are left out when all is written, by name of the state.
        policy: Compaction policy; the default of the group when omitted.
        key_type: Types of the key columns, stored with the state.

    Raises:
        SpecRejectedError: A value has a type that cannot be stored.
    """
    head, delta = loaded.head, loaded.tables.take_changes()
    if not delta.sections and not loaded.tables.must_rewrite:
        if head is not None and loaded.view is None:
            _put_in_cache(cache, loaded, head)
        return Written(0, 0)
    chunks.check_types(delta)
    delta = chunks.in_columns(delta)
    delta_blob = chunks.encode(delta)
    version = head.version + 1 if head else 1
    merged = _count_merged(loaded, head, len(delta_blob), policy)
    retained = head.runs[: len(head.runs) - merged] if head else ()
    if head is None or not retained:
        chunk = _full_chunk(log, loaded, delta, cutoffs_ms)
        blob = chunks.encode(chunk)
    else:
        chunk, blob = _merge_runs(log, loaded.group, head.runs[len(retained) :], delta, delta_blob)
    unique_id = new_id()
    log.put_chunk(version, unique_id, chunks.seal(blob))
    for run in head.runs[len(retained) :] if head else ():
        if run.packed is None:
            log.remove_chunk(run.version)
    lineage = ((head.lineage if head else ()) + (unique_id,))[-heads.LINEAGE_LENGTH :]
    runs = (*retained, heads.ChunkRun(version, len(blob), chunk.count))
    new_head = heads.GroupHead(version, unique_id, runs, lineage, key_type or (head.key_type if head else ""))
    log.set_head(new_head)
    loaded.tables.written()
    if loaded.view is not None:
        loaded.view.note(new_head, delta if retained else chunk)
        cache.keep(loaded.group, loaded.view)
    elif not retained and loaded.may_be_part and _are_few(delta.count, chunk.count) and chunk.is_in_columns:
        cache.keep(loaded.group, views.GroupView.of(new_head, chunk))
    else:
        _put_in_cache(cache, loaded, new_head)
    return Written(len(delta_blob), len(blob))


def _count_merged(
    loaded: LoadedGroup, head: heads.GroupHead | None, new_bytes: int, policy: compaction.Policy | None
) -> int:
    runs = head.runs if head else ()
    if loaded.tables.must_rewrite:
        return len(runs)
    return (policy or compaction.policy_of(loaded.group)).runs_to_merge(runs, new_bytes)


def _full_chunk(
    log: ChunkLog,
    loaded: LoadedGroup,
    delta: chunks.Chunk,
    cutoffs_ms: Mapping[str, int],
) -> chunks.Chunk:
    """Return the whole key group after the batch: merged as columns, where nothing in it has to be looked at."""
    if loaded.view is not None and not loaded.tables.must_rewrite and not delta.has_numbers:
        merged = loaded.view.merged(delta, cutoffs_ms)
        if merged is not None:
            return chunks.in_columns(merged)
    whole = _load_whole(log, loaded, delta)
    expiry.drop_all_expired(whole.tables, cutoffs_ms)
    return chunks.in_columns(whole.full())


def _load_whole(log: ChunkLog, loaded: LoadedGroup, delta: chunks.Chunk) -> grouptables.GroupTables:
    """Load all rows of a key group that was loaded in part, and apply the changes of the batch."""
    if loaded.view is None or loaded.head is None:
        return loaded.tables
    whole = _whole(log, loaded.group, loaded.head, loaded.view)
    whole.adopt_like(loaded.tables)
    whole.apply(delta)
    whole.use_numbers_like(delta)
    return whole


def _size_bytes(head: heads.GroupHead, keys: int) -> int:
    return int(keys * (_KEY_BYTES + 2 * head.size_bytes / max(1, head.count)))


def _put_in_cache(cache: GroupCache, loaded: LoadedGroup, head: heads.GroupHead) -> None:
    keys, array_bytes = loaded.tables.arrays
    size_bytes = array_bytes + _size_bytes(head, loaded.tables.keys - keys)
    cache.put(loaded.group, CachedGroup(head.version, head.unique_id, loaded.tables, size_bytes))


def _merge_runs(
    log: ChunkLog, group: int, runs: Sequence[heads.ChunkRun], delta: chunks.Chunk, delta_blob: bytes
) -> tuple[chunks.Chunk, bytes]:
    if not runs:
        return delta, delta_blob
    oldest, *newer = (read_chunk(log, group, run) for run in runs)
    merged_chunk = chunks.in_columns(chunks.merge(oldest, [*newer, delta]))
    return merged_chunk, chunks.encode(merged_chunk)
