"""What a person sees while a job runs in the foreground: a display in the last rows of the terminal, or lines.

At a terminal the display is drawn anew every second, below the log. Lines, one per query and second at most, are for
who asked for them (`--plain`), for terminals that cannot keep rows, and for notebooks. A thread of its own looks at the
published status, so a terminal that was paused (Ctrl-S) never holds the job up. Nothing is shown where nobody looks on:
in a pod, in a pipe, in a file.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Protocol, TextIO

from statefulspark import clock, launch, telemetry
from statefulspark.contract import api, durations, observations
from statefulspark.driver.terminal import live_panel, live_screen

LOOK_S = 1.0
"""Time between two looks at the status."""

FEWEST_ROWS = 12
"""A terminal with fewer rows shows lines."""
_NO_COLOUR = "NO_COLOR"
"""Whoever sets it to something wants no colours in any program (https://no-color.org)."""

Status = Callable[[], api.JobStatus]


class Watched(Protocol):
    """The job that is looked at; other threads change it."""

    def status(self) -> api.JobStatus:
        """Return its status."""

    def state(self) -> observations.StateSizes:
        """Return the sizes of its state."""


class _Shown(Protocol):
    """A way to show a job; used by one thread."""

    def look(self) -> None:
        """Show what is new."""

    def end(self) -> None:
        """Show the rest, and give the terminal back."""


def is_watched() -> bool:
    """Tell whether a person looks on: the log is text, and goes to a terminal or to a notebook."""
    return telemetry.is_for_people() and (sys.stderr.isatty() or launch.is_interactive())


def news(before: api.JobStatus | None, now: api.JobStatus) -> tuple[str, ...]:
    """Return a sentence for each query that has run a batch since an earlier status.

    Args:
        before: The earlier status; None before the first.
        now: The status.
    """
    earlier = {query.uid: query for query in before.queries} if before is not None else {}
    return tuple(
        _sentence(earlier.get(query.uid), query) for query in now.queries if _has_run(earlier.get(query.uid), query)
    )


def _has_run(before: api.QueryStatus | None, now: api.QueryStatus) -> bool:
    """Tell by the measurements: Spark reports those of a batch a moment after it is committed."""
    return now.batch_duration_ms > 0 and (before is None or _measured(before) != _measured(now))


def _measured(query: api.QueryStatus) -> tuple[int, int, float]:
    return query.input_rows, query.batch_duration_ms, query.rows_per_second


def _sentence(before: api.QueryStatus | None, now: api.QueryStatus) -> str:
    new_rows = now.input_rows - (before.input_rows if before is not None else 0)
    duration = durations.format_short(timedelta(milliseconds=now.batch_duration_ms))
    rate = f" ({now.rows_per_second:,.0f} rows/s)" if new_rows else ""
    return f"{now.uid}: {new_rows:,} rows, batch {now.batch_id} in {duration}{rate}, {now.input_rows:,} rows since the start"


def keeps_rows(terminal: TextIO) -> bool:
    """Tell whether a stream is a terminal that can keep a display in its last rows, and one is wanted."""
    is_wanted = launch.requested_display() is launch.Display.LIVE and not launch.is_interactive()
    if not is_wanted or not terminal.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return False
    try:
        return os.get_terminal_size(terminal.fileno()).lines >= FEWEST_ROWS
    except (OSError, ValueError):
        return False


class Lines:
    """Shows a line for each query that has run a batch."""

    def __init__(self, status: Status, target: TextIO) -> None:
        """Show nothing yet."""
        self._status, self._target = status, target
        self._seen: api.JobStatus | None = None

    def look(self) -> None:
        """Write the news since the last look."""
        now = self._status()
        for sentence in news(self._seen, now):
            self._target.write(f"  {sentence}\n")
        self._target.flush()
        self._seen = now

    def end(self) -> None:
        """Write the news of the last batches."""
        self.look()


class LiveDisplay:
    """Shows the whole job in the last rows of a terminal."""

    def __init__(self, watched: Watched, target: TextIO, terminal_size: live_screen.Size, *, coloured: bool) -> None:
        """Draw nothing yet."""
        self._watched, self._target, self._coloured = watched, target, coloured
        self._screen = live_screen.Screen(target, terminal_size)

    def look(self) -> None:
        """Draw the job as it is now, in a terminal as large as it is now."""
        view = live_panel.LiveView(self._watched.status(), self._watched.state(), clock.utc_now())
        width = self._screen.width
        shown = live_panel.lines(view, self._screen.most_lines)
        self._screen.draw([live_panel.written(line, width, coloured=self._coloured) for line in shown])

    def end(self) -> None:
        """Take the display away, and leave what was done in the log."""
        self._screen.close()
        for sentence in live_panel.summary(self._watched.status()):
            self._target.write(f"  {sentence}\n")
        self._target.flush()


@contextlib.contextmanager
def watching(watched: Watched, target: TextIO | None = None, *, look_s: float = LOOK_S) -> Iterator[None]:
    """Show a job while the block runs, and its last batches when it ends.

    Args:
        watched: The job.
        target: Standard error when omitted.
        look_s: Time between two looks.
    """
    stream = target or sys.stderr
    shown = _display(watched, stream) if keeps_rows(stream) else Lines(watched.status, stream)
    ended, woken = threading.Event(), threading.Event()
    thread = threading.Thread(target=_watch, args=(shown, ended, woken, look_s), name="live", daemon=True)
    thread.start()
    try:
        with _waking_at_new_size(woken):
            yield
    finally:
        ended.set()
        woken.set()
        thread.join(timeout=look_s)


def _watch(shown: _Shown, ended: threading.Event, woken: threading.Event, look_s: float) -> None:
    try:
        while not ended.is_set():
            woken.wait(look_s)
            woken.clear()
            if not ended.is_set():
                shown.look()
    finally:
        shown.end()


@contextlib.contextmanager
def _waking_at_new_size(woken: threading.Event) -> Iterator[None]:
    """Wake the thread when the terminal has a new size: until the next drawing the log goes on over the old one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGWINCH, lambda _number, _frame: woken.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, previous)


def _display(watched: Watched, terminal: TextIO) -> LiveDisplay:
    number = terminal.fileno()
    return LiveDisplay(watched, terminal, lambda: os.get_terminal_size(number), coloured=not os.environ.get(_NO_COLOUR))
