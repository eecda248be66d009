"""Leaves expired cells, and expired parts of lists and maps, out of columns.

Of cells only those that look expired become objects. One is packed as an array of the value and the time of its last
renewal, so the time is at the end of the row. In this century it takes nine bytes there. Where the row does not end so, or
the time is over, the row is unpacked, and only that decides. A row that ends so by chance, of a time before 1970-02-20, is
kept until it is read. Lists and maps become objects a few at a time, and are packed again where they lose something.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import cast

import numpy as np
import numpy.typing as npt

from statefulspark.state.columnar import blobs, columns, rowforms
from statefulspark.state.columnar.columns import Columns

AlivePart = Callable[[object, int], object]
_SLICE = 4096
"""Rows that are objects at the same time."""
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


def without_expired_parts(
    whole: Columns, cutoff_ms: int, form: rowforms.ChangeForm, alive: AlivePart
) -> Columns | None:
    """Return columns without the elements and entries that were renewed at or before a time.

    Rows become objects, some at a time, and only those that lose something are packed again.

    Args:
        whole: Of a state with a list or a map for each key and a time to live, without deletions.
        cutoff_ms: In milliseconds since 1970.
        form: Form of the rows.
        alive: Returns the part of a row that was renewed later; None if there is none.

    Returns:
        The columns; None if they are too large, while both forms of rows are there.
    """
    is_left, shorter = np.ones(len(whole), np.bool_), dict[int, object]()
    for begin in range(0, len(whole), _SLICE):
        positions = np.arange(begin, min(begin + _SLICE, len(whole)))
        for position, row in zip(positions.tolist(), whole.changes_at(positions, form), strict=True):
            part = alive(row, cutoff_ms)
            if part is None:
                is_left[position] = False
            elif part != row:
                shorter[position] = part
    if not shorter:
        return whole if is_left.all() else whole.take(np.flatnonzero(is_left))
    packed = blobs.of(columns.pack_rows(shorter.values(), form)[0])
    if packed.nbytes + whole.rows.nbytes > blobs.LARGEST_BYTES:
        return None
    rows, positions = columns.with_others(whole.rows, np.arange(len(whole)), list(shorter), packed)
    return dataclasses.replace(whole, rows=blobs.take(rows, positions)).take(np.flatnonzero(is_left))


def _are_surely_alive(cells: Columns, cutoff_ms: int) -> npt.NDArray[np.bool_]:
    """Tell of each row whether it ends in a time after the cutoff, as far as its last bytes tell."""
    offsets, body = blobs.parts(cells.rows)
    are_alive = np.zeros(len(cells), np.bool_)
    long_enough = np.flatnonzero(np.diff(offsets) > _TIME_BYTES)
    starts = offsets[1:][long_enough].astype(np.int64) - _TIME_BYTES
    each_byte = np.frombuffer(body, np.uint8)
    times = blobs.integers(each_byte, starts, ">u8")
    are_alive[long_enough] = (each_byte[starts - 1] == _UINT64) & (times > max(cutoff_ms, 0))
    return are_alive
