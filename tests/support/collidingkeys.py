"""Keys whose packed bytes have the same CRC-32, which is what columns are sorted by.

A CRC is linear: four bytes at the end take it from any value to any other.
"""

from __future__ import annotations

import zlib

from statefulspark.state.types import codec

_POLYNOMIAL = 0xEDB88320
_SUFFIX_BYTES = 4


def with_hash(wanted: int, begin: bytes = b"") -> bytes:
    """Return a key that begins so, ends with four bytes more, and has a hash."""
    packed = codec.pack(begin + bytes(_SUFFIX_BYTES))[:-_SUFFIX_BYTES]
    return begin + _suffix(zlib.crc32(packed), wanted)


def tuple_with_hash(wanted: int, first: object) -> tuple[object, bytes]:
    """Return a key of two columns that has a hash. A key of several columns is packed as an array."""
    packed = codec.pack([first, bytes(_SUFFIX_BYTES)])[:-_SUFFIX_BYTES]
    return first, _suffix(zlib.crc32(packed), wanted)


def _suffix(before: int, wanted: int) -> bytes:
    """Return the four bytes that take a CRC from `before` to `wanted`: its steps, undone."""
    state = ~wanted & 0xFFFFFFFF
    for _ in range(8 * _SUFFIX_BYTES):
        was_odd = state >> 31
        state = ((state ^ _POLYNOMIAL if was_odd else state) << 1 & 0xFFFFFFFF) | was_odd
    return (state ^ (~before & 0xFFFFFFFF)).to_bytes(_SUFFIX_BYTES, "little")
