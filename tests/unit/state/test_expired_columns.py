"""Expired cells are left out of columns as they are out of tables, whatever the bytes of values look like."""

from __future__ import annotations

from unittest import mock

import columnchunk
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keyedstate import MemoryLog, Worker, new_ids
from statefulspark.state import (
    columns,
    functions,
    heads,
    kinds,
    liststate,
    mapstate,
    merging,
    store,
    tables,
    ttl,
)
from statefulspark.state.cells import CellTable
from statefulspark.state.valuestate import VALUE

NOW_MS = 1_795_000_000_000
"""A day in November 2026."""
LIKE_A_TIME = b"\xcf" + (NOW_MS + 5).to_bytes(8, "big")
TIMES = st.sampled_from([NOW_MS - 1, NOW_MS, NOW_MS + 1, 2**32 - 1, 2**32, 5, 0])
VALUES = st.sampled_from(
    ["text", b"x" * 40, LIKE_A_TIME, LIKE_A_TIME[:8], [LIKE_A_TIME], (1, NOW_MS + 5), None, 7, 2**63]
)
IN_FULL = heads.Policy(fan_in=2, max_size_amplification=0.0)


def _columns(cells: tables.Changes) -> columns.Columns:
    return columnchunk.columns_of(cells, VALUE)


@given(cells=st.dictionaries(st.integers(0, 30), st.tuples(VALUES, TIMES), max_size=20), cutoff_ms=TIMES)
def test_columns_lose_what_is_expired(cells: tables.Changes, cutoff_ms: int) -> None:
    left = merging.without_expired(_columns(cells), cutoff_ms, VALUE).changes(VALUE)

    alive = {key: cell for key, cell in cells.items() if CellTable.alive(cell, cutoff_ms)}  # type: ignore[arg-type]
    assert left.items() >= alive.items()
    # A time before 1970-02-20 is shorter, so that the value before it may look like a part of it.
    kept_for_now = {key: cell for key, cell in left.items() if key not in alive}
    assert all(renewed_ms < 2**32 for _, renewed_ms in kept_for_now.values())  # type: ignore[misc]


def test_a_value_that_ends_like_a_time_does_not_hide_that_its_cell_is_expired() -> None:
    cells: tables.Changes = {1: (LIKE_A_TIME, NOW_MS - 1), 2: (LIKE_A_TIME, NOW_MS + 1)}

    assert merging.without_expired(_columns(cells), NOW_MS, VALUE).changes(VALUE) == {2: (LIKE_A_TIME, NOW_MS + 1)}


PARTS: dict[str, tuple[kinds.StateKind, st.SearchStrategy[object]]] = {
    "lists": (
        liststate.LIST,
        st.builds(liststate.ListChange, st.just(0), st.lists(st.tuples(VALUES, TIMES), max_size=4)),
    ),
    "maps": (
        mapstate.MAP,
        st.builds(
            mapstate.MapChange,
            st.just(value=True),
            st.dictionaries(st.integers(0, 9), st.tuples(VALUES, TIMES), max_size=4),
        ),
    ),
}


@pytest.mark.parametrize("name", PARTS)
@given(draw=st.data(), cutoff_ms=TIMES, at_once=st.sampled_from([1, 2, 4096]))
def test_lists_and_maps_lose_the_parts_that_are_expired(
    name: str, draw: st.DataObject, cutoff_ms: int, at_once: int
) -> None:
    kind, rows = PARTS[name]
    whole = draw.draw(st.dictionaries(st.integers(0, 30), rows, max_size=8))
    made = columnchunk.columns_of(whole, kind)

    with mock.patch.object(merging, "_SLICE", at_once):
        left = merging.without_expired(made, cutoff_ms, kind)

    assert left is not None
    alive = {key: kind.alive(row, cutoff_ms) for key, row in whole.items()}
    assert left.changes(kind) == {key: row for key, row in alive.items() if row is not None}


def test_lists_of_which_nothing_is_expired_stay_the_same_bytes() -> None:
    made = columnchunk.columns_of({1: liststate.ListChange(0, [("a", NOW_MS)])}, liststate.LIST)
    assert merging.without_expired(made, NOW_MS - 1, liststate.LIST) is made


def test_lists_that_are_too_large_while_two_forms_of_them_are_there_are_told() -> None:
    items = [("a", NOW_MS), ("b", NOW_MS + 2)]
    made = columnchunk.columns_of({1: liststate.ListChange(0, items)}, liststate.LIST)
    with mock.patch.object(merging.columns, "LARGEST_BYTES", made.rows.nbytes):
        assert merging.without_expired(made, NOW_MS, liststate.LIST) is None


class Texts:
    """Two states with a time to live, of which one is never used, one without, and a list."""

    def declare(self, context: functions.BatchContext) -> None:
        life = ttl.Ttl("1s")
        self.text = context.value_state("text", str, ttl=life)
        self.unused = context.value_state("unused", str, ttl=life)
        self.kept = context.value_state("kept", str)
        self.list = context.list_state("list", str, ttl=life)

    def set(self, context: functions.BatchContext, keys: range, *, with_lists: bool) -> None:
        for key in keys:
            context.enter(key)
            self.text.update(f"{key:040}")
            self.kept.update(f"{key:040}")
            if with_lists:
                self.list.add(f"{key:040}")


@pytest.mark.parametrize(
    "with_lists", [False, True], ids=["cells alone", "and lists, whose elements expire one by one"]
)
def test_a_view_that_is_written_in_full_leaves_out_what_is_expired(with_lists: bool) -> None:
    texts, log, ids = Texts(), MemoryLog(), new_ids()
    batches = ((range(400), NOW_MS), (range(400, 420), NOW_MS + 900), (range(420, 425), NOW_MS + 1000))
    for keys, now_ms in batches:
        worker = Worker(texts.declare, ids)
        policy = IN_FULL if keys.stop == 425 else heads.Policy(fan_in=1000, max_size_amplification=1000.0)
        worker.run(
            log,
            lambda context, keys=keys: texts.set(context, keys, with_lists=with_lists),
            now_ms=now_ms,
            keys=list(keys),
            policy=policy,
        )

    (run,) = log.head().runs
    stored = {section.meta.name: set(section.changes) for section in store.read_chunk(log, 0, run).sections}
    alive = set(range(400, 425))
    assert stored == {"text": alive, "kept": set(range(425))} | ({"list": alive} if with_lists else {})


def test_a_state_that_the_function_does_not_declare_any_more_keeps_what_is_expired_until_it_does() -> None:
    """Only its descriptor says how long it lives."""
    texts, log, ids = Texts(), MemoryLog(), new_ids()
    Worker(texts.declare, ids).run(
        log, lambda context: texts.set(context, range(400), with_lists=True), now_ms=NOW_MS, keys=list(range(400))
    )

    def declare_one(context: functions.BatchContext) -> None:
        texts.kept = context.value_state("kept", str)

    def work(context: functions.BatchContext) -> None:
        context.enter(1)
        texts.kept.update("changed")

    Worker(declare_one, ids).run(log, work, now_ms=NOW_MS + 10_000, keys=[1], policy=IN_FULL)

    (run,) = log.head().runs
    stored = {section.meta.name: len(section.changes) for section in store.read_chunk(log, 0, run).sections}
    assert stored == {"text": 400, "kept": 400, "list": 400}
