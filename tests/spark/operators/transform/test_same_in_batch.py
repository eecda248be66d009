# ruff: noqa: N802, N803 - processors have Spark's names
"""What processors see and what is refused, side by side: Spark's operator and ours over the same frames, in one batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pandas as pd
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, GroupedData, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StatefulProcessor
from statefulspark.operators import transform

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])

OUTPUT = "what string, key string, saw string"


class Watcher(StatefulProcessor):
    """Tells the keys and the rows that it is called with, and sets a timer for each key."""

    def init(self, handle) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "n bigint")

    def handleInitialState(self, key, initialState, timerValues) -> None:
        self.count.update((100,))

    def handleInputRows(self, key, rows, timerValues) -> Iterator[object]:
        self.handle.registerTimer(1)
        before = self.count.get()
        yield self.told("rows", repr(key), str((before, sorted(seen for row in rows for seen in self.seen(row)))))

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[object]:
        yield self.told("timer", repr(key), "")

    def told(self, what: str, key: str, saw: str) -> object:
        return Row(what=what, key=key, saw=saw)

    def seen(self, row: Row) -> list[str]:
        return [repr(row)]


class FrameWatcher(Watcher):
    """The same with frames."""

    def told(self, what: str, key: str, saw: str) -> object:
        return pd.DataFrame({"what": [what], "key": [key], "saw": [saw]})

    def seen(self, frame: pd.DataFrame) -> list[str]:
        return [str((list(frame.columns), values)) for values in frame.values.tolist()]


def _spark(grouped: GroupedData, processor: StatefulProcessor, *arguments: object) -> DataFrame:
    if isinstance(processor, FrameWatcher):
        return grouped.transformWithStateInPandas(processor, *arguments)
    return grouped.transformWithState(processor, *arguments)


def _ours(grouped: GroupedData, processor: StatefulProcessor, *arguments: object) -> DataFrame:
    frames = isinstance(processor, FrameWatcher)
    call = transform.transform_with_state_in_pandas if frames else transform.transform_with_state
    return call(grouped, processor, *arguments, uid="watched", max_parallelism=4)  # type: ignore[arg-type]


def _rows(transformed: DataFrame) -> list[tuple[object, ...]]:
    assert transformed.sparkSession.streams.active == []  # And Spark has what its state stores need.
    return sorted(tuple(row) for row in transformed.collect())


def _grouped_by(spark: SparkSession, *key: str) -> GroupedData:
    columns = [sql.col(name.split(" AS ")[0]).alias(name.split(" AS ")[1]) if " AS " in name else name for name in key]
    rows = [("x", ("p", 1), 1), ("y", ("p", 2), 2), ("x", ("q", 3), 3)]
    return (
        spark.createDataFrame(rows, "id string, s struct<id:string,n:bigint>, n bigint").coalesce(1).groupBy(*columns)
    )


@pytest.mark.parametrize("processor", [Watcher(), FrameWatcher()], ids=["rows", "frames"])
@pytest.mark.parametrize(
    ("key", "keys"),
    [
        pytest.param(["s.id"], {"('p',)", "('q',)"}, id="a field with the name of a column"),
        pytest.param(["S.Id", "ID"], {"('p', 'x')", "('p', 'y')", "('q', 'x')"}, id="names in another case"),
        pytest.param(["s.id AS ID"], {"('x',)", "('y',)"}, id="an alias that is the name of a column"),
    ],
)
def test_keys_are_what_spark_groups_by(spark: SparkSession, key: list[str], keys: set[str], processor: Watcher) -> None:
    arguments = (processor, OUTPUT, "Update", "ProcessingTime")
    expected = _rows(_spark(_grouped_by(spark, *key), *arguments))
    assert _rows(_ours(_grouped_by(spark, *key), *arguments)) == expected
    assert {str(key) for what, key, _ in expected if what == "rows"} == keys


KEYED = """
    SELECT cast(c AS double) AS d, named_struct('a', abs(cast(c AS float)), 'b', named_struct('s', c)) AS s, c AS key_group
    FROM VALUES ('0.0'), ('-0.0'), ('1.5'), ('NaN'), ('-0.0') AS t(c)
    UNION ALL SELECT 2.5, NULL, 'x'
"""


@pytest.mark.parametrize("processor", [Watcher(), FrameWatcher()], ids=["rows", "frames"])
@pytest.mark.parametrize("key", [["d"], ["s"], ["key_group", "s"]], ids=["doubles", "structs", "a column key_group"])
def test_keys_are_doubles_and_structs(spark: SparkSession, key: list[str], processor: Watcher) -> None:
    arguments = (processor, OUTPUT, "Update", "ProcessingTime")
    expected = _rows(_spark(spark.sql(KEYED).coalesce(1).groupBy(*key), *arguments))
    assert _rows(_ours(spark.sql(KEYED).coalesce(1).groupBy(*key), *arguments)) == expected
    assert any("nan" in str(key) for _, key, _ in expected)


def test_initial_state_has_the_key_by_another_name_in_another_case(spark: SparkSession) -> None:
    known = spark.createDataFrame([("x", 7), ("w", 8)], "name string, start bigint")
    arguments = (Watcher(), OUTPUT, "Update", "ProcessingTime", known.groupBy("NAME"))
    expected = _rows(_spark(_grouped_by(spark, "ID"), *arguments))
    assert _rows(_ours(_grouped_by(spark, "ID"), *arguments)) == expected


def test_initial_state_may_have_integers_of_another_size_as_keys(spark: SparkSession) -> None:
    known, rows = "SELECT int(id) AS name FROM range(3)", "SELECT id, id AS n FROM range(1, 5)"

    def told(transform_rows: Callable[..., DataFrame]) -> list[tuple[object, ...]]:
        initial = spark.sql(known).coalesce(1).groupBy("name")
        grouped = spark.sql(rows).coalesce(1).groupBy("id")
        return _rows(transform_rows(grouped, Watcher(), OUTPUT, "Update", "ProcessingTime", initial))

    assert told(_ours) == told(_spark)


def test_an_expression_is_a_key_where_spark_takes_only_names(spark: SparkSession) -> None:
    grouped = _grouped_by(spark, "s.id AS label")
    found = _rows(_ours(grouped, Watcher(), OUTPUT, "Update", "ProcessingTime"))
    assert {key for what, key, _ in found if what == "rows"} == {"('p',)", "('q',)"}


class Echo(StatefulProcessor):
    """Yields its rows, and a map that it makes."""

    def init(self, handle) -> None:
        pass

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        for row in rows:
            yield Row(**row.asDict(), made={"a": [Row(x=1, m={"b": 2})]})


def test_maps_come_out_however_they_are_nested(spark: SparkSession) -> None:
    columns = {
        "m": "map('x', 1L)",
        "a": "array(map('y', 2L), null, map())",
        "s": "named_struct('m', map('z', 3L), 'x', 4)",
        "mm": "map('o', map('i', 5))",
        "ms": "map('p', array(named_struct('q', map(7, timestamp'2026-11-22 13:00:00'))))",
        "k": "map(named_struct('u', 1), 'a struct as key')",
    }
    filled = spark.range(1).selectExpr("1 AS id", *(f"{value} AS {name}" for name, value in columns.items()))
    rows = filled.union(filled.selectExpr("2 AS id", *("NULL" for _ in columns))).coalesce(1)
    made = "made map<string,array<struct<x:int,m:map<string,int>>>>"
    schema = ", ".join([*(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema), made])

    def told(transformed: DataFrame) -> list[str]:
        return sorted(str(row.told) for row in transformed.selectExpr("to_json(struct(*)) AS told").collect())

    arguments = (Echo(), schema, "Update", "ProcessingTime")
    expected = told(_spark(rows.groupBy("id"), *arguments))
    assert told(_ours(rows.groupBy("id"), *arguments)) == expected
    assert len(expected) == 2
