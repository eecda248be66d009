"""A running source function: one thread per subtask; the caller cuts its rows into segments.

Subtasks do not wait for each other: a cut takes rows and state of each subtask in turn, under its own lock.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType

from statefulspark import errors
from statefulspark.operatorstate import record, subtasks
from statefulspark.operatorstate.functions import FunctionSnapshotContext, SourceCancelledError, SourceFunction
from statefulspark.operatorstate.model import OperatorState

_END_TIMEOUT_S = 5.0

_log = logging.getLogger(__name__)


Row = tuple[object, ...]


class CheckpointLock:
    """A re-entrant lock of one subtask over its bounded buffer of rows.

    The lock makes a change of state and its emission atomic. A thread waits before it enters while the buffer is full, so
    that a source that is faster than the stream never blocks the runtime from taking its rows (otherwise A.133 of Flink's
    semantics happens).
    """

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


@dataclass(frozen=True, slots=True)
class Cut:
    """Rows and state at one point.

    Attributes:
        rows: The rows of each subtask.
        state: The state of all subtasks at that point; None if the function has none.
    """

    rows: tuple[list[Row], ...]
    state: OperatorState | None


class SubtaskContext:
    """The context of `run` of one subtask; see `operatorstate.functions.SourceContext`."""

    def __init__(self, uid: str, columns: tuple[str, ...], lock: CheckpointLock, wakeup: threading.Event) -> None:
        """Emit into the buffer of a lock."""
        self._uid = uid
        self._columns = columns
        self._lock = lock
        self._wakeup = wakeup

    @property
    def checkpoint_lock(self) -> CheckpointLock:
        """The lock that is held while rows and state are taken."""
        return self._lock

    def collect(self, row: object) -> None:
        """Emit a row."""
        values = self._make_tuple(row)
        with self._lock:
            self._lock.add(values)
        self._wakeup.set()

    def _make_tuple(self, row: object) -> Row:
        count = len(self._columns)
        if isinstance(row, Mapping):
            if set(row) <= set(self._columns):
                return tuple(row.get(column) for column in self._columns)
        elif isinstance(row, tuple) or (isinstance(row, list) and count > 1):
            if len(row) == count:
                return tuple(row)
        elif count == 1:
            return (row,)
        raise errors.SpecRejectedError(
            "SourceRowInvalid",
            f"The source {self._uid!r} emitted {row!r}, which does not fit its columns {', '.join(self._columns)}; emit a "
            "tuple in that order, or a dict.",
        )


class RunningSource:
    """All subtasks of a source. Call `start` once; the other methods may be called from one thread at a time."""

    def __init__(
        self, function: subtasks.Subtasks[SourceFunction[object]], *, columns: tuple[str, ...], capacity: int
    ) -> None:
        """Run an initialised function.

        Args:
            function: Its subtasks with restored state.
            columns: Column names of the schema.
            capacity: Maximum number of rows that each subtask may be ahead of the stream.
        """
        self._function = function
        self._wakeup = threading.Event()
        self._failure: errors.StatefulSparkError | None = None
        self._locks = tuple(CheckpointLock(capacity) for _ in function.functions)
        self._threads = tuple(
            threading.Thread(
                target=functools.partial(self._run, index, SubtaskContext(function.uid, columns, lock, self._wakeup)),
                name=f"source-{function.uid}-{index}",
                daemon=True,
            )
            for index, lock in enumerate(self._locks)
        )
        self._started = False

    @property
    def uid(self) -> str:
        """The source's uid."""
        return self._function.uid

    @property
    def is_finished(self) -> bool:
        """Whether every subtask has returned from `run`."""
        return self._started and not any(thread.is_alive() for thread in self._threads)

    def start(self) -> None:
        """Start the subtasks; further calls do nothing."""
        if not self._started:
            self._started = True
            for thread in self._threads:
                thread.start()

    def wait_for_rows(self, timeout_s: float) -> bool:
        """Wait until a subtask has rows.

        Returns:
            Whether there are any.

        Raises:
            StatefulSparkError: `SourceFailed`: a subtask raised.
        """
        if not self._has_rows():
            self._wakeup.wait(timeout_s)
        self._wakeup.clear()
        if self._failure is not None:
            raise self._failure
        return self._has_rows()

    def cut(self, context: FunctionSnapshotContext) -> Cut:
        """Take the rows that were emitted since the last cut, with the matching state.

        Raises:
            StatefulSparkError: `SnapshotFailed`, or a value cannot be stored.
        """
        rows, shares = [], []
        for index, lock in enumerate(self._locks):
            with lock.held():
                rows.append(lock.take())
                shares.append(record.detached(self._function.snapshot_subtask(index, context)))
        state = subtasks.gather(shares) if self._function.is_stateful else None
        return Cut(tuple(rows), state)

    def notify_complete(self, checkpoint_id: int) -> None:
        """Notify listeners, each under its lock, that a checkpoint is complete.

        Raises:
            StatefulSparkError: `NotifyFailed`.
        """
        for index, lock in enumerate(self._locks):
            with lock.held():
                self._function.notify_complete(checkpoint_id, only=index)

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Notify listeners, each under its lock, that a checkpoint was aborted.

        Raises:
            StatefulSparkError: `NotifyFailed`.
        """
        for index, lock in enumerate(self._locks):
            with lock.held():
                self._function.notify_aborted(checkpoint_id, only=index)

    def close(self) -> None:
        """Cancel the subtasks and wait a few seconds for their threads; a thread that does not stop is abandoned."""
        for lock in self._locks:
            lock.cancel()
        for function in self._function.functions:
            try:
                function.cancel()
            except Exception:  # noqa: BLE001 - the job ends in any case; errors of a user's cancel() are only logged
                _log.warning("cancelling a source failed", extra={"source": self.uid}, exc_info=True)
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_END_TIMEOUT_S)

    def _has_rows(self) -> bool:
        return any(lock.has_rows for lock in self._locks)

    def _run(self, index: int, context: SubtaskContext) -> None:
        try:
            self._function.functions[index].run(context)
        except SourceCancelledError:
            _log.debug("source subtask cancelled", extra={"source": self.uid, "subtask": index})
        except (Exception, SystemExit) as error:  # noqa: BLE001 - kept, and raised by the next request of the stream
            # A thread that sys.exit() ends looks like one that has returned, so the source would count as finished.
            self._failure = self._function.failed(error, "SourceFailed", f"run() of subtask {index}")
        else:
            _log.info("source subtask finished", extra={"source": self.uid, "subtask": index})
        self._wakeup.set()
