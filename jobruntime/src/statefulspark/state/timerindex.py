"""The earliest timer of each key in a view, so that those that are due are found without an order over all keys.

For each layer there is one number a row: the earliest moment that it puts, until a later layer has another row of its key.
Finding what is due is a comparison of these numbers, which are 8 bytes a key. Where a later row has only some of many
moments of a key, the number may be earlier than what is set, and never later.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from statefulspark.state import columns, timers
from statefulspark.state.columns import Columns

Moments = npt.NDArray[np.int64]
NEVER = 2**63 - 1
"""Of a row without moments. A timer at this very moment, the last one there is, counts as one a millisecond earlier."""
_HEADERS = np.zeros(256, np.int64)
_HEADERS[[0xC4, 0xC5, 0xC6]] = [2, 3, 5]
"""Length of the header that msgpack puts before bytes, by its first byte."""


def read_moments(layer: Columns) -> tuple[Moments, npt.NDArray[np.bool_]]:
    """Read the rows of timers.

    Args:
        layer: Rows of timers.

    Returns:
        By position: the earliest moment that is put, in milliseconds since 1970 or `NEVER`; and whether the row has all
        moments of its key, as that of a deleted key has.

    Raises:
        SnapshotCorruptError: `ChunkUnreadable`: a row is damaged.
    """
    with columns.damage_reported(layer.source):
        offsets, rows = columns.parts(layer.rows)
        body = np.frombuffer(rows, np.uint8)
        earliest, is_whole = np.full(len(layer), NEVER, np.int64), np.ones(len(layer), np.bool_)
        there = np.flatnonzero(np.diff(offsets))
        headers = _HEADERS[body[offsets[there]]]
        flags_at = offsets[there] + headers
        if not headers.all() or (flags_at >= offsets[there + 1]).any():
            raise ValueError("a row of timers has no flags")
        flags = body[flags_at]
        is_whole[there] = flags & timers.REPLACES > 0
        puts_at = flags_at[flags & timers.HAS_PUTS > 0] + 1
        having = there[flags & timers.HAS_PUTS > 0]
        if (puts_at + timers.MOMENT_BYTES > offsets[having + 1]).any():
            raise ValueError("a row of timers ends within a timer")
        earliest[having] = np.minimum(columns.integers(body, puts_at, "<i8"), NEVER - 1)
        return earliest, is_whole


Found = tuple[int, columns.Positions]
"""Number of a layer, and positions in it."""


class TimerIndex:
    """The earliest moments of all layers of a state with timers."""

    def __init__(self) -> None:
        """Begin without layers."""
        self._earliest: list[Moments] = []

    @property
    def size_bytes(self) -> int:
        """Memory that it takes."""
        return sum(earliest.nbytes for earliest in self._earliest)

    def add(self, earliest: Moments) -> None:
        """Add the next layer."""
        self._earliest.append(earliest)

    def merged(self, earliest: Moments) -> None:
        """Replace all layers but the first by one."""
        self._earliest[1:] = [earliest]

    def forget(self, numbers: columns.Positions, positions: columns.Positions) -> None:
        """Forget rows, which a later layer replaces, by layer and position."""
        for number in np.unique(numbers).tolist():
            self._earliest[number][positions[numbers == number]] = NEVER

    def due(self, now_ms: int) -> Iterator[Found]:
        """Yield the rows that may have timers at or before a moment."""
        for number, earliest in enumerate(self._earliest):
            positions = np.flatnonzero(earliest <= min(now_ms, NEVER - 1))
            if len(positions):
                yield number, positions

    def next_ms(self, numbers: columns.Positions, positions: columns.Positions) -> int | None:
        """Return when the earliest timer may be that is not in some rows; None when there is no other.

        Args:
            numbers: Layers of these rows.
            positions: Their positions.
        """
        next_ms = NEVER
        for number, earliest in enumerate(self._earliest):
            is_other = np.ones(len(earliest), np.bool_)
            is_other[positions[numbers == number]] = False
            next_ms = min(next_ms, int(earliest.min(where=is_other, initial=NEVER)))
        return None if next_ms == NEVER else next_ms
