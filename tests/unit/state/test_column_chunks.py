"""Chunks of columns: what is stored as columns, what it looks like, and what damage to any of its bytes does."""

from __future__ import annotations

import dataclasses
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import columnchunk
import msgpack
import pyarrow as pa
import pytest
from statefulspark import errors
from statefulspark.state import (
    aggregatingstate,
    chunks,
    columns,
    grouptables,
    kinds,
    liststate,
    mapstate,
    numbers,
    tables,
    timers,
    valuestate,
    views,
)
from statefulspark.state.types import codec

FOLDER = Path(__file__).parents[2] / "golden" / "state"
GOLDEN = (FOLDER / "chunk-v1-columns.bin").read_bytes()
WHERE = "7 of key group 3"
FULL, DELTA = chunks.ChunkKind.FULL, chunks.ChunkKind.DELTA


def _meta(name: str = "s", kind: kinds.StateKind = valuestate.VALUE, *, has_ttl: bool = False) -> kinds.StateMeta:
    return kinds.StateMeta(name, kind, "any", has_ttl)


def _chunk(*sections: tuple[kinds.StateMeta, tables.Content], kind: chunks.ChunkKind = FULL) -> chunks.Chunk:
    return chunks.Chunk(kind, tuple(chunks.Section(meta, content) for meta, content in sections))


def _objects(chunk: chunks.Chunk) -> list[tuple[kinds.StateMeta, tables.Changes]]:
    return [(section.meta, section.changes) for section in chunk.sections]


def _stored_as(chunk: chunks.Chunk) -> list[str]:
    """Return what each section is after it was stored and read."""
    names = {columns.Columns: "columns", numbers.Numbers: "numbers", dict: "objects"}
    read = chunks.decode(chunks.encode(chunks.choose_columns(chunk)), WHERE)
    return [names[type(section.content)] for section in read.sections]


LARGE_ROWS: dict[str, tuple[kinds.StateKind, Callable[[int], object]]] = {
    "values": (valuestate.VALUE, lambda number: f"value {number:040}"),
    "accumulators": (aggregatingstate.AGGREGATING, lambda number: (number, f"{number:040}")),
    "lists": (liststate.LIST, lambda number: liststate.ListChange(0, [f"{number:040}"])),
    "maps": (mapstate.MAP, lambda number: mapstate.MapChange(replaced=True, puts={f"{number:040}": number})),
}


def _large(count: int, name: str = "values") -> chunks.Chunk:
    kind, row = LARGE_ROWS[name]
    return _chunk((_meta(kind=kind), {f"key {number}": row(number) for number in range(count)}))


@pytest.mark.parametrize("name", LARGE_ROWS)
@pytest.mark.parametrize(
    ("count", "form"),
    [(255, "objects"), (256, "columns"), (1000, "columns")],
    ids=["255 keys", "256 keys", "1,000 keys"],
)
def test_state_of_many_keys_is_stored_as_columns(name: str, count: int, form: str) -> None:
    chunk = _large(count, name)

    assert _stored_as(chunk) == [form]
    assert _objects(chunks.decode(chunks.encode(chunks.choose_columns(chunk)), WHERE)) == _objects(chunk)


@pytest.mark.parametrize(("length", "form"), [(22, "objects"), (23, "columns")], ids=["23 bytes", "24 bytes"])
def test_state_with_small_rows_is_stored_as_objects(length: int, form: str) -> None:
    assert _stored_as(_chunk((_meta(), dict.fromkeys(range(300), "x" * length)))) == [form]


def test_the_size_of_rows_is_that_of_changes_that_are_no_deletions() -> None:
    large: tables.Changes = {number: tables.DELETED if number % 2 else "x" * 23 for number in range(300)}
    small: tables.Changes = {number: tables.DELETED if number % 2 else "x" * 22 for number in range(300)}

    assert _stored_as(_chunk((_meta(), large), (_meta("t"), small), kind=DELTA)) == ["columns", "objects"]


@pytest.mark.parametrize(
    ("chunk", "form"),
    [
        pytest.param(
            _chunk((_meta(), dict.fromkeys(range(300), tables.DELETED)), kind=DELTA), "objects", id="deletions"
        ),
        pytest.param(
            _chunk(
                (
                    timers.meta_of(timers.TimeDomain.EVENT_TIME),
                    {number: mapstate.MapChange(replaced=True, puts=dict.fromkeys(range(20))) for number in range(300)},
                )
            ),
            "objects",
            id="timers",
        ),
        pytest.param(_chunk((_meta(), columnchunk.chunk().sections[4].content)), "numbers", id="numbers"),
    ],
)
def test_what_is_never_stored_as_columns(chunk: chunks.Chunk, form: str) -> None:
    assert _stored_as(chunk) == [form]
    assert chunks.encode(chunks.choose_columns(chunk)) == chunks.encode(chunk)


def test_each_state_of_a_chunk_is_stored_as_suits_it() -> None:
    chunk = _chunk((_meta("small"), {1: 2}), *((section.meta, section.changes) for section in _large(300).sections))

    assert _stored_as(chunk) == ["objects", "columns"]
    assert _objects(chunks.decode(chunks.encode(chunks.choose_columns(chunk)), WHERE)) == _objects(chunk)


def test_values_that_cannot_be_stored_are_refused_by_the_name_of_the_state() -> None:
    values = dict.fromkeys(range(300), "x" * 40)
    for number in (0, 299):
        with pytest.raises(errors.SpecRejectedError, match="State 's' was given a value of type set"):
            chunks.choose_columns(_chunk((_meta(), {**values, number: {1}})))


def test_a_chunk_of_columns_is_compressed_like_any_other() -> None:
    blob = chunks.encode(chunks.choose_columns(_large(1000)))

    sealed = chunks.seal(blob)

    assert sealed[:4] == b"SSZ\x01"
    assert len(sealed) < len(blob) / 2
    read = chunks.decode(sealed, WHERE)
    assert _objects(read) == _objects(_large(1000))
    assert chunks.encode(read) == blob


def test_the_columns_of_a_chunk_are_used_where_they_lie() -> None:
    blob = chunks.encode(chunks.choose_columns(_large(1000)))
    (section,) = chunks.decode(blob, WHERE).sections

    assert isinstance(section.content, columns.Columns)
    begins_at = pa.py_buffer(blob).address
    for array in (section.content.keys, section.content.rows):
        lies_at = array.buffers()[2].address - begins_at
        assert 0 < lies_at < len(blob)
        assert lies_at % 8 == 0


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where things are in a chunk, found as `docs/formats.md` says.

    Attributes:
        checked: Positions of all bytes that the checksum covers, and of those that it cannot cover.
        rows: Positions of rows.
        padding: Positions between buffers.
        checksum: What the chunk says.
    """

    checked: tuple[tuple[int, int], ...]
    rows: frozenset[int]
    padding: frozenset[int]
    checksum: int


def _layout_of(blob: bytes) -> Layout:
    length, checksum = struct.unpack_from("<II", blob, 4)
    position = 12 + length
    _, _, sections = msgpack.unpackb(blob[12:position], strict_map_key=False)
    checked, rows, padding = [(12, position)], set[int](), set[int]()
    for section in sections:
        if section[0] != "columns":
            continue
        *_, lengths = section
        for number, size in enumerate(lengths):
            begin = (position + 7) // 8 * 8
            padding |= set(range(position, begin))
            position = begin + size
            if number == 4:
                rows |= set(range(begin, position))
            else:
                checked.append((begin, position))
    assert position == len(blob)
    return Layout(tuple(checked), frozenset(rows), frozenset(padding), checksum)


def test_a_chunk_of_columns_has_the_documented_layout() -> None:
    found = _layout_of(GOLDEN)

    assert GOLDEN[:4] == b"SSC\x01"
    assert zlib.crc32(b"".join(GOLDEN[begin:end] for begin, end in found.checked)) == found.checksum
    assert len(found.rows) > 100
    assert all(GOLDEN[position] == 0 for position in found.padding)


def _flips(positions: range | frozenset[int]) -> list[bytes]:
    found = []
    for position in positions:
        for bit in range(8):
            flipped = bytearray(GOLDEN)
            flipped[position] ^= 1 << bit
            found.append(bytes(flipped))
    return found


def test_a_flipped_bit_in_all_but_rows_makes_a_chunk_unreadable() -> None:
    layout = _layout_of(GOLDEN)
    covered = frozenset(range(4, len(GOLDEN))) - layout.rows - layout.padding

    for damaged in _flips(covered):
        with pytest.raises(errors.SnapshotCorruptError) as caught:
            chunks.decode(damaged, WHERE)
        assert caught.value.reason == "ChunkUnreadable"


def test_a_flipped_bit_before_the_body_makes_another_version_or_no_chunk() -> None:
    for damaged in _flips(range(4)):
        with pytest.raises(errors.SnapshotCorruptError) as caught:
            chunks.decode(damaged, WHERE)
        assert caught.value.reason in {"ChunkUnreadable", "FormatVersionUnknown"}


def test_a_flipped_bit_between_buffers_changes_nothing() -> None:
    for damaged in _flips(_layout_of(GOLDEN).padding):
        assert _objects(chunks.decode(damaged, WHERE)) == _objects(columnchunk.chunk())


def _or_reason(read: Callable[[], object]) -> object:
    """Return what was read, or the reason why it cannot be."""
    try:
        return read()
    except errors.SnapshotCorruptError as error:
        return error.reason


def test_a_flipped_bit_in_a_row_hides_no_key_and_is_told_where_it_cannot_be_read() -> None:
    keys = [(section.meta, section.changes.keys()) for section in columnchunk.chunk().sections]

    for damaged in _flips(_layout_of(GOLDEN).rows):
        read = chunks.decode(damaged, WHERE)
        found = _or_reason(lambda read=read: [(section.meta, section.changes.keys()) for section in read.sections])
        assert found in (keys, "ChunkUnreadable")


def test_a_flipped_bit_in_a_row_is_told_by_a_view_too() -> None:
    blob = chunks.encode(dataclasses.replace(columnchunk.as_columns(), sections=columnchunk.as_columns().sections[:4]))
    keys, found = columns.PackedKeys.pack(["AA", "B6", 1, 7]), set()
    for position in _layout_of(blob).rows:
        for flip in (0x01, 0x10, 0xFF):
            damaged = bytearray(blob)
            damaged[position] ^= flip
            view = views.GroupView()
            assert view.apply(chunks.decode(bytes(damaged), WHERE))
            tables_or_reason = _or_reason(lambda view=view: view.part(keys))
            found.add(tables_or_reason if isinstance(tables_or_reason, str) else "tables")
    assert found == {"tables", "ChunkUnreadable"}


def test_a_chunk_that_was_cut_off_anywhere_is_unreadable() -> None:
    for length in range(len(GOLDEN)):
        with pytest.raises(errors.SnapshotCorruptError) as caught:
            chunks.decode(GOLDEN[:length], WHERE)
        assert caught.value.reason == "ChunkUnreadable"


def test_a_chunk_with_bytes_behind_it_is_unreadable() -> None:
    with pytest.raises(errors.SnapshotCorruptError, match="buffers end after"):
        chunks.decode(GOLDEN + b"\x00", WHERE)


def _forged(
    sections: object, *buffers: bytes, count: object = 2, kind: object = "full", checksum: int | None = None
) -> bytes:
    """Return a chunk whose checksum is right, and whose content may be wrong."""
    header = codec.pack([kind, count, sections])
    position, body, covered = 12 + len(header), b"", header
    for number, buffer in enumerate(buffers):
        padding = bytes(-position % 8)
        position += len(padding) + len(buffer)
        body += padding + buffer
        covered += b"" if number % 5 == 4 else buffer
    told = zlib.crc32(covered) if checksum is None else checksum
    return b"SSC\x01" + struct.pack("<II", len(header), told) + header + body


def _i4(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


HASHES = b"\x01\x00\x00\x00\x02\x00\x00\x00"
SOUND = (HASHES, _i4(0, 1, 2), b"\x01\x02", _i4(0, 1, 2), b"\x03\x04")
META = ["columns", "s", "ValueState", "any", False]


def _section(count: object = 2, buffers: tuple[bytes, ...] = SOUND) -> list[object]:
    return [*META, count, False, [len(buffer) for buffer in buffers]]


def _with(number: int, buffer: bytes) -> bytes:
    buffers = (*SOUND[:number], buffer, *SOUND[number + 1 :])
    return _forged([_section(buffers=buffers)], *buffers)


def test_a_chunk_that_is_made_by_hand_is_read() -> None:
    assert _objects(chunks.decode(_forged([_section()], *SOUND), WHERE)) == [(_meta(), {1: 3, 2: 4})]


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param(_with(0, HASHES[4:] + HASHES[:4]), id="hashes in descending order"),
        pytest.param(_with(0, HASHES[:4]), id="a hash too few"),
        pytest.param(_with(0, HASHES[:7]), id="part of a hash"),
        pytest.param(_with(0, b""), id="no hashes"),
        pytest.param(_with(1, _i4(0, 2, 1)), id="key offsets in descending order"),
        pytest.param(_with(1, _i4(0, -1, 2)), id="a negative offset"),
        pytest.param(_with(1, _i4(1, 1, 2)), id="keys that do not begin at 0"),
        pytest.param(_with(1, _i4(0, 1, 3)), id="keys that end too late"),
        pytest.param(_with(1, _i4(0, 1, 1)), id="keys that end too early"),
        pytest.param(_with(1, _i4(0, 2)), id="a key too few"),
        pytest.param(_with(1, b""), id="no key offsets"),
        pytest.param(_with(3, _i4(0, 2, 1)), id="row offsets in descending order"),
        pytest.param(_with(3, _i4(0, 2)), id="a row too few"),
        pytest.param(_with(3, _i4(0, 1, 9)), id="rows that end too late"),
        pytest.param(_with(3, _i4(0, 1, 2)[:-1]), id="part of an offset"),
        pytest.param(_forged([_section(count=3)], *SOUND), id="another number of keys in the section"),
        pytest.param(_forged([_section()], *SOUND, count=3), id="another number of keys in the header"),
        pytest.param(_forged([_section()], *SOUND, kind="half"), id="a kind that there is not"),
        pytest.param(_forged([[*META, 2, False, [8, 12, 2, 12]]], *SOUND[:4]), id="four buffers"),
        pytest.param(_forged([[*META, 2, False, [8, 12, 2, 12, -2]]], *SOUND), id="a negative length"),
        pytest.param(_forged([[*META, 2, False, [8, 12, 2, 12, 2**70]]], *SOUND), id="an endless length"),
        pytest.param(_forged([[*META, 2, False, 5]], *SOUND), id="a number for lengths"),
        pytest.param(_forged([[]]), id="an empty section"),
        pytest.param(_forged(["s"], count=0), id="text for a section"),
        pytest.param(_forged([None], count=0), id="nothing for a section"),
        pytest.param(_forged([b"\xc1"], count=0), id="bytes for a section"),
        pytest.param(
            _forged([["columns", "s", "HeapState", "any", False, *_section()[5:]]], *SOUND),
            id="an unknown kind of state",
        ),
        pytest.param(_forged([[*META[:3], *_section()[5:]]], *SOUND), id="a description that is too short"),
        pytest.param(_forged(7), id="a number for sections"),
        pytest.param(_forged([_section()], *SOUND, checksum=0), id="another checksum"),
    ],
)
def test_a_chunk_whose_parts_do_not_fit_is_unreadable(forged: bytes) -> None:
    with pytest.raises(errors.SnapshotCorruptError) as caught:
        chunks.decode(forged, WHERE)
    assert caught.value.reason == "ChunkUnreadable"
    assert f"chunk {WHERE}" in caught.value.message


def test_a_chunk_of_columns_becomes_the_same_tables_as_one_of_objects() -> None:
    found, expected = grouptables.GroupTables(), grouptables.GroupTables()
    for chunk in (FULL_BASE, columnchunk.as_columns()):
        found.apply(chunks.decode(chunks.encode(chunk), WHERE))
    for chunk in (FULL_BASE, columnchunk.chunk()):
        expected.apply(chunks.decode(chunks.encode(chunk), WHERE))

    assert found.metas == expected.metas
    assert {name: table.rows for name, table in found.tables.items()} == {
        name: table.rows for name, table in expected.tables.items()
    }


FULL_BASE = _chunk(
    (columnchunk.chunk().sections[0].meta, {"AA": 0, "gone": 1}),
    (
        columnchunk.chunk().sections[2].meta,
        {"AA": liststate.ListChange(0, [7, 8, 9, 10]), "UA": liststate.ListChange(0, [1])},
    ),
)
