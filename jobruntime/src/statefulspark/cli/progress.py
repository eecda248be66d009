"""Progress of long work: a bar with rate and remaining time at a terminal, and occasional lines elsewhere.

It goes to standard error, so that results can be piped; `--quiet` turns it off.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TextIO

from statefulspark import durations
from statefulspark.contract import api, sizes

REDRAW_S = 0.1
LINE_S = 10.0
_CELLS = 24


def bar_text(what: str, done_bytes: int, total_bytes: int, rate: float, counted: str = "") -> str:
    """Return one line: activity, bar, share, bytes, counted units, rate, remaining time.

    Args:
        what: The activity, for example `copying`.
        done_bytes: Bytes done so far.
        total_bytes: Bytes in total; zero counts as done.
        rate: Bytes per second; zero if it is not known yet.
        counted: Counted units, for example `3 of 12 files`.
    """
    share = min(1.0, done_bytes / total_bytes) if total_bytes else 1.0
    size = f"{sizes.format_short(done_bytes)} of {sizes.format_short(total_bytes)}"
    text = f"{what} {_bar(share)}  {', '.join(part for part in (size, counted) if part)}"
    if rate <= 0:
        return text
    remaining = durations.format_short(timedelta(seconds=max(0.0, total_bytes - done_bytes) / rate))
    return f"{text}  {sizes.format_short(int(rate))}/s  {remaining} left"


def _bar(share: float) -> str:
    filled = int(share * _CELLS)
    return f"[{'#' * filled}{'.' * (_CELLS - filled)}] {share:4.0%}"


class Bar:
    """Shows the progress of work. A context manager; its exit ends the line."""

    def __init__(
        self,
        what: str,
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Show nothing yet.

        Args:
            what: The activity, for example `copying`.
            quiet: Show nothing at all.
            stream: Standard error when omitted.
            clock: Returns monotonic seconds.
        """
        self._what = what
        self._quiet = quiet
        self._stream = stream or sys.stderr
        self._in_place = self._stream.isatty()
        self._clock = clock
        self._began = (clock(), 0)
        self._last: int | None = None
        self._due: tuple[float, object] | None = None
        self._written = False

    def show(self, done_bytes: int, total_bytes: int, counted: str = "") -> None:
        """Show the progress, unless it was shown a moment ago."""
        now_s = self._clock()
        if self._last is None or done_bytes < self._last:
            # The work before this call, or of an earlier phase, does not count for the rate.
            self._began = now_s, done_bytes
        self._last = done_bytes
        if self._is_due(now_s, (done_bytes, total_bytes), is_end=done_bytes >= total_bytes):
            began_s, began_bytes = self._began
            rate = (done_bytes - began_bytes) / (now_s - began_s) if now_s > began_s else 0.0
            self._write(bar_text(self._what, done_bytes, total_bytes, rate, counted))

    def report(self, progress: api.Progress) -> None:
        """Show the progress that a driver reports."""
        counted = f"{progress.done} of {progress.total} {progress.unit}"
        if progress.done_bytes is not None and progress.total_bytes is not None:
            self.show(progress.done_bytes, progress.total_bytes, counted)
        elif self._is_due(self._clock(), progress, is_end=progress.done >= progress.total):
            self._write(f"{self._what} {_bar(progress.done / progress.total if progress.total else 1.0)}  {counted}")

    def wait(self, elapsed_s: float) -> None:
        """Show the elapsed time at a terminal; elsewhere, write once that the work is in progress."""
        if self._quiet or (self._written and not self._in_place):
            return
        text = f"{self._what}: in progress"
        self._write(f"{text} ({durations.format_short(timedelta(seconds=elapsed_s))})" if self._in_place else text)

    def _is_due(self, now_s: float, state: object, *, is_end: bool) -> bool:
        """Tell whether to write: unchanged progress is not repeated, and the end is written at once."""
        if self._quiet:
            return False
        if self._due is not None:
            written_s, written = self._due
            pause_s = REDRAW_S if self._in_place else LINE_S
            if state == written or (now_s - written_s < pause_s and not is_end):
                return False
        self._due = now_s, state
        return True

    def _write(self, text: str) -> None:
        self._written = True
        self._stream.write(f"\r\033[K{text}" if self._in_place else f"{text}\n")
        self._stream.flush()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._in_place and self._written:
            self._stream.write("\n")
            self._stream.flush()
