"""The one form of keys: keys that are equal have equal bytes, and keys of equal bytes are equal.

Python finds a key in a dict by equality, and storage finds it by its bytes. Some values are equal and have several forms:
-0.0 and 0.0, the same point in time in two zones, a wall time with either `fold`, Decimals with trailing zeros. NaN does not
equal itself. In an hour that the end of summer time repeats, two points in time of one zone are equal and have other bytes,
and two of different zones are never equal (PEP 495). So a key has one form wherever it comes from, rows or storage: floats
as in Spark's grouping, points in time in UTC, wall times without `fold`. Only what a function sees has a zone
(`zone_setter`).
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
from collections.abc import Callable, Collection

_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)


def one_form(keys: Collection[object]) -> Collection[object]:
    """Return keys in the one form, in their order; what was given if no key, and no part of a tuple, has several forms.

    Decimals are left as they are: those of a column have the same scale.
    """
    kinds = set(map(type, keys))
    if tuple in kinds:
        parts = itertools.chain.from_iterable(key for key in keys if type(key) is tuple)
        if not _FORMS.keys().isdisjoint(map(type, parts)):
            return [tuple(map(_unify, key)) if type(key) is tuple else _unify(key) for key in keys]
    return keys if _FORMS.keys().isdisjoint(kinds) else list(map(_unify, keys))


def entry_form(key: object) -> object:
    """Return the key of a map entry, which a function may have made, in the one form."""
    kind = type(key)
    if kind is tuple:
        return tuple([entry_form(part) for part in key])  # type: ignore[attr-defined]  # a tuple
    if kind is decimal.Decimal:
        return _plain_decimal(key)  # type: ignore[arg-type]  # a Decimal
    return _unify(key)


def stored_entries(keys: list[object]) -> list[object]:
    """Return keys of map entries that were read from storage, in the one form.

    They were stored in it. But each NaN that is read is another object, and Python finds only the one NaN in a dict.
    """
    return keys if {float, tuple}.isdisjoint(map(type, keys)) else list(map(entry_form, keys))


def zone_setter(zone: datetime.tzinfo) -> Callable[[object], object]:
    """Return a function that gives the points in time of a key, or of its parts, a zone."""

    def shown(key: object) -> object:
        if type(key) is tuple:
            return tuple(map(shown, key))
        if isinstance(key, datetime.datetime) and key.tzinfo is not None:
            return key.astimezone(zone)
        return key

    return shown


def _unify(part: object) -> object:
    form = _FORMS.get(type(part))
    return part if form is None else form(part)


def _datetime(value: datetime.datetime) -> datetime.datetime:
    if value.tzinfo is datetime.UTC:
        return value
    return value.replace(fold=0) if value.tzinfo is None else value.astimezone(datetime.UTC)


def _time(value: datetime.time) -> datetime.time:
    """Return a time of day without `fold`; Python ignores a zone without an offset, and compares others in UTC."""
    offset = value.utcoffset()
    if offset is None:
        return value.replace(tzinfo=None, fold=0)
    midnight = datetime.datetime(2000, 1, 2, tzinfo=datetime.UTC)
    moment = midnight.replace(hour=value.hour, minute=value.minute, second=value.second, microsecond=value.microsecond)
    shifted = moment - offset
    if shifted.date() == midnight.date():
        return shifted.timetz()
    return value.replace(fold=0)


def _plain_decimal(value: decimal.Decimal) -> decimal.Decimal:
    """Return the Decimal without trailing zeros and without an exponent."""
    if not value.is_finite():
        return value
    return decimal.Decimal(format(value.normalize(_EXACT), "f")) if value else decimal.Decimal(0)


_FORMS: dict[type, Callable[..., object]] = {
    float: lambda value: math.nan if math.isnan(value) else value + 0.0,
    datetime.datetime: _datetime,
    datetime.time: _time,
}
