"""Conversion between the values of Spark's states and their stored form.

Spark sends a value to its state as a pickled tuple, converts it to a row of the declared schema, and returns it as a row.
Processors rely on two effects: a read returns a copy with the types of the schema, and a value whose type differs from
its column becomes null without an error. A form does the same in this process.

The stored form is a tuple of plain values (`statefulspark.state.types.codec`): timestamps as points in time, structs as
tuples.
"""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Callable, Iterable
from typing import Protocol, cast

import numpy as np
from pyspark.sql import types as spark_types

from statefulspark import errors
from statefulspark.operators import columns

_UTC_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NAIVE_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_LONG = (-(2**63), 2**63 - 1)
_PLAIN_KINDS = frozenset({int, float, str, bool, bytes, type(None)})
_PLAIN_TYPES = (
    spark_types.ByteType,
    spark_types.ShortType,
    spark_types.IntegerType,
    spark_types.LongType,
    spark_types.FloatType,
    spark_types.DoubleType,
    spark_types.StringType,
    spark_types.BooleanType,
    spark_types.BinaryType,
)


class ValueForm(Protocol):
    """The stored form of one type."""

    text: str
    """The type, as it is stored with the state."""

    def store(self, internal: object) -> object:
        """Return the stored form of a result of `DataType.toInternal`."""

    def load(self, stored: object) -> object:
        """Return the value for a processor; mutable parts are copied."""


class Plain:
    """A type whose values are stored unchanged, if they have the right Python type."""

    def __init__(self, text: str, accept: Callable[[object], object]) -> None:
        self.text = text
        self.store = accept

    def load(self, stored: object) -> object:
        """Return the value."""
        return stored


class Converted:
    """A type whose values Spark stores as numbers, and we as dates and times."""

    def __init__(self, text: str, store: Callable[[int], object], load: Callable[[object], object]) -> None:
        self.text = text
        self._store, self._load = store, load

    def store(self, internal: object) -> object:
        """Return the time; None if the value is not an integer."""
        return self._store(internal) if type(internal) is int else None

    def load(self, stored: object) -> object:
        """Return the time as Spark returns it."""
        return None if stored is None else self._load(stored)


class Required:
    """A type whose values must not be null: as in Spark, null becomes the zero of the type if it has one, else an error.

    Args:
        form: The type.
        zero: Stored for null; None if null is an error.
        error_class: Spark's name of that error.
    """

    def __init__(self, form: ValueForm, zero: object, error_class: str) -> None:
        self.text = form.text
        self._form, self._zero, self._error_class = form, zero, error_class
        self.load = form.load

    def store(self, internal: object) -> object:
        """Return the stored form.

        Raises:
            SpecRejectedError: It is null, or of another type.
        """
        stored = self._form.store(internal)
        if stored is not None or self._zero is not None:
            return self._zero if stored is None else stored
        raise errors.SpecRejectedError(
            "StateValueInvalid",
            f"[{self._error_class}] A column of type {self.text} is declared as NOT NULL, but got {internal!r:.100}.",
        )


class Array:
    """An array, stored as a list."""

    def __init__(self, element: ValueForm) -> None:
        self.text = f"array<{element.text}>"
        self._element = element

    def store(self, internal: object) -> object:
        """Return the list."""
        return [self._element.store(item) for item in internal] if isinstance(internal, list | tuple) else None

    def load(self, stored: object) -> object:
        """Return a new list."""
        return None if stored is None else [self._element.load(item) for item in cast("list[object]", stored)]


class Map:
    """A map, stored as a dict."""

    def __init__(self, key: ValueForm, value: ValueForm) -> None:
        self.text = f"map<{key.text},{value.text}>"
        self._key, self._value = key, value

    def store(self, internal: object) -> object:
        """Return the dict."""
        if not isinstance(internal, dict):
            return None
        return {self._key.store(key): self._value.store(value) for key, value in internal.items()}

    def load(self, stored: object) -> object:
        """Return a new dict."""
        if stored is None:
            return None
        entries = cast("dict[object, object]", stored).items()
        return {self._key.load(key): self._value.load(value) for key, value in entries}


class Struct:
    """A struct, stored as the tuple of its fields.

    Args:
        schema: The fields.
        required: The form of a field that must not be null.
    """

    def __init__(self, schema: spark_types.StructType, required: Callable[[spark_types.DataType], ValueForm]) -> None:
        self.names = tuple(schema.names)
        self._fields = tuple((form_of if field.nullable else required)(field.dataType) for field in schema.fields)
        fields = zip(self.names, self._fields, strict=True)
        self.text = f"record<{','.join(f'{name}:{form.text}' for name, form in fields)}>"
        self._row = spark_types.Row(*self.names)

    def store(self, internal: object) -> object:
        """Return the tuple.

        Raises:
            SpecRejectedError: It has another number of fields.
        """
        if not isinstance(internal, tuple):
            return None
        if len(internal) != len(self._fields):
            raise errors.SpecRejectedError(
                "StateValueInvalid",
                "Input row doesn't have expected number of values required by the schema. "
                f"{len(self._fields)} fields are required while {len(internal)} values are provided: {internal!r:.200}.",
            )
        return tuple([form.store(value) for form, value in zip(self._fields, internal, strict=True)])

    def load(self, stored: object) -> object:
        """Return a Row."""
        return None if stored is None else self._row(*self.load_tuple(stored))

    def load_tuple(self, stored: object) -> tuple[object, ...]:
        """Return a tuple, as most states do."""
        values = cast("tuple[object, ...]", stored)
        return tuple([form.load(value) for form, value in zip(self._fields, values, strict=True)])


class RowForm:
    """The schema of a state: converts rows to stored tuples and back.

    Args:
        schema: The declared schema.

    Attributes:
        text: The type, as it is stored with the state.

    Raises:
        SpecRejectedError: `StateTypeInvalid`: a column has a type whose values cannot be stored.
    """

    def __init__(self, schema: spark_types.StructType) -> None:
        if problems := columns.formless(schema):
            raise errors.SpecRejectedError(
                "StateTypeInvalid",
                f"A state has columns that cannot be stored: {'; '.join(problems)}. Use what is named in their place.",
            )
        self._schema = schema
        self._struct = Struct(schema, _zero_or_error)
        self.text = self._struct.text
        self._row = spark_types.Row(*schema.names)
        self._is_plain = all(isinstance(field.dataType, _PLAIN_TYPES) for field in schema.fields)

    @property
    def type_text(self) -> str:
        """The type, for a descriptor."""
        return self.text

    def store(self, value: object) -> tuple[object, ...]:
        """Return the stored form of a row of a processor.

        Raises:
            TypeError: It is None or not a row, with the message of Spark's client.
            SpecRejectedError: It has another number of columns than the schema.
        """
        given = tuple(cast("Iterable[object]", value))
        if not (self._is_plain and _PLAIN_KINDS.issuperset(map(type, given))):
            # Convert numpy and pandas values to Python values, then times to numbers, as Spark's client does.
            given = self._schema.toInternal(tuple([normalized(item) for item in given]))
        return cast("tuple[object, ...]", self._struct.store(given))

    def store_key(self, value: object) -> tuple[object, ...]:
        """Return the stored form of a map key, which is hashable."""
        return cast("tuple[object, ...]", _hashable(self.store(value)))

    def load(self, stored: object) -> tuple[object, ...]:
        """Return the tuple for a processor."""
        return cast("tuple[object, ...]", stored) if self._is_plain else self._struct.load_tuple(stored)

    def load_row(self, stored: object) -> spark_types.Row:
        """Return the Row for a processor, with names."""
        return self._row(*self.load(stored))


def normalized(value: object) -> object:
    """Convert numpy and pandas types in a value to Python types."""
    if isinstance(value, np.generic):
        return value.tolist()
    if isinstance(value, np.ndarray):
        return [normalized(item) for item in value]
    if isinstance(value, spark_types.Row) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return cast("Callable[..., object]", type(value))(*[normalized(item) for item in value])
    if isinstance(value, list | tuple):
        return cast("Callable[[list[object]], object]", type(value))([normalized(item) for item in value])
    if isinstance(value, dict):
        return {normalized(key): normalized(item) for key, item in value.items()}
    for method in ("to_pytimedelta", "to_pydatetime"):
        if hasattr(value, method):
            is_null = value != value  # NaT is pandas' null of times.
            return None if is_null else cast("Callable[[], object]", getattr(value, method))()
    return value


def _hashable(value: object) -> object:
    return tuple([_hashable(item) for item in value]) if isinstance(value, list | tuple) else value


def form_of(kind: spark_types.DataType) -> ValueForm:
    """Return the form of a type.

    Raises:
        SpecRejectedError: Values of this type cannot be stored.
    """
    text = kind.simpleString()
    if isinstance(kind, spark_types.StructType):
        return Struct(kind, _error)
    if isinstance(kind, spark_types.ArrayType):
        return Array((form_of if kind.containsNull else _zero_or_error)(kind.elementType))
    if isinstance(kind, spark_types.MapType):
        return Map(form_of(kind.keyType), (form_of if kind.valueContainsNull else _zero_or_error)(kind.valueType))
    if isinstance(kind, spark_types.DecimalType):
        return Plain(text, _decimal(kind))
    if isinstance(kind, spark_types.StringType):
        return Plain("string", _string)
    accept = _ACCEPT.get(type(kind))
    if accept is not None:
        return Plain(text, accept)
    converted = _CONVERTED.get(type(kind))
    if converted is not None:
        return Converted(text, *converted)
    raise errors.SpecRejectedError(
        "StateTypeInvalid",
        f"A state with a column of type {text} cannot be stored. Use numbers, strings, binary, booleans, dates, "
        "times, timestamps, day-time intervals, arrays, maps and structs of them.",
    )


def _zero_or_error(kind: spark_types.DataType) -> ValueForm:
    """Return the form of a NOT NULL type in a row, an array or a map; Spark reads null numbers as 0."""
    form = form_of(kind)
    zero = _ZEROS.get(type(kind))
    if zero is None and type(kind) in _CONVERTED:
        zero = form.store(0)
    is_binary = isinstance(kind, spark_types.BinaryType)
    return Required(form, zero, "EXPRESSION_ENCODING_FAILED" if is_binary else "EXPRESSION_DECODING_FAILED")


def _error(kind: spark_types.DataType) -> ValueForm:
    """Return the form of a NOT NULL type in a struct."""
    return Required(form_of(kind), None, "EXPRESSION_ENCODING_FAILED")


def _integer(bits: int) -> Callable[[object], object]:
    half, whole = 1 << (bits - 1), 1 << bits

    def accept(value: object) -> object:
        if type(value) is not int or not _LONG[0] <= value <= _LONG[1]:
            return None
        return value if -half <= value < half else (value + half) % whole - half

    return accept


def _float(value: object) -> object:
    if type(value) is not float:
        return None
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _exactly(kind: type) -> Callable[[object], object]:
    return lambda value: value if type(value) is kind else None


def _string(value: object) -> object:
    if value is None or type(value) is str:
        return value
    return str(value).lower() if type(value) is bool else str(value)


def _binary(value: object) -> object:
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    return value.encode() if isinstance(value, str) else None


def _decimal(kind: spark_types.DecimalType) -> Callable[[object], object]:
    unit = decimal.Decimal(1).scaleb(-kind.scale)
    context = decimal.Context(prec=kind.precision + 1, rounding=decimal.ROUND_HALF_UP)

    def accept(value: object) -> object:
        if not isinstance(value, decimal.Decimal):
            return None
        try:
            scaled = value.quantize(unit, context=context)
        except decimal.InvalidOperation:
            scaled = None
        if scaled is None or not scaled.is_finite() or len(scaled.as_tuple().digits) > kind.precision:
            raise errors.SpecRejectedError(
                "StateValueInvalid", f"The decimal {value} does not fit its declared type {kind.simpleString()}."
            )
        return scaled

    return accept


def _local(stored: object) -> object:
    # As in Spark: timestamps are returned as naive datetimes in the time zone of the worker's machine.
    return cast("datetime.datetime", stored).astimezone().replace(tzinfo=None)


def _same(stored: object) -> object:
    return stored


_ACCEPT: dict[type[spark_types.DataType], Callable[[object], object]] = {
    spark_types.ByteType: _integer(8),
    spark_types.ShortType: _integer(16),
    spark_types.IntegerType: _integer(32),
    spark_types.LongType: _integer(64),
    spark_types.FloatType: _float,
    spark_types.DoubleType: _exactly(float),
    spark_types.BooleanType: _exactly(bool),
    spark_types.BinaryType: _binary,
    spark_types.NullType: lambda _: None,
}
_CONVERTED: dict[type[spark_types.DataType], tuple[Callable[[int], object], Callable[[object], object]]] = {
    spark_types.DateType: (lambda days: datetime.date.fromordinal(days + _NAIVE_EPOCH.toordinal()), _same),
    spark_types.TimestampType: (lambda micros: _UTC_EPOCH + micros * _MICROSECOND, _local),
    spark_types.TimestampNTZType: (lambda micros: _NAIVE_EPOCH + micros * _MICROSECOND, _same),
    spark_types.DayTimeIntervalType: (lambda micros: micros * _MICROSECOND, _same),
    spark_types.TimeType: (lambda nanos: (_NAIVE_EPOCH + nanos // 1000 * _MICROSECOND).time(), _same),
}
_ZEROS: dict[type[spark_types.DataType], object] = {
    spark_types.ByteType: 0,
    spark_types.ShortType: 0,
    spark_types.IntegerType: 0,
    spark_types.LongType: 0,
    spark_types.FloatType: 0.0,
    spark_types.DoubleType: 0.0,
    spark_types.BooleanType: False,
}
