"""The head of a key group: its version, the chunks that make it up, and the versions before it."""

from __future__ import annotations

from dataclasses import dataclass

from statefulspark.state.stored import compaction, layouts

LINEAGE_LENGTH = 32
"""Number of latest version ids in a head: an older copy is rebuilt."""


@dataclass(frozen=True, slots=True)
class GroupHead:
    """The current version of a key group.

    Attributes:
        version: Number of batches that changed the group.
        unique_id: Id of the attempt that wrote it.
        runs: The chunks of the version, oldest first; the first one is full.
        lineage: Ids of the latest versions, oldest first, ending with `unique_id`.
        key_type: Types of the key columns, for example `string, bigint`; empty if nobody told.
    """

    version: int
    unique_id: str
    runs: tuple[compaction.ChunkRun, ...]
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
        """Number of entries in all chunks; a key counts once per chunk that contains it."""
        return sum(run.count for run in self.runs)

    def has_ancestor(self, version: int, unique_id: str) -> bool:
        """Tell whether a version is this head or one of its predecessors."""
        position = len(self.lineage) - 1 - (self.version - version)
        return 0 <= position < len(self.lineage) and self.lineage[position] == unique_id

    def pack_layout(self) -> bytes:
        """Encode runs, lineage and key type, which are stored beside version, id and base."""
        return layouts.Layout(self.runs, self.lineage, self.key_type).pack()

    @staticmethod
    def from_layout(version: int, unique_id: str, layout: bytes) -> GroupHead:
        """Decode a layout.

        Raises:
            FormatVersionError: The layout has a version that this release does not know.
            SnapshotCorruptError: `ChunkUnreadable`: it is no layout.
        """
        stored = layouts.Layout.unpack(layout, version)
        return GroupHead(version, unique_id, stored.runs, stored.lineage, stored.key_type)
