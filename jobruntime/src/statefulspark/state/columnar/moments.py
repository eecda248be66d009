"""Reads the earliest moment of each row of timers, without making an object of any row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from statefulspark.state.columnar import blobs, damage, rowforms
from statefulspark.state.columnar.columns import Columns

Moments = npt.NDArray[np.int64]
NEVER = 2**63 - 1
"""Of a row without moments. A timer at this very moment, the last one there is, counts as one a millisecond earlier."""
_HEADERS = np.zeros(256, np.int64)
_HEADERS[[0xC4, 0xC5, 0xC6]] = [2, 3, 5]
"""Length of the header that msgpack puts before bytes, by its first byte."""


def read(columns: Columns) -> tuple[Moments, npt.NDArray[np.bool_]]:
    """Read the rows of timers.

    Args:
        columns: With rows of the form `rowforms.MOMENTS`.

    Returns:
        By position: the earliest moment that is put, in milliseconds since 1970 or `NEVER`; and whether the row has all
        moments of its key, as that of a deleted key has.

    Raises:
        SnapshotCorruptError: `ChunkUnreadable`: a row is damaged.
    """
    with damage.told_as_unreadable(columns.source):
        return _read(columns)


def _read(columns: Columns) -> tuple[Moments, npt.NDArray[np.bool_]]:
    offsets, rows = blobs.parts(columns.rows)
    body = np.frombuffer(rows, np.uint8)
    earliest, is_whole = np.full(len(columns), NEVER, np.int64), np.ones(len(columns), np.bool_)
    there = np.flatnonzero(np.diff(offsets))
    headers = _HEADERS[body[offsets[there]]]
    flags_at = offsets[there] + headers
    if not headers.all() or (flags_at >= offsets[there + 1]).any():
        raise ValueError("a row of timers is none")
    flags = body[flags_at]
    is_whole[there] = flags & rowforms.REPLACES > 0
    puts_at = flags_at[flags & rowforms.HAS_PUTS > 0] + 1
    having = there[flags & rowforms.HAS_PUTS > 0]
    if (puts_at + rowforms.MOMENT_BYTES > offsets[having + 1]).any():
        raise ValueError("a row of timers ends within one")
    earliest[having] = np.minimum(blobs.integers(body, puts_at, "<i8"), NEVER - 1)
    return earliest, is_whole
