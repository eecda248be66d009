"""Which process a task goes to: the one that has the state of its place, if it can be had.

A place is a partition of a query. The operators of a query that have state share it, as they take turns in a batch.
"""

from __future__ import annotations

import enum
from typing import Final, Generic, TypeVar

PATIENCE_S: Final = 0.05
"""How long a task waits for the process that works on its place: Spark started it, so the one before has ended."""
Process = TypeVar("Process")


class Wanted(enum.Enum):
    """What a task needs that gets no process."""

    PATIENCE = "patience"
    """The process with its state will be idle in a moment."""
    PROCESS = "process"
    """All are busy: a new one."""


class Homes(Generic[Process]):
    """What the processes do, and which of them has the state of a place."""

    def __init__(self) -> None:
        self._homes: dict[str, Process] = {}
        self._busy: dict[Process, str] = {}
        self._idle_since_s: dict[Process, float] = {}

    @property
    def processes(self) -> list[Process]:
        """All of them."""
        return [*self._busy, *self._idle_since_s]

    def choose(self, place: str, waited_s: float) -> Process | Wanted:
        """Return the process for a task.

        Without the one that has its state, that is the one which has been idle longest, of those without any state if
        there are such.

        Args:
            place: What the task works on.
            waited_s: How long the task has been waiting.
        """
        home = self._homes.get(place)
        if home is not None and home in self._idle_since_s:
            return home
        if home is not None and self._busy[home] == place and waited_s < PATIENCE_S:
            return Wanted.PATIENCE
        if not self._idle_since_s:
            return Wanted.PROCESS
        with_state = set(self._homes.values())
        return min(self._idle_since_s, key=lambda idle: (idle in with_state, self._idle_since_s[idle]))

    def add(self, process: Process, now_s: float) -> None:
        """Note a new process."""
        self._idle_since_s[process] = now_s

    def starts(self, process: Process, place: str) -> None:
        """Note that a process works on a place."""
        del self._idle_since_s[process]
        self._busy[process] = place

    def ends(self, process: Process, now_s: float) -> None:
        """Note that a process has done its task, and has the state of its place now."""
        self._homes[self._busy.pop(process)] = process
        self._idle_since_s[process] = now_s

    def forget(self, process: Process) -> None:
        """Note that a process has gone."""
        self._busy.pop(process, None)
        self._idle_since_s.pop(process, None)
        self._homes = {place: home for place, home in self._homes.items() if home != process}

    def idle_since(self, moment_s: float) -> list[Process]:
        """Return the processes that have had nothing to do since a moment."""
        return [process for process, since_s in self._idle_since_s.items() if since_s <= moment_s]
