"""The store of key groups: chunks in a log, a head that lists the valid ones, and what a batch loads and commits.

Spark provides durability and atomicity: everything written to a `ChunkLog` during a batch becomes visible with the
batch or not at all. In addition, each batch that changes a key group creates one new version of it, with an id that no
other attempt has. The head lists the chunks ("runs") that make up the version, oldest first, and the ids of the
latest versions. What a worker has kept is used only when its version and id are in that list: if equal to the head's, it is
current; if older, the later runs are applied to it. Otherwise it is discarded and the tables are rebuilt from the chunks. So
a retried, speculative or lost attempt never serves data of another attempt.

Of a key group of which a batch has few keys, or for whose tables there is no memory, only the rows of these keys are
loaded, from a view with the same rule (`views`).

A compaction policy decides when runs are merged (`heads.Policy`).
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from statefulspark import errors
from statefulspark.packs import ranges
from statefulspark.state import cache, chunks, grouptables, heads, numbers, views
from statefulspark.state.columns import PackedKeys

_KEY_BYTES = 200
"""Rough memory of one key with a small value in a dict."""
_FEW = 8
"""Tables of a whole key group are built for a batch that has at least one of so many of its keys."""
_NOTHING: Mapping[str, int] = types.MappingProxyType({})


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
    cached: cache.OperatorCache,
    number: int,
    *,
    keys: Callable[[], Collection[object]] | None = None,
    in_arrays: bool = False,
    due_ms: Mapping[str, int] = _NOTHING,
) -> KeyGroup:
    """Load a key group at its head: from the cache if valid, else from the chunks.

    Tables are removed from the cache: a batch that fails leaves no partial changes in it. A view stays in it.

    Args:
        log: The key group's log.
        cached: May have tables or a view of earlier batches.
        number: Number of the key group.
        keys: Returns the keys of the batch. With it, only the rows of these keys, and of those with due timers, are loaded
            if they are few, or if tables of all would not fit into memory.
        in_arrays: Whether the tables will be arrays, which take little memory.
        due_ms: Until when timers are due, by name of the state.

    Raises:
        SnapshotCorruptError: A chunk that the head names is missing or unreadable.
    """
    head, kept = log.head(), cached.take(number)
    group = KeyGroup(log, cached, number, head, may_be_part=keys is not None and not in_arrays)
    if head is None:
        return group
    if isinstance(kept, grouptables.GroupTables):
        if head.follows(kept.version, kept.unique_id):
            group.tables = _brought_to(head, kept, log, number)
            return group
        kept = None
    size_bytes = head.count * numbers.KEY_BYTES if in_arrays else _size_bytes(head, head.count)

    def is_part(count: int) -> bool:
        return (group.may_be_part and _are_few(count, head.count)) or not cached.admits(number, size_bytes)

    batch_keys = None if keys is None else keys()
    if batch_keys is not None and is_part(len(batch_keys)):
        kept = _view_at(head, kept, log, number)
        if kept is not None:
            needed = kept.add_due(PackedKeys.pack(batch_keys), due_ms)
            if is_part(len(needed.keys)):
                cached.keep(number, kept)
                group.tables, group.view = kept.part(needed), kept
                return group
    group.tables = _whole(head, kept, log, number)
    return group


@dataclass(slots=True)
class KeyGroup:
    """A key group in a batch: its rows, which handles change; `commit` writes the changes.

    Attributes:
        log: Its chunks.
        cached: Keeps it until the next batch.
        number: Its number.
        head: Its version; None when there is no state yet.
        tables: Its rows.
        view: Has the other rows; None when the tables have all rows.
        may_be_part: Whether a batch may do with the rows of its keys.
    """

    log: ChunkLog
    cached: cache.OperatorCache
    number: int
    head: heads.GroupHead | None
    tables: grouptables.GroupTables = field(default_factory=grouptables.GroupTables)
    view: views.GroupView | None = None
    may_be_part: bool = False

    def commit(
        self,
        *,
        new_id: Callable[[], str],
        cutoffs_ms: Mapping[str, int] = _NOTHING,
        policy: heads.Policy | None = None,
        key_type: str = "",
    ) -> Written:
        """Write the changes of a batch as a new version, compact if due, and keep the rows for the next batch.

        What is written becomes effective when Spark commits the batch.

        Args:
            new_id: Returns a new id, unique over all attempts.
            cutoffs_ms: Until when entries were renewed that are left out when all is written, by name of the state.
            policy: Compaction policy; the default of the group when omitted.
            key_type: Types of the key columns, stored with the state.

        Raises:
            SpecRejectedError: A value has a type that cannot be stored.
        """
        delta = self.tables.take_changes()
        if not delta.sections and not self.tables.must_rewrite:
            if self.head is not None and self.view is None:
                self._keep_tables(self.head)
            return Written(0, 0)
        chunks.check_types(delta)
        delta = chunks.choose_columns(delta)
        delta_blob = chunks.encode(delta)
        runs = self.head.runs if self.head else ()
        merged = len(runs)
        if not self.tables.must_rewrite:
            merged = (policy or heads.policy_of(self.number)).runs_to_merge(runs, len(delta_blob))
        retained = runs[: len(runs) - merged]
        if not retained:
            chunk = self._full_chunk(delta, cutoffs_ms)
            blob = chunks.encode(chunk)
        elif len(retained) < len(runs):
            oldest, *newer = (read_chunk(self.log, self.number, run) for run in runs[len(retained) :])
            chunk = chunks.choose_columns(chunks.merge(oldest, [*newer, delta]))
            blob = chunks.encode(chunk)
        else:
            chunk, blob = delta, delta_blob
        head = self._write(retained, chunk, blob, new_id=new_id(), key_type=key_type)
        self.tables.written()
        if self.view is not None:
            self.view.note(head, delta if retained else chunk)
            self.cached.keep(self.number, self.view)
        elif not retained and self.may_be_part and _are_few(delta.count, chunk.count) and chunk.is_in_columns:
            self.cached.keep(self.number, views.GroupView.from_chunk(head, chunk))
        else:
            self._keep_tables(head)
        return Written(len(delta_blob), len(blob))

    def _write(
        self, retained: tuple[heads.ChunkRun, ...], chunk: chunks.Chunk, blob: bytes, *, new_id: str, key_type: str
    ) -> heads.GroupHead:
        """Store a chunk behind the retained runs, instead of all others, and return the head that names them."""
        before = self.head
        version = before.version + 1 if before else 1
        self.log.put_chunk(version, new_id, chunks.seal(blob))
        for run in before.runs[len(retained) :] if before else ():
            if run.packed is None:
                self.log.remove_chunk(run.version)
        lineage = ((before.lineage if before else ()) + (new_id,))[-heads.LINEAGE_LENGTH :]
        runs = (*retained, heads.ChunkRun(version, len(blob), chunk.count))
        head = heads.GroupHead(version, new_id, runs, lineage, key_type or (before.key_type if before else ""))
        self.log.set_head(head)
        return head

    def _full_chunk(self, delta: chunks.Chunk, cutoffs_ms: Mapping[str, int]) -> chunks.Chunk:
        """Return the whole key group after the batch: merged as columns, where nothing in it has to be looked at."""
        if self.view is not None and not self.tables.must_rewrite and not delta.has_numbers:
            merged = self.view.merged(delta, cutoffs_ms)
            if merged is not None:
                return chunks.choose_columns(merged)
        whole = self.tables
        if self.view is not None and self.head is not None:
            whole = _whole(self.head, self.view, self.log, self.number)
            whole.adopt_like(self.tables)
            whole.apply(delta)
            whole.use_numbers_like(delta)
        whole.drop_expired(cutoffs_ms)
        return chunks.choose_columns(whole.full())

    def _keep_tables(self, head: heads.GroupHead) -> None:
        keys, array_bytes = self.tables.arrays
        self.tables.set_version(head.version, head.unique_id)
        size_bytes = array_bytes + _size_bytes(head, self.tables.keys - keys)
        self.cached.put(self.number, self.tables, size_bytes)


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


def _brought_to(
    head: heads.GroupHead, kept: grouptables.GroupTables | views.GroupView, log: ChunkLog, number: int
) -> grouptables.GroupTables:
    """Return tables at a head: what was kept, and the chunks after it."""
    tables = kept.whole() if isinstance(kept, views.GroupView) else kept
    for run in head.runs:
        if run.version > kept.version:
            tables.apply(read_chunk(log, number, run))
    return tables


def _whole(head: heads.GroupHead, view: views.GroupView | None, log: ChunkLog, number: int) -> grouptables.GroupTables:
    """Return tables with all rows, of a view if that is possible."""
    return _brought_to(head, view if view is not None and view.follow(head) else grouptables.GroupTables(), log, number)


def _view_at(head: heads.GroupHead, kept: views.GroupView | None, log: ChunkLog, number: int) -> views.GroupView | None:
    """Return a view at a head, the one that was kept if it can be brought there; None where there can be none."""
    view = kept if kept is not None and kept.follow(head) else views.GroupView()
    for run in head.runs:
        if run.version > view.version and not view.apply(read_chunk(log, number, run)):
            return None
    view.set_version(head.version, head.unique_id)
    return view


def _are_few(keys: int, count: int) -> bool:
    return keys * _FEW <= count


def _size_bytes(head: heads.GroupHead, keys: int) -> int:
    return int(keys * (_KEY_BYTES + 2 * head.size_bytes / max(1, head.count)))
