"""Text for people: ages, wrapped sentences, and colours that a terminal shows. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from datetime import datetime
from enum import Enum

from statefulspark import durations

WIDTH = 120
_COMMAND = re.compile(r"kubectl .*?(?=[.,;] |$)")
_JOINT = "\0"


class Tone(Enum):
    """What a colour says; the value is the number of the terminal's escape sequence."""

    GOOD = 32
    ATTENTION = 33
    BAD = 31
    HEADING = 1


Paint = Callable[[str, Tone], str]


def plain(text: str, _tone: Tone) -> str:
    """Return a text without colour, for files and pipes."""
    return text


def coloured(text: str, tone: Tone) -> str:
    """Return a text in the colour of a tone, for a terminal."""
    return f"\033[{tone.value}m{text}\033[0m"


def elapsed(now: datetime, then: datetime) -> str:
    """Write how much time has passed: `3m12s`."""
    return durations.format_short(now - then)


def ago(now: datetime, then: datetime) -> str:
    """Write how long ago something was: `3m12s ago`."""
    return f"{elapsed(now, then)} ago"


def wrapped(text: str, *, indent: int) -> str:
    """Break a text into lines, all but the first with an indentation; addresses and commands are never broken."""
    whole = _COMMAND.sub(lambda command: command[0].replace(" ", _JOINT), text)
    lines = textwrap.wrap(whole, WIDTH - indent, break_long_words=False, break_on_hyphens=False) or [""]
    return f"\n{' ' * indent}".join(lines).replace(_JOINT, " ")
