"""Values of options: durations, words of an enum, and pairs of a name and a value."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import Any, TypeVar

import click

from statefulspark import durations, errors

MOST_DIGITS = 19
"""No number of a snapshot is longer; Python refuses to read one of thousands of digits."""
_Word = TypeVar("_Word", bound=Enum)


class Word(click.Choice[_Word]):
    """One of the values of an enum."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        """Return the word of a member."""
        return str(choice.value if isinstance(choice, Enum) else choice)


class _Duration(click.ParamType[timedelta]):
    """A duration in the grammar of the API: `500ms`, `10s`, `1h30m`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:  # noqa: ANN401 -- click's own
        """Read a duration."""
        if isinstance(value, timedelta):
            return value
        try:
            return durations.parse(value)
        except errors.SpecRejectedError as error:
            self.fail(error.message.rstrip("."), param, ctx)


class _Pair(click.ParamType[tuple[str, str]]):
    """`name=value`; the value may be empty and may contain `=`."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:  # noqa: ANN401 -- click's own
        """Read a pair."""
        if isinstance(value, tuple):
            return value
        name, separator, text = value.partition("=")
        if not separator or not name:
            self.fail(f"{value!r} must have the form name=value", param, ctx)
        return name, text


class _CheckpointId(click.ParamType[int]):
    """The number of a checkpoint."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401 -- click's own
        """Read a number."""
        text = str(value)
        if not text.isascii() or not text.isdigit() or len(text) > MOST_DIGITS or int(text) == 0:
            self.fail(f"{text!r:.100} must be the number of a checkpoint, as `checkpoint list` shows it", param, ctx)
        return int(text)


CHECKPOINT_ID = _CheckpointId()
DURATION = _Duration()
PAIR = _Pair()
