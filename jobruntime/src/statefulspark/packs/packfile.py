"""The form of a pack: chunks one after the other, and a footer that lists them. Pure.

```
53 53 50 4b   chunk   chunk   …   footer   its length   its CRC-32C   53 53 50 4b
```
Whoever reads state reads ranges that heads name, and no footer: it is for those who verify a pack, and for the worker that
decides which chunks of older packs it copies.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from statefulspark import errors
from statefulspark.contract import formats
from statefulspark.contract.base import WireModel, read_model
from statefulspark.packs import ranges

MAGIC = b"SSPK"
_END = struct.Struct("<II")
_END_BYTES = _END.size + len(MAGIC)


class ChunkEntry(WireModel):
    """A chunk in a pack, as the footer lists it."""

    group: int = Field(ge=0)
    version: int = Field(ge=1)
    offset: int = Field(ge=0)
    length: int = Field(ge=1)
    crc32c: int = Field(ge=0, lt=2**32)


class EarlierPack(WireModel):
    """A pack that the partition named before: with the pack's own size, what its window holds."""

    pack: str
    size_bytes: int = Field(ge=0)


class PackFooter(WireModel):
    """What a pack says about itself: JSON, whose version is that of the pack."""

    format_version: int = formats.PACK.writes

    chunks: tuple[ChunkEntry, ...]
    """In the order of their bytes."""
    earlier: tuple[EarlierPack, ...] = ()
    """The packs that heads of the partition named before this one, in the order of batches."""


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack that is ready to be stored.

    Attributes:
        body: Its bytes.
        ranges: Where each chunk is, in the order of the chunks.
    """

    body: bytes
    ranges: tuple[ranges.PackRange, ...]


def build(reference: str, chunks: Sequence[ranges.PackedChunk], earlier: Mapping[str, int] | None = None) -> Pack:
    """Put chunks into a pack.

    Args:
        reference: Its name, as heads will have it.
        chunks: At least one.
        earlier: Sizes in bytes of the packs that the partition named before, by name, in the order of batches.
    """
    starts = itertools.accumulate((len(chunk.body) for chunk in chunks), initial=len(MAGIC))
    entries = tuple(
        ChunkEntry(
            group=chunk.group,
            version=chunk.version,
            offset=offset,
            length=len(chunk.body),
            crc32c=ranges.crc32c(chunk.body),
        )
        for chunk, offset in zip(chunks, starts, strict=False)
    )
    named = tuple(EarlierPack(pack=pack, size_bytes=size_bytes) for pack, size_bytes in (earlier or {}).items())
    footer = PackFooter(chunks=entries, earlier=named).to_json().encode()
    body = b"".join(
        [MAGIC, *(chunk.body for chunk in chunks), footer, _END.pack(len(footer), ranges.crc32c(footer)), MAGIC]
    )
    placed = tuple(ranges.PackRange(reference, entry.offset, entry.length, entry.crc32c) for entry in entries)
    return Pack(body, placed)


def read_footer(body: bytes, source: str) -> PackFooter:
    """Read the footer of a pack.

    Args:
        body: The whole pack.
        source: Its URI, for the error.

    Raises:
        SnapshotCorruptError: `DocumentUnreadable`: it is cut short, damaged, or no pack.
        FormatVersionError: A later release wrote it.
    """
    if len(body) < len(MAGIC) + _END_BYTES or not body.startswith(MAGIC) or not body.endswith(MAGIC):
        raise _unreadable(source, f"it has no beginning and end of a pack ({len(body)} bytes)")
    length, crc32c = _END.unpack_from(body, len(body) - _END_BYTES)
    begin = len(body) - _END_BYTES - length
    if begin < len(MAGIC):
        raise _unreadable(source, f"its footer has {length} bytes, and the pack {len(body)}")
    footer = body[begin : len(body) - _END_BYTES]
    if ranges.crc32c(footer) != crc32c:
        raise _unreadable(source, "its footer does not fit its checksum")
    document = read_model(PackFooter, formats.PACK, footer, source)
    formats.PACK.require_known(document.format_version, source)
    return document


def require_whole(read: Callable[[int, int], bytes], size_bytes: int, source: str) -> None:
    """Check beginning, end and footer of a pack, and that its chunks end where the footer begins, but not their bytes.

    Args:
        read: Reads a range by offset and length.
        size_bytes: Size of the pack.
        source: Its URI, for the error.

    Raises:
        SnapshotCorruptError: `DocumentUnreadable`, as of `read_footer`.
        FormatVersionError: A later release wrote it.
    """
    least = len(MAGIC) + _END_BYTES
    end = read(max(0, size_bytes - least), least)
    length = _END.unpack_from(end, len(end) - _END_BYTES)[0] if len(end) == least else 0
    begin = size_bytes - _END_BYTES - length
    tail = read(begin, size_bytes - begin) if len(MAGIC) <= begin < size_bytes else b""
    footer = read_footer(read(0, len(MAGIC)) + tail, source)
    chunks_end = max((entry.offset + entry.length for entry in footer.chunks), default=len(MAGIC))
    if chunks_end != begin:
        raise _unreadable(source, f"its chunks end at byte {chunks_end}, and its footer begins at {begin}")


def require_sound(body: bytes, source: str) -> None:
    """Compare every chunk of a pack with its footer.

    Args:
        body: The whole pack.
        source: Its URI, for the error.

    Raises:
        SnapshotCorruptError: `DocumentUnreadable`, as of `read_footer`; or `ChunkUnreadable`: a chunk is damaged.
        FormatVersionError: A later release wrote it.
    """
    for entry in read_footer(body, source).chunks:
        stored = ranges.PackRange(source, entry.offset, entry.length, entry.crc32c)
        problem = stored.problem(body[entry.offset : entry.offset + entry.length])
        if problem is not None:
            raise errors.SnapshotCorruptError(
                "ChunkUnreadable",
                f"{source} is damaged: of the chunk {entry.version} of key group {entry.group}, {problem}. Restore from "
                "another checkpoint or savepoint.",
            )


def _unreadable(source: str, why: str) -> errors.SnapshotCorruptError:
    return errors.SnapshotCorruptError(
        "DocumentUnreadable",
        f"{source} is no readable pack: {why}; it was cut short, damaged, or written by something else.",
    )
