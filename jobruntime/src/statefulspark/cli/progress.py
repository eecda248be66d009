"""Progress of long work: a bar with rate and remaining time at a terminal, and a line now and then elsewhere.

It goes to standard error, so that results can be piped; `--quiet` turns it off.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TextIO

from statefulspark.cli import durations, tables

REDRAW_S = 0.1
LINE_S = 10.0
_CELLS = 24


def bar_text(what: str, done_bytes: int, total_bytes: int, elapsed_s: float) -> str:
    """Return one line: what, bar, share, bytes, rate, remaining time.

    Args:
        what: For example `copying`.
        done_bytes: So far.
        total_bytes: In the end; zero counts as done.
        elapsed_s: Since the beginning.
    """
    share = min(1.0, done_bytes / total_bytes) if total_bytes else 1.0
    filled = int(share * _CELLS)
    rate = done_bytes / elapsed_s if elapsed_s > 0 else 0.0
    bar = "#" * filled + "." * (_CELLS - filled)
    text = f"{what} [{bar}] {share:4.0%}  {tables.size(done_bytes)} of {tables.size(total_bytes)}"
    if rate <= 0:
        return text
    left = durations.format_short(timedelta(seconds=max(0.0, total_bytes - done_bytes) / rate))
    return f"{text}  {tables.size(int(rate))}/s  {left} left"


class Bar:
    """Shows how far work on a known number of bytes is. Use it as a context manager; leaving it ends the line."""

    def __init__(
        self,
        what: str,
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Show nothing yet."""
        self._what = what
        self._quiet = quiet
        self._stream = stream or sys.stderr
        self._in_place = self._stream.isatty()
        self._clock = clock
        self._began_s = clock()
        self._shown_s: float | None = None

    def show(self, done_bytes: int, total_bytes: int) -> None:
        """Show how far it is, unless that was shown a moment ago."""
        now_s = self._clock()
        pause_s = REDRAW_S if self._in_place else LINE_S
        is_end = done_bytes >= total_bytes
        if self._quiet or (self._shown_s is not None and now_s - self._shown_s < pause_s and not is_end):
            return
        self._shown_s = now_s
        text = bar_text(self._what, done_bytes, total_bytes, now_s - self._began_s)
        self._stream.write(f"\r\033[K{text}" if self._in_place else f"{text}\n")
        self._stream.flush()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._in_place and self._shown_s is not None:
            self._stream.write("\n")
            self._stream.flush()
