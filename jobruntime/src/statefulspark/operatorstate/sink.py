"""`FunctionSink`: a sink whose rows a function of the user's takes on the driver."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TypeVar

from statefulspark import errors
from statefulspark.operatorstate.functions import BroadcastSinkFunction, SinkFunction

F = TypeVar("F")

MAX_PARALLELISM = 1024
"""Subtasks are copies on one driver; more of them than this is a mistake."""


@dataclass(frozen=True, slots=True)
class FunctionSink:
    """Gives every row to a function that runs as subtasks on the driver.

    The partitions of a batch are dealt to the subtasks by their number, so that a batch that runs again is dealt alike.
    Rows arrive one after the other. Made for sinks with modest rates and state of their own; where workers should write,
    use a sink such as `FilesSink`.

    Guaranteed: the function's state and the rows it covers are one cut, whatever is killed. Not guaranteed: that what
    the function did outside, such as a request to another system, happens only once; rows since the last completed batch
    come again after a failure.

    Attributes:
        function: A prototype; every subtask works on a deep copy of it.
        parallelism: Number of subtasks.
        broadcast: SQL condition on a row. Rows for which it holds go to `invoke_broadcast` of every subtask, all others
            to `invoke` of one; for a `BroadcastSinkFunction` only. Within a batch neither kind comes first.
    """

    function: SinkFunction[object]
    parallelism: int = 1
    broadcast: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.function, SinkFunction):
            raise errors.SpecRejectedError(
                "FunctionInvalid",
                f"FunctionSink takes an instance of a class that extends SinkFunction, not {self.function!r}.",
            )
        if isinstance(self.function, BroadcastSinkFunction) != (self.broadcast is not None):
            raise errors.SpecRejectedError(
                "FunctionInvalid",
                f"FunctionSink takes broadcast=<condition> with a BroadcastSinkFunction, and only with one; "
                f"{type(self.function).__qualname__} came with broadcast={self.broadcast!r}.",
            )
        require_parallelism(self.parallelism)


def require_parallelism(parallelism: object) -> None:
    """Refuse a number of subtasks that cannot be meant.

    Raises:
        SpecRejectedError: `ParallelismInvalid`.
    """
    if isinstance(parallelism, bool) or not isinstance(parallelism, int) or not 1 <= parallelism <= MAX_PARALLELISM:
        raise errors.SpecRejectedError(
            "ParallelismInvalid",
            f"A function cannot have parallelism {parallelism!r}; use a whole number from 1 to {MAX_PARALLELISM}.",
        )


def copies(prototype: F, parallelism: int, uid: str) -> tuple[F, ...]:
    """Return a copy of a function for each subtask; the prototype itself is never used.

    Raises:
        SpecRejectedError: `FunctionNotCopyable`.
    """
    try:
        return tuple(copy.deepcopy(prototype) for _ in range(parallelism))
    except Exception as error:
        raise errors.SpecRejectedError(
            "FunctionNotCopyable",
            f"The function {type(prototype).__qualname__} of {uid!r} cannot be copied for its subtasks ({error}); acquire "
            "files, sockets and locks in open() or initialize_state(), not in __init__().",
        ) from error
