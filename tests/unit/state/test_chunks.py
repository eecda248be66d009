"""The stored format: golden files of every released version stay readable, damage is an error that says so."""

from __future__ import annotations

import datetime
import decimal
import os
from collections.abc import Callable
from pathlib import Path

import msgpack
import numpy as np
import pytest
from statefulspark import errors
from statefulspark.packs import ranges
from statefulspark.state import timers
from statefulspark.state.handles import kinds, kindtypes
from statefulspark.state.memory import numbers, tables, timertable
from statefulspark.state.stored import chunks, compaction, grouptables, heads
from statefulspark.state.types import codec

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "state"


def _meta(name: str, kind: kindtypes.StateKind, type_text: str = "any", *, has_ttl: bool = False) -> chunks.StateMeta:
    return chunks.StateMeta(name, kind, type_text, has_ttl)


FULL = chunks.Chunk(
    chunks.ChunkKind.FULL,
    (
        chunks.Section(
            _meta("value", kinds.VALUE, "double"),
            {"AA": 1.5, None: -0.25, ("UA", 7): 2.0, datetime.date(2013, 1, 1): 0.0},
        ),
        chunks.Section(_meta("mean", kinds.AGGREGATING), {1: (10, 4), 2: (2**70, 1)}),
        chunks.Section(
            _meta("best", kinds.REDUCING, has_ttl=True),
            {"AA": (decimal.Decimal("1.20"), 1700000000000)},
        ),
        chunks.Section(
            _meta("list", kinds.LIST, "array<any>"),
            {"AA": tables.ListChange(0, [1, "two", b"three", None, [4, (5,)], {"six": 6}])},
        ),
        chunks.Section(
            _meta("map", kinds.MAP, "map<bigint,any>"),
            {
                "AA": tables.MapChange(
                    replaced=True, puts={1: datetime.datetime(2013, 1, 1, 5, tzinfo=datetime.UTC), 2: None}
                )
            },
        ),
    ),
)
DELTA = chunks.Chunk(
    chunks.ChunkKind.DELTA,
    (
        chunks.Section(_meta("value", kinds.VALUE, "double"), {"AA": 2.5, "B6": tables.DELETED}),
        chunks.Section(
            _meta("list", kinds.LIST, "array<any>"),
            {"AA": tables.ListChange(6, [7]), "B6": tables.DELETED},
        ),
        chunks.Section(
            _meta("map", kinds.MAP, "map<bigint,any>"),
            {"AA": tables.MapChange(replaced=False, puts={3: "x"}, removed={1}), "B6": tables.DELETED},
        ),
    ),
)

TYPES = chunks.Chunk(
    chunks.ChunkKind.FULL,
    (
        chunks.Section(
            _meta("record", kinds.VALUE, "record<carrier:str,delay:int,color:enum<RED,BLUE>>"),
            {"AA": ("AA", 3, "RED"), "B6": ("B6", -1, None)},
        ),
        chunks.Section(
            _meta("colors", kinds.LIST, "array<enum<RED,BLUE>>"),
            {"AA": tables.ListChange(0, ["RED", "BLUE"])},
        ),
        chunks.Section(
            _meta("degrees", kinds.MAP, "map<str,codec<degrees,2>>", has_ttl=True),
            {"AA": tables.MapChange(replaced=True, puts={"JFK": (215, 1700000000000)})},
        ),
        chunks.Section(_meta("struct", kinds.VALUE, "struct<a:bigint,b:array<string>>"), {7: {"a": 1, "b": ["x"]}}),
        chunks.Section(
            timers.meta_of(timers.TimeDomain.EVENT_TIME),
            {"AA": tables.MapChange(replaced=True, puts={1700000000000: None})},
        ),
    ),
)
NUMBERS = chunks.Chunk(
    chunks.ChunkKind.DELTA,
    (
        chunks.Section(
            _meta("count", kinds.REDUCING, "int"),
            numbers.Numbers(np.array([-1, 2, 2**40]), np.array([100, -3, 200])),
        ),
        chunks.Section(_meta("sum", kinds.REDUCING, "float"), numbers.Numbers(np.array([7]), np.array([0.25]))),
        chunks.Section(_meta("best", kinds.REDUCING), {"AA": 1, 5: tables.DELETED}),
    ),
)
CHUNKS = {"full": FULL, "delta": DELTA, "types": TYPES}
CELLS = chunks.Chunk(chunks.ChunkKind.DELTA, DELTA.sections[:1])
LONG = chunks.Chunk(
    chunks.ChunkKind.FULL,
    (chunks.Section(_meta("count", kinds.VALUE, "int"), {f"user-{key}": key % 7 for key in range(200)}),),
)


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("name", CHUNKS)
def test_a_golden_chunk_reads_as_it_was_written(name: str, version: int) -> None:
    file = f"chunk-v{version}-{name}.bin"
    assert chunks.decode((GOLDEN / file).read_bytes(), file) == CHUNKS[name]


@pytest.mark.parametrize("name", CHUNKS)
def test_lists_and_maps_are_written_as_version_3_byte_for_byte(name: str) -> None:
    assert chunks.encode(CHUNKS[name]) == (GOLDEN / f"chunk-v3-{name}.bin").read_bytes()


def test_cells_alone_are_written_as_version_1() -> None:
    assert chunks.encode(CELLS)[3] == 1


def test_a_golden_chunk_of_version_4_is_compressed() -> None:
    golden = (GOLDEN / "chunk-v4-long.bin").read_bytes()
    assert chunks.decode(golden, "chunk-v4-long.bin") == LONG


def test_a_chunk_is_sealed_smaller_where_that_is_worth_it_and_else_as_it_is() -> None:
    blob, random_blob = chunks.encode(LONG), chunks.encode(_of_bytes(os.urandom(20_000)))

    sealed = chunks.seal(blob)

    assert (sealed[:4], chunks.decode(sealed, "x")) == (b"SSC\x04", LONG)
    assert len(sealed) < len(blob) / 2
    assert chunks.seal(random_blob) == random_blob
    assert chunks.seal(chunks.encode(CELLS)) == chunks.encode(CELLS)


def _of_bytes(value: bytes) -> chunks.Chunk:
    return chunks.Chunk(chunks.ChunkKind.FULL, (chunks.Section(_meta("s", kinds.VALUE, "bytes"), {1: value}),))


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


def test_what_is_compressed_is_a_chunk_with_a_version_of_its_own() -> None:
    newer = chunks.encode(LONG)[:3] + b"\x07" + chunks.encode(LONG)[4:]

    with pytest.raises(errors.SnapshotCorruptError, match="format version 7; this release reads 1 to 6"):
        chunks.decode(chunks.seal(newer), "7 of key group 3")


def test_a_golden_chunk_of_version_2_has_columns_of_numbers() -> None:
    golden = (GOLDEN / "chunk-v2-numbers.bin").read_bytes()
    read = chunks.decode(golden, "chunk-v2-numbers.bin")
    assert [(section.meta, section.changes) for section in read.sections] == [
        (section.meta, section.changes) for section in NUMBERS.sections
    ]
    assert (read.kind, read.count) == (chunks.ChunkKind.DELTA, 6)
    assert chunks.encode(NUMBERS) == chunks.encode(read) == golden


def test_a_golden_head_layout_reads_as_it_was_written() -> None:
    head = heads.GroupHead.from_layout(9, "00000000000000bb", (GOLDEN / "head-layout-v1.bin").read_bytes())
    assert (head.base, [run.version for run in head.runs], head.lineage) == (
        7,
        [7, 9],
        ("00000000000000aa", "00000000000000bb"),
    )
    assert head.pack_layout() == (GOLDEN / "head-layout-v1.bin").read_bytes()


def test_a_golden_head_layout_of_version_2_has_the_type_of_the_key() -> None:
    body = (GOLDEN / "head-layout-v2.bin").read_bytes()
    head = heads.GroupHead.from_layout(9, "00000000000000bb", body)
    assert (head.key_type, head.base, head.pack_layout()) == ("string, bigint", 7, body)


def test_a_golden_head_layout_of_version_3_has_chunks_in_packs() -> None:
    body = (GOLDEN / "head-layout-v3.bin").read_bytes()
    head = heads.GroupHead.from_layout(9, "c", body)
    pack = "2-1/00000007-00000001-fedcba9876543210-00000003-00000003.pack"
    assert head.runs == (
        compaction.ChunkRun(2, 900, 40, ranges.PackRange(pack, 84, 3, 0x52D8B3A3)),
        compaction.ChunkRun(7, 80, 3),
        compaction.ChunkRun(9, 77, 2, ranges.PackRange(pack, 4, 80, 0x6988C157)),
    )
    assert (head.key_type, head.lineage, head.pack_layout()) == ("string, bigint", ("a", "b", "c"), body)


_PACK = "2-1/00000007-00000001-fedcba9876543210-00000003-00000003.pack"


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param([3, [[1, 9, 1, [1, 4, 8, 0]]], ["a"], "", [_PACK]], id="a pack that is not listed"),
        pytest.param([3, [[1, 9, 1, [0, 4, 8]]], ["a"], "", [_PACK]], id="a range without its checksum"),
        pytest.param([3, [[1, 9, 1, [0, -4, 8, 0]]], ["a"], "", [_PACK]], id="a range before the pack"),
        pytest.param([3, [[1, 9, 1, [0, 4, 8, 0], 7]], ["a"], "", [_PACK]], id="more than there is to a run"),
        pytest.param([3, [[1, 9, 1, [0, 4, 8, 0]]], ["a"], "", ["../7.pack"]], id="a name that is no pack's"),
        pytest.param([3, [[1, 9, 1, [0, 4, 8, 0]]], ["a"], "", _PACK], id="no list of packs"),
        pytest.param([3, [[1, 9, 1, 0]], ["a"], "", [_PACK]], id="a number instead of a range"),
        pytest.param([3, [[1, 9, 1, [0, 4, 8, 0]]], ["a"], "", [7]], id="a number instead of a name"),
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
    assert isinstance(table, timertable.TimerTable)
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
    assert isinstance(lists, tables.ListChange)
    assert isinstance(maps, tables.MapChange)
    assert group.tables["value"].rows is changes["value"]
    assert group.tables["list"].rows["AA"] is lists.items
    assert group.tables["map"].rows["AA"] is maps.puts


def test_changes_that_delete_keep_what_they_delete_when_the_table_is_empty() -> None:
    table = tables.CellTable()
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
    return ["m", "MapState", "any", False, ["v", []], ["v", ["AA"]], [True], *columns]


MAP_WITHOUT_A_VALUE = _map_of([2], ["v", ["a", "b"]], ["v", [1]], [0], ["v", []])
MAP_WITHOUT_A_REMOVAL = _map_of([1], ["v", ["a"]], ["v", [1]], [1], ["v", []])
LIST_OF_THREE_ITEMS = ["l", "ListState", "any", False, ["v", []], ["v", ["AA"]], [0], [3], ["v", [1, 2]]]


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda blob: b"", "it has no chunk header"),
        (lambda blob: b"PK" + blob, "it has no chunk header"),
        (lambda blob: blob[:-3], "cannot be read"),
        (lambda blob: blob[:4] + b"\xc1" + blob[5:], "cannot be read"),
        (lambda blob: blob + b"\x00", "cannot be read"),
        (lambda blob: blob[:3] + b"\x07" + blob[4:], "format version 7; this release reads 1 to 6"),
        (lambda blob: blob[:4] + codec.pack(["full", 3, []]), "names 3 entries, the body has 0"),
        (lambda blob: blob[:4] + codec.pack(["full", 1, [LIST_OF_THREE_ITEMS]]), "names 3 items, the body has 2"),
        (lambda blob: blob[:4] + codec.pack(["full", 1, [MAP_WITHOUT_A_VALUE]]), "names 2 items, the body has 1"),
        (lambda blob: blob[:4] + codec.pack(["full", 1, [MAP_WITHOUT_A_REMOVAL]]), "names 1 items, the body has 0"),
    ],
)
def test_a_damaged_chunk_is_an_error_that_names_it(damage: object, sentence: str) -> None:
    blob = damage(chunks.encode(FULL))  # type: ignore[operator]
    with pytest.raises(errors.SnapshotCorruptError, match=sentence) as caught:
        chunks.decode(blob, "7 of key group 3")
    assert "chunk 7 of key group 3" in caught.value.message
