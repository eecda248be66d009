"""A sink function taken from batch to batch: what it holds after a batch is one cut with what the batch delivered.

A batch that runs again, in this process or after a restart, begins with the state of the batch before it, as if the first
attempt had never been. No Spark and no storage in here.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable

from statefulspark import errors
from statefulspark.operatorstate import record
from statefulspark.operatorstate.completion import Completions
from statefulspark.operatorstate.functions import BroadcastSinkFunction, FunctionSnapshotContext, SinkFunction
from statefulspark.operatorstate.model import OperatorState
from statefulspark.operatorstate.sink import FunctionSink
from statefulspark.operatorstate.subtasks import Subtasks

_log = logging.getLogger(__name__)


class SinkRun:
    """Runs a `FunctionSink`. Batches come from one thread, notifications may come from another."""

    def __init__(
        self,
        uid: str,
        sink: FunctionSink,
        *,
        restored: OperatorState | None,
        checkpoint_id: int | None,
        heard: int = 0,
        committed: int | None = None,
    ) -> None:
        """Make and open the function's subtasks.

        Args:
            uid: The function's uid.
            sink: What the user declared.
            restored: Its state in the restored cut; None if the cut has none of it.
            checkpoint_id: Number of the restored snapshot; None if the job starts empty.
            heard: The newest number that was given before this driver.
            committed: The batch after which `restored` holds; -1 for the beginning, None if it is not known.

        Raises:
            StatefulSparkError: The function cannot be copied, initialised or opened.
        """
        self._uid = uid
        self._sink = sink
        self._checkpoint_id = checkpoint_id
        self._base = restored
        self._base_batch = committed
        self._after = restored
        self._attempted: int | None = None
        self._recorded: int | None = None
        self._is_repeat = True
        self._lock = threading.RLock()
        self._completions = Completions(heard)
        self._subtasks = self._made()

    @property
    def lock(self) -> threading.RLock:
        """The checkpoint lock: held around each row, each snapshot and each notification."""
        return self._lock

    @property
    def broadcast(self) -> str | None:
        """Condition that marks rows for every subtask."""
        return self._sink.broadcast

    @property
    def is_stateful(self) -> bool:
        """Whether the function has state to be kept."""
        return self._subtasks.is_stateful

    @property
    def recorded_batch(self) -> int | None:
        """The newest batch for which `end` gave a record; None before the first, and without state."""
        return self._recorded

    def begin(self, batch_id: int) -> None:
        """Begin a batch; if it, or one before it that did not end, was begun already, that attempt is undone.

        Raises:
            StateUnknownError: `BatchSkipped`: the function did not see the batch before, which somebody else committed.
            StatefulSparkError: As in the constructor.
        """
        with self._lock:
            if self._attempted is not None:
                self._move_on(batch_id)
            if self.is_stateful and self._base_batch is not None and batch_id != self._base_batch + 1:
                raise self._skipped(batch_id, self._base_batch)
            self._attempted = batch_id
            self._after = None

    def invoke(self, partition: int, row: object) -> None:
        """Hand a row to the subtask that takes its partition.

        Raises:
            StatefulSparkError: `FunctionFailed`.
        """
        with self._lock:
            function = self._subtasks.functions[partition % self._subtasks.parallelism]
            self._call(lambda: function.invoke(row), "invoke()")

    def invoke_broadcast(self, row: object) -> None:
        """Hand a row to every subtask.

        Raises:
            StatefulSparkError: `FunctionFailed`.
        """
        with self._lock:
            for function in self._subtasks.functions:
                assert isinstance(function, BroadcastSinkFunction)  # noqa: S101 - FunctionSink has looked
                self._call(functools.partial(function.invoke_broadcast, row), "invoke_broadcast()")

    def _call(self, method: Callable[[], None], what: str) -> None:
        try:
            method()
        except Exception as error:
            raise self._subtasks.failed(error, "FunctionFailed", what) from error

    def end(self, context: FunctionSnapshotContext) -> bytes | None:
        """Take the state after the batch.

        Returns:
            The record to be made durable before the batch is committed. None if it has not changed since the batch
            before and no attempt at this batch may have left one behind.

        Raises:
            StatefulSparkError: `SnapshotFailed`, or a value cannot be stored.
        """
        with self._lock:
            if not self._subtasks.is_stateful:
                self._after, self._is_repeat = OperatorState(self._subtasks.parallelism, {}), False
                return None
            after = self._subtasks.snapshot(context)
            self._completions.taken(context.checkpoint_id, self._attempted or 0)
            body = record.encode(self._uid, after)
            is_news = self._is_repeat or self._base is None or body != record.encode(self._uid, self._base)
            self._recorded = self._attempted if is_news else self._recorded
            # Decoded again, so that nothing that the function still changes is part of it.
            self._after, self._is_repeat = record.decode(body, f"the state of {self._uid}"), False
            return body if is_news else None

    def covers(self, checkpoint_id: int, batch_id: int) -> None:
        """Note at which batch a checkpoint ends."""
        self._completions.covers(checkpoint_id, batch_id)

    def notify_complete(self, checkpoint_id: int) -> None:
        """Tell the function that a checkpoint is complete; see `completion` for the number that it is told.

        Raises:
            StatefulSparkError: `NotifyFailed`; the job has to fail.
        """
        told = self._completions.complete(checkpoint_id)
        if told is not None:
            with self._lock:
                self._subtasks.notify_complete(told)

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Tell the function that a checkpoint was given up.

        Raises:
            StatefulSparkError: `NotifyFailed`.
        """
        with self._lock:
            self._subtasks.notify_aborted(checkpoint_id)

    def close(self) -> None:
        """Close the function; what it raises then is logged and changes nothing."""
        with self._lock:
            for function in self._subtasks.functions:
                with contextlib.suppress(errors.StatefulSparkError):
                    self._closed(function)

    def _move_on(self, batch_id: int) -> None:
        is_next = self._after is not None and self._attempted is not None and batch_id > self._attempted
        if is_next:
            # Spark begins a batch when the one before it is committed.
            self._base, self._base_batch = self._after, self._attempted
            return
        self._is_repeat = True
        self.close()
        self._subtasks = self._made()

    def _skipped(self, batch_id: int, base_batch: int) -> errors.StateUnknownError:
        return errors.StateUnknownError(
            "BatchSkipped",
            f"Batch {batch_id} begins, and function {self._uid!r} has its state of batch {base_batch}: an older driver "
            "committed what is in between at the last moment. Restart the job; it starts from what is stored.",
        )

    def _made(self) -> Subtasks[SinkFunction[object]]:
        made = Subtasks(self._uid, self._sink.function, self._sink.parallelism)
        made.initialize(self._base, self._checkpoint_id)
        for function in made.functions:
            try:
                function.open()
            except Exception as error:
                raise made.failed(error, "FunctionFailed", "open()") from error
        return made

    def _closed(self, function: SinkFunction[object]) -> None:
        try:
            function.close()
        except Exception as error:
            _log.warning("closing a function failed", extra={"function": self._uid}, exc_info=True)
            raise self._subtasks.failed(error, "FunctionFailed", "close()") from error
