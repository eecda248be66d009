"""The flights come day by day, so that a fast machine has some left for the last step."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

DAYS_PER_S = 2.2
"""With 336,776 flights in 365 days: 2,030 flights a second, all of them in 166 seconds."""
HELD_SHARE = 0.25
"""Share of the days that waits for the last step."""


@dataclass
class Feed:
    """Moves days from one folder to another, in order, at a steady rate.

    Attributes:
        held: Where they are.
        input: Where the job reads them.
    """

    held: Path
    input: Path
    _ended: threading.Event = field(default_factory=threading.Event)
    _last_part: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self.input.mkdir(parents=True, exist_ok=True)
        threading.Thread(target=self._run, name="feed", daemon=True).start()

    def release_last_part(self) -> None:
        """Let the days come that wait for the last step."""
        self._last_part.set()

    def end(self) -> None:
        """End the thread."""
        self._ended.set()
        self._last_part.set()

    def _run(self) -> None:
        days = sorted(self.held.iterdir())
        first_of_last_part = round(len(days) * (1 - HELD_SHARE))
        for number, day in enumerate(days):
            if number == first_of_last_part:
                self._last_part.wait()
            if self._ended.is_set():
                return
            day.rename(self.input / day.name)
            self._ended.wait(1 / DAYS_PER_S)
