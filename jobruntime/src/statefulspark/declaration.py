"""The declarations of a job file: queries, their outputs, and their functions.

This module imports nothing that runs a job, so a declaration can be read without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Literal, Union, get_args, overload

from typing_extensions import TypeVar

from statefulspark import durations, errors, parameters
from statefulspark.contract import layout
from statefulspark.hooks import HookDefinition
from statefulspark.parameters import ParametersClass
from statefulspark.sinks import base

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

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
    where: Column | str | None = None
    columns: tuple[str, ...] | None = None


QueryResult = Union["DataStreamWriter", Output, Sequence[Output]]
"""What a query function returns: a writer of Spark, an output, or several outputs of one stream."""
QueryFunction = Callable[["SparkSession", QueryContext[Any]], QueryResult]


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
    where: Column | str | None = None,
    columns: Sequence[str] | None = None,
) -> Output:
    """Connect a stream with a sink.

    A query function may return a list of outputs of one stream, each with its own sink. Spark computes the stream once, and
    each batch is committed for all sinks or for none. `df`, `output_mode` and `trigger` are the same in each of them.

    Args:
        df: A streaming DataFrame.
        sink: One of `ss.sinks`, or of your own; it receives each row exactly once. Rows are visible when a checkpoint covers
            them, or as its `visible` says.
        uid: Name of the sink, unique within its query; never changed afterwards.
        output_mode: Spark's output mode, with Spark's default. An aggregation without a watermark needs `update`, which
            writes each changed row again. Rows of keyed functions are the same in `append` and in `update`.
        trigger: Shortest time between two batches, for example `1s`; as fast as possible when omitted. With `AVAILABLE_NOW`
            the query ends when it has read what its sources have at the start.
        where: Condition on the rows, as in `DataFrame.where`; the sink gets the rows for which it is true.
        columns: Names of the columns that the sink gets, in this order; all when omitted.

    Returns:
        The output, which the query function returns, alone or in a list.

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
    chosen = None if columns is None else tuple(columns)
    return Output(df, base.machine_of(sink), require_uid(uid, "a sink"), output_mode, trigger, where, chosen)


@dataclass(frozen=True, slots=True)
class Selection:
    """What an output gets of its query's stream, by the positions of columns.

    Attributes:
        columns: The columns, in the order of the sink.
        condition: The column that says whether it gets a row; None if it gets every row.
    """

    columns: tuple[int, ...]
    condition: int | None = None


@dataclass(frozen=True, slots=True)
class QueryOutputs:
    """The outputs of a query: one stream, which Spark computes once, and a sink or several.

    Attributes:
        frame: The stream: the declared columns, then one for each condition of an output.
        outputs: The outputs; the first one's output mode and trigger are those of all.
        selections: What each of them gets; None for every row and column of the frame.
    """

    frame: DataFrame
    outputs: tuple[Output, ...]
    selections: tuple[Selection | None, ...]

    def schema_of(self, number: int) -> StructType:
        """Return the columns that an output gets."""
        from pyspark.sql.types import StructType

        schema, selection = self.frame.schema, self.selections[number]
        return schema if selection is None else StructType([schema.fields[position] for position in selection.columns])

    def writer(self, run: Callable[[DataFrame, int], None]) -> DataStreamWriter:
        """Return the writer of the query, which passes each batch and its number to a function."""
        first = self.outputs[0]
        writer = self.frame.writeStream.outputMode(first.output_mode).foreachBatch(run)
        match first.trigger:
            case None:
                return writer
            case TriggerMode.AVAILABLE_NOW:
                return writer.trigger(availableNow=True)
            case pause:
                return writer.trigger(processingTime=f"{pause // timedelta(milliseconds=1)} milliseconds")


def read_result(result: object, uid: str) -> DataStreamWriter | QueryOutputs:
    """Return what a query function has returned, once its outputs are known to fit one another.

    Args:
        result: The result.
        uid: The query's uid.

    Raises:
        SpecRejectedError: `QueryInvalid`.
    """
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    if isinstance(result, DataStreamWriter):
        return result
    outputs = (result,) if isinstance(result, Output) else tuple(result) if isinstance(result, list | tuple) else ()
    if not outputs or not all(isinstance(output, Output) for output in outputs):
        raise errors.SpecRejectedError(
            "QueryInvalid",
            f"The query {uid!r} returned {type(result).__name__}; return ss.write(...), a list of them, or a "
            "DataStreamWriter that is not started yet.",
        )
    for number, output in enumerate(outputs):
        _require_one_stream(output, outputs[:number], uid)
    return _of_one_stream(outputs, uid)


def outputs_of(written: Mapping[str, object]) -> tuple[tuple[str, Output], ...]:
    """Return every output with the uid of its query; a query that writes to a sink of Spark has none.

    Args:
        written: What each query writes, by its uid.
    """
    return tuple(
        (uid, output)
        for uid, of_query in written.items()
        if isinstance(of_query, QueryOutputs)
        for output in of_query.outputs
    )


def _require_one_stream(output: Output, others: Sequence[Output], uid: str) -> None:
    """Refuse an output that does not fit the ones before it."""
    from statefulspark.operatorstate.sink import DriverSink

    is_function = isinstance(output.sink, DriverSink)
    if is_function and (others or output.where is not None or output.columns is not None):
        raise errors.SpecRejectedError(
            "QueryInvalid",
            f"The sink function {output.uid!r} of the query {uid!r} must be the query's only output, without where= and "
            "columns=; give it a query of its own, or choose its rows with DataFrame.where(...).",
        )
    for other in others:
        if other.uid == output.uid:
            raise errors.SpecRejectedError(
                "QueryInvalid",
                f"The query {uid!r} has two outputs with the uid {output.uid!r}. A sink is found by its uid, so give each "
                "its own.",
            )
        differing = [
            name
            for name, is_same in (
                ("df", output.frame is other.frame),
                ("output_mode", output.output_mode == other.output_mode),
                ("trigger", output.trigger == other.trigger),
            )
            if not is_same
        ]
        if differing:
            raise errors.SpecRejectedError(
                "QueryInvalid",
                f"The outputs {other.uid!r} and {output.uid!r} of the query {uid!r} differ in {', '.join(differing)}. A "
                "query computes one stream: give both the same DataFrame, output_mode and trigger, and choose rows and "
                "columns with where= and columns= of ss.write. Or declare a query for each.",
            )


def _of_one_stream(outputs: tuple[Output, ...], uid: str) -> QueryOutputs:
    """Add a column for each condition to the stream of outputs that fit one another."""
    from pyspark.sql import functions as sql

    frame = outputs[0].frame
    names = frame.columns
    conditions: list[Column] = []
    selections: list[Selection | None] = []
    has_conditions = any(output.where is not None for output in outputs)
    for output in outputs:
        unknown = [name for name in output.columns or () if name not in names]
        if unknown or output.columns == ():
            raise errors.SpecRejectedError(
                "QueryInvalid",
                f"The output {output.uid!r} of the query {uid!r} has columns={list(output.columns or ())!r}; choose from "
                f"{', '.join(names)}.",
            )
        columns = tuple(map(names.index, names if output.columns is None else output.columns))
        if output.where is not None:
            condition = sql.expr(output.where) if isinstance(output.where, str) else output.where
            selections.append(Selection(columns, len(names) + len(conditions)))
            is_true = sql.coalesce(condition, sql.lit(False))  # noqa: FBT003 - Spark's signature
            conditions.append(is_true.alias(f"statefulspark_where_{len(conditions)}"))
        elif has_conditions or output.columns is not None:
            selections.append(Selection(columns))
        else:
            selections.append(None)
    return QueryOutputs(frame.select("*", *conditions) if conditions else frame, outputs, tuple(selections))
