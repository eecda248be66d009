"""A master hook that tests put beside a job."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import datetime

from statefulspark.hooks import MasterHook


class Bookmarks(MasterHook):
    """Remembers what it was asked and told; answers with the number, fails and waits as it is told."""

    def __init__(
        self,
        name: str,
        *,
        answer: bytes | None = b"at %d",
        failures: Iterable[str] = (),
        holds: threading.Event | None = None,
    ) -> None:
        self._name = name
        self._answer = answer
        self._failures = list(failures)
        self.holds = holds or threading.Event()
        self._waits = holds is not None
        self.asked: list[tuple[int, datetime]] = []
        self.answered: list[int] = []
        self.restored: list[tuple[int, bytes | None]] = []
        self.told: list[str] = []

    @property
    def uid(self) -> str:
        return self._name

    def trigger(self, checkpoint_id: int, when: datetime) -> bytes | None:
        self.asked.append((checkpoint_id, when))
        if self._waits:
            self.holds.wait(10)
        if self._failures:
            raise ValueError(self._failures.pop(0))
        self.answered.append(checkpoint_id)
        return self._answer % checkpoint_id if self._answer is not None else None

    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        if self._failures:
            raise ValueError(self._failures.pop(0))
        self.restored.append((checkpoint_id, state))

    def reset(self) -> None:
        self.told.append("reset")

    def close(self) -> None:
        self.told.append("close")
