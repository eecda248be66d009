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
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Protocol, TextIO

from statefulspark import clock, durations, launch, telemetry
from statefulspark.contract import api, observations
from statefulspark.driver.terminal import live_panel

LOOK_S = 1.0
"""Time between two looks at the status."""
_ENDS_WITHIN_S = 2.0
"""A terminal that takes nothing, such as a paused one, holds up the end no longer."""

FEWEST_ROWS = 12
"""A terminal with fewer rows shows lines."""
_NO_COLOUR = "NO_COLOR"
"""Whoever sets it to something wants no colours in any program (https://no-color.org)."""

_SAVE, _RESTORE = "\x1b7", "\x1b8"
_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
_WHOLE = "\x1b[r"
_DOWN = "\x1bD"
"""Moves down a row and keeps the column; the last row scrolls."""
_ERASE_BELOW = "\x1b[J"
_ERASE_LINE = "\x1b[2K"
_LEFT_ABOVE = 3
"""Rows that always belong to the log."""

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
    sentences = []
    for query in now.queries:
        last = earlier.get(query.uid)
        # Spark reports the measurements of a batch a moment after it is committed.
        if query.batch_duration_ms <= 0 or (last is not None and _measured(last) == _measured(query)):
            continue
        new_rows = query.input_rows - (last.input_rows if last is not None else 0)
        duration = durations.format_short(timedelta(milliseconds=query.batch_duration_ms))
        rate = f" ({query.rows_per_second:,.0f} rows/s)" if new_rows else ""
        sentences.append(
            f"{query.uid}: {new_rows:,} rows, batch {query.batch_id} in {duration}{rate}, "
            f"{query.input_rows:,} rows since the start"
        )
    return tuple(sentences)


def _measured(query: api.QueryStatus) -> tuple[int, int, float]:
    return query.input_rows, query.batch_duration_ms, query.rows_per_second


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


class Screen:
    """The last rows of a terminal, kept for a display while everything else scrolls above them; used by one thread.

    The rows above are made the terminal's scrolling region (DECSTBM), so that the log, what the job prints and what Spark's
    JVM writes go on there, whoever writes them, and into the terminal's own scrollback. The cursor is saved and restored
    around each drawing.
    """

    def __init__(self, target: TextIO, terminal_size: Callable[[], os.terminal_size]) -> None:
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
        text = ""
        if self._kept != (len(lines), terminal):
            # The terminal may be larger or smaller now. What is in the rows that are needed moves up, and the cursor.
            text = _released() if self._kept is not None else ""
            text += f"{_DOWN * len(lines)}\x1b[{len(lines)}A{_SAVE}\x1b[1;{terminal.lines - len(lines)}r{_RESTORE}"
            self._kept = (len(lines), terminal)
        first = terminal.lines - len(lines) + 1
        rows = "".join(f"\x1b[{first + number};1H{_ERASE_LINE}{line}" for number, line in enumerate(lines))
        self._write(f"{text}{_HIDE}{_SAVE}{rows}{_RESTORE}{_SHOW}")

    def close(self) -> None:
        """Take the display away and give the rows back; the cursor is where the log goes on."""
        if self._kept is not None:
            self._kept = None
            self._write(_released())

    def _write(self, text: str) -> None:
        encoding = self._target.encoding or "utf-8"
        # A terminal without some character shows a question mark; one write, so that nothing comes between.
        self._target.write(text.encode(encoding, "replace").decode(encoding))
        self._target.flush()


def _released() -> str:
    """Return what makes the whole terminal scroll again and erases the display, which is always below the cursor."""
    return f"{_SAVE}{_WHOLE}{_RESTORE}{_ERASE_BELOW}"


class LiveDisplay:
    """Shows the whole job in the last rows of a terminal."""

    def __init__(
        self, watched: Watched, target: TextIO, terminal_size: Callable[[], os.terminal_size], *, coloured: bool
    ) -> None:
        """Draw nothing yet."""
        self._watched, self._target, self._coloured = watched, target, coloured
        self._screen = Screen(target, terminal_size)

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
    shown: _Shown = Lines(watched.status, stream)
    if keeps_rows(stream):
        number = stream.fileno()
        is_coloured = not os.environ.get(_NO_COLOUR)
        shown = LiveDisplay(watched, stream, lambda: os.get_terminal_size(number), coloured=is_coloured)
    ended, woken = threading.Event(), threading.Event()
    thread = threading.Thread(target=_watch, args=(shown, ended, woken, look_s), name="live", daemon=True)
    thread.start()
    try:
        with _waking_at_new_size(woken):
            yield
    finally:
        ended.set()
        woken.set()
        thread.join(timeout=_ENDS_WITHIN_S)


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
