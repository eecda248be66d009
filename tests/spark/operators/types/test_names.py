# ruff: noqa: N802, N803 - processors have Spark's names
"""Columns of any name as keys and as columns of rows, in Spark's operators and in ours."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import statefulspark as ss
from machines import kafka_sink
from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row, SparkSession, types
from pyspark.sql.streaming import StatefulProcessor
from sinkcontexts import a_sink_context
from statefulspark import errors
from statefulspark.driver.output import parts
from statefulspark.operators import columns
from statefulspark.sinks import staging
from statefulspark.sinks.kafka import JsonSerializer
from statefulspark.storage import StorageOptions

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])

LOCAL = StorageOptions(allow_local_files=True)
NAMES = (
    *("_id", "class", "a-b", "count", "index", "_fields", "__fields__", "key_group", "a.b", "two words", "a`b", "``"),
    *('a"b', "a'b", "ключ", "名前", "0", "value"),
)
SCHEMA = types.StructType([types.StructField(name, types.LongType()) for name in NAMES])
VALUES = tuple(range(len(NAMES)))


class Rows(ss.KeyedProcessFunction):
    """Gives the columns of a row by their names, once as items and once as attributes."""

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[object, ...]]:
        (row,) = rows
        yield key  # type: ignore[misc]  # a tuple, since there are several columns
        yield tuple(row[name] for name in NAMES)
        yield tuple(row[name] if name == "__fields__" else getattr(row, name) for name in NAMES)


class Processor(StatefulProcessor):
    """Gives the columns of a Row by their names."""

    def init(self, handle) -> None:
        pass

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        (row,) = rows
        for values in (key, [row[name] for name in NAMES]):
            made = Row(*NAMES)
            yield made(*values)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    assert not spark.streams.active  # The state of a batch needs what Spark starts with the first look at its streams.
    return spark.createDataFrame([VALUES], SCHEMA)


def test_a_column_may_be_called_anything(rows: DataFrame) -> None:
    keyed = ss.keyed_process(rows, key=NAMES, function=Rows(), uid="names", schema=SCHEMA, max_parallelism=2)
    grouped = rows.groupBy(*map(columns.quoted, NAMES))
    processed = ss.compat.transform_with_state(
        grouped, Processor(), SCHEMA, "Update", "None", uid="names", max_parallelism=2
    )
    assert [tuple(row) for row in keyed.union(processed).collect()] == [VALUES] * 5


def test_a_name_with_a_dot_is_no_field_of_another_column(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("select named_struct('b', 1L) as a, 2L as `a.b`")
    context = a_sink_context(staging_uri=(tmp_path / "staged").as_uri(), options=LOCAL)
    sink = kafka_sink("names", bootstrap_servers="kafka:9092", serializer=JsonSerializer())
    write = functools.partial(parts.write_parts, writers=[parts.PartWriter(sink, context)])
    written = columns.map_in_arrow(rows, write, parts.SCHEMA).collect()
    staged = staging.merge([bytes(row.part) for row in written])
    assert staged is not None
    values = [value for batch in staging.read(staged, context) for value in batch.column("value").to_pylist()]
    assert values == [b'{"a":{"b":1},"a.b":2}']


def test_columns_that_differ_in_case_are_refused_by_every_operator(rows: DataFrame) -> None:
    given = rows.select("value", rows["class"].alias("VALUE"))
    with pytest.raises(errors.SpecRejectedError) as keyed:
        ss.keyed_process(given, key="value", function=Rows(), uid="names", schema=SCHEMA)
    grouped = rows.select("_id", "value", rows["class"].alias("VALUE")).groupBy("_id")
    with pytest.raises(errors.SpecRejectedError) as processed:
        ss.compat.transform_with_state(grouped, Processor(), SCHEMA, "Update", "None", uid="names")
    for refused in (keyed, processed):
        assert refused.value.reason == "ColumnsAmbiguous"
        assert "'value' and 'VALUE'" in refused.value.message
