"""Values of state as bytes: what comes back is what went in; what could not come back is refused when written."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
import zoneinfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statefulspark import errors
from statefulspark.state.types import codec
from statevalues import LEAVES

_UTC = datetime.UTC
SCALARS = st.one_of(LEAVES, st.datetimes(timezones=st.just(_UTC)), st.timedeltas(), st.times())
HASHABLE = st.one_of(st.integers(), st.text(), st.tuples(st.integers(), st.text()), st.dates())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(HASHABLE, inner, max_size=4),
    ),
    max_leaves=5,
)


def _types(value: object) -> object:
    if isinstance(value, list | tuple):
        return type(value), [_types(item) for item in value]
    if isinstance(value, dict):
        return dict, [(_types(key), _types(item)) for key, item in value.items()]
    return type(value)


@settings(max_examples=60)
@given(VALUES)
def test_a_value_comes_back_equal_and_with_its_types(value: object) -> None:
    back = codec.unpack(codec.pack(value))
    assert back == value
    assert _types(back) == _types(value)


@settings(max_examples=60)
@given(st.lists(VALUES, max_size=3))
def test_a_column_comes_back(values: list[object]) -> None:
    back = codec.unpack_column(codec.unpack(codec.pack(codec.pack_column(values))))
    assert back == values
    assert _types(back) == _types(values)


_NEW_YORK = zoneinfo.ZoneInfo("America/New_York")
_BEHIND = datetime.timezone(-datetime.timedelta(hours=5))
TIMES = [
    datetime.datetime(2026, 3, 1, 20, tzinfo=_NEW_YORK),
    datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=5, minutes=30))),
    *(datetime.datetime(2026, 11, 1, 1, 30, tzinfo=_NEW_YORK, fold=fold) for fold in (0, 1)),
    *(datetime.datetime(2026, 3, 8, 2, 30, tzinfo=_NEW_YORK, fold=fold) for fold in (0, 1)),
    datetime.datetime(2026, 11, 1, 1, 30, fold=1),
    datetime.datetime(1582, 10, 10),
    datetime.datetime(1, 1, 1, tzinfo=_BEHIND.fromutc(datetime.datetime(2, 1, 1, tzinfo=_BEHIND)).tzinfo),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=datetime.UTC),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=_BEHIND),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=_NEW_YORK),
    datetime.time(20, tzinfo=_NEW_YORK),
    datetime.time(20, 0, 0, 1, tzinfo=_BEHIND),
    datetime.time(1, 30, fold=1),
    datetime.time(),
]


@pytest.mark.parametrize("value", TIMES, ids=repr)
def test_a_time_comes_back_with_its_zone_and_its_fold(value: datetime.datetime | datetime.time) -> None:
    back = codec.unpack(codec.pack([value, (value,), {"at": value}]))
    assert repr(back) == repr([value, (value,), {"at": value}])


def test_a_zone_without_a_name_or_an_offset_is_refused() -> None:
    class Nowhere(datetime.tzinfo):
        def utcoffset(self, moment: datetime.datetime | None) -> None:
            return None

    with pytest.raises(errors.SpecRejectedError, match="has neither a name nor an offset"), codec.naming("seen"):
        codec.pack(datetime.time(1, tzinfo=Nowhere()))


class _Color(enum.IntEnum):
    RED = 1


class _Text(str):
    __slots__ = ()


@pytest.mark.parametrize("value", [object(), {1, 2}, _Color.RED, _Text("x"), lambda: None, ValueError, [1, {"a": {1}}]])
def test_a_value_of_another_type_is_refused_by_the_name_of_the_type(value: object) -> None:
    with pytest.raises(TypeError, match=r"(^builtins|test_codec)\."):
        codec.pack(value)


def test_bytes_with_an_unknown_extension_are_refused() -> None:
    with pytest.raises(ValueError, match="extension type 99"):
        codec.unpack(b"\xd4\x63\x00")


def test_names_of_types_read_as_people_write_them() -> None:
    assert [codec.type_name(kind) for kind in (int, datetime.date, decimal.Decimal, uuid.UUID)] == [
        "int",
        "datetime.date",
        "decimal.Decimal",
        "uuid.UUID",
    ]
