"""Leaves expired cells out of columns, and makes objects only of those that look expired.

A cell with a time to live is packed as an array of the value and the time of its last renewal, so the time is at the end of
the row. In this century it takes nine bytes there. Where the row does not end so, or the time is over, the row is unpacked,
and only that decides. A row that ends so by chance, of a time before 1970-02-20, is kept until it is read.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from statefulspark.state.columnar import blobs, rowforms
from statefulspark.state.columnar.columns import Columns

_TIME_BYTES = 8
_UINT64 = 0xCF
"""Begins an integer of eight bytes in msgpack."""


def without_expired(cells: Columns, cutoff_ms: int) -> Columns:
    """Return columns without the cells that were renewed at or before a time.

    Args:
        cells: Of a state with one cell for each key and a time to live, without deletions.
        cutoff_ms: In milliseconds since 1970.
    """
    suspects = np.flatnonzero(~_are_surely_alive(cells, cutoff_ms)).astype(np.int64)
    if not len(suspects):
        return cells
    unpacked = cast("list[tuple[object, int]]", cells.changes_at(suspects, rowforms.CELLS))
    is_expired = np.array([renewed_ms <= cutoff_ms for _, renewed_ms in unpacked], np.bool_)
    return cells.take(np.delete(np.arange(len(cells)), suspects[is_expired]))


def _are_surely_alive(cells: Columns, cutoff_ms: int) -> npt.NDArray[np.bool_]:
    """Tell of each row whether it ends in a time after the cutoff, as far as its last bytes tell."""
    offsets, body = blobs.parts(cells.rows)
    are_alive = np.zeros(len(cells), np.bool_)
    long_enough = np.flatnonzero(np.diff(offsets) > _TIME_BYTES)
    starts = offsets[1:][long_enough].astype(np.int64) - _TIME_BYTES
    each_byte = np.frombuffer(body, np.uint8)
    times = each_byte[starts[:, None] + np.arange(_TIME_BYTES)].view(">u8").ravel()
    are_alive[long_enough] = (each_byte[starts - 1] == _UINT64) & (times > max(cutoff_ms, 0))
    return are_alive
