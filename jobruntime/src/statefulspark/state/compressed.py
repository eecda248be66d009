"""Compression of chunks: chunk format version 4, a chunk of another version as a Zstandard frame.

Bytes on their way into the engine's state store cost more there than compressing them does here: they are copied several
times, by the worker and by the JVM.
"""

from __future__ import annotations

import struct

import pyarrow as pa

_LENGTH = struct.Struct("<I")
_CODEC = pa.Codec("zstd", compression_level=1)
_SMALLEST_BYTES = 1024
"""Less is not worth the call."""
_WORTH = 0.9
"""What does not get smaller than that stays as it is, so that reading it is free."""


def compress(blob: bytes) -> bytes | None:
    """Return the length of some bytes and a frame of them; None where that is not worth it."""
    if len(blob) < _SMALLEST_BYTES:
        return None
    frame: bytes = _CODEC.compress(blob, asbytes=True)
    return _LENGTH.pack(len(blob)) + frame if len(frame) < _WORTH * len(blob) else None


def decompress(body: bytes) -> bytes:
    """Return what `compress` was given.

    Raises:
        ValueError: It is damaged.
    """
    try:
        (length,) = _LENGTH.unpack_from(body)
        blob: bytes = _CODEC.decompress(memoryview(body)[_LENGTH.size :], length, asbytes=True)
    except (struct.error, OSError, pa.ArrowException) as error:
        raise ValueError(f"its compressed body is damaged ({error})") from error
    return blob
