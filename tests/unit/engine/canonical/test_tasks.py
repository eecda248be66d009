"""What workers do with batches of state, without an engine: parts out of key groups, and key groups out of parts."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pyarrow as pa
import pytest
from statefulspark import errors, storage
from statefulspark.canonical import documents, groups, reading
from statefulspark.checkpoint import transfer
from statefulspark.contract.manifest import QueryEntry
from statefulspark.engine.canonical import load, tasks
from statefulspark.packs import names, packfile, ranges
from statefulspark.state import (
    aggregatingstate,
    chunks,
    heads,
    keygroups,
    kinds,
    liststate,
    mapstate,
    tables,
    valuestate,
)
from statefulspark.storage import StorageOptions

_META = kinds.StateMeta("seen", valuestate.VALUE, "any", has_ttl=True)
_KEYS = [f"key {number}" for number in range(40)]


def a_place(folder: Path) -> tasks.QueryFolder:
    return tasks.QueryFolder(f"file://{folder}", "files/q", StorageOptions(allow_local_files=True))


def a_store_of(number_of_groups: int) -> pa.RecordBatch:
    """Return the heads and chunks of a store in which every key holds its number, renewed at that time."""
    spread: dict[int, list[tuple[object, object, object, int]]] = {}
    for number, key in enumerate(_KEYS):
        spread.setdefault(keygroups.key_group((key,), ("string",), number_of_groups), []).append(
            (key, None, number, number)
        )
    built = {group: groups.build({_META: found}) for group, found in spread.items()}
    head_rows = [(group, 1, one.head.pack_layout(), None) for group, one in built.items()]
    logs = [(group, 1, None, one.blob) for group, one in built.items()]
    columns = list(zip(*(head_rows + logs), strict=True))
    kinds = (pa.int32(), pa.int64(), pa.binary(), pa.binary())
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)],
        names=["key_group", "version", "layout", "blob"],
    )


def states_of(results: list[pa.RecordBatch]) -> documents.KeyedState:
    texts = [json.loads(text) for batch in results for text in batch.column(0).to_pylist()]
    found = [documents.KeyedState.model_validate_json(text["state"]) for text in texts]
    assert {tuple(text["types"]) for text in texts} == {("string",)}
    return found[0].model_copy(update={"files": tuple(file for one in found for file in one.files)})


def test_keys_move_to_their_groups_of_another_number_through_several_parts(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    export = tasks.KeyedExport(place, "all", None, 16, flush_bytes=200)
    state = states_of(list(export([a_store_of(16)])))
    assert len(state.files) > 2

    read = tasks.ReadStates(place, (state,), ("string",))
    numbers = pa.RecordBatch.from_pydict({"state": [0] * len(state.files), "part": list(range(len(state.files)))})
    entries = pa.Table.from_batches(list(read([numbers])))
    group = [keygroups.key_group((key,), ("string",), 4) for key in entries.column("hash_0").to_pylist()]
    sorted_entries = entries.drop_columns(["hash_0"]).append_column("group", pa.array(group)).sort_by("group")
    built = pa.Table.from_batches(list(tasks.BuildGroups((state,), ("string",))(sorted_entries.to_batches())))

    held = {}
    for row in built.to_pylist():
        head = heads.GroupHead.from_layout(row["version"], row["id"], row["layout"])
        (section,) = chunks.decode(row["blob"], "built").sections
        held.update({key: (keygroups.marked(row["key_group"]), cell) for key, cell in section.changes.items()})
        assert (head.key_type, section.meta, row["has_timers"]) == ("string", _META, False)
    assert held == {
        key: (keygroups.key_group((key,), ("string",), 4), (number, number)) for number, key in enumerate(_KEYS)
    }


def test_keys_with_a_collation_are_hashed_by_their_characters(tmp_path: Path) -> None:
    """As Spark's function does, whatever the collation (`spark.sql.legacy.collationAwareHashFunctions` is false)."""
    types = ("string collate UTF8_LCASE",)
    results = list(tasks.KeyedExport(a_place(tmp_path), "all", types, 16)([a_store_of(16)]))
    states = tasks.gather_states(
        documents.KeyedState.model_validate_json(json.loads(text)["state"])
        for batch in results
        for text in batch.column(0).to_pylist()
    )

    read = tasks.ReadStates(a_place(tmp_path), states, types)
    (entries,) = read([pa.RecordBatch.from_pydict({"state": [0], "part": [0]})])

    assert read.schema.endswith(", hash_0 string")
    assert entries.schema.field("hash_0").type == pa.string()
    assert sorted(entries.column("hash_0").to_pylist()) == sorted(_KEYS)


def test_chunks_in_packs_are_exported_like_those_in_the_store(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    reference = names.PackName(1, 0, 3, 1, "0123456789abcdef", names.Before(3, 3)).reference
    rows = a_store_of(16).to_pylist()
    logged = {row["key_group"]: row["blob"] for row in rows if row["blob"] is not None}
    packed = sorted(logged)[::2]
    pack = packfile.build(reference, [ranges.PackedChunk(group, 1, logged[group]) for group in packed])
    source = tasks.QueryFolder(f"file://{tmp_path}", "generations/00000001/q", place.options)
    source.store().write(f"{source.path}/{names.key('all', reference)}", pack.body)
    where = dict(zip(packed, pack.ranges, strict=True))
    head_rows = [row for row in rows if row["layout"] is not None]
    for row in head_rows:
        head = heads.GroupHead.from_layout(1, "", row["layout"])
        runs = (dataclasses.replace(head.runs[0], packed=where.get(row["key_group"])),)
        row["layout"] = dataclasses.replace(head, runs=runs).pack_layout()
    left = [row for row in rows if row["blob"] is not None and row["key_group"] not in where]
    batch = pa.RecordBatch.from_pylist([*head_rows, *left], schema=a_store_of(16).schema)

    export = tasks.KeyedExport(place, "all", ("string",), 16, packs=source, flush_bytes=200)
    state = states_of(list(export([batch])))

    assert (len(packed), state.rows) == (8, len(_KEYS))
    assert len(state.files) > len(packed) // 2, "large chunks, which are in packs, fill parts as others do"


_OLD = kinds.StateMeta("seen", valuestate.VALUE, "record<n:int>", has_ttl=False)
_NEW = kinds.StateMeta("seen", valuestate.VALUE, "record<n:int,more:str>", has_ttl=True)


def a_half_migrated_store() -> pa.RecordBatch:
    """Return a store of which every second key group was migrated to another type, and got a time to live."""
    spread: dict[int, list[tuple[object, int]]] = {}
    for number, key in enumerate(_KEYS):
        spread.setdefault(keygroups.key_group((key,), ("string",), 16), []).append((key, number))
    built = {}
    for group, numbered in spread.items():
        if group % 2:
            built[group] = groups.build({_OLD: [(key, None, (number,), 0) for key, number in numbered]})
        else:
            built[group] = groups.build({_NEW: [(key, None, (number, "x"), 40) for key, number in numbered]})
    rows = [{"key_group": group, "version": 1, "layout": one.head.pack_layout()} for group, one in built.items()]
    rows += [{"key_group": group, "version": 1, "blob": one.blob} for group, one in built.items()]
    return pa.RecordBatch.from_pylist(rows, schema=a_store_of(16).schema)


@pytest.mark.parametrize("flush_bytes", [100, 1 << 20], ids=["many parts", "one part"])
def test_state_that_is_migrated_in_some_key_groups_only_comes_back_as_it_was(tmp_path: Path, flush_bytes: int) -> None:
    states = both_states_of(tmp_path, flush_bytes)

    built = built_of(states, tmp_path, number_of_groups=16)

    held = {key: (meta, cell) for _, meta, changes in built for key, cell in changes.items()}
    assert held == {
        key: (_OLD, (number,)) if keygroups.key_group((key,), ("string",), 16) % 2 else (_NEW, ((number, "x"), 40))
        for number, key in enumerate(_KEYS)
    }


def test_such_state_is_not_mixed_in_key_groups_of_another_number(tmp_path: Path) -> None:
    states = both_states_of(tmp_path, 100)

    operator = documents.CanonicalOperator(uid="all", operator_id=0, name="tws", max_parallelism=16, states=states)

    load.require_unmixed(operator, 16)
    with pytest.raises(errors.SpecRejectedError, match=r"'seen'.*record<n:int>.*max_parallelism.* 16") as refused:
        load.require_unmixed(operator, 3)
    assert refused.value.reason == "MaxParallelismChanged"


def test_such_state_is_read_with_all_its_rows(tmp_path: Path) -> None:
    table = a_read_table(tmp_path, both_states_of(tmp_path, 1 << 20), "seen")

    assert sorted(table.column("key").to_pylist()) == sorted(_KEYS)
    assert set(table.column("renewed_ms").to_pylist()) == {None, 40}


def both_states_of(folder: Path, flush_bytes: int) -> tuple[documents.KeyedState, ...]:
    task = tasks.KeyedExport(a_place(folder), "all", ("string",), 16, flush_bytes=flush_bytes)
    texts = [json.loads(text) for batch in task([a_half_migrated_store()]) for text in batch.column(0).to_pylist()]
    return tasks.gather_states(documents.KeyedState.model_validate_json(text["state"]) for text in texts)


def built_of(
    states: tuple[documents.KeyedState, ...], folder: Path, *, number_of_groups: int
) -> list[tuple[int, kinds.StateMeta, tables.Changes]]:
    """Return key group, state and content of each section that a restore builds."""
    numbers = [(index, part) for index, state in enumerate(states) for part in range(len(state.files))]
    named = pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*numbers, strict=True)], ["state", "part"])
    entries = pa.Table.from_batches(list(tasks.ReadStates(a_place(folder), states, ("string",))([named])))
    group = [keygroups.key_group((key,), ("string",), number_of_groups) for key in entries.column("hash_0").to_pylist()]
    in_order = entries.drop_columns(["hash_0"]).append_column("group", pa.array(group)).sort_by("group")
    return [
        (keygroups.marked(row["key_group"]), section.meta, section.changes)
        for batch in tasks.BuildGroups(states, ("string",))(in_order.to_batches())
        for row in batch.to_pylist()
        for section in chunks.decode(row["blob"], "built").sections
    ]


def test_a29_expired_entries_are_left_out_where_the_job_asks_for_it(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    export = tasks.KeyedExport(place, "all", ("string",), 16, lifetimes_ms=(("seen", 10),), now_ms=35)

    state = states_of(list(export([a_store_of(16)])))

    # Renewed at 26 to 39, with 10 ms to live, at 35: those of 25 and before are gone.
    assert state.rows == 14


_ROW_OF_EACH_KIND: dict[str, tuple[kinds.StateMeta, object, object, dict[str, object]]] = {
    "value": (kinds.StateMeta("s", valuestate.VALUE, "bigint", has_ttl=False), None, 7, {"value": 7}),
    "reducing": (kinds.StateMeta("s", aggregatingstate.REDUCING, "any", has_ttl=False), None, 1.5, {"value": 1.5}),
    "aggregating": (
        kinds.StateMeta("s", aggregatingstate.AGGREGATING, "any", has_ttl=False),
        None,
        (3, 2.0), {"value": {"_1": 3, "_2": 2.0}},
    ),
    "list": (kinds.StateMeta("s", liststate.LIST, "array<any>", has_ttl=False), 0, "x", {"index": 0, "value": "x"}),
    "map": (
        kinds.StateMeta("s", mapstate.MAP, "map<any,any>", has_ttl=False), "a", None, {"entry": "a", "value": None},
    ),
    "record": (
        kinds.StateMeta("s", valuestate.VALUE, "record<n:int,mean:float>", has_ttl=False), None, (3, 2.0),
        {"value": {"n": 3, "mean": 2.0}},
    ),
    "list of records": (
        kinds.StateMeta("s", liststate.LIST, "array<record<at:int,of:record<x:int>>>", has_ttl=True), 0, (3, (1,)),
        {"index": 0, "value": {"at": 3, "of": {"x": 1}}, "renewed_ms": 42},
    ),
    "map of records": (
        kinds.StateMeta("s", mapstate.MAP, "map<record<a:int,b:str>,array<record<x:int>>>", has_ttl=False), (3, "b"),
        [(1,), (2,)], {"entry": {"a": 3, "b": "b"}, "value": [{"x": 1}, {"x": 2}]},
    ),
    "record of a map of records": (
        kinds.StateMeta("s", valuestate.VALUE, "record<of:map<str,record<x:int>>>", has_ttl=False), None, ({"k": (1,)},),
        {"value": {"of": [("k", {"x": 1})]}},
    ),
    "record with a mixture": (
        kinds.StateMeta("s", valuestate.VALUE, "record<n:int,parts:array<any>,of:map<str,record<x:int>>>", has_ttl=False),
        None, (3, [1, "x"], {"k": (1,)}), {"value": '{"n":3,"parts":[1,"x"],"of":{"k":{"x":1}}}'},
    ),
    "record of another width": (
        kinds.StateMeta("s", valuestate.VALUE, "record<n:int>", has_ttl=False),
        None,
        (3, 2.0),
        {"value": {"_1": 3, "_2": 2.0}},
    ),
    "value with a time to live": (
        kinds.StateMeta("s", valuestate.VALUE, "any", has_ttl=True), None, "x", {"value": "x", "renewed_ms": 42},
    ),
    "list with a time to live": (
        kinds.StateMeta("s", liststate.LIST, "array<any>", has_ttl=True), 0, 1, {"index": 0, "value": 1, "renewed_ms": 42},
    ),
    "map with a time to live": (
        kinds.StateMeta("s", mapstate.MAP, "map<any,any>", has_ttl=True), 5, b"b",
        {"entry": 5, "value": b"b", "renewed_ms": 42},
    ),
    "timers in event time": (
        kinds.StateMeta("_timer_state/event_user-timers", mapstate.MAP, "map<any,any>", has_ttl=False), 1_767_225_600_000,
        None, {"entry": 1_767_225_600_000, "value": None},
    ),
    "timers in processing time": (
        kinds.StateMeta("_timer_state/processing_user-timers", mapstate.MAP, "map<any,any>", has_ttl=False), 0, None,
        {"entry": 0, "value": None},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", _ROW_OF_EACH_KIND)
def test_every_kind_of_state_comes_out_of_its_chunks_as_rows_that_are_read(tmp_path: Path, kind: str) -> None:
    """A.60: each keyed state, with and without a time to live, and timers."""
    meta, entry, value, shown = _ROW_OF_EACH_KIND[kind]
    built = groups.build({meta: [("ada", entry, value, 42 if meta.has_ttl else 0)]})
    batch = pa.RecordBatch.from_pylist(
        [
            {"key_group": 3, "version": 1, "layout": built.head.pack_layout(), "blob": None},
            {"key_group": 3, "version": 1, "layout": None, "blob": built.blob},
        ],
        schema=a_store_of(16).schema,
    )

    state = states_of(list(tasks.KeyedExport(a_place(tmp_path), "all", ("string",), 16)([batch])))

    table = a_read_table(tmp_path, (state,), meta.name)
    assert table.to_pylist() == [{"key": "ada", **shown}]


def a_read_table(folder: Path, states: tuple[documents.KeyedState, ...], name: str) -> pa.Table:
    """Return a state of a savepoint as the command reads it."""
    operator = documents.CanonicalOperator(uid="all", operator_id=0, name="tws", states=states)
    document = documents.QueryDocument(uid="q", batch_id=0, operators=(operator,))
    store_root = storage.open_store(f"file://{folder}", StorageOptions(allow_local_files=True))
    store_root.write(f"files/q/{documents.QUERY_DOCUMENT}", document.to_json().encode())
    query = QueryEntry(uid="q", batch_id=0, path="files/q")
    wish = reading.StateSelection("all", state=name)
    return reading.read_operator(transfer.SnapshotLocation(store_root), query, wish, "all")


def test_keys_that_are_floats_are_shown_as_numbers_and_hash_by_their_bits() -> None:
    double, single = 0x3FF8000000000000, 0x3FC00000
    table = pa.table({"key_1": pa.array([double, None]), "key_2": pa.array([single, 0]), "value": pa.array([1, 2])})
    shown = reading.restore_floats(table, ("double", "float"))
    assert shown.to_pydict() == {"key_1": [1.5, None], "key_2": [1.5, 0.0], "value": [1, 2]}
    assert tasks.ReadStates(a_place(Path("/tmp")), (), ("double", "struct")).schema.endswith(
        "hash_0 bigint, hash_1 boolean"
    )
