"""Values go through Spark's states as through Spark's own: a copy comes back, of the types of the schema."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import Row
from pyspark.sql import types as spark_types
from statefulspark import errors
from statefulspark.operators.transform import forms

INT = spark_types.IntegerType()
LONG = spark_types.LongType()
FLOAT = spark_types.FloatType()
DOUBLE = spark_types.DoubleType()
STRING = spark_types.StringType()
MOMENT = datetime.datetime(2026, 11, 21, 9, 30, 0, 123456)
AWARE = datetime.datetime(2026, 11, 21, 9, 30, 0, 5, tzinfo=datetime.UTC)
NESTED = spark_types.StructType([spark_types.StructField("a", LONG), spark_types.StructField("b", STRING)])


def _form(*kinds: spark_types.DataType) -> forms.RowForm:
    return forms.RowForm(
        spark_types.StructType([spark_types.StructField(f"c{at}", kind) for at, kind in enumerate(kinds)])
    )


@pytest.mark.parametrize(
    ("kind", "given", "comes_back"),
    [
        pytest.param(LONG, 5, 5, id="an integer"),
        pytest.param(LONG, np.int64(5), 5, id="numpy's integers become Python's"),
        pytest.param(LONG, 2**63, None, id="an integer that is too large becomes null"),
        pytest.param(LONG, 5.0, None, id="a float is no integer"),
        pytest.param(LONG, True, None, id="a boolean is no integer"),
        pytest.param(INT, 2**31, -(2**31), id="an int wraps around"),
        pytest.param(spark_types.ByteType(), 300, 44, id="a byte wraps around"),
        pytest.param(DOUBLE, 5, None, id="an integer is no double"),
        pytest.param(DOUBLE, np.float64(0.5), 0.5, id="numpy's floats become Python's"),
        pytest.param(FLOAT, 0.1, 0.10000000149011612, id="a float has 32 bits"),
        pytest.param(FLOAT, 1e300, float("inf"), id="a float that is too large is infinite"),
        pytest.param(STRING, "x", "x", id="a string"),
        pytest.param(STRING, 5, "5", id="anything becomes a string"),
        pytest.param(STRING, True, "true", id="a boolean becomes a string as in Java"),
        pytest.param(spark_types.BinaryType(), bytearray(b"x"), b"x", id="bytes"),
        pytest.param(spark_types.BinaryType(), "ä", "ä".encode(), id="text becomes bytes"),
        pytest.param(spark_types.BooleanType(), 1, None, id="an integer is no boolean"),
        pytest.param(spark_types.DateType(), MOMENT.date(), MOMENT.date(), id="a date"),
        pytest.param(spark_types.TimestampType(), MOMENT, MOMENT, id="a time of the machine's zone"),
        pytest.param(
            spark_types.TimestampType(),
            AWARE,
            AWARE.astimezone().replace(tzinfo=None),
            id="a time with a zone loses it",
        ),
        pytest.param(spark_types.TimestampType(), pd.Timestamp(MOMENT), MOMENT, id="a time of pandas"),
        pytest.param(spark_types.TimestampNTZType(), MOMENT, MOMENT, id="a time without a zone"),
        pytest.param(
            spark_types.DayTimeIntervalType(),
            datetime.timedelta(hours=3),
            datetime.timedelta(hours=3),
            id="an interval",
        ),
        pytest.param(
            spark_types.DecimalType(5, 2),
            decimal.Decimal("1.005"),
            decimal.Decimal("1.01"),
            id="a decimal is rounded up",
        ),
        pytest.param(spark_types.ArrayType(LONG), [1, None, "x"], [1, None, None], id="a list"),
        pytest.param(spark_types.ArrayType(LONG), (1, 2), [1, 2], id="a tuple is a list"),
        pytest.param(spark_types.MapType(STRING, LONG), {"a": 1, "b": "x"}, {"a": 1, "b": None}, id="a map"),
        pytest.param(NESTED, (1, "x"), Row(a=1, b="x"), id="a struct comes back as a Row"),
        pytest.param(NESTED, Row(a=1, b="x"), Row(a=1, b="x"), id="a Row is a struct"),
        pytest.param(NESTED, None, None, id="null"),
    ],
)
def test_a_value_comes_back_with_the_type_of_its_column(
    kind: spark_types.DataType, given: object, comes_back: object
) -> None:
    form = _form(LONG, kind)
    assert form.load(form.store((7, given))) == (7, comes_back)


def test_what_comes_back_is_a_copy() -> None:
    form = _form(spark_types.ArrayType(LONG))
    given = [1, 2]
    stored = form.store((given,))
    given.append(3)
    form.load(stored)[0].append(4)  # type: ignore[attr-defined]
    assert form.load(stored) == ([1, 2],)


def test_a_key_of_a_map_may_hold_a_list() -> None:
    form = _form(spark_types.ArrayType(LONG))
    stored = form.store_key(([1, 2],))
    assert form.load({stored: None}.popitem()[0]) == ([1, 2],)


@pytest.mark.parametrize("value", [None, 5], ids=["none", "a number"])
def test_what_is_no_row_is_refused_as_by_spark(value: object) -> None:
    with pytest.raises(TypeError, match="not iterable"):
        _form(LONG).store(value)


@pytest.mark.parametrize("value", [(), (1, 2)], ids=["too few columns", "too many columns"])
def test_a_row_of_another_width_is_refused(value: tuple[int, ...]) -> None:
    with pytest.raises(errors.SpecRejectedError, match="1 fields are required while"):
        _form(LONG).store(value)


@pytest.mark.parametrize("number", ["1234.5", "NaN", "Infinity"])
def test_a_decimal_that_does_not_fit_is_refused(number: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match=rf"{number} does not fit its declared type decimal\(5,2\)"):
        _form(spark_types.DecimalType(5, 2)).store((decimal.Decimal(number),))


def test_a_type_that_cannot_be_stored_is_refused_by_name() -> None:
    with pytest.raises(errors.SpecRejectedError, match="variant"):
        _form(spark_types.VariantType())


def test_a_row_with_names_comes_out_of_a_map() -> None:
    form = _form(LONG, STRING)
    assert form.load_row(form.store((1, "x"))).c1 == "x"


def test_a_schema_is_written_down_as_a_record() -> None:
    form = _form(LONG, spark_types.ArrayType(NESTED))
    assert form.type_text == "record<c0:bigint,c1:array<record<a:bigint,b:string>>>"


REQUIRED = spark_types.StructType([spark_types.StructField("n", LONG, nullable=False)])


@pytest.mark.parametrize(
    ("kind", "given", "comes_back"),
    [
        pytest.param(LONG, None, 0, id="an integer"),
        pytest.param(LONG, "x", 0, id="another type than an integer"),
        pytest.param(DOUBLE, 5, 0.0, id="an integer for a double"),
        pytest.param(spark_types.BooleanType(), None, False, id="a boolean"),
        pytest.param(spark_types.DateType(), None, datetime.date(1970, 1, 1), id="a date"),
        pytest.param(spark_types.ArrayType(LONG, containsNull=False), [1, None, "x"], [1, 0, 0], id="elements"),
        pytest.param(STRING, "x", "x", id="what is not null"),
    ],
)
def test_null_is_zero_in_a_column_that_must_not_be_null(
    kind: spark_types.DataType, given: object, comes_back: object
) -> None:
    form = forms.RowForm(spark_types.StructType([spark_types.StructField("c", kind, nullable=False)]))
    assert form.load(form.store((given,))) == (comes_back,)


@pytest.mark.parametrize(
    ("kind", "given", "error_class"),
    [
        pytest.param(STRING, None, "EXPRESSION_DECODING_FAILED", id="a string"),
        pytest.param(REQUIRED, (None,), "EXPRESSION_ENCODING_FAILED", id="a field of a struct"),
        pytest.param(spark_types.BinaryType(), None, "EXPRESSION_ENCODING_FAILED", id="bytes"),
    ],
)
def test_null_is_refused_where_there_is_no_zero(kind: spark_types.DataType, given: object, error_class: str) -> None:
    form = forms.RowForm(spark_types.StructType([spark_types.StructField("c", kind, nullable=False)]))
    with pytest.raises(errors.SpecRejectedError, match=rf"\[{error_class}\] .* NOT NULL"):
        form.store((given,))


def test_values_of_pandas_are_stored_as_what_they_are() -> None:
    time, texts, at = (
        spark_types.TimeType(),
        spark_types.ArrayType(spark_types.StringType()),
        spark_types.TimestampNTZType(),
    )
    form = _form(time, texts, at, spark_types.NullType())
    given = (datetime.time(1, 2, 3, 4), np.array(["a", None], dtype=object), pd.NaT, None)
    assert form.load(form.store(given)) == (datetime.time(1, 2, 3, 4), ["a", None], None, None)


def test_a_state_of_a_type_without_a_form_is_refused_with_its_column() -> None:
    with pytest.raises(errors.SpecRejectedError, match=r"'c0' is char\(3\) \(use a string") as refused:
        _form(spark_types.CharType(3))
    assert refused.value.reason == "StateTypeInvalid"
