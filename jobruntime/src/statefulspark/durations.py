"""Durations in text form, with one grammar for Python, flags, configuration files and the resource. Pure.

One or more numbers, each with its unit, such as `500ms`, `1.5s`, `1h30m` or `7d`; `0` needs no unit.
"""

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
_GRAMMAR = "with a unit: 500ms, 10s, 2m, 1h30m or 7d"
_PART = r"([0-9]{1,11}(\.[0-9]{1,6})?)(ms|s|m|h|d)"
PATTERN = rf"^(0|({_PART})+)$"
"""The grammar of `parse` as a regular expression for schemas."""
LONGEST_TEXT = 32
"""Maximum length of a duration in the resource, in characters."""
LONGEST = timedelta(days=365)
"""Upper limit of all waiting times; a year is also Flink's longest pause between two checkpoints."""


def of(given: timedelta | str, what: str) -> timedelta:
    """Return a duration that a call has as an argument.

    Args:
        given: A timedelta, or text that `parse` reads.
        what: What lasts so long, for errors: `time to live`.

    Raises:
        InvalidArgumentError: `DurationInvalid`: the text is no duration, or the duration is negative.
        InvalidTypeError: `DurationInvalid`: it is neither a timedelta nor text.
    """
    if isinstance(given, str):
        return parse(given, what)
    if not isinstance(given, timedelta):
        raise errors.InvalidTypeError(
            "DurationInvalid", f"The {what} {given!r:.100} must be a timedelta, or a number {_GRAMMAR}."
        )
    if given < timedelta(0):
        raise errors.InvalidArgumentError("DurationInvalid", f"The {what} {given} must not be negative.")
    return given


def parse(text: str, what: str = "duration") -> timedelta:
    """Read a duration.

    Args:
        text: One or more numbers, each with its unit, for example `1h30m`; `0` needs no unit.
        what: What lasts so long, for errors.

    Raises:
        InvalidArgumentError: `DurationInvalid`: the text is no duration, or is longer than a timedelta can hold.
    """
    # `fullmatch`, because `$` also matches before a newline at the end.
    if not re.fullmatch(PATTERN, text):
        raise errors.InvalidArgumentError("DurationInvalid", f"The {what} {text!r} must be a number {_GRAMMAR}.")
    try:
        return sum((float(number) * _UNITS[unit] for number, _, unit in re.findall(_PART, text)), timedelta(0))
    except OverflowError as error:
        raise errors.InvalidArgumentError(
            "DurationInvalid", f"The {what} {text!r} is too long; write a shorter one."
        ) from error


def format_exact(duration: timedelta) -> str:
    """Write a duration in the form that `parse` reads, in whole milliseconds: `1h30m`, `168h`, `1s500ms`.

    Days are written as hours: revisions of jobs are hashes of this text, and older operators cannot read days.
    """
    total_ms = round(duration.total_seconds() * 1000)
    parts = ((total_ms // 3_600_000, "h"), (total_ms // 60_000 % 60, "m"), (total_ms // 1000 % 60, "s"))
    text = "".join(f"{count}{unit}" for count, unit in parts if count)
    return text + (f"{total_ms % 1000}ms" if total_ms % 1000 else "") or "0s"


def format_short(duration: timedelta) -> str:
    """Write a duration in its two largest units, like the ages of kubectl: `0.4s`, `42s`, `3m12s`, `5h`, `12d`.

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
