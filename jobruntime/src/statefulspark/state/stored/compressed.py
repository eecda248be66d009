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
        blob: bytes = _CODEC.decompress(memoryview(body)[_LENGTH.size :], length, asbytes=True)
    except (struct.error, OSError, pa.ArrowException) as error:
        raise ValueError(f"its compressed body is damaged ({error})") from error
    return blob
