"""Size-tiered compaction: decides which chunks of a key group are merged, so that every byte is rewritten only a few times.

Runs of similar size are merged once there are `fan_in` of them ("size-tiered"): small ones often, large ones rarely.
When all changes are together larger than the base times `max_size_amplification`, the group is written in full. The
first rule bounds the number of chunks that a rebuild reads, by fan-in times a logarithm; the second bounds the space.
Both thresholds differ between groups, so that not all groups are compacted in the same batch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from statefulspark.state import heads


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

    def runs_to_merge(self, runs: Sequence[heads.ChunkRun], new_bytes: int) -> int:
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
        while (similar := self._count_similar(runs[: len(runs) - merged], size_bytes)) + 1 >= self.fan_in:
            size_bytes += sum(run.size_bytes for run in runs[len(runs) - merged - similar : len(runs) - merged])
            merged += similar
        return merged

    def _count_similar(self, runs: Sequence[heads.ChunkRun], size_bytes: int) -> int:
        tier = self._tier(size_bytes)
        return len(list(itertools.takewhile(lambda run: self._tier(run.size_bytes) <= tier, reversed(runs))))

    def _tier(self, size_bytes: int) -> int:
        return int(math.log(max(size_bytes, self.small_run_bytes), self.fan_in))


def policy_of(group: int) -> Policy:
    """Return the thresholds of a key group."""
    return Policy(fan_in=24 + group % 16, max_size_amplification=1.0 + (group % 16) / 16)
