"""Many byte strings in one piece of memory: an Arrow array without nulls, and how it is made, split and gathered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Offsets = npt.NDArray[np.int32]
Positions = npt.NDArray[np.int64]
LARGEST_BYTES = 2**31 - 1
"""What an array can hold; its offsets have 32 bits."""


def of(pieces: Sequence[bytes]) -> pa.BinaryArray:
    """Return an array of byte strings, which are at most `LARGEST_BYTES` together."""
    offsets = np.zeros(len(pieces) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, pieces), np.int32, len(pieces)), out=offsets[1:])
    return over(offsets, b"".join(pieces))


def over(offsets: Offsets, body: bytes | memoryview) -> pa.BinaryArray:
    """Return the array over offsets and bytes, without a copy.

    Args:
        offsets: One more than there are strings, ascending, from 0 to the length of the body.
        body: The strings, one after the other.
    """
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(body)]
    return cast("pa.BinaryArray", pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers))


def parts(array: pa.BinaryArray) -> tuple[Offsets, memoryview]:
    """Return the offsets of an array, from 0, and its bytes; undoes `over`."""
    _, offsets_buffer, body = array.buffers()
    if body is None or not len(array):
        return np.zeros(len(array) + 1, np.int32), memoryview(b"")
    offsets = np.frombuffer(offsets_buffer, np.int32)[array.offset : array.offset + len(array) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - first if first else offsets, memoryview(body)[first:last]


def sizes(array: pa.BinaryArray) -> Offsets:
    """Return the length of each string."""
    return cast("Offsets", np.diff(parts(array)[0]))


def integers(body: npt.NDArray[np.uint8], starts: Positions, kind: str) -> npt.NDArray[np.int64]:
    """Return the integers that begin at some places in bytes, wherever these are aligned.

    Args:
        body: The bytes.
        starts: Where each integer begins.
        kind: Their type, as numpy writes it: `<i8`.
    """
    size = np.dtype(kind).itemsize
    return cast("npt.NDArray[np.int64]", body[starts[:, None] + np.arange(size)].view(kind)[:, 0])


def take(array: pa.BinaryArray, positions: Positions) -> pa.BinaryArray:
    """Return the strings at some positions, in that order."""
    return cast("pa.BinaryArray", array.take(pa.array(positions)))
