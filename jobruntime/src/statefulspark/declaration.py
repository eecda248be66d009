"""The declarations of a job file: queries, their outputs, and their functions.

This module imports nothing that runs a job, so a declaration can be read without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Literal, get_args

from statefulspark import durations, errors
from statefulspark.contract import layout
from statefulspark.hooks import HookDefinition
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


@dataclass(frozen=True, slots=True)
class QueryContext:
    """The job that a query function belongs to.

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
            ParameterMissingError: `ParameterMissing`: it is required and not set.
        """
        value = self.parameters.get(name, default)
        if value is None:
            given = ", ".join(sorted(self.parameters)) or "none"
            raise errors.ParameterMissingError(
                "ParameterMissing",
                f"The job {self.job} needs the parameter {name!r}; given are: {given}. Set it in job.parameters, or with "
                f"--parameter {name}=VALUE.",
            )
        return value


@dataclass(frozen=True, slots=True)
class Output:
    """A stream and its sink, as `write` returns them; the runtime starts the query."""

    frame: DataFrame
    sink: TwoPhaseSink | DriverSink
    uid: str
    output_mode: str
    trigger: timedelta | TriggerMode | None


QueryFunction = Callable[["SparkSession", QueryContext], "DataStreamWriter | Output"]


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
    """

    queries: tuple[QueryDefinition, ...]
    hooks: tuple[HookDefinition, ...] = ()

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
        uid: Name of the sink in the job.
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
