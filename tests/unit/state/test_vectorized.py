"""Reducing and aggregating states of many keys at once equal the same states key by key."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyedstate import Mean, MemoryLog, Worker, new_ids
from statefulspark import errors
from statefulspark.state import aggregatingstate, functions, ttl
from statefulspark.state.types import conversions


class Tenths(conversions.Codec[int]):
    """Integers, stored as something else."""

    name = "tenths"

    def encode(self, value: int) -> object:
        return value * 10

    def decode(self, stored: object) -> int:
        return stored // 10  # type: ignore[operator]


DESCRIPTORS = {
    "reducing": aggregatingstate.ReducingStateDescriptor("s", operator.add, int),
    "aggregating": aggregatingstate.AggregatingStateDescriptor("s", Mean()),
    "expiring": aggregatingstate.ReducingStateDescriptor("s", operator.add, int, ttl.Ttl("1h")),
    "codec": aggregatingstate.ReducingStateDescriptor("s", operator.add, Tenths()),
}
ADDED = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.one_of(st.none(), st.integers(-9, 9))), max_size=6)


class Bench:
    """One key group with one state, over batches."""

    def __init__(self, descriptor: object) -> None:
        self.log = MemoryLog()
        self._worker = Worker(lambda context: setattr(self, "handle", context.declare(descriptor)), new_ids())

    def run(self, work: Callable[[functions.BatchContext], object]) -> object:
        results: list[object] = []
        self._worker.run(self.log, lambda context: results.append(work(context)))
        return results[0]


@pytest.mark.parametrize("name", DESCRIPTORS)
@settings(max_examples=25)
@given(batches=st.lists(ADDED, max_size=4))
def test_many_keys_at_once_equal_one_after_the_other(
    name: str, batches: list[list[tuple[str | None, int | None]]]
) -> None:
    single, many = Bench(DESCRIPTORS[name]), Bench(DESCRIPTORS[name])
    for batch in batches:

        def one_by_one(context: functions.BatchContext, batch: object = batch) -> list[object]:
            results = []
            for key, value in batch:  # type: ignore[attr-defined]
                context.enter(key)
                single.handle.add(value)  # type: ignore[attr-defined]
                results.append(single.handle.get())  # type: ignore[attr-defined]
            return results

        def at_once(context: functions.BatchContext, batch: object = batch) -> object:
            context.enter_group(list, list)
            keys, values = [key for key, _ in batch], [value for _, value in batch]  # type: ignore[attr-defined]
            return many.handle.add_many(keys, values)  # type: ignore[attr-defined]

        assert many.run(at_once) == single.run(one_by_one)


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_many_keys_are_reached_from_a_table_only(name: str) -> None:
    bench = Bench(DESCRIPTORS[name])
    with pytest.raises(errors.SpecRejectedError, match="inside process_table"):
        bench.run(lambda _: bench.handle.add_many(["a"], [1]))  # type: ignore[attr-defined]
