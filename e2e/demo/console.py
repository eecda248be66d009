"""What a person sees: lines that stay, and below them one line that is redrawn.

In a terminal the last line is refreshed at every look. Where output goes to a file, it is printed every few seconds
instead, so that a log stays readable.
"""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

PLAIN_INTERVAL_S = 5.0


class Console:
    """Prints to one stream."""

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        """Print to a stream; it decides by itself whether that is a terminal."""
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._drawn = ""
        self._printed_at = -PLAIN_INTERVAL_S

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._erase()
        print(text, file=self._stream, flush=True)
        self._draw()

    def title(self, text: str) -> None:
        """Print a line that begins a chapter."""
        self.say(f"\n\033[1m{text}\033[0m" if self._is_terminal else f"\n== {text}")

    def status(self, text: str) -> None:
        """Show the line that is redrawn."""
        if self._is_terminal:
            self._erase()
            self._drawn = text[: shutil.get_terminal_size((120, 24)).columns - 1]
            self._draw()
        elif time.monotonic() - self._printed_at >= PLAIN_INTERVAL_S:
            self._printed_at = time.monotonic()
            print(text, file=self._stream, flush=True)

    def end_status(self) -> None:
        """Let the line that is redrawn stay as it is."""
        if self._drawn:
            print(file=self._stream, flush=True)
        self._drawn = ""

    def _erase(self) -> None:
        if self._drawn:
            self._stream.write("\r\033[K")

    def _draw(self) -> None:
        if self._drawn:
            self._stream.write(self._drawn)
            self._stream.flush()
