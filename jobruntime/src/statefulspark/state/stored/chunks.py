"""Chunks: the stored form of the keyed state of one key group, in full or as the changes of some batches.

The layout is documented in `docs/formats.md`; every released version stays readable, with golden files in
`tests/golden/state/`. A chunk is msgpack with a closed set of types: reading a chunk runs no code from it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import msgpack

from statefulspark import errors
from statefulspark.contract import formats
from statefulspark.state.handles import kindtypes
from statefulspark.state.handles.kindtypes import StateMeta
from statefulspark.state.memory import numbers, tables
from statefulspark.state.stored import compressed, valuetypes
from statefulspark.state.types import codec

__all__ = ["Chunk", "ChunkKind", "Section", "StateMeta", "check_types", "decode", "encode", "merge", "seal"]

MAGIC = b"SSC"
_COMPRESSED = 4
_WRONG_SHAPES = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError)
"""What reading raises where a damaged byte has made another type, number, decimal or nesting."""


class ChunkKind(enum.Enum):
    """What a chunk is relative to."""

    FULL = "full"
    """The whole state: older chunks are not needed."""
    DELTA = "delta"
    """Changes: applied on top of the older chunks."""


@dataclass(frozen=True, slots=True)
class Section:
    """The part of a chunk that belongs to one state.

    Attributes:
        meta: The state.
        content: Values or changes by key.
    """

    meta: StateMeta
    content: tables.Content

    @property
    def changes(self) -> tables.Changes:
        """The content as Python objects."""
        return self.content.to_dict() if isinstance(self.content, numbers.Numbers) else self.content


@dataclass(frozen=True, slots=True)
class Chunk:
    """A decoded chunk.

    Attributes:
        kind: Full or delta.
        sections: One per state that has entries, in no particular order.
    """

    kind: ChunkKind
    sections: tuple[Section, ...]

    @property
    def count(self) -> int:
        """Number of keys, counted once per state."""
        return sum(len(section.content) for section in self.sections)


def check_types(chunk: Chunk) -> None:
    """Reject values that do not have the declared type of their state; for changes made by a function.

    Raises:
        SpecRejectedError: A value does not fit; the message names the state and both types.
    """
    for section in chunk.sections:
        if not isinstance(section.content, numbers.Numbers):
            valuetypes.check(section.meta, section.content)


def encode(chunk: Chunk) -> bytes:
    """Write a chunk.

    Raises:
        SpecRejectedError: A value has a type that cannot be stored; the message names the state and the type.
    """
    packer = msgpack.Packer()
    parts = [
        MAGIC,
        bytes([max((_version(section) for section in chunk.sections), default=1)]),
        packer.pack_array_header(3),
        packer.pack(chunk.kind.value),
        packer.pack(chunk.count),
        packer.pack_array_header(len(chunk.sections)),
    ]
    return b"".join(parts + [_encode_section(section) for section in chunk.sections])


def _version(section: Section) -> int:
    """Return the oldest format version that can store a section."""
    if isinstance(section.content, numbers.Numbers):
        return 2
    return section.meta.kind.shape.since


def seal(blob: bytes) -> bytes:
    """Return the stored form of what `encode` wrote: compressed where that saves enough."""
    body = compressed.compress(blob)
    return blob if body is None else MAGIC + bytes([_COMPRESSED]) + body


def _encode_section(section: Section) -> bytes:
    meta, changes = section.meta, section.content
    if isinstance(changes, numbers.Numbers):
        return codec.pack([*_meta_fields(meta), codec.pack_column(()), *changes.pack()])
    deleted = [key for key, change in changes.items() if change is tables.DELETED]
    assigned = changes
    if deleted:
        assigned = {key: change for key, change in changes.items() if change is not tables.DELETED}
    columns = meta.kind.shape.encode(assigned)
    body = [*_meta_fields(meta), codec.pack_column(deleted)]
    try:
        return codec.pack([*body, codec.pack_column(assigned), *columns])
    except TypeError as error:
        raise codec.type_rejected(meta.name, str(error)) from error
    except (ValueError, OverflowError, RecursionError) as error:
        raise errors.SpecRejectedError(
            "StateValueUnsupported", f"State '{meta.name}' was given a value that cannot be stored: {error}."
        ) from error


def _meta_fields(meta: StateMeta) -> list[object]:
    return [meta.name, meta.kind.value, meta.type_text, meta.has_ttl]


def decode(blob: bytes, source: str) -> Chunk:
    """Read a chunk of any released version.

    Args:
        blob: Its bytes.
        source: Its origin, for the error message.

    Raises:
        SnapshotCorruptError: The bytes are not a chunk, or are damaged.
        FormatVersionError: This release does not know their version.
    """
    if blob[: len(MAGIC)] != MAGIC or len(blob) <= len(MAGIC):
        raise _unreadable(source, "it has no chunk header")
    version = blob[len(MAGIC)]
    formats.CHUNK.require_known(version, f"The chunk {source}")
    try:
        if version == _COMPRESSED:
            return decode(compressed.decompress(blob[len(MAGIC) + 1 :]), source)
        return _decode_body(memoryview(blob)[len(MAGIC) + 1 :])
    except (*_WRONG_SHAPES, msgpack.UnpackException) as error:
        raise _unreadable(source, str(error) or type(error).__name__) from error


def _unreadable(source: str, why: str) -> errors.SnapshotCorruptError:
    return errors.SnapshotCorruptError(
        "ChunkUnreadable",
        f"The chunk {source} of keyed state cannot be read: {why}. It is damaged; restore from "
        "another checkpoint or savepoint.",
    )


def _decode_body(body: memoryview) -> Chunk:
    # A wrong shape ends in a TypeError or ValueError, which decode() translates.
    kind, count, packed = cast("tuple[str, int, list[list[list[object]]]]", codec.unpack(body))
    chunk = Chunk(ChunkKind(kind), tuple(_decode_section(section) for section in packed))
    if chunk.count != count:
        raise ValueError(f"the header names {count} entries, the body has {chunk.count}")
    return chunk


def _decode_section(section: list[list[object]]) -> Section:
    name, kind, type_text, has_ttl, deleted, keys, *columns = section
    meta = StateMeta(str(name), kindtypes.named(str(kind), str(name)), str(type_text), bool(has_ttl))
    if numbers.is_packed(keys):
        if codec.unpack_column(deleted):
            raise ValueError("a column of numbers comes with deleted keys")
        return Section(meta, numbers.Numbers.unpack(keys, *columns))
    changes = meta.kind.shape.decode[len(columns)](codec.unpack_column(keys), *columns)
    for key in codec.unpack_column(deleted):
        changes[key] = tables.DELETED
    return Section(meta, changes)


def merge(older: Chunk, newer: Iterable[Chunk]) -> Chunk:
    """Fold newer chunks into an older one.

    Args:
        older: The oldest chunk; changed in place.
        newer: The chunks after it, oldest first, without a gap.

    Returns:
        One chunk with the same effect, of the kind of the oldest. A full chunk has no deletions.
    """
    merged = {section.meta.name: section for section in older.sections}
    for chunk in newer:
        for section in chunk.sections:
            before = merged.get(section.meta.name)
            if before is None:
                merged[section.meta.name] = section
            else:
                # The newest meta is the one that the running job declared.
                merged[section.meta.name] = Section(section.meta, _merged(before, section))
    return Chunk(older.kind, tuple(merged.values()))


def _merged(older: Section, newer: Section) -> tables.Content:
    if isinstance(older.content, numbers.Numbers) and isinstance(newer.content, numbers.Numbers):
        merged = numbers.merge(older.content, newer.content)
        if merged is not None:
            return merged
    changes = older.changes
    newer.meta.kind.shape.merge(changes, newer.changes)
    return changes
