"""What a start does to the output of a sink only if a person says so: repeat rows that are there, or lose rows that are not.

A right is of one sink, and counts once. The refusal of a start offers the rights that it needs, as options of the command
and as fields of the resource; `offered` reads them back. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from enum import StrEnum


class SinkRight(StrEnum):
    """A right, by the name of its field in `restore`."""

    REPEAT = "repeatOutputOf"
    """Rows that the sink has may come again."""
    LOSE = "loseOutputOf"
    """Rows that the sink had, and that the job cannot send again, may stay missing."""

    @property
    def option(self) -> str:
        """The option of the command that gives it."""
        return _OPTIONS[self]

    def key(self, word: str, sink: str) -> str:
        """Return the key that a generation records once the right has counted.

        Args:
            word: The request that gave it.
            sink: The sink, as `query/sink`.
        """
        return f"{self.value} {word} {sink}"


Needed = Mapping[SinkRight, Collection[str]]
"""The sinks that need each right, as `query/sink`."""

_OPTIONS = {SinkRight.REPEAT: "--restore-repeat-output-of", SinkRight.LOSE: "--restore-lose-output-of"}
_OFFERED = re.compile(rf"({'|'.join(_OPTIONS.values())}) ([a-z0-9_-]+/[a-z0-9_-]+)")


def is_key(key: str) -> bool:
    """Tell whether a key of what was carried out is that of a right; the others are those of restores."""
    return key.startswith(tuple(f"{right.value} " for right in SinkRight))


def options(needed: Needed) -> str:
    """Return rights as options of the command."""
    return " ".join(f"{right.option} {sink}" for right, sinks in needed.items() for sink in sinks)


def described(needed: Needed) -> str:
    """Return rights for a message: as options of the command, and as fields of the resource."""
    fields = ", ".join(f"restore.{right.value}: [{', '.join(sinks)}]" for right, sinks in needed.items())
    return f"{options(needed)} ({fields})"


def offered(message: str) -> dict[SinkRight, set[str]]:
    """Return the rights that a message offers: the sinks of each, as `query/sink`."""
    by_option = {option: right for right, option in _OPTIONS.items()}
    sinks: dict[SinkRight, set[str]] = {}
    for option, sink in _OFFERED.findall(message):
        sinks.setdefault(by_option[option], set()).add(sink)
    return sinks
