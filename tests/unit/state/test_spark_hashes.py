"""Key groups follow from Spark's hash for every type of key: state on storage depends on these numbers for ever (A.63)."""

from __future__ import annotations

import datetime
import decimal

import pytest
from statefulspark.state import keygroups

_D = decimal.Decimal
_KNOWN: tuple[tuple[keygroups.KeyPart, str, int], ...] = (
    ("", "string", 142593372),
    ("abcd", "string", -396302900),
    ("abcdefg", "string", 2132013596),
    ("größe", "string", 244174222),
    (bytes.fromhex("00ff7f80ab"), "binary", -1083151037),
    (True, "boolean", -559580957),
    (False, "boolean", 933211791),
    (-7, "tinyint", -1618159745),
    (-7, "smallint", -1618159745),
    (-7, "int", -1618159745),
    (2147483647, "int", 133916647),
    (-7, "bigint", 222034016),
    (4294967296, "bigint", -1307033787),
    (1234567890123456789, "bigint", -2017768400),
    (0x3FF8000000000000, "double", 1290763749),  # 1.5D, kept as its bits
    (0x3FC00000, "float", -221251528),
    (datetime.date(1969, 12, 31), "date", -1604776387),
    (datetime.date(2026, 1, 2), "date", -525258383),
    (datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC), "timestamp", 1056985121),
    (datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC), "timestamp", -939490007),
    (datetime.datetime(2026, 1, 2, 3, 4, 5, 678901), "timestamp_ntz", 1056985121),
    (_D("12.34"), "decimal(10,2)", -1028144669),
    (_D("-12.3400"), "decimal(18,4)", 921196785),
    (_D("12.34"), "decimal(19,2)", 1123058251),
    (_D("-1.28"), "decimal(38,2)", 775851899),
    (_D("1.28"), "decimal(38,2)", -544401882),
    (_D("1.27"), "decimal(38,2)", 1185089389),
    (_D("327.67"), "decimal(38,2)", -1459034263),
    (_D("-0.01"), "decimal(38,2)", 1398487324),
    (_D("0"), "decimal(38,0)", -783713497),
    (_D("123456789012345678901234567890.12345678"), "decimal(38,8)", -1328266464),
)
"""As printed by Spark 4.2's `SELECT hash(...)`, with the session in UTC."""


@pytest.mark.parametrize(
    ("value", "type_name", "expected"), _KNOWN, ids=[f"{kind} {value}" for value, kind, _ in _KNOWN]
)
def test_a63_a_key_has_the_hash_that_spark_computes(value: keygroups.KeyPart, type_name: str, expected: int) -> None:
    assert keygroups.spark_hash((value,), (type_name,)) == expected


def test_a63_a_key_of_several_columns_is_hashed_column_by_column_and_null_changes_nothing() -> None:
    key, types = ("a", 1, None, True), ("string", "bigint", "int", "boolean")

    assert keygroups.spark_hash(key, types) == 1046080588
    assert keygroups.spark_hash((key[0], key[1], key[3]), ("string", "bigint", "boolean")) == 1046080588


@pytest.mark.parametrize(("max_parallelism", "group"), [(128, 29), (100, 69), (1, 0), (32768, 5277)])
def test_a63_a_key_group_is_the_positive_remainder_of_the_hash(max_parallelism: int, group: int) -> None:
    assert keygroups.key_group((1,), ("bigint",), max_parallelism) == group


def test_a_key_of_another_width_than_its_types_is_a_bug() -> None:
    with pytest.raises(ValueError, match="argument"):
        keygroups.spark_hash((1, 2), ("int",))
