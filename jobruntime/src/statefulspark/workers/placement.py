"""Chooses the process for a task: the process that has the state of its partition, if that is available.

A partition is named `<query id>/<partition>`. The stateful operators of a query share it, because they run one after the
other in a batch.
"""

from __future__ import annotations

import enum
from typing import Final, Generic, TypeVar

LOCALITY_WAIT_S: Final = 0.05
"""How long a task waits for the process that works on its partition; Spark has already ended the earlier task."""
Process = TypeVar("Process")


class Unassigned(enum.Enum):
    """What to do with a task that gets none of the existing processes now."""

    WAIT = "wait"
    """Wait: the process with its state will soon be idle."""
    NEW_PROCESS = "new process"
    """Start a new process: all others are busy."""


class ProcessTable(Generic[Process]):
    """The state of every process, and the process that has the state of each partition."""

    def __init__(self) -> None:
        self._owners: dict[str, Process] = {}
        self._busy: dict[Process, str] = {}
        self._idle_since_s: dict[Process, float] = {}

    @property
    def processes(self) -> list[Process]:
        """All processes."""
        return [*self._busy, *self._idle_since_s]

    def choose(self, partition: str, waited_s: float) -> Process | Unassigned:
        """Return the process for a task, or what to do if there is none.

        If the process with its state is not available, it is the process that has been idle longest, and one without any
        state if there is one.

        Args:
            partition: The partition that the task works on.
            waited_s: How long the task has been waiting.
        """
        owner = self._owners.get(partition)
        if owner is not None and owner in self._idle_since_s:
            return owner
        if owner is not None and self._busy[owner] == partition and waited_s < LOCALITY_WAIT_S:
            return Unassigned.WAIT
        if not self._idle_since_s:
            return Unassigned.NEW_PROCESS
        with_state = set(self._owners.values())
        return min(self._idle_since_s, key=lambda idle: (idle in with_state, self._idle_since_s[idle]))

    def add(self, process: Process, now_s: float) -> None:
        """Add a new idle process."""
        self._idle_since_s[process] = now_s

    def starts(self, process: Process, partition: str) -> None:
        """Record that a process starts to work on a partition."""
        del self._idle_since_s[process]
        self._busy[process] = partition

    def ends(self, process: Process, now_s: float) -> None:
        """Record that a process has finished its task, and now has the state of its partition."""
        self._owners[self._busy.pop(process)] = process
        self._idle_since_s[process] = now_s

    def forget(self, process: Process) -> None:
        """Remove a process that has ended."""
        self._busy.pop(process, None)
        self._idle_since_s.pop(process, None)
        self._owners = {partition: owner for partition, owner in self._owners.items() if owner != process}

    def idle_since(self, moment_s: float) -> list[Process]:
        """Return the processes that have been idle since a point in time."""
        return [process for process, since_s in self._idle_since_s.items() if since_s <= moment_s]
