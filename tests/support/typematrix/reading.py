"""Reads JSON back, as Spark's `to_json` writes it and as the product does, so that both can be compared as values.

What differs on purpose is here and on the page of sinks, nowhere else: Decimals are strings and not numbers, times have
microseconds and not milliseconds, durations are ISO 8601 and not SQL, keys of maps are the text of their values and not
Spark's internal numbers, fields that are null are there and not left out. The key of a map that is binary is not compared:
Spark prints the address of a Java object.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from pyspark.sql import types

_US = datetime.timedelta(microseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1)
_SQL_UNITS_US = {"DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_SQL_INTERVAL = re.compile(r"INTERVAL '(-?)([^']*)' ([A-Z]+)")
_ISO_DURATION = re.compile(r"(-?)PT(\d+(?:\.\d+)?)S")
Read = Callable[[object], object]


@dataclass(frozen=True)
class Dialect:
    """How leaves are read, as values, and as keys of maps."""

    leaves: dict[type[types.DataType], Read]
    keys: dict[type[types.DataType], Read]

    def read(self, kind: types.DataType, text: str) -> object:
        """Return the value in the JSON text of an object with the member `c`."""
        document = json.loads(text, parse_float=decimal.Decimal, parse_constant=_refuse)
        return self.value(kind, document.get("c"))

    def value(self, kind: types.DataType, found: object) -> object:
        """Return the value of parsed JSON."""
        if found is None:
            return None
        if isinstance(kind, types.ArrayType):
            return [self.value(kind.elementType, item) for item in cast("list[object]", found)]
        if isinstance(kind, types.StructType):
            fields = cast("dict[str, object]", found)
            assert fields.keys() <= set(kind.names), fields
            return {field.name: self.value(field.dataType, fields.get(field.name)) for field in kind}
        if isinstance(kind, types.MapType):
            entries = cast("dict[str, object]", found).items()
            if isinstance(kind.keyType, types.BinaryType):
                return len(entries)
            read = self.keys.get(type(kind.keyType)) or self.leaves[type(kind.keyType)]
            return [(read(key), self.value(kind.valueType, item)) for key, item in entries]
        return self.leaves[type(kind)](found)


def _refuse(constant: str) -> object:
    raise AssertionError(f"{constant} is no JSON")


def _number(found: object) -> decimal.Decimal:
    assert isinstance(found, int | decimal.Decimal), found
    return decimal.Decimal(found)


def _float(found: object) -> str:
    return repr(float(cast("str", found)))


def _narrow(found: object) -> str:
    return repr(np.float32(str(found)))


def _of_type(kind: type) -> Read:
    def read(found: object) -> object:
        assert type(found) is kind, found
        return found

    return read


def _whole(found: object) -> object:
    return int(found) if isinstance(found, str) else _of_type(int)(found)


def _truth(found: object) -> object:
    return {"true": True, "false": False}[found] if isinstance(found, str) else _of_type(bool)(found)


def _moment(found: object) -> str:
    """Return a time up to its milliseconds."""
    read = datetime.datetime.fromisoformat(str(found))
    return f"{read.replace(tzinfo=None).isoformat(timespec='milliseconds')}{read.utcoffset()}"


def _moment_of_us(zone: datetime.tzinfo | None) -> Read:
    return lambda found: _moment((_EPOCH + int(str(found)) * _US).replace(tzinfo=zone).isoformat())


def _sql_duration_us(found: object) -> int:
    matched = _SQL_INTERVAL.match(str(found))
    assert matched is not None, found
    sign, text, unit = matched.groups()
    parts = re.split("[ :]", text)
    units = list(_SQL_UNITS_US)[list(_SQL_UNITS_US).index(unit) :]
    amounts = (decimal.Decimal(part) * _SQL_UNITS_US[name] for part, name in zip(parts, units, strict=False))
    return int(sum(amounts)) * (-1 if sign else 1)


def _iso_duration_us(found: object) -> int:
    matched = _ISO_DURATION.fullmatch(str(found))
    assert matched is not None, found
    return int(decimal.Decimal(matched[2]) * 1_000_000) * (-1 if matched[1] else 1)


_BOTH: dict[type[types.DataType], Read] = {
    types.NullType: lambda found: found,
    types.StringType: _of_type(str),
    types.BinaryType: lambda found: base64.b64decode(str(found), validate=True),
    types.BooleanType: _truth,
    types.DateType: lambda found: datetime.date.fromisoformat(str(found)),
    types.TimeType: lambda found: datetime.time.fromisoformat(str(found)),
    types.TimestampType: _moment,
    types.TimestampNTZType: _moment,
    types.DoubleType: _float,
    types.FloatType: _narrow,
    **dict.fromkeys((types.ByteType, types.ShortType, types.IntegerType, types.LongType), _whole),
}
SPARK = Dialect(
    {**_BOTH, types.DecimalType: _number, types.DayTimeIntervalType: _sql_duration_us},
    {
        types.DecimalType: lambda found: decimal.Decimal(str(found)),
        types.DateType: lambda found: datetime.date(1970, 1, 1) + datetime.timedelta(int(str(found))),
        types.TimeType: lambda found: (_EPOCH + int(str(found)) // 1000 * _US).time(),
        types.TimestampType: _moment_of_us(datetime.UTC),
        types.TimestampNTZType: _moment_of_us(None),
        types.DayTimeIntervalType: lambda found: int(str(found)),
    },
)
OURS = Dialect(
    {
        **_BOTH,
        types.DecimalType: lambda found: decimal.Decimal(cast("str", _of_type(str)(found))),
        types.DayTimeIntervalType: _iso_duration_us,
    },
    {},
)
