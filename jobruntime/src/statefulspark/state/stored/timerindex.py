"""The earliest timer of each key in a view, so that those that are due are found without an order over all keys.

For each layer there is one number a row: the earliest moment that it puts, until a later layer has another row of its key.
Finding what is due is a comparison of these numbers, which are 8 bytes a key. Where a later row has only some of many
moments of a key, the number may be earlier than what is set, and never later.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from statefulspark.state.columnar import blobs, moments

Found = tuple[int, blobs.Positions]
"""Number of a layer, and positions in it."""


class TimerIndex:
    """The earliest moments of all layers of a state with timers."""

    def __init__(self) -> None:
        """Begin without layers."""
        self._earliest: list[moments.Moments] = []

    @property
    def size_bytes(self) -> int:
        """Memory that it takes."""
        return sum(earliest.nbytes for earliest in self._earliest)

    def add(self, earliest: moments.Moments) -> None:
        """Add the next layer."""
        self._earliest.append(earliest)

    def merged(self, earliest: moments.Moments) -> None:
        """Replace all layers but the first by one."""
        self._earliest[1:] = [earliest]

    def forget(self, numbers: blobs.Positions, positions: blobs.Positions) -> None:
        """Forget rows, which a later layer replaces, by layer and position."""
        for number in np.unique(numbers).tolist():
            self._earliest[number][positions[numbers == number]] = moments.NEVER

    def due(self, now_ms: int) -> Iterator[Found]:
        """Yield the rows that may have timers at or before a moment."""
        for number, earliest in enumerate(self._earliest):
            positions = np.flatnonzero(earliest <= min(now_ms, moments.NEVER - 1))
            if len(positions):
                yield number, positions

    def next_ms(self, numbers: blobs.Positions, positions: blobs.Positions) -> int | None:
        """Return when the earliest timer may be that is not in some rows; None when there is no other.

        Args:
            numbers: Layers of these rows.
            positions: Their positions.
        """
        next_ms = moments.NEVER
        for number, earliest in enumerate(self._earliest):
            is_other = np.ones(len(earliest), np.bool_)
            is_other[positions[numbers == number]] = False
            next_ms = min(next_ms, int(earliest.min(where=is_other, initial=moments.NEVER)))
        return None if next_ms == moments.NEVER else next_ms
