"""The checkpoint lock of one subtask, and the rows that wait behind it.

The lock makes a change of state and its emission one step. Whoever enters it waits outside while the buffer is full, so
that a source which the stream is too slow for never keeps the runtime from taking its rows (A.133 of Flink's semantics
is what happens otherwise).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from types import TracebackType

from statefulspark.operatorstate.functions import SourceCancelledError

Row = tuple[object, ...]


class CheckpointLock:
    """A re-entrant lock over a bounded buffer of rows."""

    def __init__(self, capacity: int) -> None:
        """Make an empty buffer.

        Args:
            capacity: Rows from which on nobody enters; a critical section that is under way may exceed it.
        """
        self._condition = threading.Condition(threading.RLock())
        self._capacity = capacity
        self._depth = 0
        self._cancelled = False
        self._rows: list[Row] = []

    def __enter__(self) -> CheckpointLock:
        """Enter, after waiting for room.

        Raises:
            SourceCancelledError: The job is ending.
        """
        self._condition.acquire()
        if self._depth == 0:
            while len(self._rows) >= self._capacity and not self._cancelled:
                self._condition.wait()
            if self._cancelled:
                self._condition.release()
                raise SourceCancelledError("The job is ending; the source is told to stop.")
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        self._condition.release()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock without waiting for room, also when cancelled: for the runtime."""
        with self._condition:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    @property
    def has_rows(self) -> bool:
        """Whether rows wait; without taking the lock, so the answer may be old already."""
        return bool(self._rows)

    def add(self, row: Row) -> None:
        """Add a row; only for the thread that holds the lock."""
        self._rows.append(row)

    def take(self) -> list[Row]:
        """Take all rows and let those in who wait for room; only for the thread that holds the lock."""
        rows, self._rows = self._rows, []
        self._condition.notify_all()
        return rows

    def cancel(self) -> None:
        """Send away whoever waits, and whoever comes."""
        with self._condition:
            self._cancelled = True
            self._condition.notify_all()
