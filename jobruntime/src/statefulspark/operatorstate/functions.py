"""Base classes of user functions, with Flink's names: checkpointed, listener, sink and source functions.

A function runs on the driver as `parallelism` subtasks, each with its own copy. The runtime holds the checkpoint lock
during every call except `SourceFunction.run`, which must hold it during each change of state and its emission.
"""

from __future__ import annotations

import datetime
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from statefulspark.operatorstate.store import OperatorStateStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FunctionInitializationContext:
    """The context of a new subtask: at the first start and at every recovery.

    Attributes:
        operator_state_store: The store of its states.
        is_restored: Whether the restored snapshot has state of this function, in any subtask. If True, the list of a
            subtask may still be empty.
        restored_checkpoint_id: Number of the restored snapshot; None without one.
        subtask_index: 0 to `parallelism - 1`.
        parallelism: Number of subtasks.
    """

    operator_state_store: OperatorStateStore
    is_restored: bool
    restored_checkpoint_id: int | None
    subtask_index: int
    parallelism: int


@dataclass(frozen=True, slots=True)
class FunctionSnapshotContext:
    """The context of a snapshot of a function.

    State is taken with every batch, because each batch may be the last one of the next checkpoint.

    Attributes:
        checkpoint_id: The next checkpoint that may contain this state.
        when: The moment at which the state is taken, in UTC.
    """

    checkpoint_id: int
    when: datetime.datetime


class CheckpointedFunction:
    """A function that declares its operator state. Override both methods."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Declare the states and read restored elements. Called before any other method, also after a failure."""
        raise NotImplementedError(f"{type(self).__qualname__} must override initialize_state()")

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Update the states; their content at the return of this method is stored."""
        raise NotImplementedError(f"{type(self).__qualname__} must override snapshot_state()")


class ListCheckpointed(Generic[T]):
    """A function whose whole state is one list, divided evenly when the parallelism changes. Override both methods."""

    def snapshot_state(self, checkpoint_id: int, when: datetime.datetime) -> list[T]:
        """Return the state as elements that can be redistributed one by one; a single element if it cannot be divided.

        Args:
            checkpoint_id: The next checkpoint that may contain this state.
            when: The moment at which the state is taken, in UTC.
        """
        raise NotImplementedError(f"{type(self).__qualname__} must override snapshot_state()")

    def restore_state(self, state: list[T]) -> None:
        """Restore the elements of this subtask, possibly none. Only called if the snapshot has state of the function."""
        raise NotImplementedError(f"{type(self).__qualname__} must override restore_state()")


class CheckpointListener:
    """A function that is notified of completed and aborted checkpoints.

    A completion of checkpoint n includes all older ones; some ids may never be notified. An exception in
    `notify_checkpoint_complete` fails the job, which then recovers from that checkpoint.
    """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Handle a completed checkpoint, which is durable. Intermediate savepoints are not notified."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Handle an aborted checkpoint; a later checkpoint includes its state."""


class SinkFunction(Generic[T]):
    """Writes rows, one at a time, on the driver. Override `invoke`."""

    def open(self) -> None:
        """Acquire what `invoke` needs. Called after the state is restored."""

    def invoke(self, value: T) -> None:
        """Process one row. After a failure, rows since the last completed batch are repeated."""
        raise NotImplementedError(f"{type(self).__qualname__} must override invoke()")

    def close(self) -> None:
        """Release what `open` acquired. Called when the job ends, and before a failed function is replaced."""


class BroadcastSinkFunction(SinkFunction[T]):
    """A sink function with a second, broadcast input: rows for every subtask. Override both methods.

    All subtasks must process such a row in the same way, so that their broadcast states stay equal.
    """

    def invoke_broadcast(self, value: T) -> None:
        """Process one row of the broadcast input."""
        raise NotImplementedError(f"{type(self).__qualname__} must override invoke_broadcast()")


T_contra = TypeVar("T_contra", contravariant=True)


class SourceCancelledError(Exception):
    """Raised in a source that waits for free buffer space when the job ends. Do not catch it."""


class SourceContext(Protocol[T_contra]):
    """The connection of a source subtask to the stream."""

    @property
    def checkpoint_lock(self) -> AbstractContextManager[object]:
        """The lock that the runtime holds while it takes rows and state; a source holds it during an emission and its state.

        Entering it waits while the buffer is full, so that no thread waits while holding it. It is re-entrant. Entering
        raises SourceCancelledError when the job ends.
        """
        ...

    def collect(self, row: T_contra) -> None:
        """Emit a row: a tuple in the order of the schema, a dict, or a single value where there is one column.

        Inside the lock it never waits, and rows and state changes of one critical section are atomic. Outside the lock it
        is its own critical section.

        Raises:
            SourceCancelledError: The job ends.
            SpecRejectedError: `SourceRowInvalid`: the row does not fit the schema.
        """
        ...


class SourceFunction(Generic[T]):
    """Produces rows on the driver, each subtask in its own thread. Override both methods."""

    def run(self, ctx: SourceContext[T]) -> None:
        """Emit rows until there are no more or `cancel` is called. A return finishes the subtask; its state is kept."""
        raise NotImplementedError(f"{type(self).__qualname__} must override run()")

    def cancel(self) -> None:
        """Make `run` return soon. Called from another thread, possibly several times."""
        raise NotImplementedError(f"{type(self).__qualname__} must override cancel()")
