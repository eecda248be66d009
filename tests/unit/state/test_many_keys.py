"""Value, list and map states of many keys at once do what the same states do key by key, as objects and as columns."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyedstate import Mean, MemoryLog, Worker, new_ids
from statefulspark import errors
from statefulspark.state import aggregatingstate, chunks, functions, liststate, mapstate, numbers, ttl, valuestate
from statefulspark.state.types import conversions

HOUR_MS = 3_600_000


class Halves(conversions.Codec[int]):
    """Integers, stored as text."""

    name = "halves"

    def encode(self, value: int) -> object:
        return f"{value}/2"

    def decode(self, stored: object) -> int:
        return int(str(stored).removesuffix("/2"))


HOUR = ttl.Ttl("1h")
VALUES = {
    "integers": valuestate.ValueStateDescriptor("s", int),
    "any": valuestate.ValueStateDescriptor("s"),
    "expiring": valuestate.ValueStateDescriptor("s", int, ttl=HOUR),
    "codec": valuestate.ValueStateDescriptor("s", Halves()),
}
LISTS = {
    "plain": liststate.ListStateDescriptor("s", int),
    "expiring": liststate.ListStateDescriptor("s", int, ttl=HOUR),
    "codec": liststate.ListStateDescriptor("s", Halves()),
}
MAPS = {
    "plain": mapstate.MapStateDescriptor("s", str, int),
    "expiring": mapstate.MapStateDescriptor("s", str, int, ttl=HOUR),
    "codec": mapstate.MapStateDescriptor("s", str, Halves()),
}
FOLDED = {
    "reducing": aggregatingstate.ReducingStateDescriptor("s", operator.add, int),
    "aggregating": aggregatingstate.AggregatingStateDescriptor("s", Mean()),
    "reducing, expiring": aggregatingstate.ReducingStateDescriptor("s", operator.add, int, ttl=HOUR),
    "aggregating, expiring": aggregatingstate.AggregatingStateDescriptor("s", Mean(), ttl=HOUR),
}
KEYS = st.integers(0, 4)
NUMBERS = st.integers(-9, 9)
ENTRIES = st.sampled_from("ab")
Column = Callable[[list[object]], Any]
FORMS: dict[str, Column] = {"lists": list, "columns": pa.array}


class Group:
    """One key group with one state, over batches that are half an hour apart."""

    def __init__(self, descriptor: object, *, is_vectorized: bool) -> None:
        self.handle: Any = None
        self.log = MemoryLog()
        self._descriptor, self._is_vectorized, self._ids, self._batches = descriptor, is_vectorized, new_ids(), 0
        self.forget()

    def forget(self) -> None:
        """Go on in a new worker, which has nothing in memory."""

        def declare(context: functions.BatchContext) -> None:
            self.handle = context.declare(self._descriptor)

        self._worker = Worker(declare, self._ids, is_vectorized=self._is_vectorized)

    def run(self, work: Callable[[Any, functions.BatchContext], list[object]]) -> list[object]:
        """Run a batch and return what its work returned."""
        results: list[object] = []
        now_ms, self._batches = self._batches * HOUR_MS // 2, self._batches + 1
        self._worker.run(self.log, lambda context: results.extend(work(self.handle, context)), now_ms=now_ms)
        return results

    def by_key(self, rows: Sequence[tuple[Any, ...]], call: Callable[..., object]) -> list[object]:
        """Do something for each row, while its key is the current one."""

        def work(handle: Any, context: functions.BatchContext) -> list[object]:
            results = []
            for key, *items in rows:
                context.enter(key)
                results.append(call(handle, *items))
            return results

        return self.run(work)

    def at_once(self, rows: Sequence[tuple[Any, ...]], method: str, form: Column, width: int) -> list[object]:
        """Call a method with the columns of all rows."""
        columns = [form([row[place] for row in rows]) for place in range(width)]

        def work(handle: Any, context: functions.BatchContext) -> list[object]:
            context.enter_group(list, lambda column: column.to_pylist())
            results = getattr(handle, method)(*columns)
            return _listed(results)

        return self.run(work)


def _listed(results: Any) -> list[object]:
    if results is None:
        return []
    listed: list[object] = results.to_pylist() if isinstance(results, pa.Array) else results
    return listed


def _same(
    descriptor: object,
    batches: Sequence[tuple[str, Sequence[tuple[Any, ...]]]],
    methods: dict[str, tuple[int, Callable[..., object]]],
    form: Column,
) -> None:
    """Run batches, each with one method, in both ways, and the second one also in a new worker each time."""
    single, many, forgetful = (Group(descriptor, is_vectorized=flag) for flag in (False, True, True))
    for method, rows in batches:
        width, call = methods[method]
        results = single.by_key([row[:width] for row in rows], call)
        has_result = any(one is not None for one in results)
        for group in (many, forgetful):
            forgetful.forget()
            found = group.at_once(rows, method, form, width)
            if method == "items_many":  # The order of entries is not part of the contract.
                found, results = ([sorted(entries) for entries in one] for one in (found, results))
            assert found == (results if found or has_result else [])


def _batches(methods: dict[str, object], *rows: st.SearchStrategy[Any]) -> Any:
    return st.lists(
        st.tuples(st.sampled_from(sorted(methods)), st.lists(st.tuples(KEYS, *rows), max_size=5)), max_size=6
    )


def _add_and_get(handle: Any, value: int | None) -> object:
    handle.add(value)
    return handle.get()


FOLDING_METHODS: dict[str, tuple[int, Callable[..., object]]] = {
    "add_many": (2, _add_and_get),
    "get_many": (1, lambda handle: handle.get()),
    "clear_many": (1, lambda handle: handle.clear()),
}
VALUE_METHODS: dict[str, tuple[int, Callable[..., object]]] = {
    "get_many": (1, lambda handle: handle.get()),
    "update_many": (2, lambda handle, value: handle.update(value)),
    "clear_many": (1, lambda handle: handle.clear()),
}
LIST_METHODS: dict[str, tuple[int, Callable[..., object]]] = {
    "get_many": (1, lambda handle: handle.get()),
    "add_many": (2, lambda handle, value: handle.add(value)),
    "update_many": (3, lambda handle, _, values: handle.update(values)),
    "clear_many": (1, lambda handle: handle.clear()),
}
MAP_METHODS: dict[str, tuple[int, Callable[..., object]]] = {
    "get_many": (2, lambda handle, entry: handle.get(entry)),
    "put_many": (3, lambda handle, entry, value: handle.put(entry, value)),
    "remove_many": (2, lambda handle, entry: handle.remove(entry)),
    "items_many": (1, lambda handle: handle.items()),
    "clear_many": (1, lambda handle: handle.clear()),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", VALUES)
@settings(max_examples=40)
@given(data=st.data())
def test_values_of_many_keys(name: str, form: str, data: st.DataObject) -> None:
    batches = data.draw(_batches({**VALUE_METHODS}, st.one_of(st.none(), NUMBERS)))
    _same(VALUES[name], batches, VALUE_METHODS, FORMS[form])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", FOLDED)
@settings(max_examples=40)
@given(data=st.data())
def test_folded_values_of_many_keys(name: str, form: str, data: st.DataObject) -> None:
    batches = data.draw(_batches({**FOLDING_METHODS}, st.one_of(st.none(), NUMBERS)))
    _same(FOLDED[name], batches, FOLDING_METHODS, FORMS[form])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", LISTS)
@settings(max_examples=40)
@given(data=st.data())
def test_lists_of_many_keys(name: str, form: str, data: st.DataObject) -> None:
    methods = {method: call for method, call in LIST_METHODS.items() if method != "update_many"}
    batches = data.draw(_batches({**methods}, NUMBERS))
    _same(LISTS[name], batches, methods, FORMS[form])


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=25)
@given(lists=st.lists(st.lists(NUMBERS, max_size=3), min_size=3, max_size=3))
def test_lists_of_many_keys_are_replaced(form: str, lists: list[list[int]]) -> None:
    group = Group(LISTS["expiring"], is_vectorized=True)
    keys = [(0, 5), (1, 6), (2, 7)]
    group.at_once(keys, "add_many", FORMS[form], 2)
    rows = [(key, items) for (key, _), items in zip(keys, lists, strict=True)]
    group.at_once(rows, "update_many", FORMS[form], 2)
    assert group.at_once(rows, "get_many", FORMS[form], 1) == lists


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MAPS)
@settings(max_examples=40)
@given(data=st.data())
def test_maps_of_many_keys(name: str, form: str, data: st.DataObject) -> None:
    batches = data.draw(_batches({**MAP_METHODS}, ENTRIES, NUMBERS))
    _same(MAPS[name], batches, MAP_METHODS, FORMS[form])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["reducing, expiring", "aggregating, expiring"])
def test_adding_none_to_many_keys_renews_no_time_to_live(name: str, form: str) -> None:
    batches: list[tuple[str, list[tuple[int, int | None]]]] = [("add_many", [(1, 4), (2, 5)])]
    batches += [("add_many", [(1, None), (2, 5)])] * 3
    _same(FOLDED[name], batches, FOLDING_METHODS, FORMS[form])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "descriptor",
    [
        aggregatingstate.ReducingStateDescriptor("s", operator.add, int),
        aggregatingstate.AggregatingStateDescriptor("s", Mean()),
    ],
)
def test_folded_values_of_many_keys_are_read_and_cleared(descriptor: object, form: str) -> None:
    group = Group(descriptor, is_vectorized=True)
    added = group.at_once([(1, 4), (2, 6)], "add_many", FORMS[form], 2)
    group.at_once([(1,)], "clear_many", FORMS[form], 1)
    assert group.at_once([(2,), (1,), (3,)], "get_many", FORMS[form], 1) == [added[1], None, None]


def test_integers_of_many_keys_stay_arrays_as_columns() -> None:
    group = Group(VALUES["integers"], is_vectorized=True)
    group.at_once([(3, 30), (1, 10)], "update_many", pa.array, 2)
    head = group.log.head()
    assert head is not None
    (section,) = chunks.decode(group.log.chunks[head.runs[0].version][1], "1").sections
    assert isinstance(section.content, numbers.Numbers)
    assert group.at_once([(2,), (3,), (1,), (3,)], "get_many", pa.array, 1) == [None, 30, 10, 30]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((pa.array([1, 2]), pa.array([1])), "Int64Array of 2, Int64Array of 1"),
        (([1], pa.array([1])), "list of 1, Int64Array of 1"),
        (([1, 2], [1]), "list of 2, list of 1"),
    ],
)
@pytest.mark.parametrize(
    ("descriptor", "method"),
    [(VALUES["any"], "update_many"), (LISTS["plain"], "add_many"), (MAPS["plain"], "get_many")],
)
def test_columns_that_do_not_fit_together_are_refused(
    descriptor: object, method: str, columns: tuple[object, object], message: str
) -> None:
    group = Group(descriptor, is_vectorized=True)

    def work(handle: Any, context: functions.BatchContext) -> list[object]:
        context.enter_group(list, lambda column: column.to_pylist())
        getattr(handle, method)(*columns)
        return []

    with pytest.raises(errors.SpecRejectedError, match=message) as raised:
        group.run(work)
    assert raised.value.reason == "ColumnsInvalid"
    assert group.log.head() is None


def test_results_without_a_common_type_are_returned_for_lists_only() -> None:
    group = Group(VALUES["any"], is_vectorized=True)
    rows: list[tuple[Any, ...]] = [(1, "text"), (2, 5)]
    group.at_once(rows, "update_many", list, 2)
    assert group.at_once(rows, "get_many", list, 1) == ["text", 5]
    with pytest.raises(errors.SpecRejectedError, match="pass lists instead"):
        group.at_once(rows, "get_many", pa.array, 1)


@pytest.mark.parametrize("descriptor", [VALUES["integers"], LISTS["plain"], MAPS["plain"]])
def test_many_keys_are_reached_inside_a_table_only(descriptor: object) -> None:
    group = Group(descriptor, is_vectorized=True)
    with pytest.raises(errors.SpecRejectedError, match="inside process_table"):
        group.run(lambda handle, _: handle.clear_many([1]))
