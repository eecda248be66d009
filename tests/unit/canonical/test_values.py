"""Columns of state values through Arrow and Parquet: what comes back is what went in, type and all (Flink A.158)."""

from __future__ import annotations

import datetime
import uuid
import zoneinfo
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some
from pyarrow import parquet
from statefulspark import errors
from statefulspark.canonical import values

_UTC = datetime.UTC
_NEW_YORK = zoneinfo.ZoneInfo("America/New_York")
_MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, 6)


def through_parquet(column: list[object]) -> tuple[values.Shape, list[object]]:
    shape = values.infer(column)
    array = values.make_array(column, shape)
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table([array], schema=pa.schema([values.field("x", array, shape)])), sink)
    table = parquet.read_table(pa.BufferReader(sink.getvalue()))
    found = values.shape_of(table.schema.field(0), "the test's file")
    return found, values.read_array(table.column(0), found)


@pytest.mark.parametrize(
    ("column", "shape"),
    [
        ([1, None, -(2**63)], "int"),
        ([2**63], "msgpack"),
        ([True, None], "bool"),
        ([1, True], "msgpack"),
        ([1, 1.0], "msgpack"),
        ([0.5, float("inf"), -0.0], "float"),
        (["a", "ü", ""], "str"),
        ([b"\x00"], "bytes"),
        ([datetime.date(1, 1, 1), datetime.date.max], "date"),
        ([_MOMENT, datetime.datetime.min, datetime.datetime.max], "datetime"),
        ([_MOMENT.replace(tzinfo=_UTC)], "datetime_utc"),
        ([_MOMENT, _MOMENT.replace(tzinfo=_UTC)], "msgpack"),
        ([_MOMENT.replace(fold=1)], "msgpack"),
        ([_MOMENT.replace(tzinfo=_NEW_YORK), None], "datetime:America/New_York"),
        ([datetime.datetime(2026, 11, 1, 1, 30, tzinfo=_NEW_YORK, fold=1)], "datetime:America/New_York"),
        ([datetime.datetime(2026, 3, 8, 2, 30, tzinfo=_NEW_YORK)], "msgpack"),
        ([_MOMENT.replace(tzinfo=_NEW_YORK), _MOMENT.replace(tzinfo=_UTC)], "msgpack"),
        ([_MOMENT.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=1)))], "msgpack"),
        ([datetime.timedelta(days=-1, microseconds=1)], "timedelta"),
        ([datetime.timedelta.max], "msgpack"),
        ([datetime.time(1, 2, 3, 4)], "time"),
        ([uuid.UUID(int=7), None], "uuid"),
        ([Decimal("1.50"), Decimal("-2.25")], "decimal:2"),
        ([Decimal("1.5"), Decimal("1.50")], "msgpack"),
        ([Decimal("NaN")], "msgpack"),
        ([Decimal("-0.0")], "msgpack"),
        ([(1, 2.0), None, (3, None)], ["tuple", "int", "float"]),
        ([(1,), (1, 2)], "msgpack"),
        ([()], "msgpack"),
        ([[1, None], [], None], ["list", "int"]),
        ([[[1]], [[], [2]]], ["list", ["list", "int"]]),
        ([[1, "a"]], "msgpack"),
        ([{"b": 1, "a": 2}, {}, None], ["map", "int"]),
        ([{1: 2}], "msgpack"),
        ([[(1, "a")], []], ["list", ["tuple", "int", "str"]]),
        ([None], "null"),
        ([], "null"),
    ],
    ids=str,
)
def test_a_column_comes_back_as_it_was_in_the_plainest_type_that_holds_it(
    column: list[object], shape: values.Shape
) -> None:
    found, back = through_parquet(column)

    assert found == shape
    assert repr(back) == repr(column)


@pytest.mark.parametrize("levels", [32, 33, 60, 150])
@pytest.mark.parametrize("kind", [list, dict, tuple])
def test_a_value_that_nests_deeper_than_parquet_is_read_comes_back(kind: type, levels: int) -> None:
    """A savepoint with such a value was complete, and no start could read it."""
    around = {list: lambda value: [value], dict: lambda value: {"k": value}, tuple: lambda value: (value,)}[kind]
    value: object = 1
    for _ in range(levels):
        value = around(value)

    found, back = through_parquet([value, None])

    assert (found == "msgpack") is (levels > 32)
    assert back == [value, None]


_LEAVES = (
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text() | some.binary()
    | some.dates() | some.datetimes().map(lambda moment: moment.replace(fold=0)) | some.uuids()
    | some.decimals(allow_nan=False, allow_infinity=False)
)  # fmt: skip
_VALUES = some.recursive(
    _LEAVES,
    lambda inner: some.one_of(
        some.lists(inner, max_size=3), some.tuples(inner, inner), some.dictionaries(some.text(), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(some.lists(_VALUES, max_size=6))
def test_any_mixture_comes_back_as_it_was(column: list[object]) -> None:
    assert repr(through_parquet(column)[1]) == repr(column)


def test_a_column_that_does_not_say_how_it_was_written_is_refused_by_name() -> None:
    with pytest.raises(errors.SnapshotCorruptError, match=r"part-1.*'value'"):
        values.shape_of(pa.field("value", pa.int64()), "part-1")
