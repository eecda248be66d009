"""Values as JSON text, as Spark's `to_json` writes them where JSON has no form of its own.

Maps are objects, binary is Base64, NaN and infinities are strings. Otherwise no digit is lost: Decimals are strings, times
are ISO 8601 with microseconds and their offset, durations are ISO 8601 in seconds. What was written can be read by every
parser: a bare NaN is no JSON.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import uuid
from collections.abc import Callable, Mapping
from typing import cast


def dumps(value: object) -> str:
    """Return a value as JSON text without spaces.

    Args:
        value: None, bool, int, float, str, bytes, Decimal, UUID, a value of `datetime`, or lists, tuples and mappings of
            them.

    Raises:
        TypeError: Another type, or two keys of a mapping with the same text; the message is a part of a sentence.
    """
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError):  # A key that is no text, or NaN: rare, so every value is looked at only now.
        return _ENCODER.encode(_plain(value))


def text(value: object) -> str:
    """Return the text of a value outside of JSON, for example as a key: a string without quotation marks, else its JSON."""
    written = dumps(value)
    return cast("str", json.loads(written)) if written[:1] == '"' else written


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        plain = {text(key): _plain(item) for key, item in value.items()}
        if len(plain) < len(value):
            raise TypeError(f"the keys {', '.join(map(repr, value))} do not differ as text")
        return plain
    if isinstance(value, (list, tuple)):
        return list(map(_plain, value))
    if not isinstance(value, float):
        return value
    return "NaN" if value != value else {float("inf"): "Infinity", float("-inf"): "-Infinity"}.get(value, value)


def _duration(value: datetime.timedelta) -> str:
    microseconds = value // datetime.timedelta(microseconds=1)
    seconds, fraction = divmod(abs(microseconds), 1_000_000)
    return f"{'-' if microseconds < 0 else ''}PT{seconds}{f'.{fraction:06}'.rstrip('0') if fraction else ''}S"


_LEAVES: tuple[tuple[type, Callable[..., str]], ...] = (
    (datetime.date, lambda value: value.isoformat()),
    (datetime.time, lambda value: value.isoformat()),
    (datetime.timedelta, _duration),
    (decimal.Decimal, str),
    (bytes, lambda value: base64.b64encode(value).decode()),
    (uuid.UUID, str),
)


def _leaf(value: object) -> str:
    written = next((write for kind, write in _LEAVES if isinstance(value, kind)), None)
    if written is None:
        raise TypeError(f"a value of type {type(value).__qualname__} has no JSON form")
    return written(value)


_ENCODER = json.JSONEncoder(default=_leaf, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
