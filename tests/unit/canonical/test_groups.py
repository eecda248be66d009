"""Key groups taken apart into rows and put together again, also in another number (Flink A.60, A.66)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from statefulspark import errors
from statefulspark.canonical import groups, key_columns, rows
from statefulspark.packs import names, packfile, ranges, reading
from statefulspark.state import (
    aggregatingstate,
    chunks,
    heads,
    keygroups,
    kinds,
    liststate,
    mapstate,
    numbers,
    tables,
    valuestate,
)
from statefulspark.testing import stores

_VALUE = kinds.StateMeta("total", valuestate.VALUE, "bigint", has_ttl=False)
_LIST = kinds.StateMeta("seen", liststate.LIST, "array<any>", has_ttl=True)
_MAP = kinds.StateMeta("parts", mapstate.MAP, "map<any,any>", has_ttl=False)


def a_chunk(kind: chunks.ChunkKind, **changes: tables.Changes) -> bytes:
    metas = {"total": _VALUE, "seen": _LIST, "parts": _MAP}
    return chunks.encode(chunks.Chunk(kind, tuple(chunks.Section(metas[name], one) for name, one in changes.items())))


def a_layout(*versions: int) -> bytes:
    return heads.GroupHead(
        versions[-1], "id", tuple(heads.ChunkRun(one, 1, 1) for one in versions), ("id",)
    ).pack_layout()


_FULL = a_chunk(
    chunks.ChunkKind.FULL,
    total={"a": 1, "b": 2},
    seen={"a": liststate.ListChange(0, [("x", 10), ("y", 11)])},
    parts={"b": mapstate.MapChange(replaced=True, puts={1: 0.5, 2: 1.5})},
)
_DELTA = a_chunk(
    chunks.ChunkKind.DELTA,
    total={"a": tables.DELETED, "c": 3},
    seen={"a": liststate.ListChange(1, [("z", 12)])},
    parts={"b": mapstate.MapChange(replaced=False, puts={3: 2.5}, removed={1})},
)
_ROWS = {
    ("total", "b", None, 2, 0),
    ("total", "c", None, 3, 0),
    ("seen", "a", 0, "x", 10),
    ("seen", "a", 1, "z", 12),
    ("parts", "b", 2, 1.5, 0),
    ("parts", "b", 3, 2.5, 0),
}


def test_the_chunks_of_a_group_are_put_together_in_the_order_of_versions() -> None:
    reader = groups.GroupReader("all")
    reader.head(5, 9, a_layout(4, 9))
    assert reader.chunk(5, 9, _DELTA) is None
    assert reader.chunk(5, 4, _FULL) is None

    group, chunk = reader.finish() or (None, None)

    reader.require_complete()
    assert group == 5
    assert chunk is not None
    assert {(meta.name, *row) for meta, row in groups.read_rows(chunk)} == _ROWS


def test_numbers_that_were_kept_as_arrays_are_rows_like_others() -> None:
    meta = kinds.StateMeta("sum", aggregatingstate.REDUCING, "int", has_ttl=False)
    full = chunks.Section(meta, numbers.Numbers(np.array([1, 2, 3]), np.array([10, 20, 30])))
    delta = chunks.Section(meta, numbers.Numbers(np.array([2, 4]), np.array([21, 40])))
    reader = groups.GroupReader("all")
    reader.head(5, 9, a_layout(4, 9))
    reader.chunk(5, 9, chunks.encode(chunks.Chunk(chunks.ChunkKind.DELTA, (delta,))))
    reader.chunk(5, 4, chunks.encode(chunks.Chunk(chunks.ChunkKind.FULL, (full,))))
    _, chunk = reader.finish() or (None, chunks.Chunk(chunks.ChunkKind.FULL, ()))
    assert {row[:3] for _, row in groups.read_rows(chunk)} == {
        (1, None, 10),
        (2, None, 21),
        (3, None, 30),
        (4, None, 40),
    }


def test_rows_that_become_columns_and_a_group_again_hold_the_same_state() -> None:
    reader = groups.GroupReader("all")
    reader.chunk(5, 4, _FULL)
    reader.chunk(5, 9, _DELTA)
    reader.head(5, 9, a_layout(4, 9))
    _, chunk = reader.finish() or pytest.fail("no group")
    found: dict[kinds.StateMeta, list[rows.Row]] = {}
    for meta, row in groups.read_rows(chunk):
        found.setdefault(meta, []).append(row)
    back = {
        meta: list(rows.from_table(meta, rows.make_table(meta, one[::-1], 1), 1, "part")) for meta, one in found.items()
    }

    stored = groups.build(back)

    again = chunks.decode(stored.blob, "built")
    assert {(meta.name, *row) for meta, row in groups.read_rows(again)} == _ROWS
    assert stored == groups.build(back)
    assert (stored.head.version, stored.head.base, stored.head.runs[0].size_bytes) == (1, 1, len(stored.blob))


@pytest.mark.parametrize(
    ("versions", "given"),
    [((4, 9), {4: _FULL}), ((9,), {9: _DELTA}), ((4,), {4: _FULL, 9: _DELTA})],
    ids=["a chunk is missing", "the full chunk is missing", "a chunk is there that the head does not name"],
)
def test_a_group_that_is_not_whole_is_refused(versions: tuple[int, ...], given: dict[int, bytes]) -> None:
    reader = groups.GroupReader("all")
    reader.head(5, versions[-1], a_layout(*versions))
    for version, blob in given.items():
        reader.chunk(5, version, blob)

    def end() -> None:
        reader.finish()
        reader.require_complete()

    with pytest.raises(errors.SnapshotCorruptError, match="key group 5 of operator 'all'"):
        end()


_PACK = names.PackName(2, 1, 9, 1, "0123456789abcdef", names.Before(9, 9))


def a_packed_layout(*versions: int, stored: Mapping[int, bytes]) -> tuple[bytes, reading.PackReader]:
    """Return the layout of a head some of whose chunks are in a pack, and a reader of the pack."""
    written = [ranges.PackedChunk(5, version, blob) for version, blob in stored.items()]
    pack = packfile.build(_PACK.reference, written)
    where = dict(zip(stored, pack.ranges, strict=True))
    memory = stores.MemoryStore()
    memory.write(names.key("all", _PACK.reference), pack.body)
    runs = tuple(heads.ChunkRun(version, 1, 1, where.get(version)) for version in versions)
    return heads.GroupHead(versions[-1], "id", runs, ("id",)).pack_layout(), reading.PackReader(memory, "all")


@pytest.mark.parametrize(
    ("packed", "order"),
    [
        pytest.param({4: _FULL}, ("head", 9), id="the base is in a pack"),
        pytest.param({9: _DELTA}, ("head", 4), id="the changes are in a pack"),
        pytest.param({9: _DELTA}, (4, "head"), id="the head comes last"),
        pytest.param({4: _FULL, 9: _DELTA}, ("head",), id="everything is in a pack"),
    ],
)
def test_chunks_in_packs_are_put_together_with_those_in_the_store(
    packed: dict[int, bytes], order: tuple[str | int, ...]
) -> None:
    layout, reading = a_packed_layout(4, 9, stored=packed)
    reader = groups.GroupReader("all", reading)
    returned = [
        reader.head(5, 9, layout) if step == "head" else reader.chunk(5, int(step), {4: _FULL, 9: _DELTA}[int(step)])
        for step in order
    ]
    (whole,) = [one for one in (*returned, reader.finish()) if one is not None]

    reader.require_complete()
    assert {(meta.name, *row) for meta, row in groups.read_rows(whole[1])} == _ROWS


def test_chunks_wait_for_heads_that_come_after_those_of_other_groups() -> None:
    reader = groups.GroupReader("all")
    steps = [reader.chunk(5, 4, _FULL), reader.chunk(6, 4, _FULL), reader.head(5, 4, a_layout(4))]

    assert [one and one[0] for one in steps] == [None, None, 5]
    assert reader.head(6, 4, a_layout(4)) is None
    assert (reader.finish() or (None,))[0] == 6
    reader.require_complete()


def test_a_pack_that_nobody_can_read_is_a_fault_of_ours() -> None:
    layout, _ = a_packed_layout(4, stored={4: _FULL})

    with pytest.raises(errors.InternalError, match="4 of key group 5"):
        groups.GroupReader("all").head(5, 4, layout)


@pytest.mark.parametrize("types", [("bigint",), ("int",), ("string", "int"), ("date",)], ids=str)
def test_unknown_key_types_are_found_by_the_groups_of_the_keys(types: tuple[str, ...]) -> None:
    import datetime

    made = {"bigint": lambda n: n, "int": lambda n: n, "string": str, "date": datetime.date.fromordinal}
    keys = [tuple(made[kind](number) for kind in types) for number in range(1, 60)]
    sample = [(key if len(key) > 1 else key[0], keygroups.key_group(key, types, 128)) for key in keys]

    assert key_columns.resolve_types("all", sample, declared=None, max_parallelism=128) == types


def test_recorded_key_types_that_do_not_fit_the_groups_are_refused() -> None:
    sample = [(number, keygroups.key_group((number,), ("bigint",), 128)) for number in range(60)]

    with pytest.raises(errors.SnapshotCorruptError, match=r"'all'.*\(int\)"):
        key_columns.resolve_types("all", sample, declared=("int",), max_parallelism=128)


@pytest.mark.parametrize(
    ("text", "types"),
    [(None, None), ("string", ("string",)), ("int, decimal(10,2), date", ("int", "decimal(10,2)", "date"))],
    ids=str,
)
def test_key_types_are_read_from_a_manifest(text: str | None, types: tuple[str, ...] | None) -> None:
    assert key_columns.parse(text) == types
