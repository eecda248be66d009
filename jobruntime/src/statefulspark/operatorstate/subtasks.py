"""The subtasks of a function: creation, restore, snapshot, notification of checkpoints.

Errors of user code are translated to an error that names the function's uid and the failed action. The caller holds the
checkpoint lock.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar, cast

from statefulspark import errors, usercode
from statefulspark.operatorstate import redistribution, sink
from statefulspark.operatorstate.functions import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListCheckpointed,
)
from statefulspark.operatorstate.model import NamedState, OperatorState, OperatorStateMeta, SubtaskState
from statefulspark.operatorstate.store import OperatorStateStore
from statefulspark.state import liststate

F = TypeVar("F")
R = TypeVar("R")

LIST_CHECKPOINTED = "list-checkpointed"
"""Name of the list state of a `ListCheckpointed` function."""


class Subtasks(Generic[F]):
    """All copies of one function and their states. Not thread-safe."""

    def __init__(self, uid: str, prototype: F, parallelism: int) -> None:
        """Copy a function.

        Raises:
            SpecRejectedError: `FunctionNotCopyable`, `FunctionInvalid` (it is checkpointed in two ways).
        """
        if isinstance(prototype, CheckpointedFunction) and isinstance(prototype, ListCheckpointed):
            raise errors.SpecRejectedError(
                "FunctionInvalid",
                f"The function {type(prototype).__qualname__} of {uid!r} is both CheckpointedFunction and "
                "ListCheckpointed; choose one.",
            )
        self.uid = uid
        self.functions = sink.copies(prototype, parallelism, uid)
        self._stores = [OperatorStateStore() for _ in self.functions]

    @property
    def parallelism(self) -> int:
        """Number of subtasks."""
        return len(self.functions)

    @property
    def is_stateful(self) -> bool:
        """Whether the function has state."""
        return isinstance(self.functions[0], CheckpointedFunction | ListCheckpointed)

    def initialize(self, restored: OperatorState | None, checkpoint_id: int | None) -> None:
        """Initialise every subtask with its share of the restored state.

        Args:
            restored: The function's state in the snapshot, of any parallelism; None if the snapshot has none.
            checkpoint_id: Number of the snapshot that the job was restored from; None if it starts empty.

        Raises:
            StatefulSparkError: `StateInitializationFailed`, or what the state store raises.
        """
        redistributed = None if restored is None else redistribution.redistribute(restored, self.parallelism)
        for index, function in enumerate(self.functions):
            share = {} if redistributed is None else redistributed.subtask_states(index)
            self._stores[index] = OperatorStateStore(share)
            if isinstance(function, CheckpointedFunction):
                context = FunctionInitializationContext(
                    operator_state_store=self._stores[index],
                    is_restored=redistributed is not None,
                    restored_checkpoint_id=checkpoint_id,
                    subtask_index=index,
                    parallelism=self.parallelism,
                )
                self._initialize(function.initialize_state, context)
            elif isinstance(function, ListCheckpointed) and redistributed is not None:
                self._initialize(function.restore_state, self._stores[index].list_state(LIST_CHECKPOINTED).get())

    def snapshot(self, context: FunctionSnapshotContext) -> OperatorState:
        """Snapshot every subtask.

        Raises:
            StatefulSparkError: `SnapshotFailed`, or what the state store raises.
        """
        shares = [self.snapshot_subtask(index, context) for index in range(self.parallelism)]
        return gather(shares)

    def snapshot_subtask(self, index: int, context: FunctionSnapshotContext) -> Mapping[str, SubtaskState]:
        """Snapshot one subtask; see `snapshot`."""
        function = self.functions[index]
        if isinstance(function, CheckpointedFunction):
            self._snapshot(lambda: function.snapshot_state(context), context)
            try:
                return self._stores[index]._contents(index)
            except errors.StatefulSparkError as error:
                raise self.failed(error, "SnapshotFailed", _snapshot_of(context)) from error
        if isinstance(function, ListCheckpointed):
            taken = self._snapshot(functools.partial(_list_of, function, context), context)
            self._stores[index].list_state(LIST_CHECKPOINTED).update(taken)
            return self._stores[index]._contents(index)
        return {}

    def notify_complete(self, checkpoint_id: int, *, only: int | None = None) -> None:
        """Notify listeners that a checkpoint is complete.

        Args:
            checkpoint_id: Its number.
            only: Index of the only subtask to notify; None notifies all.

        Raises:
            StatefulSparkError: `NotifyFailed`; the job has to fail.
        """
        for listener in self._listeners(only):
            method = functools.partial(listener.notify_checkpoint_complete, checkpoint_id)
            self._call(method, "NotifyFailed", f"notify_checkpoint_complete({checkpoint_id})")

    def notify_aborted(self, checkpoint_id: int, *, only: int | None = None) -> None:
        """Notify listeners that a checkpoint was aborted; see `notify_complete`.

        Raises:
            StatefulSparkError: `NotifyFailed`.
        """
        for listener in self._listeners(only):
            method = functools.partial(listener.notify_checkpoint_aborted, checkpoint_id)
            self._call(method, "NotifyFailed", f"notify_checkpoint_aborted({checkpoint_id})")

    def failed(self, error: BaseException, reason: str, what: str) -> errors.StatefulSparkError:
        """Return the error for an exception of user code; a StatefulSparkError stays unchanged."""
        what = f"{what} of function {self.uid!r}"
        if isinstance(error, errors.SpecRejectedError):
            return errors.SpecRejectedError(error.reason, f"{what}: {error.message}")
        if isinstance(error, errors.StatefulSparkError):
            return error
        return usercode.raised(error, reason=reason, called=f"{what} ({type(self.functions[0]).__qualname__})")

    def _listeners(self, only: int | None) -> tuple[CheckpointListener, ...]:
        chosen = self.functions if only is None else (self.functions[only],)
        return tuple(function for function in chosen if isinstance(function, CheckpointListener))

    def _initialize(self, method: Callable[[R], None], argument: R) -> None:
        self._call(lambda: method(argument), "StateInitializationFailed", "Could not initialize state")

    def _snapshot(self, method: Callable[[], R], context: FunctionSnapshotContext) -> R:
        return self._call(method, "SnapshotFailed", _snapshot_of(context))

    def _call(self, method: Callable[[], R], reason: str, what: str) -> R:
        try:
            return method()
        except Exception as error:
            raise self.failed(error, reason, what) from error


def _list_of(function: ListCheckpointed[object], context: FunctionSnapshotContext) -> list[object]:
    """Return the state of a function as a list.

    Raises:
        InvalidArgumentError: `NullInState`: there is none, or an element is None.
    """
    answer: object = function.snapshot_state(context.checkpoint_id, context.when)
    if answer is None:
        raise errors.InvalidArgumentError(
            "NullInState", "snapshot_state() returned None; return a list, which is empty if there is no state."
        )
    return liststate.require_elements(cast("Iterable[object]", answer))


def _snapshot_of(context: FunctionSnapshotContext) -> str:
    return f"Could not complete snapshot {context.checkpoint_id}"


def gather(shares: Sequence[Mapping[str, SubtaskState]]) -> OperatorState:
    """Combine the states of all subtasks; a state that is missing in a subtask is empty there.

    Raises:
        SpecRejectedError: `StateModeIncompatible`: two subtasks declared a state in different modes.
    """
    metas: dict[str, OperatorStateMeta] = {}
    for share in shares:
        for name, state in share.items():
            before = metas.setdefault(name, state.meta)
            if before.mode is not state.meta.mode:
                raise errors.SpecRejectedError(
                    "StateModeIncompatible",
                    f"Incompatible state assignment modes. Was [{before.mode.value}], registered with "
                    f"[{state.meta.mode.value}]. The subtasks declare state '{name}' differently; declare it alike.",
                )
    states = {
        name: NamedState(meta, tuple(share[name].part if name in share else () for share in shares))
        for name, meta in metas.items()
    }
    return OperatorState(len(shares), states)
