"""Converts key groups to rows and back: the only module that knows both chunks and rows. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from statefulspark import errors
from statefulspark.canonical import rows
from statefulspark.packs import reading
from statefulspark.state import chunks, grouptables, heads, kinds

Group = tuple[int, chunks.Chunk]
"""A key group's number, and its whole state."""


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A key group as the engine stores it: its head and one full chunk.

    Attributes:
        head: Its head.
        blob: The chunk of version `head.version`.
    """

    head: heads.GroupHead
    blob: bytes


@dataclass(slots=True)
class GroupReader:
    """Combines the chunks of a store into full key groups; all chunks of a group in the store must follow each other.

    A group is returned once its head and all its chunks are there: Spark returns the heads of a partition before its chunks,
    and where it does not, the chunks wait in memory.

    Attributes:
        operator: Uid of the operator, for errors.
        packs: Reads the chunks that heads have in packs; None where there can be none.
    """

    operator: str
    packs: reading.PackReader | None = None
    _heads: dict[int, heads.GroupHead] = field(default_factory=dict)
    _done: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _waiting: dict[int, dict[int, bytes]] = field(default_factory=dict)
    _group: int | None = None

    def head(self, group: int, version: int, layout: bytes) -> Group | None:
        """Take in a head; return its group if all its chunks are there."""
        head = heads.GroupHead.from_layout(version, "", layout)
        self._heads[group] = head
        is_packed = all(run.packed is not None for run in head.runs)
        is_waiting = group in self._waiting and group != self._group
        return self._combined(group) if is_packed or is_waiting else None

    def size_bytes(self, group: int) -> int:
        """Return the bytes of a group's chunks, as they were encoded: before compression, in packs or not."""
        return self._heads[group].size_bytes

    def chunk(self, group: int, version: int, blob: bytes) -> Group | None:
        """Add a chunk; if it is the first one of a group, return the previous group."""
        finished = None
        if group != self._group:
            finished = self.finish()
            if group in self._done or group in self._waiting:
                raise errors.InternalError(
                    "KeyGroupScattered", f"Chunks of key group {group} do not follow each other."
                )
        self._group = group
        self._waiting.setdefault(group, {})[version] = blob
        return finished

    def finish(self) -> Group | None:
        """Return the last group, unless its head is still to come."""
        group, self._group = self._group, None
        return self._combined(group) if group is not None and group in self._heads else None

    def _combined(self, group: int) -> Group:
        blobs = self._waiting.pop(group, {})
        head = self._heads[group]
        self._done[group] = tuple(sorted([*blobs, *(run.version for run in head.runs if run.packed is not None)]))
        if self._done[group] != _versions(head):
            raise self._incomplete(group)
        tables = grouptables.GroupTables()
        for run in head.runs:
            source = f"{run.version} of key group {group} of operator {self.operator!r}"
            if run.packed is None:
                blob = blobs[run.version]
            elif self.packs is not None:
                blob = self.packs.read(run.packed)
            else:
                raise errors.InternalError(
                    "PacksUnplaced", f"The chunk {source} is in a pack, and the reader has no folder of packs."
                )
            chunk = chunks.decode(blob, source)
            if run.version == head.base and chunk.kind is not chunks.ChunkKind.FULL:
                raise self._incomplete(group)
            tables.apply(chunk)
        return group, tables.full()

    def require_complete(self) -> None:
        """Compare the added chunks with the chunks in the heads.

        Raises:
            SnapshotCorruptError: `ChunkMissing`.
        """
        self._done |= {group: tuple(sorted(blobs)) for group, blobs in self._waiting.items()}
        for group in self._heads.keys() | self._done.keys():
            if group not in self._heads or group not in self._done:
                raise self._incomplete(group)

    def _incomplete(self, group: int) -> errors.SnapshotCorruptError:
        head = self._heads.get(group)
        return errors.SnapshotCorruptError(
            "ChunkMissing",
            f"Chunks {self._done.get(group, ())} of key group {group} of operator {self.operator!r} exist, and its head "
            f"names {_versions(head) if head else ()}. Take the snapshot again, or use another one.",
        )


def _versions(head: heads.GroupHead) -> tuple[int, ...]:
    return tuple(run.version for run in head.runs)


def build(rows_by_state: Mapping[kinds.StateMeta, Iterable[rows.Row]], key_type: str = "") -> StoredGroup:
    """Store rows as a key group of version 1; the same rows give the same id in every attempt.

    Args:
        rows_by_state: Rows by state.
        key_type: Types of the key's columns, for example `string, bigint`.
    """
    sections = tuple(rows.make_section(meta, entries) for meta, entries in rows_by_state.items())
    chunk = chunks.Chunk(chunks.ChunkKind.FULL, sections)
    blob = chunks.encode(chunk)
    unique_id = hashlib.sha256(blob).hexdigest()[:16]
    run = heads.ChunkRun(1, len(blob), chunk.count)
    return StoredGroup(heads.GroupHead(1, unique_id, (run,), (unique_id,), key_type), chunks.seal(blob))


def read_rows(chunk: chunks.Chunk) -> Iterator[tuple[kinds.StateMeta, rows.Row]]:
    """Yield every row of a full chunk with its state."""
    for section in chunk.sections:
        for row in rows.read_section(section):
            yield section.meta, row
