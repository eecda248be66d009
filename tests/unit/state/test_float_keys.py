"""Keys that are floats: NaN is one key and -0.0 is 0.0, in rows, in tables, in views, and in what was stored before."""

from __future__ import annotations

import math
from pathlib import Path

import msgpack
import numpy as np
import pyarrow as pa
import pytest
from keyedstate import MemoryLog, Worker, new_ids
from statefulspark.state import functions, rows
from statefulspark.state.caching import spill
from statefulspark.state.columnar import columns
from statefulspark.state.handles import descriptors, kinds
from statefulspark.state.stored import chunks
from statefulspark.state.types import floatkeys
from statefulspark.testing import KeyedHarness

OTHER_NAN = float("nan")
NEGATIVE_NAN = float(np.uint64(0xFFF8000000000001).view(np.float64))


def _key_of(value: object) -> object:
    """Return a key as a dict is asked for it."""
    (key,) = rows.to_keys(pa.table({"k": pa.array([value], pa.float64())}), ["k"])
    return key


@pytest.mark.parametrize("value", [math.nan, OTHER_NAN, NEGATIVE_NAN], ids=["nan", "another", "with another sign"])
def test_nan_is_one_key(value: float) -> None:
    assert id(_key_of(value)) == id(math.nan)


@pytest.mark.parametrize("value", [0.0, -0.0])
def test_zero_is_one_key_without_a_sign(value: float) -> None:
    assert math.copysign(1, _key_of(value)) == 1  # type: ignore[arg-type]  # a float


def test_keys_of_several_columns_have_the_one_form_too() -> None:
    table = pa.table({"a": ["x", None], "b": [OTHER_NAN, -0.0]})
    first, second = rows.to_keys(table, ["a", "b"])
    assert first == ("x", math.nan)
    assert repr(second) == "(None, 0.0)"


@pytest.mark.parametrize("keys", [[1, None, "a"], [b"1", ("a", 7)], []], ids=["simple", "tuples", "none"])
def test_keys_without_floats_are_what_they_were(keys: list[object]) -> None:
    assert floatkeys.one_form(keys) is keys


def test_keys_are_packed_in_the_one_form() -> None:
    packed = columns.pack_keys([-0.0, NEGATIVE_NAN, 1.5, ("a", -0.0)])
    assert packed == columns.pack_keys([0.0, math.nan, 1.5, ("a", 0.0)])


def test_keys_that_an_earlier_release_stored_are_read_in_the_one_form() -> None:
    meta = chunks.StateMeta("s", kinds.VALUE, "any", has_ttl=False)
    stored = chunks.encode(chunks.Chunk(chunks.ChunkKind.FULL, (chunks.Section(meta, {-0.0: 1, OTHER_NAN: 2}),)))
    assert msgpack.packb(-0.0) in stored

    (section,) = chunks.decode(stored, "a test").sections

    assert section.changes[math.nan] == 2
    assert sorted(map(repr, section.changes)) == ["0.0", "nan"]
    made = section.columns()
    assert made is not None
    assert made.changes(kinds.VALUE.shape.row_form)[math.nan] == 2


@pytest.mark.parametrize("memory_bytes", [1 << 30, 0], ids=["in memory", "on disk"])
def test_state_of_such_keys_is_found_in_tables_and_in_views_after_restarts(tmp_path: Path, memory_bytes: int) -> None:
    log, ids = MemoryLog(), new_ids()
    others: list[object] = [float(number) for number in range(1, 1000)]

    class Count:
        def declare(self, context: functions.KeyedContext) -> None:
            self.count = context.state(descriptors.ValueState[str]("count", str))

    def batch(values: list[object]) -> dict[str, str | None]:
        """Add a mark to the state of each key, in a new process."""
        count, found = Count(), dict[str, str | None]()
        keys = [_key_of(value) for value in values]

        def work(context: functions.KeyedContext) -> None:
            for key in keys:
                context.enter(key)
                found[repr(key)] = count.count.value()
                count.count.update(f"{count.count.value() or '':->40}|")

        worker = Worker(count.declare, ids, disk=spill.DiskViews(tmp_path), memory_bytes=memory_bytes)
        worker.run(log, work, keys=set(keys))
        return found

    batch([*others, math.nan, -0.0, None])
    first = batch([OTHER_NAN, 0.0, None, 5.0])
    second = batch([NEGATIVE_NAN, -0.0, None])

    assert {value and value.count("|") for value in first.values()} == {1}
    assert set(first) == {"nan", "0.0", "None", "5.0"}
    assert {value and value.count("|") for value in second.values()} == {2}


def test_the_harness_for_tests_has_the_same_keys() -> None:
    class Count(functions.KeyedProcessFunction):
        def open(self, ctx: functions.KeyedContext) -> None:
            self.count = ctx.state(descriptors.ValueState[int]("count", int))

        def process(
            self, key: object, given: list[functions.InputRow], ctx: functions.KeyedContext
        ) -> list[tuple[object, int]]:
            self.count.update((self.count.value() or 0) + len(given))
            return [(repr(key), self.count.value() or 0)]

    harness = KeyedHarness(Count(), key="k")
    harness.feed({"k": math.nan}, {"k": OTHER_NAN}, {"k": -0.0}, {"k": 0.0})
    assert harness.feed({"k": NEGATIVE_NAN}, {"k": -0.0}) == [("nan", 3), ("0.0", 3)]
