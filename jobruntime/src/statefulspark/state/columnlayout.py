"""The body of a chunk: a header, and the buffers of columns behind it, which are used where they lie.

The layout is documented in `docs/formats.md`. A checksum covers all but the bytes of rows, which are as many as all else
together: a flipped hash or offset would hide a key, while rows are compared with the checksums of what holds the chunk.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import msgpack
import numpy as np

from statefulspark.state import blobs
from statefulspark.state.columns import Columns, Hashes
from statefulspark.state.types import codec

COLUMNS = "columns"
"""The form of a section that has buffers."""
_HEAD = struct.Struct("<II")
_ALIGNED = 8
_BEFORE = 4
"""Length of what is before the body, so that buffers are aligned in the whole chunk."""
_BUFFERS = 5
_ROWS = 4
"""Position of the rows among the buffers of a section: the only ones without a checksum."""


@dataclass(frozen=True, slots=True)
class Described:
    """A section as columns.

    Attributes:
        meta: What the header says of its state.
        columns: Its content.
    """

    meta: list[object]
    columns: Columns


def write(told: tuple[str, int], sections: Sequence[Described | bytes]) -> bytes:
    """Return the body of a chunk.

    Args:
        told: What the header begins with.
        sections: As columns, or whole: the packed list that the header has of them.
    """
    packer = msgpack.Packer()
    described = (_describe(section) if isinstance(section, Described) else section for section in sections)
    beginning = (packer.pack_array_header(3), *map(packer.pack, told), packer.pack_array_header(len(sections)))
    header = b"".join((*beginning, *described))
    buffers = [_buffers(section.columns) for section in sections if isinstance(section, Described)]
    checksum = _checksum(header, buffers)
    position = _BEFORE + _HEAD.size + len(header)
    parts: list[bytes | memoryview] = [_HEAD.pack(len(header), checksum), header]
    for buffer in itertools.chain.from_iterable(buffers):
        padding = -position % _ALIGNED
        parts += [bytes(padding), buffer]
        position += padding + len(buffer)
    return b"".join(parts)


def _describe(section: Described) -> bytes:
    columns = section.columns
    lengths = list(map(len, _buffers(columns)))
    return codec.pack([COLUMNS, *section.meta, len(columns), columns.are_tuples, lengths])


def read(body: memoryview, source: str) -> tuple[tuple[str, int], list[Described | list[object]]]:
    """Undo `write`, without a copy of what columns hold.

    Args:
        body: What it returned.
        source: Its origin, for messages.

    Raises:
        ValueError: It is damaged, or was never written by it.
    """
    header, checksum, kind_and_count, described = _read_header(body)
    buffers = list(_cut(body, _HEAD.size + len(header), described))
    if _checksum(header, buffers) != checksum:
        raise ValueError("its checksum differs")
    return kind_and_count, _sections(described, buffers, source)


def read_own(body: memoryview, source: str) -> Columns:
    """Return the columns of a body with one section that this process has written itself; nothing is compared."""
    header, _, _, described = _read_header(body)
    (section,) = _sections(described, list(_cut(body, _HEAD.size + len(header), described)), source)
    return cast("Described", section).columns


def _read_header(body: memoryview) -> tuple[memoryview, int, tuple[str, int], list[list[object]]]:
    if len(body) < _HEAD.size:
        raise ValueError("it ends in its header")
    header_bytes, checksum = _HEAD.unpack_from(body)
    header = body[_HEAD.size : _HEAD.size + header_bytes]
    kind, count, described = cast("tuple[str, int, list[list[object]]]", codec.unpack(header))
    if not all(isinstance(section, list) for section in described):
        raise ValueError("a section is no list")
    return header, checksum, (kind, count), described


def _sections(
    described: Sequence[list[object]], buffers: Sequence[Sequence[memoryview]], source: str
) -> list[Described | list[object]]:
    of_sections = iter(buffers)
    return [
        _described(section, next(of_sections), source) if _has_buffers(section) else section for section in described
    ]


def _has_buffers(section: list[object]) -> bool:
    return section[:1] == [COLUMNS]


def _buffers(columns: Columns) -> list[bytes | memoryview]:
    buffers: list[bytes | memoryview] = [columns.hashes.astype("<u4", copy=False).tobytes()]
    for array in (columns.keys, columns.rows):
        offsets, body = blobs.parts(array)
        buffers += [offsets.astype("<i4", copy=False).tobytes(), body]
    return buffers


def _checksum(header: bytes | memoryview, buffers: Sequence[Sequence[bytes | memoryview]]) -> int:
    checksum = zlib.crc32(header)
    for section in buffers:
        for buffer in section[:_ROWS]:
            checksum = zlib.crc32(buffer, checksum)
    return checksum


def _cut(body: memoryview, position: int, described: Sequence[list[object]]) -> Iterator[list[memoryview]]:
    """Yield the buffers of each section."""
    lengths = (section[-1] for section in described if _has_buffers(section))
    for section in cast("Iterator[list[int]]", lengths):
        if len(section) != _BUFFERS:
            raise ValueError(f"a section has {len(section)} buffers")
        buffers = []
        for length in section:
            position += -(_BEFORE + position) % _ALIGNED
            buffers.append(body[position : position + length])
            position += length
        yield buffers
    if position != len(body):
        raise ValueError(f"its buffers end after {position} bytes, the body has {len(body)}")


def _described(section: list[object], buffers: Sequence[memoryview], source: str) -> Described:
    _, *meta, count, are_tuples, _ = section
    hashes, key_offsets, keys, row_offsets, rows = buffers
    columns = Columns(
        cast("Hashes", np.frombuffer(hashes, "<u4")),
        blobs.over(_offsets(key_offsets, len(keys)), keys),
        blobs.over(_offsets(row_offsets, len(rows)), rows),
        bool(are_tuples),
        source,
    )
    if not count == len(columns) == len(columns.keys) == len(columns.rows):
        raise ValueError(f"columns of {count} keys have {len(columns)}, {len(columns.keys)} and {len(columns.rows)}")
    if (columns.hashes[1:] < columns.hashes[:-1]).any():
        raise ValueError("hashes are not in ascending order")
    return Described(meta, columns)


def _offsets(buffer: memoryview, size_bytes: int) -> blobs.Offsets:
    offsets = np.frombuffer(buffer, "<i4")
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != size_bytes or (offsets[1:] < offsets[:-1]).any():
        raise ValueError("offsets do not fit the bytes that they divide")
    return cast("blobs.Offsets", offsets)
