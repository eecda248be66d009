"""Keys and rows of keyed state as bytes in the disk tier: one record per key and state, with a checksum.

The key of a record is the number of the state and the packed key, so that the records of a state are adjacent and a
record is found without reading others. A key that is too long for the file is replaced by its SHA-256 and stored in
the record. This is a cache's format, never read by another release, so it carries no version.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import cast

from statefulspark.state.types import codec

_LONGEST_KEY_BYTES = 480
_HASHED = b"\xc1"
"""No msgpack value begins with this byte."""
_PLAIN, _TUPLE, _WITH_KEY = b"\0", b"\1", b"\2"
_CHECKSUM_BYTES = 4
_pack = codec.packer()
_PREFIX_BYTES = 2


class RecordDamagedError(Exception):
    """The checksum of a record does not match."""


def prefix(number: int) -> bytes:
    """Return the key prefix of the records of a state; number 0 is reserved."""
    return number.to_bytes(_PREFIX_BYTES, "big")


def record_key(start: bytes, key: object) -> bytes:
    """Return the key of a record.

    Args:
        start: The prefix of the state.
        key: The user's key.
    """
    packed = _pack(key)
    return start + (packed if len(packed) <= _LONGEST_KEY_BYTES else _HASHED + hashlib.sha256(packed).digest())


def encode(record: bytes, key: object, row: object) -> bytes:
    """Write a row: a cell, a list or a dict.

    Args:
        record: The key of the record.
        key: The user's key.
        row: Of the types that `codec` stores.
    """
    if record[_PREFIX_BYTES : _PREFIX_BYTES + 1] == _HASHED:
        body = _WITH_KEY + _pack([key, row])
    elif type(row) is tuple:
        body = _TUPLE + _pack(list(row))
    else:
        body = _PLAIN + _pack(row)
    return zlib.crc32(body, zlib.crc32(record)).to_bytes(_CHECKSUM_BYTES, "big") + body


def decode(record: bytes, stored: bytes) -> object:
    """Read the row of a record.

    Raises:
        RecordDamagedError: The checksum does not match.
    """
    return _read(record, stored)[1]


def decode_with_key(record: bytes, stored: bytes) -> tuple[object, object]:
    """Read key and row of a record.

    Raises:
        RecordDamagedError: The checksum does not match.
    """
    has_key, row = _read(record, stored)
    if has_key:
        key = cast("list[object]", codec.unpack(stored[_CHECKSUM_BYTES + 1 :]))[0]
    else:
        key = codec.unpack(record[_PREFIX_BYTES:])
    return key, row


def _read(record: bytes, stored: bytes) -> tuple[bool, object]:
    body = stored[_CHECKSUM_BYTES:]
    if zlib.crc32(body, zlib.crc32(record)).to_bytes(_CHECKSUM_BYTES, "big") != stored[:_CHECKSUM_BYTES]:
        raise RecordDamagedError
    kind, row = body[:1], codec.unpack(body[1:])
    if kind == _WITH_KEY:
        return True, cast("list[object]", row)[1]
    return False, tuple(cast("list[object]", row)) if kind == _TUPLE else row
