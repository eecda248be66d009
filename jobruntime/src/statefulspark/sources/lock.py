"""The checkpoint lock of one subtask, with its buffer of rows.

The lock makes a change of state and its emission atomic. A thread waits before it enters while the buffer is full, so that
a source that is faster than the stream never blocks the runtime from taking its rows (otherwise A.133 of Flink's semantics
happens).
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
        """Create an empty buffer.

        Args:
            capacity: Number of rows at which entering blocks; a running critical section may exceed it.
        """
        self._condition = threading.Condition(threading.RLock())
        self._capacity = capacity
        self._depth = 0
        self._cancelled = False
        self._rows: list[Row] = []

    def __enter__(self) -> CheckpointLock:
        """Enter, after waiting for free buffer space.

        Raises:
            SourceCancelledError: The job ends.
        """
        self._condition.acquire()
        if self._depth == 0:
            while len(self._rows) >= self._capacity and not self._cancelled:
                self._condition.wait()
            if self._cancelled:
                self._condition.release()
                raise SourceCancelledError("The job ends; the source must stop.")
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        self._condition.release()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock without waiting for buffer space, also when cancelled: for the runtime."""
        with self._condition:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    @property
    def has_rows(self) -> bool:
        """Whether there are rows; read without the lock, so the result may be outdated."""
        return bool(self._rows)

    def add(self, row: Row) -> None:
        """Add a row; the caller must hold the lock."""
        self._rows.append(row)

    def take(self) -> list[Row]:
        """Remove and return all rows and wake waiting threads; the caller must hold the lock."""
        rows, self._rows = self._rows, []
        self._condition.notify_all()
        return rows

    def cancel(self) -> None:
        """Raise SourceCancelledError in waiting threads and on later entries."""
        with self._condition:
            self._cancelled = True
            self._condition.notify_all()
