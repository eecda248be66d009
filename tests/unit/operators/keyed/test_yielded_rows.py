"""A row comes out as it was when the function yielded it, whatever the function does with its parts after that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql import types as spark_types
from statefulengine import Engine
from statefulspark import state, testing
from statefulspark.operators.keyed import processor
from statefulspark.state import functions, valuestate

_SCHEMA = spark_types.StructType(
    [
        spark_types.StructField("n", spark_types.LongType()),
        spark_types.StructField("seen", spark_types.ArrayType(spark_types.LongType())),
    ]
)
_FLAT = spark_types.StructType([spark_types.StructField("n", spark_types.LongType())])
_INPUT = {"key": ["a", "a"], "n": [1, 2]}


class Collects(state.KeyedProcessFunction):
    """Yields one list again and again."""

    def __init__(self, make: Callable[[int, list[int]], object]) -> None:
        self._make = make

    def process(self, key: object, rows: Sequence[state.InputRow], ctx: state.KeyedContext) -> Iterable[object]:
        seen: list[int] = []
        for row in rows:
            seen.append(row.n)
            yield self._make(row.n, seen)


class Reuses(state.KeyedProcessFunction):
    """Yields one dict again and again."""

    def process(self, key: object, rows: Sequence[state.InputRow], ctx: state.KeyedContext) -> Iterable[object]:
        output: dict[str, object] = {}
        for row in rows:
            output["n"] = row.n
            yield output


def _remember(row: state.InputRow, before: list[int] | None) -> tuple[object, list[int]]:
    """Return the list of state itself, which the next row of the batch changes."""
    seen = before or []
    seen.append(row.n)
    return (row.n, seen), seen


def _output(function: state.KeyedProcessFunction, schema: spark_types.StructType) -> list[dict[str, object]]:
    settings = processor.OperatorSettings("yields", ("key",), "string", schema, "UTC")
    rows = pa.table(_INPUT | {"key_group": pa.array([0, 0], pa.int32())})
    return Engine(lambda: processor.KeyedProcessor(function, settings), "None").batch(rows)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(Collects(lambda n, seen: (n, seen)), id="a list in a tuple"),
        pytest.param(Collects(lambda n, seen: Row(n=n, seen=seen)), id="a list in a Row"),
        pytest.param(Collects(lambda n, seen: {"n": n, "seen": seen}), id="a list in a dict"),
        pytest.param(functions.MapWithState(_remember, valuestate.ValueStateDescriptor("seen")), id="a list in state"),
    ],
)
def test_a_list_is_what_it_was_when_it_was_yielded(function: state.KeyedProcessFunction) -> None:
    assert _output(function, _SCHEMA) == [{"n": 1, "seen": [1]}, {"n": 2, "seen": [1, 2]}]


def test_a_dict_is_what_it_was_when_it_was_yielded() -> None:
    assert _output(Reuses(), _FLAT) == [{"n": 1}, {"n": 2}]


def test_a_row_keeps_its_names_and_its_values_without_an_engine() -> None:
    keyed = testing.KeyedHarness(Collects(lambda n, seen: Row(n=n, seen=seen)), key="key")
    output = keyed.feed({"key": "a", "n": 1}, {"key": "a", "n": 2})
    assert [row.asDict() for row in output if isinstance(row, Row)] == [{"n": 1, "seen": [1]}, {"n": 2, "seen": [1, 2]}]
