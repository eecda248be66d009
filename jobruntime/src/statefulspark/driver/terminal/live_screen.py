"""The last rows of a terminal, kept for a display while everything else scrolls above them.

The rows above are made the terminal's scrolling region (DECSTBM), so that the log, what the job prints and what Spark's JVM
writes go on there, whoever writes them, and into the terminal's own scrollback. The cursor is saved and restored around each
drawing. It decides nothing about what is shown, and takes no key.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TextIO

_SAVE, _RESTORE = "\x1b7", "\x1b8"
_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
_WHOLE = "\x1b[r"
_DOWN = "\x1bD"
"""Moves down a row and keeps the column; the last row scrolls."""
_ERASE_BELOW = "\x1b[J"
_ERASE_LINE = "\x1b[2K"
_LEFT_ABOVE = 3
"""Rows that always belong to the log."""

Size = Callable[[], os.terminal_size]


class Screen:
    """A display in the last rows of a terminal; used by one thread."""

    def __init__(self, target: TextIO, terminal_size: Size) -> None:
        """Write nothing yet.

        Args:
            target: The terminal.
            terminal_size: Returns how large it is now.
        """
        self._target = target
        self._terminal_size = terminal_size
        self._kept: tuple[int, os.terminal_size] | None = None

    @property
    def width(self) -> int:
        """Columns that a line may have."""
        return self._terminal_size().columns

    @property
    def most_lines(self) -> int:
        """Lines that a display may have: half of the terminal belongs to the log."""
        return self._terminal_size().lines // 2

    def draw(self, lines: Sequence[str]) -> None:
        """Show lines instead of the earlier ones; a terminal that has no room for them shows none.

        Args:
            lines: Lines that fit the width, with no control characters but those of colours.
        """
        terminal = self._terminal_size()
        if len(lines) + _LEFT_ABOVE > terminal.lines:
            self.close()
            return
        text = "" if self._kept == (len(lines), terminal) else self._moved(len(lines), terminal)
        first = terminal.lines - len(lines) + 1
        rows = "".join(f"\x1b[{first + number};1H{_ERASE_LINE}{line}" for number, line in enumerate(lines))
        self._write(f"{text}{_HIDE}{_SAVE}{rows}{_RESTORE}{_SHOW}")

    def close(self) -> None:
        """Take the display away and give the rows back; the cursor is where the log goes on."""
        if self._kept is not None:
            self._kept = None
            self._write(_released())

    def _moved(self, count: int, terminal: os.terminal_size) -> str:
        """Return what keeps the last rows of a terminal that may have been made larger or smaller."""
        text = _released() if self._kept is not None else ""
        self._kept = (count, terminal)
        # Whatever is in the rows that are needed moves up, the cursor with it.
        made_room = f"{_DOWN * count}\x1b[{count}A"
        return f"{text}{made_room}{_SAVE}\x1b[1;{terminal.lines - count}r{_RESTORE}"

    def _write(self, text: str) -> None:
        encoding = self._target.encoding or "utf-8"
        # A terminal without some character shows a question mark; one write, so that nothing comes between.
        self._target.write(text.encode(encoding, "replace").decode(encoding))
        self._target.flush()


def _released() -> str:
    """Return what makes the whole terminal scroll again and erases the display, which is always below the cursor."""
    return f"{_SAVE}{_WHOLE}{_RESTORE}{_ERASE_BELOW}"
