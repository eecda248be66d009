"""Handles: Flink's contract on empties, nulls, clear and time to live (A.1 to A.32)."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pytest
from keyedstate import Bench, Mean, MemoryLog, Worker, new_ids
from statefulspark import errors
from statefulspark.state import aggregatingstate, functions, heads, liststate, mapstate, ttl, valuestate
from statefulspark.state.types import conversions

ALL = [
    valuestate.ValueStateDescriptor("s"),
    liststate.ListStateDescriptor("s"),
    mapstate.MapStateDescriptor("s"),
    aggregatingstate.ReducingStateDescriptor("s", max),
    aggregatingstate.AggregatingStateDescriptor("s", Mean()),
]


@pytest.mark.parametrize("descriptor", ALL, ids=lambda descriptor: descriptor.kind.value)
def test_a3_state_outside_a_key_is_refused_with_flinks_sentence(descriptor: object) -> None:
    opened: list[object] = []
    Worker(lambda context: opened.append(context.declare(descriptor)), new_ids()).run(MemoryLog(), lambda _: None)
    handle = opened[0]
    with pytest.raises(errors.SpecRejectedError, match=r"can only be used on a 'keyed stream', i.e., after a 'keyBy"):
        handle.get("x") if hasattr(handle, "put") else handle.get()  # type: ignore[attr-defined]
    with pytest.raises(errors.SpecRejectedError, match="Keyed state 's' with type"):
        handle.clear()  # type: ignore[attr-defined]


class Blank(conversions.Codec[str]):
    """Encodes a text without letters as None."""

    name = "blank"

    def encode(self, value: str) -> object:
        return value or None

    def decode(self, stored: object) -> str:
        return str(stored)


@pytest.mark.parametrize(
    ("descriptor", "write"),
    [
        pytest.param(valuestate.ValueStateDescriptor("s", Blank()), lambda s: s.update(""), id="value"),
        pytest.param(liststate.ListStateDescriptor("s", Blank()), lambda s: s.add(""), id="list"),
        pytest.param(mapstate.MapStateDescriptor("s", str, Blank()), lambda s: s.put("k", ""), id="map"),
    ],
)
def test_a_codec_that_encodes_a_value_as_none_is_refused(descriptor: object, write: Callable[..., None]) -> None:
    with pytest.raises(errors.SpecRejectedError, match="The codec blank encoded '' as None"):
        Bench(descriptor).at(0, write)  # type: ignore[arg-type]


def test_a5_a_value_is_none_until_set_and_after_update_with_none() -> None:
    bench = Bench(valuestate.ValueStateDescriptor("s"))
    assert bench.at(0, lambda s: s.get()) is None
    bench.at(0, lambda s: s.update(0))
    assert bench.at(0, lambda s: s.get()) == 0
    bench.at(0, lambda s: s.update(None))
    bench.forget()
    assert bench.at(0, lambda s: s.get()) is None


def test_a6_a_list_is_empty_never_none_and_refuses_null() -> None:
    bench = Bench(liststate.ListStateDescriptor("s"))
    assert bench.at(0, lambda s: s.get()) == []
    for work, sentence in (
        (lambda s: s.add(None), "You cannot add null to a ListState"),
        (lambda s: s.add_all([1, None]), "You cannot add null to a ListState"),
        (lambda s: s.update(None), "List of values to add cannot be null"),
        (lambda s: s.add_all(None), "List of values to add cannot be null"),
    ):
        with pytest.raises(errors.SpecRejectedError, match=sentence):
            bench.at(0, work)
    bench.at(0, lambda s: s.add_all([]))
    assert bench.log.stored_head is None
    bench.at(0, lambda s: (s.add(1), s.add_all([2, 3])))
    assert bench.at(0, list) == [1, 2, 3]
    bench.at(0, lambda s: s.update([]))
    assert bench.at(0, lambda s: s.get()) == []


def test_changing_a_list_that_was_read_changes_no_state() -> None:
    bench = Bench(liststate.ListStateDescriptor("s"))
    bench.at(0, lambda s: s.update([1]))
    bench.at(0, lambda s: s.get().append(2))
    assert bench.at(0, lambda s: s.get()) == [1]


def test_a7_reducing_folds_and_is_none_while_empty() -> None:
    bench = Bench(aggregatingstate.ReducingStateDescriptor("s", lambda one, two: one + two))
    assert bench.at(0, lambda s: s.get()) is None
    bench.at(0, lambda s: (s.add(2), s.add(None), s.add(3)))
    bench.forget()
    assert bench.at(0, lambda s: s.get()) == 5


def test_a8_aggregating_gives_the_result_of_the_accumulator() -> None:
    bench = Bench(aggregatingstate.AggregatingStateDescriptor("s", Mean()))
    assert bench.at(0, lambda s: s.get()) is None
    bench.at(0, lambda s: (s.add(2), s.add(None), s.add(4)))
    bench.forget()
    assert bench.at(0, lambda s: s.get()) == 3


def test_a9_folding_is_an_aggregating_state_whose_result_is_its_accumulator() -> None:
    seen: list[object] = []
    handles: list[aggregatingstate.AggregatingState[int, str]] = []

    def declare(context: functions.BatchContext) -> None:
        handles[:] = [context.folding_state("s", "", lambda text, number: f"{text}{number}", str)]
        assert [(one.meta.kind.value, one.meta.type_text) for one in context.declarations] == [
            ("AggregatingState", "str")
        ]

    def work(context: functions.BatchContext) -> None:
        context.enter("a")
        handles[0].add(1)
        handles[0].add(2)
        seen.append(handles[0].get())

    Worker(declare, new_ids()).run(MemoryLog(), work)

    assert seen == ["12"]


def test_a10_a_map_is_empty_never_none_and_may_hold_none() -> None:
    bench = Bench(mapstate.MapStateDescriptor("s"))
    assert bench.at(0, lambda s: (s.exists(), s.items(), s.get(1), 1 in s)) == (False, [], None, False)
    bench.at(0, lambda s: (s.put(1, None), s.put_all({2: "b", 3: "c"}), s.remove(3), s.remove(4)))
    bench.forget()
    assert bench.at(0, lambda s: (s.exists(), len(s), s.get(1), 1 in s, s[1], s[2])) == (
        True,
        2,
        None,
        True,
        None,
        "b",
    )
    with pytest.raises(KeyError):
        bench.at(0, lambda s: s[3])
    assert bench.at(0, lambda s: (sorted(s.keys()), s.get(2), sorted(s.items())[1])) == ([1, 2], "b", (2, "b"))
    bench.at(0, lambda s: (s.remove(1), s.remove(2)))
    bench.forget()
    assert bench.at(0, lambda s: s.exists()) is False


def test_a11_clear_removes_the_state_of_the_current_key_only() -> None:
    bench = Bench(valuestate.ValueStateDescriptor("s"))
    bench.at(0, lambda s: s.update(1), key="one")
    bench.at(0, lambda s: s.update(2), key="two")
    bench.at(0, lambda s: s.clear(), key="one")
    assert (bench.at(0, lambda s: s.get(), key="one"), bench.at(0, lambda s: s.get(), key="two")) == (None, 2)


def test_a12_a_name_is_declared_once() -> None:
    def declare(context: functions.BatchContext) -> None:
        context.value_state("s")
        context.value_state("s")

    with pytest.raises(errors.SpecRejectedError, match="names must be unique per operator"):
        Worker(declare, new_ids()).run(MemoryLog(), lambda _: None)


def test_a13_a_name_with_another_type_is_refused_with_both_types() -> None:
    def declare(context: functions.BatchContext) -> None:
        context.value_state("s", int)
        context.list_state("s", int)

    with pytest.raises(
        errors.SpecRejectedError, match=r"Was \[ValueState<int>\], registered with \[ListState<array<int>>\]"
    ):
        Worker(declare, new_ids()).run(MemoryLog(), lambda _: None)


def test_a12_a_state_declared_after_open_is_refused() -> None:
    with pytest.raises(errors.SpecRejectedError, match="declare every state in open"):
        Worker(lambda _: None, new_ids()).run(MemoryLog(), lambda context: context.value_state("late") and None)


def test_a15_count_window_average_gives_flinks_documented_output() -> None:
    bench = Bench(valuestate.ValueStateDescriptor("s"))

    def average(state: object, number: int) -> tuple[int, int] | None:
        count, total = state.get() or (0, 0)  # type: ignore[attr-defined]
        if count + 1 < 2:
            state.update((count + 1, total + number))  # type: ignore[attr-defined]
            return None
        state.clear()  # type: ignore[attr-defined]
        return 1, (total + number) // 2

    emitted = [bench.at(0, lambda s, n=n: average(s, n), key=1) for n in (3, 5, 7, 4, 2)]
    assert [result for result in emitted if result] == [(1, 4), (1, 5)]


HOUR = 3_600_000
SHOWN = ttl.TtlVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP
ON_READ = ttl.TtlUpdate.ON_READ_AND_WRITE


@pytest.mark.parametrize(
    ("hours", "sentence"), [(0, "TTL is expected to be positive"), (-1, "The time to live .* must not be negative")]
)
def test_a19_a_time_to_live_is_positive(hours: int, sentence: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match=sentence):
        ttl.Ttl(datetime.timedelta(hours=hours))


def test_a20_only_writing_renews_unless_reading_is_said_to() -> None:
    for update, expected in ((ttl.TtlUpdate.ON_CREATE_AND_WRITE, None), (ON_READ, 1)):
        bench = Bench(valuestate.ValueStateDescriptor("s", ttl=ttl.Ttl("1h", update=update)))
        bench.at(0, lambda s: s.update(1))
        bench.at(HOUR - 1, lambda s: s.get())
        bench.forget()
        assert bench.at(HOUR + 1, lambda s: s.get()) == expected


def test_a22_an_expired_value_is_returned_once_and_deleted_by_the_read() -> None:
    bench = Bench(valuestate.ValueStateDescriptor("s", ttl=ttl.Ttl("1h", visibility=SHOWN)))
    bench.at(0, lambda s: s.update(1))
    assert [bench.at(2 * HOUR, lambda s: s.get()) for _ in range(2)] == [1, None]


def test_a18_list_elements_and_map_entries_expire_one_by_one() -> None:
    elements = Bench(liststate.ListStateDescriptor("s", ttl=ttl.Ttl("1h")))
    entries = Bench(mapstate.MapStateDescriptor("s", ttl=ttl.Ttl("1h")))
    for hour in (0, 0.5):
        elements.at(int(hour * HOUR), lambda s, hour=hour: s.add(hour))
        entries.at(int(hour * HOUR), lambda s, hour=hour: s.put(hour, None))
    elements.forget()
    entries.forget()
    assert elements.at(HOUR, lambda s: s.get()) == [0.5]
    assert entries.at(HOUR, lambda s: (s.keys(), 0 in s, s.exists())) == ([0.5], False, True)
    assert elements.at(2 * HOUR, lambda s: s.get()) == []
    assert entries.at(2 * HOUR, lambda s: s.exists()) is False


@pytest.mark.parametrize(
    "kind", [valuestate.ValueStateDescriptor, liststate.ListStateDescriptor, mapstate.MapStateDescriptor]
)
def test_a30_what_is_expired_is_dropped_when_a_group_is_written_in_full(kind: type) -> None:
    bench = Bench(kind("s", ttl=ttl.Ttl("1h")))
    writes = {
        valuestate.ValueStateDescriptor: lambda s: s.update("expired"),
        liststate.ListStateDescriptor: lambda s: s.add("expired"),
        mapstate.MapStateDescriptor: lambda s: s.put("expired", 1),
    }
    full = heads.Policy(fan_in=2, max_size_amplification=0.0)
    bench.at(0, writes[kind], key="old")
    bench.at(HOUR, writes[kind], key="new", policy=full)
    assert [run.count for run in bench.log.head().runs] == [1]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["", "1a", "a b", "x" * 129])
def test_a_name_that_cannot_be_written_down_is_refused(name: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match="is not a valid state name"):
        valuestate.ValueStateDescriptor(name)
