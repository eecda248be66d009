"""The head of a key group: its version, the chunks that make it up, the versions before it, and its bytes; and compaction.

Compaction decides which chunks of a key group are merged, so that every byte is rewritten only a few times. Runs of similar
size are merged once there are `fan_in` of them ("size-tiered"): small ones often, large ones rarely. When all changes are
together larger than the base times `max_size_amplification`, the group is written in full. The first rule bounds the number
of chunks that a rebuild reads, by fan-in times a logarithm; the second bounds the space. Both thresholds differ between
groups, so that not all groups are compacted in the same batch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgpack

from statefulspark import errors
from statefulspark.contract import formats
from statefulspark.packs import names, ranges

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ChunkRun:
    """A chunk in the log.

    Attributes:
        version: Version of the newest batch in it; its key in the log.
        size_bytes: Its length before compression.
        count: Number of entries.
        packed: Where it is, if it is in a pack; None if the log has it.
    """

    version: int
    size_bytes: int
    count: int
    packed: ranges.PackRange | None = None


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
    runs: tuple[ChunkRun, ...]
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

    def follows(self, version: int, unique_id: str) -> bool:
        """Tell whether what was kept of a version can be brought to this head by the chunks after it.

        A full chunk has no deletions, so it cannot be applied to anything older.
        """
        return version >= self.base and self.has_ancestor(version, unique_id)

    def pack_layout(self) -> bytes:
        """Encode runs, lineage and key type, which are stored beside version, id and base."""
        packs = list(dict.fromkeys(run.packed.pack for run in self.runs if run.packed is not None))
        runs: list[list[object]] = []
        for run in self.runs:
            runs.append([run.version, run.size_bytes, run.count])
            if run.packed is not None:
                stored = run.packed
                runs[-1].append([packs.index(stored.pack), stored.offset, stored.length, stored.crc32c])
        body: bytes = msgpack.packb([formats.HEAD.writes, runs, list(self.lineage), self.key_type, packs])
        return body

    @staticmethod
    def from_layout(version: int, unique_id: str, layout: bytes) -> GroupHead:
        """Decode a layout.

        Raises:
            FormatVersionError: The layout has a version that this release does not know.
            SnapshotCorruptError: `ChunkUnreadable`: it is no layout.
        """
        try:
            layout_version, *fields = msgpack.unpackb(layout)
            formats.HEAD.require_known(layout_version, "The head of a key group")
            runs, lineage, key_type, listed = fields
            packs = [names.parse(_require(str, pack)).reference for pack in _require(list, listed)]
            return GroupHead(
                version,
                unique_id,
                tuple(_read_run(_require(list, run), packs) for run in _require(list, runs)),
                tuple(_require(list, lineage)),
                str(key_type),
            )
        except (ValueError, TypeError, LookupError, msgpack.UnpackException) as error:
            raise errors.SnapshotCorruptError(
                "ChunkUnreadable",
                f"The head of a key group, version {version}, cannot be read: {error}. It is damaged; restore from another "
                "checkpoint or savepoint.",
            ) from error


def _read_run(fields: Sequence[object], packs: Sequence[str]) -> ChunkRun:
    version, size_bytes, count, *more = fields
    packed = None
    if more:
        (where,) = more
        position, offset, length, crc32c = (_require(int, number) for number in _require(list, where))
        if min(position, offset, length, crc32c) < 0:
            raise ValueError(f"{where!r:.100} is no position in a pack")
        packed = ranges.PackRange(packs[position], offset, length, crc32c)
    return ChunkRun(version, size_bytes, count, packed)  # type: ignore[arg-type]  # what is stored is taken


def _require(kind: type[T], value: object) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r:.100} is no {kind.__name__}")
    return value


@dataclass(frozen=True, slots=True)
class Policy:
    """Thresholds of one key group.

    Attributes:
        fan_in: How many runs of similar size are merged into one.
        outgrown: Changes larger than this many times the base are merged with it into a full chunk.
        small_run_bytes: Runs up to this size count as equally small.
    """

    fan_in: int
    max_size_amplification: float
    small_run_bytes: int = 4096

    def runs_to_merge(self, runs: Sequence[ChunkRun], new_bytes: int) -> int:
        """Return how many of the latest runs a new run is merged with; merging all of them makes a full chunk.

        Args:
            runs: The runs so far, oldest first; the first is the base.
            new_bytes: Size of the new run.

        Returns:
            0 to `len(runs)`; 0 when there are none.
        """
        if not runs:
            return 0
        if sum(run.size_bytes for run in runs[1:]) + new_bytes > runs[0].size_bytes * self.max_size_amplification:
            return len(runs)
        merged, size_bytes = 0, new_bytes
        while True:
            tier, older = self._tier(size_bytes), runs[: len(runs) - merged]
            similar = list(itertools.takewhile(lambda run: self._tier(run.size_bytes) <= tier, reversed(older)))  # noqa: B023 - used at once
            if len(similar) + 1 < self.fan_in:
                return merged
            size_bytes += sum(run.size_bytes for run in similar)
            merged += len(similar)

    def _tier(self, size_bytes: int) -> int:
        return int(math.log(max(size_bytes, self.small_run_bytes), self.fan_in))


def policy_of(group: int) -> Policy:
    """Return the thresholds of a key group."""
    return Policy(fan_in=24 + group % 16, max_size_amplification=1.0 + (group % 16) / 16)
