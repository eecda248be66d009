"""The stored format: golden files stay readable, damage is an error that says so."""

from __future__ import annotations

import os
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import columnchunk
import msgpack
import pytest
from goldenchunks import CHUNKS, DELTA, FULL, HEAD, LONG
from statefulspark import errors
from statefulspark.state import (
    cells,
    chunks,
    grouptables,
    heads,
    kinds,
    liststate,
    mapstate,
    tables,
    timers,
    valuestate,
)
from statefulspark.state.types import codec

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "state"


CELLS = chunks.Chunk(chunks.ChunkKind.DELTA, DELTA.sections[:1])


def _objects(chunk: chunks.Chunk) -> list[tuple[kinds.StateMeta, tables.Changes]]:
    return [(section.meta, section.changes) for section in chunk.sections]


@pytest.mark.parametrize("name", CHUNKS)
def test_a_golden_chunk_reads_as_it_was_written_and_is_written_byte_for_byte(name: str) -> None:
    blob = (GOLDEN / f"chunk-v1-{name}.bin").read_bytes()

    read = chunks.decode(blob, name)

    assert (read.kind, read.count) == (CHUNKS[name].kind, CHUNKS[name].count)
    assert _objects(read) == _objects(CHUNKS[name])
    assert chunks.encode(read) == chunks.encode(CHUNKS[name]) == blob


def test_each_section_says_its_form() -> None:
    blob = chunks.encode(columnchunk.as_columns())

    _, _, sections = msgpack.unpackb(blob[12 : 12 + int.from_bytes(blob[4:8], "little")], strict_map_key=False)

    assert [section[0] for section in sections] == ["columns"] * 4 + ["numbers", "objects"]


def test_a_golden_chunk_that_is_compressed_reads_as_it_was_written() -> None:
    assert chunks.decode((GOLDEN / "chunk-v1-compressed.bin").read_bytes(), "compressed") == LONG


def test_a_chunk_is_sealed_smaller_where_that_is_worth_it_and_else_as_it_is() -> None:
    blob, random_blob = chunks.encode(LONG), chunks.encode(_of_bytes(os.urandom(20_000)))

    sealed = chunks.seal(blob)

    assert (sealed[:4], chunks.decode(sealed, "x")) == (b"SSZ\x01", LONG)
    assert len(sealed) < len(blob) / 2
    assert chunks.seal(random_blob) == random_blob
    assert chunks.seal(chunks.encode(CELLS)) == chunks.encode(CELLS)


def _of_bytes(value: bytes) -> chunks.Chunk:
    meta = kinds.StateMeta("s", valuestate.VALUE, "bytes", has_ttl=False)
    return chunks.Chunk(chunks.ChunkKind.FULL, (chunks.Section(meta, {1: value}),))


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda blob: blob[:6], id="no length"),
        pytest.param(lambda blob: blob[:-1], id="cut"),
        pytest.param(lambda blob: blob[:4] + (9_999).to_bytes(4, "little") + blob[8:], id="another length"),
        pytest.param(lambda blob: blob[:20] + bytes(8) + blob[28:], id="overwritten"),
    ],
)
def test_a_damaged_compressed_chunk_is_an_error_that_names_it(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(errors.SnapshotCorruptError, match=r"chunk 7 of key group 3 .* cannot be read"):
        chunks.decode(damage(chunks.seal(chunks.encode(LONG))), "7 of key group 3")


@pytest.mark.parametrize("claimed_bytes", [2**32 - 1, 2**31, 2**25])
def test_a_chunk_that_claims_more_than_its_frame_can_have_takes_no_memory(claimed_bytes: int) -> None:
    sealed = chunks.seal(chunks.encode(LONG))
    hostile = sealed[:4] + claimed_bytes.to_bytes(4, "little") + sealed[8:500]

    tracemalloc.start()
    try:
        with pytest.raises(errors.SnapshotCorruptError, match="it can have"):
            chunks.decode(hostile, "a/b")
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_all_that_zstandard_can_pack_is_read_again() -> None:
    body = bytes(200 * 2**20)
    packed = chunks.compress(body)

    assert packed is not None
    assert chunks.decompress(packed) == body


def test_a_chunk_that_is_compressed_twice_is_refused() -> None:
    sealed = chunks.seal(chunks.encode(LONG))
    packed = chunks.compress(sealed[:4] + bytes(2000))
    assert packed is not None

    with pytest.raises(errors.SnapshotCorruptError, match="compressed twice"):
        chunks.decode(sealed[:4] + packed, "a/b")


def test_what_is_compressed_is_a_chunk_with_a_version_of_its_own() -> None:
    newer = chunks.encode(LONG)[:3] + b"\x02" + chunks.encode(LONG)[4:]

    with pytest.raises(errors.SnapshotCorruptError, match="format version 2; this release reads 1"):
        chunks.decode(chunks.seal(newer), "7 of key group 3")


def test_a_golden_head_layout_reads_as_it_was_written_and_is_written_byte_for_byte() -> None:
    body = (GOLDEN / "head-layout-v1.bin").read_bytes()

    assert heads.GroupHead.from_layout(9, "c", body) == HEAD
    assert HEAD.pack_layout() == body


_PACK = "2-1/00000007-00000001-fedcba9876543210-00000003-00000003.pack"


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param([1, [[1, 9, 1, [1, 4, 8, 0]]], ["a"], "", [_PACK]], id="a pack that is not listed"),
        pytest.param([1, [[1, 9, 1, [0, 4, 8]]], ["a"], "", [_PACK]], id="a range without its checksum"),
        pytest.param([1, [[1, 9, 1, [0, -4, 8, 0]]], ["a"], "", [_PACK]], id="a range before the pack"),
        pytest.param([1, [[1, 9, 1, [0, 4, 8, 0], 7]], ["a"], "", [_PACK]], id="more than there is to a run"),
        pytest.param([1, [[1, 9, 1, [0, 4, 8, 0]]], ["a"], "", ["../7.pack"]], id="a name that is no pack's"),
        pytest.param([1, [[1, 9, 1, [0, 4, 8, 0]]], ["a"], "", _PACK], id="no list of packs"),
        pytest.param([1, [[1, 9, 1, 0]], ["a"], "", [_PACK]], id="a number instead of a range"),
        pytest.param([1, [[1, 9, 1, [0, 4, 8, 0]]], ["a"], "", [7]], id="a number instead of a name"),
    ],
)
def test_a_damaged_head_that_names_packs_is_refused(layout: list[object]) -> None:
    with pytest.raises(errors.SnapshotCorruptError) as caught:
        heads.GroupHead.from_layout(1, "a", msgpack.packb(layout))

    assert caught.value.reason == "ChunkUnreadable"


def test_golden_timers_are_ordered_when_they_are_read() -> None:
    group = grouptables.GroupTables()
    group.apply(chunks.decode((GOLDEN / "chunk-v1-types.bin").read_bytes(), "types"))
    table = group.table(timers.meta_of(timers.TimeDomain.EVENT_TIME))
    assert isinstance(table, timers.TimerTable)
    assert table.peek() == (1700000000000, "AA")


def test_a_delta_merged_into_a_full_chunk_is_a_full_chunk_without_deletions() -> None:
    merged = chunks.merge(chunks.decode(chunks.encode(FULL), "full"), [DELTA])
    assert merged.kind is chunks.ChunkKind.FULL
    group = grouptables.GroupTables()
    for chunk in (FULL, DELTA):
        group.apply(chunks.decode(chunks.encode(chunk), "test"))
    again = grouptables.GroupTables()
    again.apply(merged)
    assert {name: table.rows for name, table in again.tables.items()} == {
        name: table.rows for name, table in group.tables.items()
    }


def test_the_first_chunk_of_a_key_group_becomes_its_tables_without_a_copy() -> None:
    chunk = chunks.decode(chunks.encode(FULL), "full")
    group = grouptables.GroupTables()
    group.apply(chunk)
    changes = {section.meta.name: section.changes for section in chunk.sections}
    lists, maps = changes["list"]["AA"], changes["map"]["AA"]
    assert isinstance(lists, liststate.ListChange)
    assert isinstance(maps, mapstate.MapChange)
    assert group.tables["value"].rows is changes["value"]
    assert group.tables["list"].rows["AA"] is lists.items
    assert group.tables["map"].rows["AA"] is maps.puts


def test_changes_that_delete_keep_what_they_delete_when_the_table_is_empty() -> None:
    table = cells.CellTable()
    changes: tables.Changes = {"AA": 1, "UA": tables.DELETED}
    table.apply(changes)
    assert table.rows == {"AA": 1}
    assert changes == {"AA": 1, "UA": tables.DELETED}


def test_a_chunk_is_read_without_copying_its_body(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[object] = []
    unpack = codec.unpack

    def unpack_seen(body: bytes | memoryview) -> object:
        bodies.append(body)
        return unpack(body)

    monkeypatch.setattr(codec, "unpack", unpack_seen)
    blob = chunks.encode(FULL)
    chunks.decode(blob, "full")
    assert isinstance(bodies[0], memoryview)
    assert bodies[0].obj is blob


def _map_of(*columns: object) -> list[object]:
    return ["objects", "m", "MapState", "any", False, ["v", []], ["v", ["AA"]], [True], *columns]


MAP_WITHOUT_A_VALUE = _map_of([2], ["v", ["a", "b"]], ["v", [1]], [0], ["v", []])
MAP_WITHOUT_A_REMOVAL = _map_of([1], ["v", ["a"]], ["v", [1]], [1], ["v", []])
LIST_OF_THREE_ITEMS = ["objects", "l", "ListState", "any", False, ["v", []], ["v", ["AA"]], [0], [3], ["v", [1, 2]]]


UNKNOWN_FORM = ["rows", "l", "ListState", "any", False, ["v", []], ["v", []], [], [], ["v", []]]
NUMBERS_OF_TEXT = ["numbers", "n", "ReducingState", "int", False, ["<i1", b"\x01"], ["<U1", b"\x01"]]


def _whole(*told: object) -> bytes:
    """Return a chunk with a header of its own, and the checksum of that."""
    header = codec.pack(told)
    return b"SSC\x01" + struct.pack("<II", len(header), zlib.crc32(header)) + header


@pytest.mark.parametrize(
    ("damaged", "sentence"),
    [
        (b"", "it has no chunk header"),
        (b"PK" + chunks.encode(FULL), "it has no chunk header"),
        (chunks.encode(FULL)[:-3], "cannot be read"),
        (chunks.encode(FULL)[:12] + b"\xc1" + chunks.encode(FULL)[13:], "cannot be read"),
        (chunks.encode(FULL) + b"\x00", "buffers end after"),
        (chunks.encode(FULL)[:3] + b"\x02" + chunks.encode(FULL)[4:], "format version 2; this release reads 1"),
        (_whole("full", 3, []), "names 3 entries, the body has 0"),
        (_whole("full", 1, [LIST_OF_THREE_ITEMS]), "names 3 items, the body has 2"),
        (_whole("full", 1, [MAP_WITHOUT_A_VALUE]), "names 2 items, the body has 1"),
        (_whole("full", 1, [MAP_WITHOUT_A_REMOVAL]), "names 1 items, the body has 0"),
        (_whole("full", 0, [UNKNOWN_FORM]), "'rows' is not a form of a section"),
        (_whole("full", 1, [NUMBERS_OF_TEXT]), "column of numbers of type '<U1' is unknown"),
    ],
)
def test_a_damaged_chunk_is_an_error_that_names_it(damaged: bytes, sentence: str) -> None:
    with pytest.raises(errors.SnapshotCorruptError, match=sentence) as caught:
        chunks.decode(damaged, "7 of key group 3")
    assert "chunk 7 of key group 3" in caught.value.message
