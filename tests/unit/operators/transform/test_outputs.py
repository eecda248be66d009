"""Rows come out with their maps, wherever these are nested and whether they came from the input or were made."""

from __future__ import annotations

import datetime

import pytest
from pyspark.sql import Row
from pyspark.sql import types as spark_types
from statefulspark import errors
from statefulspark.operators.transform import outputs

LONG, STRING = spark_types.LongType(), spark_types.StringType()
MAP = spark_types.MapType(STRING, LONG)
STRUCT = spark_types.StructType([spark_types.StructField("m", MAP), spark_types.StructField("n", LONG)])
MOMENT = datetime.datetime(2026, 11, 22, 13, 0, tzinfo=datetime.UTC)


def _out(kind: spark_types.DataType, *values: object) -> list[object]:
    output = outputs.RowOutput(spark_types.StructType([spark_types.StructField("v", kind)]), "test", "UTC")
    return output.to_pandas([output.kept_row(Row(v=value)) for value in values])[0].tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("kind", "value", "comes_out"),
    [
        pytest.param(MAP, [("a", 1), ("b", None)], {"a": 1, "b": None}, id="a map of the input"),
        pytest.param(MAP, {"a": 1}, {"a": 1}, id="a dict"),
        pytest.param(MAP, [], {}, id="an empty map"),
        pytest.param(
            spark_types.ArrayType(MAP), [[("a", 1)], None, {"b": 2}], [{"a": 1}, None, {"b": 2}], id="in an array"
        ),
        pytest.param(STRUCT, {"m": [("a", 1)], "n": 5}, {"m": {"a": 1}, "n": 5}, id="in a struct"),
        pytest.param(STRUCT, Row(n=5, m={"a": 1}), {"m": {"a": 1}, "n": 5}, id="in a Row"),
        pytest.param(spark_types.MapType(STRING, MAP), [("x", [("a", 1)])], {"x": {"a": 1}}, id="in a map"),
        pytest.param(
            spark_types.MapType(STRUCT, spark_types.ArrayType(STRUCT)),
            [({"m": None, "n": 1}, [{"m": [("a", 1)], "n": 2}])],
            {(None, 1): [{"m": {"a": 1}, "n": 2}]},
            id="a struct as key",
        ),
        pytest.param(
            spark_types.MapType(spark_types.ArrayType(LONG), LONG), [([1, 2], 3)], {(1, 2): 3}, id="an array as key"
        ),
        pytest.param(spark_types.ArrayType(spark_types.TimestampType()), [MOMENT], [MOMENT], id="times in an array"),
    ],
)
def test_nested_values_come_out(kind: spark_types.DataType, value: object, comes_out: object) -> None:
    assert _out(kind, value, None) == [comes_out, None]


@pytest.mark.parametrize("value", [{"a": "x"}, [("a", "x")], 5], ids=["a dict", "pairs", "a number"])
def test_a_nested_value_of_another_type_is_refused_by_name(value: object) -> None:
    with pytest.raises(errors.SpecRejectedError, match="value that does not fit column 'v' of type map"):
        _out(MAP, value)
