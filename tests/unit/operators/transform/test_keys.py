"""Keys that are floats, doubles and structs find their state again, and are in the key group that Spark hashes them to."""

from __future__ import annotations

import math
import struct

import pyarrow as pa
import pytest
from pyspark.sql import types as spark_types
from statefulspark.operators.transform import keys
from statefulspark.state import keygroups
from statefulspark.state.types import codec

DOUBLE, FLOAT, STRING = spark_types.DoubleType(), spark_types.FloatType(), spark_types.StringType()
OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
NESTED = spark_types.StructType(
    [
        spark_types.StructField("d", DOUBLE),
        spark_types.StructField("s", spark_types.StructType([spark_types.StructField("t", STRING)])),
    ]
)


def _keys(values: list[object], arrow: pa.DataType, kind: spark_types.DataType) -> list[object]:
    return keys.read_keys(pa.table({"k": pa.array(values, arrow)}), ["k"], [kind])


@pytest.mark.parametrize(("kind", "arrow"), [(DOUBLE, pa.float64()), (FLOAT, pa.float32())], ids=["double", "float"])
def test_all_nan_are_one_key_and_so_are_the_zeros(kind: spark_types.DataType, arrow: pa.DataType) -> None:
    nan, other, zero, minus, one, none = _keys([math.nan, OTHER_NAN, 0.0, -0.0, 1.5, None], arrow, kind)
    assert (nan == other, zero == minus, len({nan, zero, one, none})) == (True, True, 4)
    assert none is None
    assert math.isnan(keys.values_of(codec.unpack(codec.pack(nan)), [kind])[0])  # type: ignore[arg-type]
    assert keys.values_of(one, [kind]) == [1.5]


def test_a_struct_is_its_fields_and_a_null_one_is_not_one_of_nulls() -> None:
    arrow = pa.struct([("d", pa.float64()), ("s", pa.struct([("t", pa.string())]))])
    values = [{"d": 1.5, "s": {"t": "x"}}, {"d": None, "s": {"t": None}}, {"d": None, "s": None}, None]
    made = _keys(values, arrow, NESTED)
    assert len(set(made)) == 4
    assert [keys.values_of(key, [NESTED]) for key in made] == [
        [(1.5, ("x",))],
        [(None, (None,))],
        [(None, None)],
        [None],
    ]
    assert keys.type_of(NESTED) == ("struct", "double", "struct", "string")


def test_plain_columns_are_as_they_were_beside_others() -> None:
    table = pa.table({"a": pa.array(["x"]), "b": pa.array([0.0])})
    assert keys.read_keys(table, ["a", "b"], [STRING, DOUBLE]) == [("x", 0)]
    assert keys.read_keys(table, ["a"], [STRING]) == ["x"]
    assert keys.values_of("x", [STRING]) == ["x"]


@pytest.mark.parametrize(
    ("key", "types", "spark"),
    [
        # SELECT hash(1.5D), hash(0D), hash(-0D), hash(double('NaN')), hash(1.5F), hash(named_struct('d', 1.5D, 't', 'x'))
        pytest.param((0x3FF8000000000000,), ("double",), 1290763749, id="a double"),
        pytest.param((0,), ("double",), -1670924195, id="zero"),
        pytest.param((0x7FF8000000000000,), ("double",), -1281358385, id="NaN"),
        pytest.param((0x3FC00000,), ("float",), -221251528, id="a float"),
        pytest.param((None, 0x3FF8000000000000, "x"), ("struct", "double", "string"), 2116484053, id="a struct"),
        pytest.param((None, "x"), ("struct", "string"), -80340190, id="a struct of a text"),
    ],
)
def test_keys_hash_as_in_spark(key: tuple[keygroups.KeyPart, ...], types: tuple[str, ...], spark: int) -> None:
    assert keygroups.spark_hash(key, types) == spark
