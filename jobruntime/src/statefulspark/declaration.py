"""The declarations of a job file: queries, their outputs, and their functions.

This module imports nothing that runs a job, so a declaration can be read without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Literal, get_args, overload

from typing_extensions import TypeVar

from statefulspark import durations, errors, parameters
from statefulspark.contract import layout
from statefulspark.hooks import HookDefinition
from statefulspark.parameters import ParametersClass
from statefulspark.sinks import base

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from statefulspark.operatorstate.sink import DriverSink
    from statefulspark.sinks.base import Sink, TwoPhaseSink


OutputMode = Literal["append", "update", "complete"]


class TriggerMode(Enum):
    """When a query plans batches, other than by a duration."""

    AVAILABLE_NOW = "available-now"
    """Until it has read what its sources had at the start; then it ends."""


AVAILABLE_NOW = TriggerMode.AVAILABLE_NOW
"""A `trigger` of `write`: the query reads what its sources have at the start, in as many batches as their limits need, and
ends. When all queries have ended, the job completes a last checkpoint and ends with exit code 0."""


def require_uid(uid: str, what: str) -> str:
    """Return the uid if it is valid.

    Args:
        uid: The uid that the user gave.
        what: The object that has the uid, for the error.

    Raises:
        InvalidArgumentError: `UidInvalid`.
    """
    if not layout.is_uid(uid):
        raise errors.InvalidArgumentError(
            "UidInvalid",
            f"The uid {uid!r} of {what} must be 1 to 63 characters of a-z, 0-9, '-' and '_', starting and ending with a "
            "letter or digit; state is found by this name, so it must never change.",
        )
    return uid


Parameters = TypeVar("Parameters", default=Mapping[str, str])
Value = TypeVar("Value", str, bool, int, float, Decimal, timedelta, datetime)


@dataclass(frozen=True)
class QueryContext(Generic[Parameters]):
    """The job that a query function belongs to.

    Attributes:
        job: Name of the job.
        namespace: Its namespace.
        parameters: The job's parameters, from the resource or the command line: an instance of the class that
            `job.parameters` declares. Without a declaration they are text by name.
    """

    job: str
    namespace: str
    parameters: Parameters

    @overload
    def parameter(self, name: str) -> str: ...
    @overload
    def parameter(self, name: str, default: Value) -> Value: ...
    def parameter(self, name: str, default: object = None) -> object:
        """Return one parameter of a job that declares none with `job.parameters`.

        Args:
            name: Its name.
            default: Value when it is not set, and its type: text, bool, int, float, Decimal, timedelta or an aware
                datetime. Without a default the parameter is text, and required.

        Raises:
            ParameterMissingError: `ParameterMissing`: it is required and not set.
            InvalidArgumentError: `ParametersInvalid`: its text does not fit the type of the default, or the job declares its
                parameters.
        """
        given = self.parameters
        if not isinstance(given, Mapping):
            raise errors.InvalidArgumentError(
                "ParametersInvalid",
                f"The job {self.job} declares its parameters as {type(given).__name__}; read ctx.parameters.{name}.",
            )
        if name in given:
            return parameters.converted(name, given[name], "" if default is None else default)
        if default is None:
            names = ", ".join(sorted(given)) or "none"
            raise errors.ParameterMissingError(
                "ParameterMissing",
                f"The job {self.job} needs the parameter {name!r}; given are: {names}. Set it in job.parameters, or with "
                f"--parameter {name}=VALUE.",
            )
        return default


@dataclass(frozen=True, slots=True)
class Output:
    """A stream and its sink, as `write` returns them; the runtime starts the query."""

    frame: DataFrame
    sink: TwoPhaseSink | DriverSink
    uid: str
    output_mode: str
    trigger: timedelta | TriggerMode | None


QueryFunction = Callable[["SparkSession", QueryContext[Any]], "DataStreamWriter | Output"]


@dataclass(frozen=True, slots=True)
class QueryDefinition:
    """One query of the job, under its uid."""

    uid: str
    function: QueryFunction


@dataclass(frozen=True, slots=True)
class JobDefinition:
    """All declarations of a job file.

    Attributes:
        queries: The queries, in the order of their declaration.
        hooks: The master hooks, in the order of their declaration.
        parameters: The class of its parameters; None if it declares none.
    """

    queries: tuple[QueryDefinition, ...]
    hooks: tuple[HookDefinition, ...] = ()
    parameters: ParametersClass | None = None

    def context(self, job: str, namespace: str, given: Mapping[str, str]) -> QueryContext[Any]:
        """Return what its query functions get.

        Args:
            job: Name of the job.
            namespace: Its namespace.
            given: The text of each parameter that is set.

        Raises:
            InvalidArgumentError: `ParametersInvalid`.
        """
        declared = self.parameters
        return QueryContext(job, namespace, given if declared is None else parameters.read(declared, given, job))

    @property
    def query_uids(self) -> tuple[str, ...]:
        """The uids of the queries, in the order of their declaration."""
        return tuple(query.uid for query in self.queries)


def write(
    df: DataFrame,
    *,
    sink: Sink | TwoPhaseSink | DriverSink,
    uid: str,
    output_mode: OutputMode = "append",
    trigger: str | timedelta | TriggerMode | None = None,
) -> Output:
    """Connect a stream with a sink.

    Args:
        df: A streaming DataFrame.
        sink: One of `ss.sinks`, or of your own; it receives each row exactly once. Rows are visible when a checkpoint covers
            them, or as its `visible` says.
        uid: Name of the sink, unique within its query; never changed afterwards.
        output_mode: Spark's output mode, with Spark's default. An aggregation without a watermark needs `update`, which
            writes each changed row again. Rows of keyed functions are the same in `append` and in `update`.
        trigger: Shortest time between two batches, for example `1s`; as fast as possible when omitted. With `AVAILABLE_NOW`
            the query ends when it has read what its sources have at the start.

    Returns:
        The output, which the query function returns.

    Raises:
        InvalidArgumentError: `UidInvalid`, `OutputModeInvalid`, `DurationInvalid`.
    """
    if output_mode not in get_args(OutputMode):
        raise errors.InvalidArgumentError(
            "OutputModeInvalid",
            f"The sink {uid!r} has output_mode={output_mode!r}; use one of {', '.join(map(repr, get_args(OutputMode)))}.",
        )
    if trigger is not None and not isinstance(trigger, TriggerMode):
        trigger = durations.of(trigger, f"trigger of the sink {uid!r}")
    return Output(df, base.machine_of(sink), require_uid(uid, "a sink"), output_mode, trigger)


def batch_writer(output: Output, run: Callable[[DataFrame, int], None]) -> DataStreamWriter:
    """Return the writer of a query that passes each batch to a function.

    Args:
        output: What the query function has returned.
        run: Gets each batch and its number.
    """
    writer = output.frame.writeStream.outputMode(output.output_mode).foreachBatch(run)
    match output.trigger:
        case None:
            return writer
        case TriggerMode.AVAILABLE_NOW:
            return writer.trigger(availableNow=True)
        case pause:
            return writer.trigger(processingTime=f"{pause // timedelta(milliseconds=1)} milliseconds")
