"""Keys have one form, in rows, in tables, in views and in what is stored: NaN, -0.0, points in time, Decimals."""

from __future__ import annotations

import datetime
import decimal
import math
import zoneinfo
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from keyedstate import MemoryLog, Worker, new_ids
from statefulspark import errors
from statefulspark.state import cache, columns, functions, mapstate, rows, tables, valuestate
from statefulspark.state.types import codec, keyforms
from statefulspark.testing import KeyedHarness

OTHER_NAN = float("nan")
NEGATIVE_NAN = float(np.uint64(0xFFF8000000000001).view(np.float64))


def _key_of(value: object) -> object:
    """Return a key as a dict is asked for it."""
    (key,) = rows.read_keys(pa.table({"k": pa.array([value], pa.float64())}), ["k"])
    return key


@pytest.mark.parametrize("value", [math.nan, OTHER_NAN, NEGATIVE_NAN], ids=["nan", "another", "with another sign"])
def test_nan_is_one_key(value: float) -> None:
    assert id(_key_of(value)) == id(math.nan)


@pytest.mark.parametrize("value", [0.0, -0.0])
def test_zero_is_one_key_without_a_sign(value: float) -> None:
    assert math.copysign(1, _key_of(value)) == 1  # type: ignore[arg-type]  # a float


def test_keys_of_several_columns_have_the_one_form_too() -> None:
    table = pa.table({"a": ["x", None], "b": [OTHER_NAN, -0.0]})
    first, second = rows.read_keys(table, ["a", "b"])
    assert first == ("x", math.nan)
    assert repr(second) == "(None, 0.0)"


@pytest.mark.parametrize("keys", [[1, None, "a"], [b"1", ("a", 7)], []], ids=["simple", "tuples", "none"])
def test_keys_without_floats_are_what_they_were(keys: list[object]) -> None:
    assert keyforms.one_form(keys) is keys


def test_keys_are_packed_in_the_one_form() -> None:
    packed = columns.pack_keys([-0.0, NEGATIVE_NAN, 1.5, ("a", -0.0)])
    assert packed == columns.pack_keys([0.0, math.nan, 1.5, ("a", 0.0)])


@pytest.mark.parametrize("memory_bytes", [1 << 30, 0], ids=["in memory", "on disk"])
def test_state_of_such_keys_is_found_in_tables_and_in_views_after_restarts(tmp_path: Path, memory_bytes: int) -> None:
    log, ids = MemoryLog(), new_ids()
    others: list[object] = [float(number) for number in range(1, 1000)]

    class Count:
        def declare(self, context: functions.BatchContext) -> None:
            self.count = context.value_state("count", str)

    def batch(values: list[object]) -> dict[str, str | None]:
        """Add a mark to the state of each key, in a new process."""
        count, found = Count(), dict[str, str | None]()
        keys = [_key_of(value) for value in values]

        def work(context: functions.BatchContext) -> None:
            for key in keys:
                context.enter(key)
                found[repr(key)] = count.count.get()
                count.count.update(f"{count.count.get() or '':->40}|")

        worker = Worker(count.declare, ids, disk=cache.DiskViews(tmp_path), memory_bytes=memory_bytes)
        worker.run(log, work, keys=set(keys))
        return found

    batch([*others, math.nan, -0.0, None])
    first = batch([OTHER_NAN, 0.0, None, 5.0])
    second = batch([NEGATIVE_NAN, -0.0, None])

    assert {value and value.count("|") for value in first.values()} == {1}
    assert set(first) == {"nan", "0.0", "None", "5.0"}
    assert {value and value.count("|") for value in second.values()} == {2}


NEW_YORK = zoneinfo.ZoneInfo("America/New_York")
REPEATED_HOUR = [datetime.datetime(2026, 11, 1, 1, 30, tzinfo=NEW_YORK, fold=fold) for fold in (0, 1)]


class CountOfKey(functions.KeyedProcessFunction):
    """Yields each key as it is shown, and how often it came."""

    def open(self, ctx: functions.BatchContext) -> None:
        self.count = ctx.value_state("count", int)

    def process(
        self, key: object, given: list[functions.InputRow], ctx: functions.BatchContext
    ) -> list[tuple[object, object, int]]:
        self.count.update((self.count.get() or 0) + len(given))
        return [(key, ctx.key, self.count.get() or 0)]


@pytest.mark.parametrize("fold", [0, 1])
@pytest.mark.parametrize("columns", [["hour"], ["id", "hour"]], ids=["one column", "two columns"])
def test_a_key_in_a_repeated_hour_keeps_its_state_over_restarts(columns: list[str], fold: int) -> None:
    harness = KeyedHarness(CountOfKey(), key=columns)
    counts, shown = [], set()
    for number in range(5):
        ((key, of_context, count),) = harness.feed({"id": 1, "hour": REPEATED_HOUR[fold]})
        counts.append(count)
        shown.add((repr(key), repr(of_context)))
        if number % 2:
            harness.restart()
    assert counts == [1, 2, 3, 4, 5]
    assert len(shown) == 1
    assert "America/New_York" in shown.pop()[0]


def test_both_points_in_time_of_a_repeated_hour_are_two_keys() -> None:
    harness = KeyedHarness(CountOfKey(), key="hour")
    first = harness.feed(*({"hour": moment} for moment in (*REPEATED_HOUR, REPEATED_HOUR[1])))
    harness.restart()
    second = harness.feed(*({"hour": moment} for moment in REPEATED_HOUR))
    assert [count for _, _, count in first] == [1, 2]
    assert [count for _, _, count in second] == [2, 3]


@pytest.mark.parametrize("declared", [(), ("timestamp", "bigint")], ids=["any", "typed"])
def test_entries_of_a_repeated_hour_that_a_function_makes_stay_apart_over_restarts(declared: tuple[str, ...]) -> None:
    class Hours(functions.KeyedProcessFunction):
        def open(self, ctx: functions.BatchContext) -> None:
            self.hours = ctx.map_state("hours", *declared)

        def process(
            self, key: object, given: list[functions.InputRow], ctx: functions.BatchContext
        ) -> list[tuple[list[str], int]]:
            for row in given:
                hour = row["at"].astimezone(NEW_YORK).replace(minute=0)
                self.hours.put(hour, (self.hours.get(hour) or 0) + 1)
            return [(sorted(map(str, self.hours.keys())), sum(self.hours.values()))]

    harness = KeyedHarness(Hours(), key="id")
    moments = [datetime.datetime(2026, 11, 1, 5 + number % 2, 10, tzinfo=datetime.UTC) for number in range(8)]
    seen = []
    for number, moment in enumerate(moments):
        seen += harness.feed({"id": 1, "at": moment})
        if number % 2:
            harness.restart()
    assert [total for _, total in seen] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert {tuple(names) for names, _ in seen[1:]} == {("2026-11-01 05:00:00+00:00", "2026-11-01 06:00:00+00:00")}


@pytest.mark.parametrize("entry", [math.nan, (1, (math.nan, "a"))], ids=["itself", "in a tuple"])
@pytest.mark.parametrize("memory_bytes", [1 << 30, 0], ids=["in memory", "on disk"])
def test_an_entry_of_nan_is_found_and_removed_after_restarts(tmp_path: Path, memory_bytes: int, entry: object) -> None:
    log, ids = MemoryLog(), new_ids()
    others = [f"a key of some length {number}" for number in range(1000)]

    class Seen:
        def declare(self, context: functions.BatchContext) -> None:
            self.seen = context.map_state("seen")

    def batch(change: Callable[[mapstate.MapState[object, int]], None], keys: list[str]) -> None:
        """Change the map of each key, in a new process."""
        seen = Seen()

        def work(context: functions.BatchContext) -> None:
            for key in keys:
                context.enter(key)
                change(seen.seen)

        worker = Worker(seen.declare, ids, disk=cache.DiskViews(tmp_path), memory_bytes=memory_bytes)
        worker.run(log, work, keys=set(keys))

    def count(seen: mapstate.MapState[object, int]) -> None:
        seen.put(entry, (seen.get(entry) or 0) + 1)
        sizes.append((len(seen), seen.get(entry)))

    sizes: list[tuple[int, int | None]] = []
    batch(count, [*others, "a"])
    batch(count, ["a"])
    batch(count, ["a"])
    batch(lambda seen: seen.remove(entry), ["a"])
    batch(lambda seen: sizes.append((len(seen), seen.get(entry))), ["a"])

    assert sizes[-4:] == [(1, 1), (1, 2), (1, 3), (0, None)]


EQUAL_ENTRIES = [
    (decimal.Decimal("1.50"), decimal.Decimal("1.5")),
    (decimal.Decimal("1E+2"), decimal.Decimal("100.00")),
    (decimal.Decimal("-0.0"), decimal.Decimal(0)),
    (-0.0, 0.0),
    (REPEATED_HOUR[1], REPEATED_HOUR[1].astimezone(datetime.UTC)),
    (datetime.datetime(2026, 11, 1, 1, 30, fold=1), datetime.datetime(2026, 11, 1, 1, 30)),
    (datetime.time(1, 30, fold=1), datetime.time(1, 30)),
    (datetime.time(1, 30, tzinfo=NEW_YORK), datetime.time(1, 30)),
    (
        datetime.time(3, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
        datetime.time(1, 30, tzinfo=datetime.UTC),
    ),
    ((1, decimal.Decimal("2.0")), (1, decimal.Decimal(2))),
]


@pytest.mark.parametrize(("one", "other"), EQUAL_ENTRIES, ids=repr)
def test_entries_that_are_equal_have_equal_bytes(one: object, other: object) -> None:
    first, second = keyforms.entry_form(one), keyforms.entry_form(other)
    assert first == second
    assert codec.pack(first) == codec.pack(second)
    assert codec.unpack(codec.pack(first)) == first
    assert repr(codec.unpack(codec.pack(first))) == repr(first)


def test_two_keys_of_equal_bytes_are_never_written() -> None:
    changes: tables.Changes = {REPEATED_HOUR[1]: "a", REPEATED_HOUR[1].astimezone(datetime.UTC): "b"}
    with pytest.raises(errors.InternalError, match=r"differ and have the same stored form"):
        columns.Columns.from_changes(changes, valuestate.VALUE)
