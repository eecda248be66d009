"""Durations as people write them: `500ms`, `10s`, `2m`, `1h30m`, `7d`. Pure."""

from __future__ import annotations

import re
from datetime import timedelta

from statefulspark import errors

_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def parse(text: str) -> timedelta:
    """Read a duration.

    Args:
        text: One or more numbers, each with its unit, for example `1h30m`; `0` needs no unit.

    Raises:
        SpecRejectedError: `DurationInvalid`.
    """
    if text == "0":
        return timedelta(0)
    if not _WHOLE.fullmatch(text):
        raise errors.SpecRejectedError(
            "DurationInvalid",
            f"The duration {text!r} must be a number with a unit: 500ms, 10s, 2m, 1h30m or 7d.",
        )
    return sum((float(number) * _UNITS[unit] for number, unit in _PART.findall(text)), timedelta(0))


def format_short(duration: timedelta) -> str:
    """Write a duration in its two largest units, as kubectl writes ages: `0.4s`, `42s`, `3m12s`, `5h`, `12d`.

    Args:
        duration: A negative one, from clocks that differ, is written as `0s`.
    """
    seconds = max(0.0, duration.total_seconds())
    if 0 < seconds < 10:
        return f"{seconds:.1f}s"
    minutes, whole_s = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (whole_s, "s")]
    first = next((index for index, (value, _) in enumerate(parts) if value), len(parts) - 1)
    return "".join(f"{value}{unit}" for value, unit in parts[first : first + 2] if value) or "0s"
