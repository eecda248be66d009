"""Chunks: the stored form of the keyed state of one key group, in full or as the changes of some batches.

The layout is documented in `docs/formats.md`, with golden files in `tests/golden/state/`. A chunk is msgpack with a closed
set of types: reading a chunk runs no code from it.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from statefulspark import errors
from statefulspark.contract import formats
from statefulspark.state import columns, kinds, merging, numbers, tables
from statefulspark.state.kinds import StateMeta
from statefulspark.state.types import codec, keyforms, typetext

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
_ALLOWED: dict[str, frozenset[str]] = {
    "integer": frozenset({"int"}),
    "float": frozenset({"float", "int"}),
    "string": frozenset({"str"}),
    "binary": frozenset({"bytes"}),
    "boolean": frozenset({"bool"}),
    "date": frozenset({"datetime.date"}),
    "timestamp": frozenset({"datetime.datetime"}),
    "time": frozenset({"datetime.time"}),
    "interval": frozenset({"datetime.timedelta"}),
    "decimal": frozenset({"decimal.Decimal"}),
    "uuid": frozenset({"uuid.UUID"}),
    "array": frozenset({"list"}),
    "map": frozenset({"dict"}),
    "struct": frozenset({"dict"}),
    "record": frozenset({"tuple"}),
    "enum": frozenset({"str"}),
}
_MAGIC = b"SSC"
_MAGIC_COMPRESSED = b"SSZ"
_OBJECTS = "objects"
_NUMBERS = "numbers"
_FEWEST_KEYS = 256
_SMALLEST_ROW_BYTES = 24
_SAMPLE = 16
"""State with fewer keys or smaller rows is not stored as columns: offsets and hashes would cost more than they save."""


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
        content: Values or changes by key: as objects, as numbers, or as columns.
    """

    meta: StateMeta
    content: tables.Content | columns.Columns

    @property
    def changes(self) -> tables.Changes:
        """The content as Python objects."""
        if isinstance(self.content, columns.Columns):
            return self.content.changes(self.meta.kind)
        return self.content.to_dict() if isinstance(self.content, numbers.Numbers) else self.content

    @property
    def table_content(self) -> tables.Content:
        """What a table takes: numbers, or objects."""
        return self.content if isinstance(self.content, numbers.Numbers) else self.changes

    def columns(self) -> columns.Columns | None:
        """Return the content as columns, whatever it costs; None if it is too large for them.

        Raises:
            SpecRejectedError: A value has a type that cannot be stored.
        """
        if isinstance(self.content, columns.Columns):
            return self.content
        with codec.naming(self.meta.name):
            return columns.Columns.from_changes(self.changes, self.meta.kind)


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

    @property
    def has_numbers(self) -> bool:
        """Whether some content is numbers."""
        return any(isinstance(section.content, numbers.Numbers) for section in self.sections)

    @property
    def is_in_columns(self) -> bool:
        """Whether all content is columns."""
        return all(isinstance(section.content, columns.Columns) for section in self.sections)


def check_types(chunk: Chunk) -> None:
    """Reject values that do not have the declared type of their state; for changes made by a function.

    Only the outermost type is checked, one column at a time, so that the job that writes a wrong value fails, and not the
    one that restores it. Integers are of any size; a float state also accepts integers.

    Raises:
        SpecRejectedError: A value does not fit; the message names the state and both types.
    """
    for section in chunk.sections:
        if not isinstance(section.content, dict):
            continue
        state = section.meta
        declared_type, allowed = _declared(state.type_text, state.kind.container)
        if allowed is None:
            continue
        values: Iterable[object] = state.kind.written_cells(section.content)
        if state.has_ttl:
            values = (cell if cell is tables.DELETED else cast("tuple[object, int]", cell)[0] for cell in values)
        for kind in set(map(type, values)):
            if kind in (type(None), tables.Deleted) or codec.type_name(kind) in allowed:
                continue
            raise errors.SpecRejectedError(
                "StateValueTypeUnsupported",
                f"State '{state.name}' was given a value of type {codec.type_name(kind)}, and is declared as "
                f"{declared_type}. Convert the value, or declare another type; without a type, the state accepts every "
                "value that can be stored.",
            )


@functools.lru_cache(maxsize=1024)
def _declared(type_text: str, container: str) -> tuple[str, frozenset[str] | None]:
    """Return the declared type of a cell, and the names of the Python types that it accepts; None for all storable ones."""
    declared = typetext.parse(type_text)
    if container:
        is_whole = declared.family == container and declared.arguments
        declared = declared.arguments[-1] if is_whole else typetext.UNKNOWN
    return declared.text if container else type_text, _ALLOWED.get(declared.family)


def choose_columns(chunk: Chunk) -> Chunk:
    """Return a chunk with those sections as columns that are worth it: many keys, and rows of some size; others as objects.

    Many timers are columns where other states are: a key group is read by keys only if that is cheap for all its states.

    Raises:
        SpecRejectedError: A value has a type that cannot be stored.
    """
    are_worth_it = list(map(_is_worth_it, chunk.sections))
    sections = []
    for section, is_worth_it in zip(chunk.sections, are_worth_it, strict=True):
        are_many_timers = section.meta.kind.has_moments and len(section.content) >= _FEWEST_KEYS
        if is_worth_it or (any(are_worth_it) and are_many_timers):
            sections.append(dataclasses.replace(section, content=section.columns() or section.content))
        else:
            sections.append(dataclasses.replace(section, content=section.table_content))
    return dataclasses.replace(chunk, sections=tuple(sections))


def _is_worth_it(section: Section) -> bool:
    """Tell whether a section has many keys, and rows of some size on average: of a sample where that is cheaper."""
    kind, content = section.meta.kind, section.content
    if kind.has_moments or isinstance(content, numbers.Numbers) or len(content) < _FEWEST_KEYS or not kind.has_columns:
        return False
    if isinstance(content, columns.Columns):
        return content.row_bytes >= _SMALLEST_ROW_BYTES
    sample = tuple(itertools.islice(content.values(), _SAMPLE))
    with codec.naming(section.meta.name):
        rows, _ = columns.pack_rows(sample, kind)
    return sum(map(len, rows)) / max(1, len(rows) - rows.count(b"")) >= _SMALLEST_ROW_BYTES


def without_expired(chunk: Chunk, durations_ms: Mapping[str, int], now_ms: int) -> Chunk:
    """Return a full chunk without its expired entries, for a canonical export (A.29).

    The live state does not change; a restore from the export lacks these entries.

    Args:
        chunk: A full chunk of a key group.
        durations_ms: Time to live by name of the state, for states with `Ttl.cleanup_full_snapshot`. It comes from the
            running job, not from the snapshot. States that were written without a time to live stay unchanged.
        now_ms: Processing time.
    """
    sections = []
    for section in chunk.sections:
        duration_ms = durations_ms.get(section.meta.name)
        if duration_ms is None or not section.meta.has_ttl:
            sections.append(section)
            continue
        alive_part, cutoff_ms = section.meta.kind.alive, now_ms - duration_ms
        alive_entries = (
            (key, change if change is tables.DELETED else alive_part(change, cutoff_ms))  # type: ignore[arg-type]  # of this kind
            for key, change in section.changes.items()
        )
        changes = {key: change for key, change in alive_entries if change is not None}
        if changes:
            sections.append(dataclasses.replace(section, content=changes))
    return dataclasses.replace(chunk, sections=tuple(sections))


def encode(chunk: Chunk) -> bytes:
    """Write a chunk.

    Raises:
        SpecRejectedError: A value has a type that cannot be stored; the message names the state and the type.
    """
    sections = [_encode_section(section) for section in chunk.sections]
    return _begin(_MAGIC) + columns.write_body((chunk.kind.value, chunk.count), sections)


def seal(blob: bytes) -> bytes:
    """Return the stored form of what `encode` wrote: compressed where that saves enough."""
    body = compress(blob)
    return blob if body is None else _begin(_MAGIC_COMPRESSED) + body


def _begin(magic: bytes) -> bytes:
    return magic + bytes([formats.CHUNK.writes])


def _encode_section(section: Section) -> columns.Described | bytes:
    meta = section.meta
    fields = [meta.name, meta.kind.value, meta.type_text, meta.has_ttl]
    if isinstance(section.content, columns.Columns):
        return columns.Described(fields, section.content)
    if isinstance(section.content, numbers.Numbers):
        return codec.pack([_NUMBERS, *fields, *section.content.pack()])
    changes = section.changes
    deleted = [key for key, change in changes.items() if change is tables.DELETED]
    assigned = changes
    if deleted:
        assigned = {key: change for key, change in changes.items() if change is not tables.DELETED}
    parts = meta.kind.encode(assigned)
    with codec.naming(meta.name):
        return codec.pack([_OBJECTS, *fields, codec.pack_column(deleted), codec.pack_column(assigned), *parts])


def decode(blob: bytes, source: str) -> Chunk:
    """Read a chunk.

    Args:
        blob: Its bytes.
        source: Its origin, for the error message.

    Raises:
        SnapshotCorruptError: The bytes are not a chunk, or are damaged.
        FormatVersionError: This release does not know their version.
    """
    magic, version, body = blob[: len(_MAGIC)], blob[len(_MAGIC) : len(_MAGIC) + 1], memoryview(blob)[len(_MAGIC) + 1 :]
    if magic not in (_MAGIC, _MAGIC_COMPRESSED) or not version:
        raise columns.unreadable(source, "it has no chunk header")
    formats.CHUNK.require_known(version[0], f"The chunk {source}")
    with columns.damage_reported(source):
        if magic == _MAGIC_COMPRESSED:
            inner = decompress(body)
            if inner.startswith(_MAGIC_COMPRESSED):
                raise ValueError("it is compressed twice")
            return decode(inner, source)
        # A wrong form ends in a TypeError or ValueError.
        (kind, count), sections = columns.read_body(body, source)
        chunk = Chunk(ChunkKind(kind), tuple(map(_decode_section, sections)))
        if chunk.count != count:
            raise ValueError(f"the header names {count} entries, the body has {chunk.count}")
        return chunk


def _meta(name: object, kind: object, type_text: object, has_ttl: object) -> StateMeta:
    return StateMeta(str(name), kinds.named(str(kind), str(name)), str(type_text), bool(has_ttl))


def _decode_section(section: columns.Described | list[object]) -> Section:
    if isinstance(section, columns.Described):
        return Section(_meta(*section.meta), section.columns)
    form, name, kind, type_text, has_ttl, *parts = section
    meta, columns_of_it = _meta(name, kind, type_text, has_ttl), cast("list[list[object]]", parts)
    if form == _NUMBERS:
        return Section(meta, numbers.Numbers.unpack(*columns_of_it))
    if form != _OBJECTS:
        raise ValueError(f"{form!r:.100} is not a form of a section that this release knows")
    deleted, keys, *values = columns_of_it
    changes = meta.kind.decode(keyforms.one_form(codec.unpack_column(keys)), *values)
    for key in keyforms.one_form(codec.unpack_column(deleted)):
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
    by_name: dict[str, list[Section]] = {}
    for section in itertools.chain.from_iterable(chunk.sections for chunk in (older, *newer)):
        by_name.setdefault(section.meta.name, []).append(section)
    is_full = older.kind is ChunkKind.FULL
    return Chunk(older.kind, tuple(_merged(sections, is_full=is_full) for sections in by_name.values()))


def _merged(sections: list[Section], *, is_full: bool) -> Section:
    """Merge the sections of one state, the oldest first. The newest meta is the one that the running job declared."""
    if len(sections) == 1:
        return sections[0]
    kind, layers = sections[-1].meta.kind, [section.content for section in sections]
    if all(isinstance(layer, columns.Columns) for layer in layers):
        whole = merging.merge(cast("list[columns.Columns]", layers), kind, is_full=is_full)
        if whole is not None:
            return Section(sections[-1].meta, whole)
    merged = sections[0]
    for newer in sections[1:]:
        older = merged.content
        if isinstance(older, numbers.Numbers) and isinstance(newer.content, numbers.Numbers):
            both = numbers.merge(older, newer.content)
            if both is not None:
                merged = Section(newer.meta, both)
                continue
        changes = merged.changes
        newer.meta.kind.merge(changes, newer.changes)
        merged = Section(newer.meta, changes)
    return merged


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
        # Before so much memory is taken.
        most_bytes = min(_LARGEST_BYTES, (len(body) - _LENGTH.size) // _SMALLEST_BLOCK_BYTES * _BLOCK_BYTES)
        if length > most_bytes:
            raise ValueError(
                f"its compressed body says that it has {length} bytes, and it can have {most_bytes} at most"
            )
        blob: bytes = _CODEC.decompress(memoryview(body)[_LENGTH.size :], length, asbytes=True)
    except (struct.error, OSError, pa.ArrowException) as error:
        raise ValueError(f"its compressed body is damaged ({error})") from error
    return blob
