"""The steps of a start: which one it is at, since when, and how far it is within it.

What works tells it (`checkpoint.progress`), as often as it likes; what the API answers is made when it is asked. The message
goes into the status of the resource, which costs a write for each change, so its count is renewed only now and then.

It is told by the main thread, and of a step's progress by the thread that works, and asked by the server's threads: each
attribute is replaced whole. A step that has ended changes nothing any more, whatever it still tells.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from statefulspark import clock
from statefulspark.checkpoint import progress
from statefulspark.contract import api

RENEWED_S = 5.0
"""How old the count in the message may be."""
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(slots=True)
class _Step:
    name: str
    since: datetime
    counted: api.Progress | None = None

    def tell(self, counted: api.Progress) -> None:
        self.counted = counted


@dataclass(frozen=True, slots=True)
class _Shown:
    """The progress in the message, and when it was put there."""

    step: _Step
    counted: api.Progress | None
    at_s: float


class Steps:
    """The step that a start is at; `at` is the `progress.BeginStep` of what works."""

    def __init__(self, started_at: datetime, *, elapsed_s: Callable[[], float] = time.monotonic) -> None:
        """Begin.

        Args:
            started_at: UTC.
            elapsed_s: A clock that only goes forward.
        """
        self._elapsed_s = elapsed_s
        self._step = _Step("Starting", started_at)
        self._shown = _Shown(self._step, None, 0.0)

    def at(self, step: str) -> progress.Report:
        """Begin a step.

        Args:
            step: What it does, as the beginning of a sentence.

        Returns:
            What receives its progress.
        """
        begun = _Step(step, clock.utc_now())
        self._step = begun
        return begun.tell

    @property
    def progress(self) -> api.Progress | None:
        """How far the step is, as of now; None if that is not counted."""
        return self._step.counted

    @property
    def message(self) -> str:
        """The step as a sentence."""
        step, shown, now_s = self._step, self._shown, self._elapsed_s()
        if shown.step is not step or shown.counted is None or now_s - shown.at_s >= RENEWED_S:
            shown = self._shown = _Shown(step, step.counted, now_s)
        return described(step.name, step.since, shown.counted)


def described(step: str, since: datetime, counted: api.Progress | None) -> str:
    """Return a step as a sentence.

    For example `Restoring checkpoint 41: 120 of 512 files (1.20 of 4.80 GiB), since 10:02:11 UTC.`

    Args:
        step: What it does, as the beginning of a sentence.
        since: UTC.
        counted: How far it is; None if that is not counted.
    """
    count = f": {_count(counted)}" if counted is not None and counted.total else ""
    return f"{step}{count}, since {since:%H:%M:%S} UTC."


def _count(counted: api.Progress) -> str:
    count = f"{counted.done} of {counted.total} {counted.unit}"
    return f"{count} ({_sizes(counted.done_bytes or 0, counted.total_bytes)})" if counted.total_bytes else count


def _sizes(done_bytes: int, total_bytes: int) -> str:
    """Return both in the unit of the total, which has three digits."""
    value, units = float(total_bytes), iter(_UNITS)
    unit, of_one = next(units), 1
    while value >= 999.5 and unit != _UNITS[-1]:
        value, unit, of_one = value / 1024, next(units), of_one * 1024
    places = 0 if unit == "B" or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{done_bytes / of_one:.{places}f} of {value:.{places}f} {unit}"
