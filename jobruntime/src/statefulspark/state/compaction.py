"""When the chunks of a key group are merged: by size, so that every byte is rewritten only a few times.

Runs of similar size are merged once there are `fan_in` of them ("size-tiered"): small ones often, large ones rarely.
When all changes together outgrow the base, everything is written in full. The first rule bounds the number of chunks
that a rebuild reads, by fan-in times a logarithm; the second bounds the space. Groups differ in both thresholds, so
that they are not all compacted in the same batch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """A chunk in the log.

    Attributes:
        version: Version of the newest batch in it; the key under which the log has it.
        size_bytes: Its length before it was compressed.
        count: Number of entries.
    """

    version: int
    size_bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class Policy:
    """Thresholds of one key group.

    Attributes:
        fan_in: How many runs of similar size are merged into one.
        outgrown: Changes larger than this many times the base are merged with it into a full chunk.
        small_run_bytes: Runs up to this size count as equally small.
    """

    fan_in: int
    outgrown: float
    small_run_bytes: int = 4096

    def runs_to_merge(self, runs: Sequence[Run], new_bytes: int) -> int:
        """Say how many of the latest runs a new one is merged with; all of them makes a full chunk.

        Args:
            runs: The runs so far, oldest first; the first is the base.
            new_bytes: Size of the new run.

        Returns:
            0 to `len(runs)`; 0 when there are none.
        """
        if not runs:
            return 0
        if sum(run.size_bytes for run in runs[1:]) + new_bytes > runs[0].size_bytes * self.outgrown:
            return len(runs)
        merged, size_bytes = 0, new_bytes
        while (similar := self._count_similar(runs[: len(runs) - merged], size_bytes)) + 1 >= self.fan_in:
            size_bytes += sum(run.size_bytes for run in runs[len(runs) - merged - similar : len(runs) - merged])
            merged += similar
        return merged

    def _count_similar(self, runs: Sequence[Run], size_bytes: int) -> int:
        tier = self._tier(size_bytes)
        return len(list(itertools.takewhile(lambda run: self._tier(run.size_bytes) <= tier, reversed(runs))))

    def _tier(self, size_bytes: int) -> int:
        return int(math.log(max(size_bytes, self.small_run_bytes), self.fan_in))


def policy_of(group: int) -> Policy:
    """Return the thresholds of a key group."""
    return Policy(fan_in=24 + group % 16, outgrown=1.0 + (group % 16) / 16)
