"""Values of user state as bytes and back: msgpack with a closed set of types, so that reading never runs code.

Allowed are None, bool, int (any size), float, str, bytes, list, dict, tuple, date, datetime, timedelta, time, Decimal
and UUID. A decoded value equals the encoded one, has the same type, and a time of day or a point in time has the same
zone, the same offset and the same `fold`, so that a function sees the same before and after a restart. Every other type is
rejected on write, with the name of the state and of the type, and never on a read after a failure. Subclasses (numpy
numbers, named tuples, enums) are rejected too: they would be decoded as another type.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import functools
import uuid
import zoneinfo
from collections.abc import Callable, Iterable, Iterator
from typing import cast

import msgpack

from statefulspark import errors

_TUPLE, _BIG_INT, _DATE, _DATETIME, _DATETIME_UTC, _TIMEDELTA, _TIME, _DECIMAL, _UUID, _DATETIME_IN_ZONE = range(1, 11)
_EPOCH_NAIVE = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
ALLOWED = "None, bool, int, float, str, bytes, list, dict, tuple, date, datetime, timedelta, time, Decimal and UUID"


def _int_bytes(value: int) -> bytes:
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)


def _encode_datetime(value: datetime.datetime) -> msgpack.ExtType:
    zone = value.tzinfo
    if zone is None and not value.fold:
        return msgpack.ExtType(_DATETIME, _int_bytes((value - _EPOCH_NAIVE) // _MICROSECOND))
    name = None if zone is None else _zone_name(zone, value)
    if name in (0, "UTC"):
        return msgpack.ExtType(_DATETIME_UTC, _int_bytes((value - _EPOCH_UTC) // _MICROSECOND))
    elapsed = elapsed_us(value)
    if elapsed is not None:
        return msgpack.ExtType(_DATETIME_IN_ZONE, _pack_inner([elapsed, name]))
    # A wall time that is no point in time, such as one in the hour that a summer time skips.
    wall = (value.replace(tzinfo=None) - _EPOCH_NAIVE) // _MICROSECOND
    return msgpack.ExtType(_DATETIME_IN_ZONE, _pack_inner([wall, name, value.fold]))


def elapsed_us(value: datetime.datetime) -> int | None:
    """Return a point in time in microseconds since 1970; None if the wall time would not come back from it."""
    zone = value.tzinfo
    if zone is None:
        return None
    try:
        instant = value.astimezone(datetime.UTC)
        restored = instant.astimezone(zone)
    except OverflowError:
        return None
    is_same = restored.replace(tzinfo=None) == value.replace(tzinfo=None) and restored.fold == value.fold
    return (instant - _EPOCH_UTC) // _MICROSECOND if is_same else None


def _decode_datetime_in_zone(body: bytes) -> datetime.datetime:
    count, name, *fold = cast("list[int | str | None]", unpack(body))
    zone = None if name is None else _zone_of(name)
    if not fold:
        return (_EPOCH_UTC + cast("int", count) * _MICROSECOND).astimezone(zone)
    wall = _EPOCH_NAIVE + cast("int", count) * _MICROSECOND
    return wall.replace(tzinfo=zone, fold=cast("int", fold[0]))


def _encode_time(value: datetime.time) -> msgpack.ExtType:
    plain = value.replace(tzinfo=None, fold=0).isoformat()
    if value.tzinfo is None and not value.fold:
        return msgpack.ExtType(_TIME, plain.encode())
    name = None if value.tzinfo is None else _zone_name(value.tzinfo, value)
    return msgpack.ExtType(_TIME, _pack_inner([plain, name, value.fold]))


def _decode_time(body: bytes) -> datetime.time:
    if body[:1].isdigit():
        return datetime.time.fromisoformat(body.decode())
    plain, name, fold = cast("tuple[str, str | int | None, int]", unpack(body))
    zone = None if name is None else _zone_of(name)
    return datetime.time.fromisoformat(plain).replace(tzinfo=zone, fold=fold)


def _zone_name(zone: datetime.tzinfo, value: datetime.datetime | datetime.time) -> str | int:
    """Return the IANA name of a zone, or its offset from UTC in microseconds; a zone of pytz has its name as `zone`."""
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if isinstance(name, str):
        return name
    offset = value.utcoffset()
    if offset is None:
        raise ValueError(f"{value!r} has the time zone {zone!r}, which has neither a name nor an offset")
    return offset // _MICROSECOND


@functools.lru_cache(maxsize=1024)
def _zone_of(zone: str | int) -> datetime.tzinfo:
    if isinstance(zone, str):
        return zoneinfo.ZoneInfo(zone)
    return datetime.timezone(zone * _MICROSECOND)


def _pack_inner(value: object) -> bytes:
    body: bytes = msgpack.packb(value, default=_encode_other, strict_types=True)
    return body


_ENCODERS: dict[type, Callable[..., msgpack.ExtType]] = {
    tuple: lambda value: msgpack.ExtType(_TUPLE, _pack_inner(list(value))),
    int: lambda value: msgpack.ExtType(_BIG_INT, _int_bytes(value)),
    datetime.date: lambda value: msgpack.ExtType(_DATE, _int_bytes(value.toordinal())),
    datetime.datetime: _encode_datetime,
    datetime.timedelta: lambda value: msgpack.ExtType(_TIMEDELTA, _int_bytes(value // _MICROSECOND)),
    datetime.time: _encode_time,
    decimal.Decimal: lambda value: msgpack.ExtType(_DECIMAL, str(value).encode()),
    uuid.UUID: lambda value: msgpack.ExtType(_UUID, value.bytes),
}


def _encode_other(value: object) -> msgpack.ExtType:
    encoder = _ENCODERS.get(type(value))
    if encoder is None:
        kind = type(value)
        raise TypeError(f"{kind.__module__}.{kind.__qualname__}")
    return encoder(value)


def _signed(body: bytes) -> int:
    return int.from_bytes(body, "big", signed=True)


_DECODERS: dict[int, Callable[[bytes], object]] = {
    _TUPLE: lambda body: tuple(unpack(body)),  # type: ignore[arg-type]  # always packed from a list
    _BIG_INT: _signed,
    _DATE: lambda body: datetime.date.fromordinal(_signed(body)),
    _DATETIME: lambda body: _EPOCH_NAIVE + _signed(body) * _MICROSECOND,
    _DATETIME_UTC: lambda body: _EPOCH_UTC + _signed(body) * _MICROSECOND,
    _TIMEDELTA: lambda body: _signed(body) * _MICROSECOND,
    _TIME: _decode_time,
    _DECIMAL: lambda body: decimal.Decimal(body.decode()),
    _UUID: lambda body: uuid.UUID(bytes=body),
    _DATETIME_IN_ZONE: _decode_datetime_in_zone,
}


def _decode_other(code: int, body: bytes) -> object:
    decoder = _DECODERS.get(code)
    if decoder is None:
        raise ValueError(f"extension type {code} is unknown")
    return decoder(body)


def pack(value: object) -> bytes:
    """Write a value.

    Raises:
        TypeError: A part of it has a type that cannot be stored; the message is the full name of that type.
        ValueError: It is nested too deeply.
    """
    return _pack_inner(value)


def packer() -> Callable[[object], bytes]:
    """Return a function like `pack` that is several times faster for small values; for one thread only."""
    packed: Callable[[object], bytes] = msgpack.Packer(default=_encode_other, strict_types=True).pack
    return packed


def unpack(body: bytes | memoryview) -> object:
    """Read a value that `pack` wrote.

    Raises:
        ValueError: The bytes are not a packed value.
    """
    value: object = msgpack.unpackb(body, ext_hook=_decode_other, strict_map_key=False)
    return value


def type_name(kind: type) -> str:
    """Return the usual name of a type: `int`, `datetime.datetime`, `numpy.float64`."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def type_rejected(state: str, actual_type: str) -> errors.SpecRejectedError:
    """Build the error for a value that cannot be stored."""
    actual_type = actual_type.removeprefix("builtins.")
    return errors.SpecRejectedError(
        "StateValueTypeUnsupported",
        f"State '{state}' was given a value of type {actual_type}, which cannot be stored. Allowed are {ALLOWED}; convert "
        f"the value first, for example a numpy number with .item() or an object into a dict.",
    )


@contextlib.contextmanager
def naming(state: str) -> Iterator[None]:
    """Name the state in errors of `pack` within the block.

    Raises:
        SpecRejectedError: A value has a type that cannot be stored, or is too deep or too long.
    """
    try:
        yield
    except TypeError as error:
        raise type_rejected(state, str(error)) from error
    except (ValueError, OverflowError, RecursionError) as error:
        raise errors.SpecRejectedError(
            "StateValueUnsupported", f"State '{state}' was given a value that cannot be stored: {error}."
        ) from error


def pack_column(values: Iterable[object]) -> list[object]:
    """Prepare a column of values for packing, without one msgpack extension per tuple on the first level.

    Returns:
        `["t", [list, …]]` when every value is a tuple, else `["v", [value, …]]`.
    """
    column = list(values)
    if column and set(map(type, column)) == {tuple}:
        return ["t", [list(value) for value in cast("list[tuple[object, ...]]", column)]]
    return ["v", column]


def unpack_column(column: list[object]) -> list[object]:
    """Undo `pack_column`."""
    shape, values = column
    if not isinstance(values, list) or shape not in ("t", "v"):
        raise ValueError(f"column of shape {shape!r} is unknown")
    return list(map(tuple, values)) if shape == "t" else values
