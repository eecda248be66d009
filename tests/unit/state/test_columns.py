"""Changes as columns equal the same changes in a dict: found, read, merged, and with keys that have the same hash."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence

import collidingkeys
import columnchunk
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statefulspark.state import (
    chunks,
    columns,
    heads,
    kinds,
    liststate,
    mapstate,
    merging,
    tables,
    timers,
    valuestate,
    views,
)

# Of each type other numbers, since 1, 1.0 and True are one key of a dict.
SIMPLE = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.sampled_from([0, 1, -1, 127, 128, -33, 2**31, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**70), 2**200]),
)
KEYS = st.one_of(SIMPLE, st.tuples(SIMPLE, SIMPLE), st.tuples(SIMPLE))
FEW_KEYS = st.sampled_from(
    [None, "a", "b", 7, ("a", 7), *(collidingkeys.with_hash(9, b"%d" % one) for one in range(4))]
)
CELLS = st.one_of(
    SIMPLE,
    st.booleans(),
    st.floats(allow_nan=False),
    st.tuples(SIMPLE, st.integers(0, 9)),
    st.tuples(),
    st.lists(st.one_of(SIMPLE, st.tuples(SIMPLE)), max_size=3),
    st.dictionaries(st.text(max_size=2), st.tuples(SIMPLE), max_size=2),
)
TUPLES = st.tuples(st.one_of(SIMPLE, st.tuples(SIMPLE)), st.integers(0, 9))
LISTS = st.builds(
    liststate.ListChange, st.integers(0, 3), st.one_of(st.lists(CELLS, max_size=3), st.lists(TUPLES, max_size=3))
)
MAPS = st.builds(
    mapstate.MapChange,
    st.booleans(),
    st.one_of(st.dictionaries(KEYS, CELLS, max_size=3), st.dictionaries(KEYS, TUPLES, max_size=3)),
    st.frozensets(KEYS, max_size=2),
)
MOMENTS = st.dictionaries(st.sampled_from([0, 1, -1, 2**40, -(2**63) + 1, 2**63 - 1]), st.none(), max_size=4)
TIMERS = st.one_of(
    st.builds(mapstate.MapChange, st.just(value=True), MOMENTS.filter(bool)),
    st.builds(mapstate.MapChange, st.just(value=False), MOMENTS, st.frozensets(st.integers(-1, 2), max_size=2)),
)


class RowlessKind(mapstate.MapKind):
    """A map that says nothing of rows."""

    make_row = kinds.StateKind.make_row
    read_row = kinds.StateKind.read_row

    def __init__(self) -> None:
        """Stay out of the register."""


KINDS: dict[str, tuple[kinds.StateKind, st.SearchStrategy[object]]] = {
    "values": (valuestate.VALUE, CELLS),
    "tuples": (valuestate.VALUE, TUPLES),
    "lists": (liststate.LIST, LISTS),
    "maps": (mapstate.MAP, MAPS),
    "timers": (timers.TIMERS, TIMERS),
    "a kind that says nothing of rows": (RowlessKind(), MAPS),
}
each_kind = pytest.mark.parametrize("name", KINDS)


def _changes(name: str, keys: st.SearchStrategy[object] = KEYS) -> st.SearchStrategy[tables.Changes]:
    return st.dictionaries(keys, st.one_of(KINDS[name][1], st.just(tables.DELETED)), max_size=8)


def _kind(name: str) -> kinds.StateKind:
    return KINDS[name][0]


def _copy(changes: tables.Changes) -> tables.Changes:
    """Copy changes, but for the one mark of a deletion."""
    return copy.deepcopy(changes, {id(tables.DELETED): tables.DELETED})


def _columns(changes: tables.Changes, name: str = "values") -> columns.Columns:
    return columnchunk.columns_of(changes, _kind(name))


def _merge(layers: Sequence[tables.Changes], name: str, *, is_full: bool) -> tables.Changes | None:
    """Merge as columns, and return the outcome as objects."""
    merged = merging.merge([_columns(layer, name) for layer in layers], _kind(name), is_full=is_full)
    if merged is None:
        return None
    assert (np.diff(merged.hashes.astype(np.int64)) >= 0).all()
    return merged.changes(_kind(name))


def _merge_objects(layers: Sequence[tables.Changes], name: str, *, is_full: bool) -> tables.Changes:
    """Merge as dicts. In a full chunk there was nothing of a key that comes later, so its changes have nothing to remove."""
    older = _copy(layers[0])
    for newer in layers[1:]:
        if is_full:
            older = dict.fromkeys(newer, tables.DELETED) | older
        KINDS[name][0].merge(older, _copy(newer))
    return {key: change for key, change in older.items() if not is_full or change is not tables.DELETED}


def _types(value: object) -> object:
    """Return the types of a change, since 1, True and 1.0 are equal, and a list is no tuple where it is a key."""
    match value:
        case liststate.ListChange():
            return _types(value.items)
        case mapstate.MapChange():
            return _types(value.puts), {_types(entry) for entry in value.removed}
        case list() | tuple():
            return type(value), tuple(map(_types, value))
        case dict():
            return {key: (_types(key), _types(cell)) for key, cell in value.items()}
    return type(value)


@each_kind
@given(draw=st.data())
def test_columns_give_back_the_changes_that_they_were_made_of(name: str, draw: st.DataObject) -> None:
    changes = draw.draw(_changes(name))

    made = _columns(changes, name)
    found = made.changes(_kind(name))

    assert (found, len(made)) == (changes, len(changes))
    assert _types(found) == _types(changes)


@each_kind
@given(draw=st.data())
def test_the_changes_at_positions_come_in_the_order_of_the_positions(name: str, draw: st.DataObject) -> None:
    changes = draw.draw(_changes(name))
    made = _columns(changes, name)
    positions = draw.draw(st.lists(st.integers(0, len(made) - 1), max_size=5) if changes else st.just([]))

    found = made.changes_at(np.array(positions, np.int64), _kind(name))

    keys = columns.unpack_keys(made.keys)
    assert found == [changes[keys[position]] for position in positions]


def test_columns_are_in_the_order_of_their_hashes_and_keep_the_order_of_keys_that_share_one() -> None:
    keys: list[object] = [
        collidingkeys.with_hash(wanted, begin) for wanted in (5, 2**32 - 1, 0) for begin in (b"b", b"a")
    ]

    made = _columns(dict.fromkeys(keys, 1))

    assert made.hashes.tolist() == [0, 0, 5, 5, 2**32 - 1, 2**32 - 1]
    assert columns.unpack_keys(made.keys) == [*keys[4:], *keys[:2], *keys[2:4]]


@pytest.mark.parametrize("wanted", [0, 1, 0xDEADBEEF, 2**32 - 1])
def test_keys_of_one_and_of_two_columns_can_share_a_hash(wanted: int) -> None:
    keys = [collidingkeys.with_hash(wanted, b"x" * 300), collidingkeys.tuple_with_hash(wanted, ("DE", 7))]

    assert columns.hash_keys(columns.pack_keys(keys)).tolist() == [wanted, wanted]


def test_no_changes_are_columns_too() -> None:
    made = _columns({})

    assert (len(made), made.changes(valuestate.VALUE)) == (0, {})
    assert made.changes_at(np.zeros(0, np.int64), valuestate.VALUE) == []


def test_a_map_in_a_full_chunk_has_no_entries_that_were_removed() -> None:
    """Else a map whose entries come and go would grow for ever."""
    layers: list[tables.Changes] = [
        {},
        {"a": mapstate.MapChange(replaced=False, puts={1: 1}, removed={0})},
        *({"a": mapstate.MapChange(replaced=False, puts={n: n}, removed={n - 1})} for n in range(2, 9)),
    ]

    assert _merge(layers, "maps", is_full=True) == {"a": mapstate.MapChange(replaced=True, puts={8: 8}, removed=set())}
    assert _merge(layers[:2], "maps", is_full=True) == {
        "a": mapstate.MapChange(replaced=True, puts={1: 1}, removed=set())
    }


def test_a_value_of_20_mb_is_a_row_like_any_other() -> None:
    large = b"0123456789" * 2_000_000

    assert _columns({"a": 1, "b": large}).changes(valuestate.VALUE) == {"a": 1, "b": large}
    assert _merge([{"a": 1, "b": large}, {"a": 2}], "values", is_full=True) == {"a": 2, "b": large}


def test_a_value_that_cannot_be_stored_is_told_by_its_type() -> None:
    with pytest.raises(TypeError, match=r"^builtins\.set$"):
        columns.Columns.from_changes({"a": {1}}, valuestate.VALUE)


def _is_of_tuples(layer: tables.Changes) -> bool:
    return {type(change) for change in layer.values() if change is not tables.DELETED} == {tuple}


@each_kind
@pytest.mark.parametrize("is_full", [True, False], ids=["into a full chunk", "into changes"])
@settings(max_examples=30)
@given(draw=st.data())
def test_merging_columns_equals_merging_objects(name: str, is_full: bool, draw: st.DataObject) -> None:
    layers = draw.draw(st.lists(_changes(name, FEW_KEYS), min_size=1, max_size=4))

    merged = _merge(layers, name, is_full=is_full)

    if merged is None:
        assert len({_is_of_tuples(layer) for layer in layers if layer}) == 2
        return
    expected = _merge_objects(layers, name, is_full=is_full)
    assert merged == expected
    assert _types(merged) == _types(expected)


A, B, C = (collidingkeys.with_hash(7, begin) for begin in (b"a", b"b", b"c"))


def _puts(**entries: object) -> mapstate.MapChange:
    return mapstate.MapChange(replaced=False, puts=dict(entries))


COLLISIONS = {
    "both in each layer": [{A: _puts(x=1), B: _puts(x=2)}, {A: _puts(y=3), B: _puts(y=4)}],
    "in another order": [{A: _puts(x=1), B: _puts(x=2)}, {B: _puts(y=4), A: _puts(y=3)}],
    "one, the other, the one again": [{A: _puts(x=1)}, {B: _puts(x=2)}, {A: _puts(y=3)}],
    "A, B, A, B, A": [{A: _puts(x=1)}, {B: _puts(x=2)}, {A: _puts(y=3)}, {B: _puts(z=4)}, {A: _puts(x=5)}],
    "one is deleted between": [{A: _puts(x=1), B: _puts(x=2)}, {B: tables.DELETED}, {A: _puts(y=3)}, {B: _puts(z=4)}],
    "one is deleted at last": [{A: _puts(x=1)}, {B: _puts(x=2), C: _puts(x=3)}, {A: tables.DELETED}],
    "each only once": [{A: _puts(x=1)}, {B: _puts(x=2)}, {C: _puts(x=3)}],
}


@pytest.mark.parametrize("layers", COLLISIONS.values(), ids=COLLISIONS.keys())
@pytest.mark.parametrize("is_full", [True, False], ids=["into a full chunk", "into changes"])
def test_keys_with_the_same_hash_are_merged_each_with_itself(layers: list[tables.Changes], is_full: bool) -> None:
    assert _merge(layers, "maps", is_full=is_full) == _merge_objects(layers, "maps", is_full=is_full)


@pytest.mark.parametrize("layers", COLLISIONS.values(), ids=COLLISIONS.keys())
@pytest.mark.parametrize("is_full", [True, False], ids=["into a full chunk", "into changes"])
def test_values_of_keys_with_the_same_hash_replace_their_own_alone(layers: list[tables.Changes], is_full: bool) -> None:
    """The layers of maps, with the number of the layer and the key as value."""
    cells: list[tables.Changes] = [
        {key: tables.DELETED if change is tables.DELETED else f"{number} {key!r}" for key, change in layer.items()}
        for number, layer in enumerate(layers)
    ]

    assert _merge(cells, "values", is_full=is_full) == _merge_objects(cells, "values", is_full=is_full)


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        pytest.param([{}], {}, id="one without keys"),
        pytest.param([{}, {}, {}], {}, id="several without keys"),
        pytest.param([{}, {"a": (1, 2)}], {"a": (1, 2)}, id="nothing, then tuples"),
        pytest.param([{"a": (1, 2)}, {}], {"a": (1, 2)}, id="tuples, then nothing"),
        pytest.param([{"a": 1, "b": 2}, {"a": tables.DELETED, "b": tables.DELETED}], {}, id="all are deleted"),
    ],
)
def test_layers_without_keys_change_nothing(layers: list[tables.Changes], expected: tables.Changes) -> None:
    assert _merge(layers, "values", is_full=True) == expected


def test_deletions_alone_are_merged_as_columns_with_tuples_and_with_other_values() -> None:
    for value in ((1, 2), 3):
        layers: list[tables.Changes] = [{"a": value, "b": value}, {"a": tables.DELETED}]
        assert _merge(layers, "values", is_full=True) == {"b": value}


def test_tuples_and_other_values_are_not_merged_as_columns() -> None:
    assert _merge([{"a": (1, 2)}, {"b": 3}], "values", is_full=True) is None


def _meta(name: str) -> kinds.StateMeta:
    return kinds.StateMeta("s", KINDS[name][0], "any", has_ttl=False)


def _chunk(kind: chunks.ChunkKind, changes: tables.Changes, name: str) -> chunks.Chunk:
    return chunks.Chunk(kind, (chunks.Section(_meta(name), changes),))


@each_kind
@settings(max_examples=30)
@given(draw=st.data())
def test_a_chunk_of_columns_merged_with_any_other_equals_the_merged_objects(name: str, draw: st.DataObject) -> None:
    layers = draw.draw(st.lists(_changes(name, FEW_KEYS), min_size=2, max_size=4))
    as_columns = draw.draw(st.lists(st.booleans(), min_size=len(layers), max_size=len(layers)))
    given_chunks = [
        _chunk(chunks.ChunkKind.DELTA, _columns(layer, name) if in_columns else _copy(layer), name)  # type: ignore[arg-type]  # either is a section's content
        for layer, in_columns in zip(layers, as_columns, strict=True)
    ]

    (merged,) = chunks.merge(given_chunks[0], given_chunks[1:]).sections

    assert merged.changes == _merge_objects(layers, name, is_full=False)


def _view(layers: Sequence[tables.Changes], name: str) -> views.GroupView:
    view = views.GroupView()
    for number, layer in enumerate(layers):
        kind = chunks.ChunkKind.DELTA if number else chunks.ChunkKind.FULL
        assert view.apply(_chunk(kind, _copy(layer), name))
    return view


def _rows(layers: Sequence[tables.Changes], name: str) -> dict[object, object]:
    """Return what a table has after the layers."""
    table = KINDS[name][0].new_table()
    for layer in layers:
        table.apply(_copy(layer))
    return table.rows


@each_kind
@settings(max_examples=30)
@given(draw=st.data())
def test_a_view_finds_what_a_table_has_of_some_keys(name: str, draw: st.DataObject) -> None:
    base = draw.draw(st.dictionaries(FEW_KEYS, KINDS[name][1], max_size=8))
    layers = [base, *draw.draw(st.lists(_changes(name, FEW_KEYS), max_size=4))]
    wanted = draw.draw(st.lists(FEW_KEYS, unique=True, max_size=6))

    found = _view(layers, name).part(columns.PackedKeys.pack(wanted)).tables["s"].rows

    expected = {key: row for key, row in _rows(layers, name).items() if key in wanted}
    assert found == expected
    assert _types(found) == _types(expected)


@pytest.mark.parametrize("layers", COLLISIONS.values(), ids=COLLISIONS.keys())
def test_a_view_finds_one_of_several_keys_with_the_same_hash(layers: list[tables.Changes]) -> None:
    expected = _rows(layers, "maps")
    for key in (A, B, C, collidingkeys.with_hash(7, b"stranger")):
        found = _view(layers, "maps").part(columns.PackedKeys.pack([key])).tables["s"].rows
        assert found == {one: row for one, row in expected.items() if one == key}


def test_a_key_is_found_by_its_bytes_and_no_other_type() -> None:
    view = _view([{1: "int", "1": "str", (1,): "tuple", None: "none"}], "values")

    for key, row in ((1, "int"), ("1", "str"), ((1,), "tuple"), (None, "none")):
        assert view.part(columns.PackedKeys.pack([key])).tables["s"].rows == {key: row}
    assert view.part(columns.PackedKeys.pack([b"1", 2, (1, 1)])).tables["s"].rows == {}


def test_no_keys_are_found_where_none_are_asked_for() -> None:
    assert _view([{1: "int"}, {2: "more"}], "values").part(columns.PackedKeys.pack([])).tables["s"].rows == {}


@pytest.mark.parametrize("count", [31, 32, 33, 34, 66, 100])
def test_changes_of_many_batches_are_found_like_those_of_few(count: int) -> None:
    keys: list[object] = [A, B, C, *range(5)]
    base: tables.Changes = {key: mapstate.MapChange(replaced=True, puts={"x": 0}) for key in keys}
    batches: list[tables.Changes] = [
        {keys[number % 7]: _puts(**{str(number % 3): number}), keys[number * 3 % 8]: tables.DELETED}
        for number in range(count)
    ]
    batches[0]["only at first"] = _puts(x=1)
    keys.append("only at first")
    layers = [base, *batches]

    view = _view(layers, "maps")

    expected = _rows(layers, "maps")
    assert len(view.states["s"].layers) <= 33
    assert view.part(columns.PackedKeys.pack(keys)).tables["s"].rows == expected
    assert view.whole().tables["s"].rows == expected
    merged = view.merged(_chunk(chunks.ChunkKind.DELTA, {}, "maps"), {})
    assert merged is not None
    assert functools.reduce(lambda found, section: found | section.changes, merged.sections, {}) == {
        key: mapstate.MapChange(replaced=True, puts=row)  # type: ignore[arg-type]  # rows of a table of maps
        for key, row in expected.items()
    }


def test_a_state_that_is_merged_has_the_type_that_was_declared_last() -> None:
    view = _view([{"a": 1}], "values")
    newer = kinds.StateMeta("s", valuestate.VALUE, "bigint", has_ttl=False)

    merged = view.merged(chunks.Chunk(chunks.ChunkKind.DELTA, (chunks.Section(newer, {"b": 2}),)), {})

    assert merged is not None
    assert [(section.meta, section.changes) for section in merged.sections] == [(newer, {"a": 1, "b": 2})]


def test_states_that_a_batch_does_not_change_and_new_ones_are_merged_too() -> None:
    view = _view([{"a": 1}], "values")
    other = kinds.StateMeta("t", valuestate.VALUE, "any", has_ttl=False)

    merged = view.merged(chunks.Chunk(chunks.ChunkKind.DELTA, (chunks.Section(other, {"b": 2}),)), {})

    assert merged is not None
    assert [(section.meta, section.changes) for section in merged.sections] == [
        (_meta("values"), {"a": 1}),
        (other, {"b": 2}),
    ]


def test_a_state_of_which_nothing_is_left_is_not_in_the_merged_chunk() -> None:
    merged = _view([{"a": 1}], "values").merged(_chunk(chunks.ChunkKind.DELTA, {"a": tables.DELETED}, "values"), {})

    assert merged == chunks.Chunk(chunks.ChunkKind.FULL, ())


def test_a_view_whose_values_have_several_forms_is_not_merged_as_columns() -> None:
    assert _view([{"a": 1}], "values").merged(_chunk(chunks.ChunkKind.DELTA, {"b": (1, 2)}, "values"), {}) is None


def _head(version: int, *lineage: str, base: int = 1) -> heads.GroupHead:
    runs = (
        heads.ChunkRun(base, 1, 1),
        *(heads.ChunkRun(later, 1, 1) for later in range(base + 1, version + 1)),
    )
    return heads.GroupHead(version, lineage[-1], runs, lineage)


def _found(view: views.GroupView) -> dict[object, object]:
    return view.whole().tables["s"].rows


NOTED = _chunk(chunks.ChunkKind.DELTA, {"a": 2}, "values")
FOLLOWED = {
    "the version that it has": (_head(1, "one"), True, 1),
    "a version after it": (_head(2, "one", "other"), True, 1),
    "the version that was noted": (_head(2, "one", "two"), True, 2),
    "a version after the one that was noted": (_head(3, "one", "two", "three"), True, 2),
    "a full version after it": (_head(2, "one", "other", base=2), False, 1),
    "the version that was noted, in full": (_head(2, "one", "two", base=2), True, 2),
    "a full version after the one that was noted": (_head(3, "one", "two", "three", base=3), False, 1),
    "another history": (_head(1, "else"), False, 1),
}


@pytest.mark.parametrize(("head", "follows", "value"), FOLLOWED.values(), ids=FOLLOWED.keys())
def test_a_view_follows_what_is_in_the_lineage_of_a_head(head: heads.GroupHead, follows: bool, value: int) -> None:
    view = _view([{"a": 1}], "values")
    view.set_version(1, "one")
    view.note(_head(2, "one", "two"), NOTED)

    assert view.follow(head) == follows
    assert _found(view) == {"a": value}


def test_what_was_noted_is_forgotten_once_a_head_without_it_was_seen() -> None:
    view = _view([{"a": 1}], "values")
    view.set_version(1, "one")
    view.note(_head(2, "one", "two"), NOTED)

    assert view.follow(_head(1, "one"))
    assert view.follow(_head(2, "one", "two"))
    assert (view.version, view.unique_id, _found(view)) == (1, "one", {"a": 1})


def test_a_view_that_cannot_take_what_was_noted_stays_at_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    view = _view([{"a": 1}], "values")
    view.set_version(1, "one")
    monkeypatch.setattr(columns, "LARGEST_BYTES", 1)
    view.note(_head(2, "one", "two"), NOTED)

    assert view.follow(_head(2, "one", "two"))
    assert view.version == 1
