"""What a user declares: a job and its queries.

A job is one driver process with one or more streaming queries. A query function returns what to write; the runtime owns
the checkpoint location, start, stop and restore. This module knows no Spark: a job file can be read, and its queries
listed, without an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from statefulspark import errors, launch
from statefulspark.contract import layout
from statefulspark.hooks import DEFAULT_TIMEOUT_S, HookDefinition, MasterHook

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from statefulspark.opstate.sink import FunctionSink
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


class Job:
    """A streaming job: a name and its queries.

    Example:
        ```python
        job = ss.Job("words")

        @job.query(uid="counts")
        def counts(spark, ctx):
            return ss.write(..., sink=ss.FilesSink(ctx.parameter("output")), uid="out")

        job.run()
        ```
    """

    def __init__(self, name: str) -> None:
        """Name the job; the resource's name, or `--name`, wins over this one when it runs."""
        self.name = require_uid(name, "the job")
        self._queries: dict[str, QueryDefinition] = {}
        self._hooks: dict[str, HookDefinition] = {}

    @property
    def queries(self) -> tuple[QueryDefinition, ...]:
        """The queries in the order of their declaration."""
        return tuple(self._queries.values())

    def query(self, *, uid: str) -> Callable[[QueryFunction], QueryFunction]:
        """Declare a query by decorating the function that builds it.

        Args:
            uid: Name under which the query's state is kept; unique in the job and never changed afterwards.

        Raises:
            SpecRejectedError: `UidInvalid` or `UidDuplicate`.
        """
        require_uid(uid, "a query")
        if uid in self._queries:
            raise errors.SpecRejectedError(
                "UidDuplicate", f"Two queries of the job {self.name} have the uid {uid!r}; give each its own."
            )

        def declare(function: QueryFunction) -> QueryFunction:
            self._queries[uid] = QueryDefinition(uid, function)
            return function

        return declare

    @property
    def hooks(self) -> tuple[HookDefinition, ...]:
        """The master hooks in the order of their declaration."""
        return tuple(self._hooks.values())

    def hook(self, hook: MasterHook, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> MasterHook:
        """Let something outside take part in every checkpoint: it is asked first, and restored with what it answered.

        Args:
            hook: What to ask.
            timeout_s: How long an answer may take; after that the checkpoint is declined.

        Returns:
            The hook.

        Raises:
            SpecRejectedError: `HookInvalid`, `UidInvalid`, or `UidDuplicate` for its identifier.
        """
        if not isinstance(hook, MasterHook):
            raise errors.SpecRejectedError(
                "HookInvalid", f"job.hook takes an instance of a class that extends ss.MasterHook, not {hook!r:.100}."
            )
        if isinstance(timeout_s, bool) or timeout_s <= 0:
            raise errors.SpecRejectedError(
                "HookInvalid", f"A master hook cannot have {timeout_s!r} seconds to answer; give it more than 0."
            )
        identifier = require_uid(hook.identifier, "a master hook")
        if identifier in self._hooks:
            raise errors.SpecRejectedError(
                "UidDuplicate",
                f"Two master hooks of the job {self.name} are called {identifier!r}; give each its own name.",
            )
        self._hooks[identifier] = HookDefinition(identifier, hook, timeout_s)
        return hook

    def run(self) -> None:
        """Run the job until it ends, then end the process with one of `contract.exit_codes`.

        Configuration comes from `statefulspark run`, or from the file named by `STATEFULSPARK_CONFIG`.

        Raises:
            SystemExit: Always; the code says how the job ended.
        """
        from statefulspark.spark import check, driver

        def work() -> int:
            job_config = launch.current_config(self.name)
            report = launch.asked_report()
            return check.check(self, job_config, check.ReportFormat(report)) if report else driver.run(self, job_config)

        raise launch.DriverEnded(work() if launch.is_guarded() else launch.run_alone(work))


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
