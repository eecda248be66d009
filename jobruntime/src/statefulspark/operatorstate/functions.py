"""The functions that a user writes, under Flink's names: checkpointed, listening, sink and source functions.

A function runs on the driver as `parallelism` subtasks, each a copy of its own. The runtime holds the checkpoint lock
around every call but `SourceFunction.run`, which takes it itself around each change of state and its emission.
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
    """What a function is told when a subtask is made: at the first start and at every recovery.

    Attributes:
        operator_state_store: Where its states come from.
        is_restored: Whether this function has state in what was restored, in any of its subtasks. A subtask may get an
            empty list although it is True, and has to cope with that.
        restored_checkpoint_id: Number of the snapshot that was restored; None without one.
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
    """What a function is told when its state is taken.

    State is taken with every batch, since every batch may be the one that the next checkpoint ends at.

    Attributes:
        checkpoint_id: The next checkpoint that may cover this state.
        checkpoint_timestamp: Milliseconds since 1970 (UTC).
    """

    checkpoint_id: int
    checkpoint_timestamp: int

    @property
    def time(self) -> datetime.datetime:
        """The timestamp in UTC."""
        return datetime.datetime.fromtimestamp(self.checkpoint_timestamp / 1000, datetime.UTC)


class CheckpointedFunction:
    """A function with operator state of its own making. Override both methods."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Declare the states, and take over what was restored. Called before anything else, also after a failure."""
        raise NotImplementedError(f"{type(self).__qualname__} must override initialize_state()")

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Bring the states up to date; what they hold when this returns is what is kept."""
        raise NotImplementedError(f"{type(self).__qualname__} must override snapshot_state()")


class ListCheckpointed(Generic[T]):
    """A function whose whole state is one list, divided evenly when the parallelism changes. Override both methods."""

    def snapshot_state(self, checkpoint_id: int, timestamp_ms: int) -> list[T]:
        """Return the state as elements that may be moved one by one; one element if it cannot be divided."""
        raise NotImplementedError(f"{type(self).__qualname__} must override snapshot_state()")

    def restore_state(self, state: list[T]) -> None:
        """Take over this subtask's elements, possibly none. Only called if the function has state in the snapshot."""
        raise NotImplementedError(f"{type(self).__qualname__} must override restore_state()")


class CheckpointListener:
    """A function that wants to know what became of checkpoints.

    A completion for checkpoint n stands for every older one too; some numbers may never be announced. An exception in
    `notify_checkpoint_complete` fails the job, which then recovers from that checkpoint.
    """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete and will not be lost. Intermediate savepoints are not announced."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint was given up; a later one covers what it would have covered."""


class SinkFunction(Generic[T]):
    """Writes rows, one at a time, on the driver. Override `invoke`."""

    def open(self) -> None:
        """Acquire what `invoke` needs. Called after the state is restored."""

    def invoke(self, value: T) -> None:
        """Take one row. After a failure, rows since the last completed batch come again."""
        raise NotImplementedError(f"{type(self).__qualname__} must override invoke()")

    def close(self) -> None:
        """Release what `open` acquired. Called when the job ends, and before a failed function is replaced."""


class BroadcastSinkFunction(SinkFunction[T]):
    """A sink function with a second, broadcast input: rows that every subtask is given. Override both methods.

    What all subtasks do with such a row, they do alike; then their broadcast states stay equal.
    """

    def invoke_broadcast(self, value: T) -> None:
        """Take one row of the broadcast input."""
        raise NotImplementedError(f"{type(self).__qualname__} must override invoke_broadcast()")


T_contra = TypeVar("T_contra", contravariant=True)


class SourceCancelledError(Exception):
    """The job is ending: a source that waits for room in its buffer is told so. Let it pass."""


class SourceContext(Protocol[T_contra]):
    """How one subtask of a source reaches the stream."""

    @property
    def checkpoint_lock(self) -> AbstractContextManager[object]:
        """Held by the runtime while it takes rows and state; a source holds it around each emission and its state.

        Entering it waits while the buffer is full, so that nobody waits while holding it. The thread that holds it may
        enter it again. Entering raises SourceCancelledError when the job is ending.
        """
        ...

    def collect(self, row: T_contra) -> None:
        """Emit a row: a tuple in the order of the schema, a dict, or a single value where there is one column.

        Inside the lock it never waits: what is emitted there, and the state changed there, belong together. Outside it
        is a critical section of its own.

        Raises:
            SourceCancelledError: The job is ending.
            SpecRejectedError: `SourceRowInvalid`: the row does not fit the schema.
        """
        ...


class SourceFunction(Generic[T]):
    """Produces rows on the driver, each subtask in a thread of its own. Override both methods."""

    def run(self, ctx: SourceContext[T]) -> None:
        """Emit rows until there are no more or `cancel` is called. Returning ends the subtask; its state is kept."""
        raise NotImplementedError(f"{type(self).__qualname__} must override run()")

    def cancel(self) -> None:
        """Make `run` return soon. Called from another thread, more than once perhaps."""
        raise NotImplementedError(f"{type(self).__qualname__} must override cancel()")
