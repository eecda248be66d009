"""CRC-32C (Castagnoli) of a body: the checksum that Spark writes beside state files.

A byte at a time in Python is 10 MB/s. With numpy a large body is cut into lanes of equal length whose checksums are
computed side by side and then combined: appending zeros to a body is a linear map of its checksum, so the checksum of two
halves is the first one moved over the length of the second, xor the second's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_POLYNOMIAL = 0x82F63B78
_ONES = 0xFFFFFFFF
_LANES = 4096
_WORTH_LANES_BYTES = 64 * 1024


def crc32c(body: bytes) -> int:
    """Return the CRC-32C of a body, unsigned. 100 MB/s and more for large bodies where numpy is installed."""
    value = _ONES
    if len(body) >= _WORTH_LANES_BYTES:
        try:
            value, body = _in_lanes(body)
        except ImportError:
            value = _ONES
    table = _TABLE
    for byte in body:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ _ONES


def _in_lanes(body: bytes) -> tuple[int, bytes]:
    """Return the running checksum of all but the last few bytes, and those."""
    import numpy as np

    length = len(body) // _LANES
    covered = length * _LANES
    columns = np.ascontiguousarray(np.frombuffer(body, np.uint8, covered).reshape(_LANES, length).T)
    table = np.array(_TABLE, np.uint32)
    values = np.zeros(_LANES, np.uint32)
    values[0] = _ONES
    for column in columns:
        values = table[(values ^ column) & 0xFF] ^ (values >> 8)
    move = _power(_over_one_byte(), length)
    while len(values) > 1:
        values = _moved(move, values[0::2]) ^ values[1::2]
        move = _moved(move, move)
    return int(values[0]), body[covered:]


def _over_one_byte() -> npt.NDArray[np.uint32]:
    """Return the map of a checksum over one zero byte, as the images of its 32 bits."""
    import numpy as np

    bits = [1 << bit for bit in range(32)]
    return np.array([_TABLE[bit & 0xFF] ^ (bit >> 8) for bit in bits], np.uint32)


def _moved(move: npt.NDArray[np.uint32], values: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Apply a map to checksums; applied to a map it gives the composition."""
    import numpy as np

    result = np.zeros_like(values)
    for bit in range(32):
        result ^= move[bit] * ((values >> np.uint32(bit)) & np.uint32(1))
    return result


def _power(move: npt.NDArray[np.uint32], times: int) -> npt.NDArray[np.uint32]:
    """Return a map applied so many times, at least once."""
    result = None
    while times:
        if times & 1:
            result = move if result is None else _moved(move, result)
        move = _moved(move, move)
        times >>= 1
    assert result is not None  # noqa: S101 - lanes have at least one byte
    return result


def _table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ _POLYNOMIAL if value & 1 else value >> 1
        table.append(value)
    return tuple(table)


_TABLE = _table()
