"""The short forms, the example of Flink's documentation, and the clock of a batch, on real Spark."""

from __future__ import annotations

import importlib.util
import operator
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
import statefulspark as ss
from keyedstream import FileStream
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])
_EXAMPLES = Path(__file__).resolve().parents[4] / "examples" / "keyed"
SCHEMA = "key bigint, value bigint"
PAIRS = [(1, 3), (1, 5), (1, 7), (1, 4), (1, 2)]


def _emitted(stream: FileStream) -> list[tuple[object, ...]]:
    return [tuple(row) for number in sorted(stream.batches) for row in stream.batches[number]]


def test_a15_count_window_average_gives_flinks_numbers_in_one_batch_and_in_five(
    spark: SparkSession, tmp_path: Path
) -> None:
    spec = importlib.util.spec_from_file_location("count_window_average", _EXAMPLES / "count_window_average.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = example
    spec.loader.exec_module(example)
    cloudpickle.register_pickle_by_value(example)
    for name, batches in (("one", [PAIRS]), ("five", [[pair] for pair in PAIRS])):
        folder = tmp_path / name
        folder.mkdir()
        stream = FileStream(spark, folder, SCHEMA)
        for rows in batches:
            stream.feed(rows)
        stream.run(example.averages_of)
        assert _emitted(stream) == [(1, 4), (1, 5)]


def test_a16_map_with_state_gives_one_row_for_each_and_none_clears(spark: SparkSession, tmp_path: Path) -> None:
    def running_total(row: ss.InputRow, total: int | None) -> tuple[object, int | None]:
        after = (total or 0) + row.value  # type: ignore[operator]
        return (row.key, after), None if after >= 12 else after

    stream = FileStream(spark, tmp_path, SCHEMA)
    stream.feed(PAIRS[:2])
    stream.feed(PAIRS[2:])
    stream.run(
        lambda rows: ss.map_with_state(
            rows, key="key", function=running_total, uid="totals", schema="key bigint, total bigint", state_type=int
        )
    )
    assert _emitted(stream) == [(1, 3), (1, 8), (1, 15), (1, 4), (1, 6)]


def test_a16_flat_map_with_state_gives_any_number_of_rows(spark: SparkSession, tmp_path: Path) -> None:
    def pairs(row: ss.InputRow, before: list[int] | None) -> tuple[Iterable[object] | None, list[int] | None]:
        values = [*(before or []), row.value]
        return ([(value,) for value in values], None) if len(values) == 2 else (None, values)  # type: ignore[return-value]

    stream = FileStream(spark, tmp_path, SCHEMA)
    stream.feed(PAIRS[:3])
    stream.feed(PAIRS[3:])
    stream.run(lambda rows: ss.flat_map_with_state(rows, key="key", function=pairs, uid="pairs", schema="value bigint"))
    assert _emitted(stream) == [(3,), (5,), (7,), (4,)]


class Clock(ss.KeyedProcessFunction):
    """Tells the time of the batch; fails once, so that a batch runs twice."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterable[object]:
        now_ms = round(ctx.processing_time.timestamp() * 1000)
        if not self._marker.exists():
            self._marker.write_text(str(now_ms))
            raise ValueError("once")
        yield key, now_ms


def test_a24_a_batch_that_is_replayed_has_the_same_processing_time(spark: SparkSession, tmp_path: Path) -> None:
    """So a time to live decides alike, however often a batch runs."""
    stream, marker = FileStream(spark, tmp_path, SCHEMA), tmp_path / "failed"
    stream.feed([(1, 1), (2, 2)])

    def run() -> None:
        stream.run(lambda rows: ss.keyed_process(rows, key="key", function=Clock(marker), uid="clock", schema=SCHEMA))

    with pytest.raises(StreamingQueryException):
        run()
    run()
    at_ms = int(marker.read_text())
    assert at_ms > 1_600_000_000_000
    assert sorted(_emitted(stream)) == [(1, at_ms), (2, at_ms)]


class Totals(ss.VectorizedProcessFunction):
    """Sums per key, whole tables at a time."""

    def open(self, ctx: ss.KeyedContext) -> None:
        self.total = ctx.reducing_state("total", operator.add, int)

    def process_table(self, rows: pa.Table, ctx: ss.KeyedContext) -> pa.Table:
        sums = rows.group_by("key").aggregate([("value", "sum")])
        totals = self.total.add_many(sums["key"], sums["value_sum"])
        return pa.table({"value": totals, "key": sums["key"]})


class ListTotals(Totals):
    """The same with lists."""

    def process_table(self, rows: pa.Table, ctx: ss.KeyedContext) -> pa.Table:
        sums = rows.group_by("key").aggregate([("value", "sum")])
        totals = self.total.add_many(ctx.keys(sums), ctx.values(sums["value_sum"]))  # type: ignore[arg-type]
        return pa.table({"value": totals, "key": sums["key"]})


def test_a_vectorized_function_equals_a_dict_and_is_named_when_its_table_is_wrong(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = [[(key % 7, key * batch) for key in range(50)] for batch in range(1, 4)]
    stream = FileStream(spark, tmp_path, SCHEMA)
    totals: dict[int, int] = {}
    expected = []
    for rows in batches:
        stream.feed(rows)
        for key, value in rows:
            totals[key] = totals.get(key, 0) + value
        expected.append(sorted(totals.items()))

    def build(schema: str, function: ss.KeyedProcessFunction) -> None:
        stream.run(lambda rows: ss.keyed_process(rows, key="key", function=function, uid="totals", schema=schema))

    build(SCHEMA, Totals())
    assert [sorted(map(tuple, stream.batches[number])) for number in sorted(stream.batches)] == expected
    for function in (ListTotals(), Totals()):
        stream.feed([(1, 1)])
        totals[1] += 1
        build(SCHEMA, function)
        assert list(map(tuple, stream.batches[max(stream.batches)])) == [(1, totals[1])]
    stream.feed([(1, 1)])
    with pytest.raises(StreamingQueryException, match="returned a table with the columns value, key; the output has"):
        build("key bigint, total bigint", Totals())
