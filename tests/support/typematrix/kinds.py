"""Every type of `pyspark.sql.types` with its edge values, as Arrow columns: leaves, and leaves nested three deep.

The list is complete: `UNLISTED` is what `pyspark.sql.types` has and it has not, and a test expects nothing in it.
"""

from __future__ import annotations

import decimal
import functools
import inspect
import itertools
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.pandas import types as arrow_types

ABSTRACT = (
    *(types.DataType, types.AtomicType, types.NumericType, types.IntegralType, types.FractionalType),
    *(types.DatetimeType, types.AnyTimeType, types.SpatialType, types.AnsiIntervalType),
)
"""Classes without values of their own."""
CONTAINERS = (types.ArrayType, types.MapType, types.StructType, types.StructField, types.UserDefinedType)
"""Classes whose values are made of others; see `nested`. A user-defined type is its SQL type in Arrow."""
FORMLESS = (
    *(types.YearMonthIntervalType(start, end) for start in (0, 1) for end in (0, 1) if start <= end),
    *(types.CalendarIntervalType(), types.VariantType(), types.GeographyType(4326), types.GeometryType(0)),
    *(types.CharType(3), types.VarcharType(3)),
)
"""Types whose values have no form outside of Spark: the product refuses their columns before a query starts."""
ZONE = "UTC"

_DAY_US = 86_400_000_000
_YEAR_1_DAYS, _YEAR_9999_DAYS = -719_162, 2_932_896
_DAYS = (_YEAR_1_DAYS, -141_428, -141_427, -1, 0, 20_000, _YEAR_9999_DAYS)
"""The first day, both days around the Gregorian reform, the last of 1969, two more, the last day of Python."""
_MOMENTS_US = (
    *(day * _DAY_US for day in _DAYS),
    *(-1, 1, _YEAR_9999_DAYS * _DAY_US + _DAY_US - 1),
    *(1_793_511_000_000_000, 1_793_514_600_000_000),  # 01:30 in New York, twice: 2026-11-01T05:30Z and 06:30Z
    *(
        1_772_955_000_000_000,
        1_774_747_800_000_000,
    ),  # Missing hours: New York's and Berlin's
)
_FLOATS = (0.0, -0.0, 1.0, 0.1, 1e10, 1e-5, 123456789.0, float("nan"), float("inf"), float("-inf"))
_FLOAT_ENDS = tuple(struct.unpack("<f", struct.pack("<I", bits))[0] for bits in (1, 0x7F7FFFFF, 0xFF7FFFFF))
_TEXTS = ("", "a", "order-1", "\0", "a\0b", "ü\u2028😀", '"quoted\\" \n\t/', "null", "NaN", " x ")
LONG_TEXT = "a😀" * 500_000
"""One million characters."""
_BYTES = (b"", b"order-1", b"\xff\x00\xfe", b"\0", "ü".encode())


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the matrix.

    Attributes:
        name: Its name, from its type.
        kind: Spark's type.
        values: The edge values; the last one is null.
        beyond: Values that Spark has and Python has no form of.
    """

    name: str
    kind: types.DataType
    values: pa.Array
    beyond: pa.Array | None = None

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.values.type)

    def batch(self, values: pa.Array | None = None) -> pa.RecordBatch:
        """Return rows of this column alone."""
        return pa.RecordBatch.from_arrays([self.values if values is None else values], schema=pa.schema([self.field]))


def _integers(bits: int) -> tuple[int, ...]:
    return -(1 << (bits - 1)), -1, 0, 1, (1 << (bits - 1)) - 1


def _decimals(kind: types.DecimalType) -> tuple[decimal.Decimal, ...]:
    most = decimal.Decimal((0, (9,) * kind.precision, -kind.scale))
    least = decimal.Decimal((0, (1,), -kind.scale))
    return most.copy_negate(), least.copy_negate(), decimal.Decimal((0, (0,), -kind.scale)), least, most


def _intervals(kind: types.DayTimeIntervalType) -> tuple[int, ...]:
    unit = (_DAY_US, 3_600_000_000, 60_000_000, 1)[kind.endField]
    most = (2**63 - 1) // unit * unit
    least = -((2**63 - 1) // _DAY_US * _DAY_US)  # Arrow takes no smaller one from Python.
    return least, -unit, 0, unit, most


_DECIMALS = (
    *(types.DecimalType(38, scale) for scale in range(39)),
    *(types.DecimalType(precision, scale) for precision, scale in ((1, 0), (1, 1), (10, 2), (18, 0), (19, 19))),
)
_DAY_TIMES = tuple(itertools.starmap(types.DayTimeIntervalType, itertools.combinations_with_replacement(range(4), 2)))

LEAVES: Mapping[type[types.DataType], Sequence[tuple[types.DataType, Sequence[object]]]] = {
    types.NullType: [(types.NullType(), ())],
    types.StringType: [(types.StringType("UTF8_LCASE"), ("a", "A")), (types.StringType(), _TEXTS)],
    types.BinaryType: [(types.BinaryType(), _BYTES)],
    types.BooleanType: [(types.BooleanType(), (True, False))],
    types.DateType: [(types.DateType(), _DAYS)],
    types.TimeType: [(types.TimeType(0), (0, 86_399_000_000_000)), (types.TimeType(6), (0, 1_000, 86_399_999_999_000))],
    types.TimestampType: [
        (types.TimestampType(), (_MOMENTS_US[0] + _DAY_US, *_MOMENTS_US[1:]))
    ],  # Year 1 in each zone.
    types.TimestampNTZType: [(types.TimestampNTZType(), _MOMENTS_US)],
    types.DecimalType: [(kind, _decimals(kind)) for kind in _DECIMALS],
    types.DoubleType: [(types.DoubleType(), (*_FLOATS, 5e-324, 1.7976931348623157e308, -1.7976931348623157e308))],
    types.FloatType: [(types.FloatType(), (*_FLOATS, *_FLOAT_ENDS))],
    types.ByteType: [(types.ByteType(), _integers(8))],
    types.ShortType: [(types.ShortType(), _integers(16))],
    types.IntegerType: [(types.IntegerType(), _integers(32))],
    types.LongType: [(types.LongType(), _integers(64))],
    types.DayTimeIntervalType: [(kind, _intervals(kind)) for kind in _DAY_TIMES],
}
_BEYOND: Mapping[type[types.DataType], Sequence[int]] = {
    types.DateType: (_YEAR_9999_DAYS + 1, _YEAR_1_DAYS - 1),
    types.TimestampType: ((_YEAR_9999_DAYS + 1) * _DAY_US, _YEAR_1_DAYS * _DAY_US - 1, 2**63 - 1),
    types.TimestampNTZType: ((_YEAR_9999_DAYS + 1) * _DAY_US, _YEAR_1_DAYS * _DAY_US - 1, -(2**63)),
}


def classes() -> frozenset[type[types.DataType]]:
    """Return all types that this release of Spark has."""
    found = (value for value in vars(types).values() if inspect.isclass(value) and value.__module__ == types.__name__)
    return frozenset(value for value in found if issubclass(value, types.DataType))


UNLISTED = classes() - LEAVES.keys() - {*ABSTRACT, *CONTAINERS, *map(type, FORMLESS)}


def arrow_type(kind: types.DataType) -> pa.DataType:
    """Return the type in which Spark hands a column to Python."""
    return arrow_types.to_arrow_type(kind, timezone=ZONE)


def array(kind: types.DataType, values: Sequence[object]) -> pa.Array:
    """Build a column from numbers, as Arrow and Spark have them, or from Python's values."""
    target = arrow_type(kind)
    if values and all(type(value) is int for value in values) and not pa.types.is_integer(target):
        whole = pa.int32() if pa.types.is_date32(target) else pa.int64()
        return pa.array([*values, None], whole).cast(target)
    return pa.array([*values, None], target)


def _name(kind: types.DataType) -> str:
    return kind.simpleString().replace(" ", "_")


@functools.cache
def leaves() -> tuple[Column, ...]:
    """Return a column for each type that is no container."""
    return tuple(
        Column(_name(kind), kind, array(kind, values), array(kind, _BEYOND[found])[:-1] if found in _BEYOND else None)
        for found, listed in LEAVES.items()
        for kind, values in listed
    )


_Container = Callable[[types.DataType], types.DataType]
_Fill = Callable[[list[object]], list[object]]


def _array_of(kind: types.DataType) -> types.DataType:
    return types.ArrayType(kind)


def _map_of(kind: types.DataType) -> types.DataType:
    return types.MapType(types.StringType(), kind)


def _struct_of(kind: types.DataType) -> types.DataType:
    return types.StructType([types.StructField("a", kind), types.StructField("B c", types.IntegerType())])


def _in_array(items: list[object]) -> list[object]:
    return [[], [None], items, None]


def _in_map(items: list[object]) -> list[object]:
    return [[], [("k", None)], [(str(number), item) for number, item in enumerate(items)], None]


def _in_struct(items: list[object]) -> list[object]:
    return [*({"a": item, "B c": 1} for item in items), {"a": None, "B c": None}, None]


_CONTAINERS: tuple[tuple[_Container, _Fill], ...] = (
    (_array_of, _in_array),
    (_map_of, _in_map),
    (_struct_of, _in_struct),
)
_STACKS = tuple((*_CONTAINERS[start:], *_CONTAINERS[:start]) for start in range(3))
"""Each container outside, in the middle and inside."""


@functools.cache
def nested() -> tuple[Column, ...]:
    """Return one, two and three containers around one type of each class, with nulls at each level, and maps by each key."""
    found = []
    for listed in LEAVES.values():
        kind, values = listed[-1]
        plain = pa.array(array(kind, values))
        for stack in _STACKS:
            items, around = _as_items(plain), kind
            for depth, (container, fill) in enumerate(reversed(stack), 1):
                items, around = fill(items), container(around)
                if depth != 2:
                    found.append(Column(_name(around), around, pa.array(items, arrow_type(around))))
        if not isinstance(kind, types.NullType) and not isinstance(kind, types.StringType):
            by_key = types.MapType(kind, types.IntegerType())
            entries = [(item, 1) for item in _distinct(_as_items(plain)[:-1])]
            found.append(Column(_name(by_key), by_key, pa.array([[], entries, None], arrow_type(by_key))))
    unique = {column.name: column for column in found}
    return tuple(unique.values())


def _as_items(plain: pa.Array) -> list[object]:
    """Return values that Arrow takes again: times of day without losing their type."""
    listed: list[object] = plain.to_pylist()
    return listed


def _distinct(items: list[object]) -> list[object]:
    """Return items that are different keys of a map of Spark: -0.0 is 0.0."""
    return list(dict.fromkeys(item + 0.0 if isinstance(item, float) else item for item in items))


@functools.cache
def columns() -> tuple[Column, ...]:
    """Return the whole matrix."""
    return (*leaves(), *nested())


def frame(of: Sequence[Column]) -> pa.Table:
    """Return columns side by side, the shorter ones with nulls below."""
    rows = max(len(column.values) for column in of)
    padded = [
        pa.concat_arrays([column.values, pa.nulls(rows - len(column.values), column.values.type)]) for column in of
    ]
    return pa.table(padded, schema=pa.schema([column.field for column in of]))
