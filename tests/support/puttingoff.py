"""Work that is put off with `threading.Timer`, done when a test says that the time has come."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest


@dataclass
class PutOff:
    """What was put off, and by how much.

    Attributes:
        waits_s: Seconds, of all that was ever put off.
        works: What has not been done yet.
        daemon: Whether the process ends without it, as a timer has it.
    """

    waits_s: list[float] = field(default_factory=list)
    works: list[Callable[[], None]] = field(default_factory=list)
    daemon: bool = False

    @classmethod
    def instead_of_timers(cls, monkeypatch: pytest.MonkeyPatch) -> PutOff:
        """Take the place of all timers of a test."""
        made = cls()
        monkeypatch.setattr(threading, "Timer", made._timer)
        return made

    def do(self) -> None:
        """Do all of it."""
        while self.works:
            self.works.pop(0)()

    def start(self) -> None:
        """Begin to wait, as a timer does."""
        assert self.daemon, "the end of the process would wait for what is put off"

    def _timer(self, wait_s: float, work: Callable[[], None]) -> PutOff:
        self.waits_s.append(wait_s)
        self.works.append(work)
        return self
