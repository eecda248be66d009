"""Runs a sink function batch by batch: its state after a batch is consistent with the rows of the batch.

A batch that runs again, in this process or after a restart, starts with the state of the previous batch, as if the first
attempt had not happened. This module uses neither Spark nor storage.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable

from statefulspark import errors
from statefulspark.operatorstate import record
from statefulspark.operatorstate.completion import Completions
from statefulspark.operatorstate.functions import BroadcastSinkFunction, FunctionSnapshotContext, SinkFunction
from statefulspark.operatorstate.model import OperatorState
from statefulspark.operatorstate.sink import DriverSink
from statefulspark.operatorstate.subtasks import Subtasks

_log = logging.getLogger(__name__)


class SinkRun:
    """Runs a `DriverSink`. Batches come from one thread, notifications may come from another."""

    def __init__(
        self,
        uid: str,
        sink: DriverSink,
        *,
        restored: OperatorState | None,
        checkpoint_id: int | None,
        heard: int = 0,
        committed: int | None = None,
    ) -> None:
        """Create and open the function's subtasks.

        Args:
            uid: The function's uid.
            sink: The declared sink.
            restored: Its restored state; None if the snapshot has none.
            checkpoint_id: Number of the restored snapshot; None if the job starts empty.
            heard: The newest checkpoint id that was used before this driver.
            committed: The batch that `restored` belongs to; -1 for the beginning, None if unknown.

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
        self._subtasks = self._create_subtasks()

    @property
    def lock(self) -> threading.RLock:
        """The checkpoint lock: held during each row, each snapshot and each notification."""
        return self._lock

    @property
    def broadcast(self) -> str | None:
        """Condition that marks rows for every subtask."""
        return self._sink.broadcast

    @property
    def is_stateful(self) -> bool:
        """Whether the function has state."""
        return self._subtasks.is_stateful

    @property
    def recorded_batch(self) -> int | None:
        """The newest batch for which `end` returned a record; None before the first, and without state."""
        return self._recorded

    def begin(self, batch_id: int) -> None:
        """Begin a batch, and undo an earlier attempt at it or at an unfinished batch before it.

        Raises:
            StateUnknownError: `BatchSkipped`: another driver committed the previous batch, which the function has not
                processed.
            StatefulSparkError: As in the constructor.
        """
        with self._lock:
            if self._attempted is not None and self._after is not None and batch_id > self._attempted:
                # Spark begins a batch after the previous one is committed.
                self._base, self._base_batch = self._after, self._attempted
            elif self._attempted is not None:
                self._is_repeat = True
                self.close()
                self._subtasks = self._create_subtasks()
            if self.is_stateful and self._base_batch is not None and batch_id != self._base_batch + 1:
                raise errors.StateUnknownError(
                    "BatchSkipped",
                    f"Batch {batch_id} begins, but function {self._uid!r} has its state of batch {self._base_batch}: an "
                    "older driver committed the batches in between. Restart the job; it starts from the stored state.",
                )
            self._attempted = batch_id
            self._after = None

    def invoke(self, partition: int, row: object) -> None:
        """Pass a row to the subtask of its partition.

        Raises:
            StatefulSparkError: `FunctionFailed`.
        """
        with self._lock:
            function = self._subtasks.functions[partition % self._subtasks.parallelism]
            self._call(lambda: function.invoke(row), "invoke()")

    def invoke_broadcast(self, row: object) -> None:
        """Pass a row to every subtask.

        Raises:
            StatefulSparkError: `FunctionFailed`.
        """
        with self._lock:
            for function in self._subtasks.functions:
                assert isinstance(function, BroadcastSinkFunction)  # noqa: S101 - DriverSink has checked this
                self._call(functools.partial(function.invoke_broadcast, row), "invoke_broadcast()")

    def _call(self, method: Callable[[], None], what: str) -> None:
        try:
            method()
        except Exception as error:
            raise self._subtasks.failed(error, "FunctionFailed", what) from error

    def end(self, context: FunctionSnapshotContext) -> bytes | None:
        """Snapshot the state after the batch.

        Returns:
            The record to write before the batch is committed. None if the state has not changed since the previous batch
            and no earlier attempt at this batch may have written one.

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
            is_changed = self._is_repeat or self._base is None or body != record.encode(self._uid, self._base)
            self._recorded = self._attempted if is_changed else self._recorded
            # Decoded again, so that later changes of the function do not affect it.
            self._after, self._is_repeat = record.decode(body, f"the state of {self._uid}"), False
            return body if is_changed else None

    def covers(self, checkpoint_id: int, batch_id: int) -> None:
        """Record the last batch of a checkpoint."""
        self._completions.covers(checkpoint_id, batch_id)

    def notify_complete(self, checkpoint_id: int) -> None:
        """Notify the function that a checkpoint is complete; see `completion` for the id that it gets.

        Raises:
            StatefulSparkError: `NotifyFailed`; the job has to fail.
        """
        notified_id = self._completions.complete(checkpoint_id)
        if notified_id is not None:
            with self._lock:
                self._subtasks.notify_complete(notified_id)

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Notify the function that a checkpoint was aborted.

        Raises:
            StatefulSparkError: `NotifyFailed`.
        """
        with self._lock:
            self._subtasks.notify_aborted(checkpoint_id)

    def close(self) -> None:
        """Close the function; its errors are logged and ignored."""
        with self._lock:
            for function in self._subtasks.functions:
                try:
                    function.close()
                except Exception:  # noqa: BLE001 - the batch or the job has ended in any case
                    _log.warning("closing a function failed", extra={"function": self._uid}, exc_info=True)

    def _create_subtasks(self) -> Subtasks[SinkFunction[object]]:
        subtasks = Subtasks(self._uid, self._sink.function, self._sink.parallelism)
        subtasks.initialize(self._base, self._checkpoint_id)
        for function in subtasks.functions:
            try:
                function.open()
            except Exception as error:
                raise subtasks.failed(error, "FunctionFailed", "open()") from error
        return subtasks
