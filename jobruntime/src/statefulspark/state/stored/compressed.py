"""Compression of chunks: a whole chunk as a Zstandard frame.

Compression costs less than it saves: the worker and the JVM copy every byte several times on its way into the state
store.
"""

from __future__ import annotations

import struct

import pyarrow as pa

_LENGTH = struct.Struct("<I")
_CODEC = pa.Codec("zstd", compression_level=1)
_SMALLEST_BYTES = 1024
"""Smaller chunks are not compressed."""
_LARGEST_BYTES = 2**31 - 1
"""A row of Spark has no more."""
_BLOCK_BYTES, _SMALLEST_BLOCK_BYTES = 128 * 1024, 4
"""The most that a block of a Zstandard frame unpacks to, and the least that it has (RFC 8878, 3.1.1.2)."""
_WORTH = 0.9
"""A chunk is stored uncompressed unless its frame is smaller than this share of it, so that reading it is free."""


def compress(blob: bytes) -> bytes | None:
    """Return length and compressed frame of some bytes; None where compression saves too little."""
    if len(blob) < _SMALLEST_BYTES:
        return None
    frame: bytes = _CODEC.compress(blob, asbytes=True)
    return _LENGTH.pack(len(blob)) + frame if len(frame) < _WORTH * len(blob) else None


def decompress(body: bytes | memoryview) -> bytes:
    """Return the bytes that `compress` was called with.

    Raises:
        ValueError: It is damaged.
    """
    try:
        (length,) = _LENGTH.unpack_from(body)
        _require_possible(length, len(body) - _LENGTH.size)
        blob: bytes = _CODEC.decompress(memoryview(body)[_LENGTH.size :], length, asbytes=True)
    except (struct.error, OSError, pa.ArrowException) as error:
        raise ValueError(f"its compressed body is damaged ({error})") from error
    return blob


def _require_possible(length: int, frame_bytes: int) -> None:
    """Refuse a length that the frame cannot have, before so much memory is taken.

    Raises:
        ValueError: It is longer.
    """
    most_bytes = min(_LARGEST_BYTES, frame_bytes // _SMALLEST_BLOCK_BYTES * _BLOCK_BYTES)
    if length > most_bytes:
        raise ValueError(f"its compressed body says that it has {length} bytes, and it can have {most_bytes} at most")
