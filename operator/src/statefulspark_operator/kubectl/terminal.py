"""Where a command writes, how it waits, and what the time is: standard output for results, standard error for the rest."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TextIO

from statefulspark import outgoing

from statefulspark_operator.kubectl import text

_CLEAR = "\033[H\033[2J"


@dataclass(frozen=True, slots=True)
class Terminal:
    """The world around a command.

    Attributes:
        out: Results.
        err: Progress and hints.
        now: Returns the time.
        sleep: Waits for seconds.
        environment: Environment variables, which may forbid colours.
    """

    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    sleep: Callable[[float], None] = time.sleep
    environment: Callable[[str], str | None] = os.environ.get

    @property
    def paint(self) -> text.Paint:
        """Colours, on a terminal only, and only if neither NO_COLOR nor TERM=dumb is set."""
        is_plain = self.environment("NO_COLOR") or self.environment("TERM") == "dumb" or not self.out.isatty()
        return text.plain if is_plain else text.coloured

    def write(self, content: str) -> None:
        """Write a part of the result."""
        self._write(self.out, content if content.endswith("\n") else f"{content}\n")

    def show_again(self, content: str) -> None:
        """Write a page in place of the one before on a terminal, and below it elsewhere."""
        self.out.write(_CLEAR if self.out.isatty() else "")
        self.write(content)

    def note(self, content: str) -> None:
        """Write a message for people that is not part of the result."""
        self._write(self.err, f"{content}\n")

    @staticmethod
    def _write(stream: TextIO, content: str) -> None:
        """Write for a person what has no command of their terminal, and elsewhere what it is."""
        stream.write(outgoing.printable(content) if stream.isatty() else content)
        stream.flush()
