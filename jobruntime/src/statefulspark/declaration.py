"""What a job file declares: queries, what they write, and what is called in them.

Everything that runs a job stands above this module, and it knows none of it: a declaration can be read without an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.hooks import HookDefinition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from statefulspark.operatorstate.sink import FunctionSink
    from statefulspark.sinks.base import TwoPhaseSink


def require_uid(uid: str, what: str) -> str:
    """Return the uid if it can name state for years.

    Args:
        uid: Given by the user.
        what: What it is the uid of, for the error.

    Raises:
        SpecRejectedError: `UidInvalid`.
    """
    if not layout.is_uid(uid):
        raise errors.SpecRejectedError(
            "UidInvalid",
            f"The uid {uid!r} of {what} must be 1 to 63 characters of a-z, 0-9, '-' and '_', starting and ending with a "
            "letter or digit; state is found again by this name, so choose it once.",
        )
    return uid


@dataclass(frozen=True, slots=True)
class QueryContext:
    """What a query function is told about the job it runs in.

    Attributes:
        job: Name of the job.
        namespace: Its namespace.
        parameters: The job's parameters, from the resource or the command line.
    """

    job: str
    namespace: str
    parameters: Mapping[str, str]

    def parameter(self, name: str, default: str | None = None) -> str:
        """Return one parameter.

        Args:
            name: Its name.
            default: Value when it is not set; None makes it required.

        Raises:
            SpecRejectedError: `ParameterMissing`: it is required and not set.
        """
        value = self.parameters.get(name, default)
        if value is None:
            given = ", ".join(sorted(self.parameters)) or "none"
            raise errors.SpecRejectedError(
                "ParameterMissing",
                f"The job {self.job} needs the parameter {name!r}; given are: {given}. Set it in job.parameters, or with "
                f"--parameter {name}=VALUE.",
            )
        return value


@dataclass(frozen=True, slots=True)
class Output:
    """A stream and the sink it goes to, as `write` returns it; the runtime starts it."""

    frame: DataFrame
    sink: TwoPhaseSink | FunctionSink
    uid: str
    mode: str
    trigger: str | None


QueryFunction = Callable[["SparkSession", QueryContext], "DataStreamWriter | Output"]


@dataclass(frozen=True, slots=True)
class QueryDefinition:
    """One query of the job, under its uid."""

    uid: str
    function: QueryFunction


@dataclass(frozen=True, slots=True)
class JobDefinition:
    """What a job file declares, whole.

    Attributes:
        queries: In the order of their declaration.
        hooks: The master hooks, in the order of their declaration.
    """

    queries: tuple[QueryDefinition, ...]
    hooks: tuple[HookDefinition, ...] = ()

    @property
    def query_uids(self) -> tuple[str, ...]:
        """The uids of the queries, in the order of their declaration."""
        return tuple(query.uid for query in self.queries)


def write(
    frame: DataFrame, *, sink: TwoPhaseSink | FunctionSink, uid: str, mode: str = "update", trigger: str | None = None
) -> Output:
    """Say where a stream goes.

    Args:
        frame: A streaming DataFrame.
        sink: Where its rows go, exactly once, and visible when a checkpoint covers them.
        uid: Name of the sink in the job.
        mode: Spark's output mode; `append` where an operator demands it (stream-stream joins, some windows).
        trigger: Shortest time between two batches, for example `1 second`; as fast as possible when omitted.

    Returns:
        What a query function returns.

    Raises:
        SpecRejectedError: `UidInvalid`.
    """
    return Output(frame, sink, require_uid(uid, "a sink"), mode, trigger)
