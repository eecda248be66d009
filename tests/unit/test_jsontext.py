"""Values as JSON text: every parser reads it, and no digit is lost."""

from __future__ import annotations

import datetime
import json
import uuid
import zoneinfo
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as some
from statefulspark import jsontext

_NEW_YORK = zoneinfo.ZoneInfo("America/New_York")

FORMS = [
    (None, "null"),
    ({"a": {"k": "v"}, "l": [{"x": 1}]}, '{"a":{"k":"v"},"l":[{"x":1}]}'),
    ({1: "a", True and 2: "b"}, '{"1":"a","2":"b"}'),
    ({datetime.date(2026, 1, 2): 1, None: 2}, '{"2026-01-02":1,"null":2}'),
    ({b"\xff": 1, Decimal("1.50"): 2, False: 3}, '{"/w==":1,"1.50":2,"false":3}'),
    ({float("nan"): [float("inf"), -float("inf"), 0.1]}, '{"NaN":["Infinity","-Infinity",0.1]}'),
    (b"\xff\x00", '"/wA="'),
    (Decimal("12345678901234567890.123"), '"12345678901234567890.123"'),
    (datetime.datetime(2026, 11, 1, 1, 30, tzinfo=_NEW_YORK, fold=1), '"2026-11-01T01:30:00-05:00"'),
    (datetime.datetime(1, 1, 1, 0, 0, 0, 1), '"0001-01-01T00:00:00.000001"'),
    (datetime.date(9999, 12, 31), '"9999-12-31"'),
    (datetime.time(1, 2, 3), '"01:02:03"'),
    (datetime.timedelta(days=1, microseconds=5), '"PT86400.000005S"'),
    (-datetime.timedelta(seconds=1, microseconds=500_000), '"-PT1.5S"'),
    (datetime.timedelta(0), '"PT0S"'),
    (uuid.UUID(int=7), '"00000000-0000-0000-0000-000000000007"'),
    ("NUL \x00, ü, \u2028", '"NUL \\u0000, ü, \u2028"'),
    ((1, (2,)), "[1,[2]]"),
]


@pytest.mark.parametrize(("value", "expected"), FORMS, ids=repr)
def test_a_value_has_one_form_wherever_it_stands(value: object, expected: str) -> None:
    assert jsontext.dumps(value) == expected
    assert jsontext.dumps({"x": [value]}) == f'{{"x":[{expected}]}}'
    assert jsontext.dumps({"x": value, "nan": float("nan")}) == f'{{"x":{expected},"nan":"NaN"}}'


@given(some.recursive(some.floats() | some.text() | some.binary() | some.none() | some.booleans(), some.lists))
def test_every_parser_reads_what_was_written(value: object) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(jsontext.dumps(value), parse_constant=refuse)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("a", "a"), (True, "true"), (1.5, "1.5"), (datetime.date(2026, 1, 2), "2026-01-02"), ({"a": 1}, '{"a":1}')],
    ids=repr,
)
def test_text_outside_of_json_has_no_quotation_marks(value: object, expected: str) -> None:
    assert jsontext.text(value) == expected


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (object(), "a value of type object has no JSON form"),
        ({"1": 1, 1: 2, b"": 3}, "the keys '1', 1, b'' do not differ as text"),
    ],
    ids=["unknown type", "keys alike"],
)
def test_what_has_no_form_is_refused_by_name(value: object, said: str) -> None:
    with pytest.raises(TypeError) as raised:
        jsontext.dumps(value)
    assert str(raised.value) == said
