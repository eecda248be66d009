"""`DriverSink`: a sink that passes its rows to a user function on the driver."""

from __future__ import annotations

import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeVar

from statefulspark import errors
from statefulspark.operatorstate.functions import BroadcastSinkFunction, SinkFunction

F = TypeVar("F")

MAX_PARALLELISM = 1024
"""Maximum number of subtasks; they are copies on one driver."""


@dataclass(frozen=True, slots=True)
class DriverSink:
    """Passes every row to a function that runs as subtasks on the driver.

    The partitions of a batch are assigned to subtasks by number, so that a batch that runs again is assigned in the same
    way. Rows arrive one after the other. It is made for stateful sinks with modest rates; for writes by workers use a sink
    such as `FilesSink`.

    Guaranteed: the function's state and its processed rows are consistent after any failure. Not guaranteed: that external
    effects of the function, such as a request to another system, happen only once; rows since the last completed batch
    are repeated after a failure. What the function prepares becomes final in its `notify_checkpoint_complete`.

    Attributes:
        function: A prototype; every subtask gets a deep copy of it.
        parallelism: Number of subtasks.
        broadcast: SQL condition on a row. Matching rows go to `invoke_broadcast` of every subtask, all others to
            `invoke` of one; for a `BroadcastSinkFunction` only. Their order within a batch is undefined.
    """

    function: SinkFunction[Any]
    _: KW_ONLY
    parallelism: int = 1
    broadcast: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.function, SinkFunction):
            raise errors.InvalidTypeError(
                "FunctionInvalid",
                f"DriverSink takes an instance of a class that extends SinkFunction, not {self.function!r}.",
            )
        if isinstance(self.function, BroadcastSinkFunction) != (self.broadcast is not None):
            raise errors.InvalidArgumentError(
                "FunctionInvalid",
                f"DriverSink takes broadcast=<condition> with a BroadcastSinkFunction, and only with one; "
                f"{type(self.function).__qualname__} has broadcast={self.broadcast!r}.",
            )
        require_parallelism(self.parallelism)


def require_parallelism(parallelism: object) -> None:
    """Reject an invalid number of subtasks.

    Raises:
        InvalidArgumentError: `ParallelismInvalid`.
    """
    if isinstance(parallelism, bool) or not isinstance(parallelism, int) or not 1 <= parallelism <= MAX_PARALLELISM:
        raise errors.InvalidArgumentError(
            "ParallelismInvalid",
            f"A function cannot have parallelism {parallelism!r}; use a whole number from 1 to {MAX_PARALLELISM}.",
        )


def copies(prototype: F, parallelism: int, uid: str) -> tuple[F, ...]:
    """Return a copy of a function for each subtask; the prototype itself is never used.

    Raises:
        InvalidArgumentError: `FunctionNotCopyable`.
    """
    try:
        return tuple(copy.deepcopy(prototype) for _ in range(parallelism))
    except Exception as error:
        raise errors.InvalidArgumentError(
            "FunctionNotCopyable",
            f"The function {type(prototype).__qualname__} of {uid!r} cannot be copied for its subtasks ({error}); open "
            "files, sockets and locks in open() or initialize_state(), not in __init__().",
        ) from error
