"""Converts key groups to rows and back: the only module that knows both chunks and rows. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from statefulspark import errors
from statefulspark.canonical import rows
from statefulspark.state.stored import chunks, compaction, grouptables, store


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A key group as the engine stores it: its head and one full chunk.

    Attributes:
        head: Its head.
        blob: The chunk of version `head.version`.
    """

    head: store.GroupHead
    blob: bytes


@dataclass(slots=True)
class GroupReader:
    """Combines the chunks of a store into full key groups; all chunks of a group must follow each other.

    Attributes:
        operator: Uid of the operator, for errors.
    """

    operator: str
    _heads: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _done: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _group: int | None = None
    _chunks: dict[int, bytes] = field(default_factory=dict)

    def head(self, group: int, version: int, layout: bytes) -> None:
        """Take in a head."""
        head = store.GroupHead.from_layout(version, "", layout)
        self._heads[group] = tuple(run.version for run in head.runs)

    def chunk(self, group: int, version: int, blob: bytes) -> tuple[int, chunks.Chunk] | None:
        """Add a chunk; if it is the first one of a group, return the previous group."""
        finished = self.finish() if group != self._group and self._group is not None else None
        if group in self._done:
            raise errors.InternalError("KeyGroupScattered", f"Chunks of key group {group} do not follow each other.")
        self._group = group
        self._chunks[version] = blob
        return finished

    def finish(self) -> tuple[int, chunks.Chunk] | None:
        """Return the last group."""
        if self._group is None:
            return None
        group, blobs = self._group, dict(sorted(self._chunks.items()))
        self._group, self._chunks = None, {}
        self._done[group] = tuple(blobs)
        decoded = [
            chunks.decode(blob, f"{version} of key group {group} of operator {self.operator!r}")
            for version, blob in blobs.items()
        ]
        if decoded[0].kind is not chunks.ChunkKind.FULL:
            raise self._incomplete(group)
        tables = grouptables.GroupTables()
        for chunk in decoded:
            tables.apply(chunk)
        return group, tables.full()

    def require_complete(self) -> None:
        """Compare the added chunks with the chunks in the heads.

        Raises:
            SnapshotCorruptError: `ChunkMissing`.
        """
        for group in self._heads.keys() | self._done.keys():
            if self._heads.get(group) != self._done.get(group):
                raise self._incomplete(group)

    def _incomplete(self, group: int) -> errors.SnapshotCorruptError:
        return errors.SnapshotCorruptError(
            "ChunkMissing",
            f"Chunks {self._done.get(group, ())} of key group {group} of operator {self.operator!r} exist, and its head "
            f"names {self._heads.get(group, ())}. Take the snapshot again, or use another one.",
        )


def build(rows_by_state: Mapping[chunks.StateMeta, Iterable[rows.Row]], key_type: str = "") -> StoredGroup:
    """Store rows as a key group of version 1; the same rows give the same id in every attempt.

    Args:
        rows_by_state: Rows by state.
        key_type: Types of the key's columns, for example `string, bigint`.
    """
    sections = tuple(rows.to_section(meta, entries) for meta, entries in rows_by_state.items())
    chunk = chunks.Chunk(chunks.ChunkKind.FULL, sections)
    blob = chunks.encode(chunk)
    unique_id = hashlib.sha256(blob).hexdigest()[:16]
    run = compaction.ChunkRun(1, len(blob), chunk.count)
    return StoredGroup(store.GroupHead(1, unique_id, (run,), (unique_id,), key_type), chunks.seal(blob))


def to_rows(chunk: chunks.Chunk) -> Iterator[tuple[chunks.StateMeta, rows.Row]]:
    """Yield every row of a full chunk with its state."""
    for section in chunk.sections:
        for row in rows.of_section(section):
            yield section.meta, row
