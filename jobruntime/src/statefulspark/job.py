"""The job that a user declares: a name, its queries and its hooks.

A job is one driver process with one or more streaming queries. A query function returns what to write; the runtime manages
the checkpoint location, start, stop and restore. A job file can be loaded, and its queries listed, without Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import statefulspark
from statefulspark import durations, errors, launch, librarycalls, parameters
from statefulspark.declaration import JobDefinition, QueryDefinition, QueryFunction, require_uid
from statefulspark.hooks import DEFAULT_TIMEOUT, HookDefinition, MasterHook

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Job:
    """A streaming job: a name and its queries.

    Example:
        ```python
        job = ss.Job("words")

        @job.query(uid="counts")
        def counts(spark, ctx):
            lines = spark.readStream.text(ctx.parameter("input"))
            words = lines.selectExpr("explode(split(value, ' ')) AS word").groupBy("word").count()
            return ss.write(words, sink=ss.sinks.FilesSink(ctx.parameter("output")), uid="out", output_mode="update")

        if __name__ == "__main__":
            job.run()
        ```
    """

    def __init__(self, name: str) -> None:
        """Name the job; the resource's name, or `--name`, overrides this name when the job runs."""
        self.name = require_uid(name, "the job")
        self._queries: dict[str, QueryDefinition] = {}
        self._hooks: dict[str, HookDefinition] = {}
        self._parameters: parameters.ParametersClass | None = None

    @property
    def queries(self) -> tuple[QueryDefinition, ...]:
        """The queries in the order of their declaration."""
        return tuple(self._queries.values())

    @property
    def definition(self) -> JobDefinition:
        """The declared queries, hooks and parameters, for the driver."""
        return JobDefinition(self.queries, self.hooks, self._parameters)

    def parameters(self, kind: type[T]) -> type[T]:
        """Declare the job's parameters as a class: each field is a parameter, with its type and its default.

        A field is text, bool, int, float, Decimal, a duration as in the resource (timedelta), a moment with a time zone
        (datetime), an Enum, a Literal, or a list or tuple of one of them, which are written with commas. `T | None` with the
        default None is a parameter that may be absent. What is missing, unknown or of another type is refused before Spark
        starts.

        Args:
            kind: A dataclass or a pydantic model.

        Returns:
            The class.

        Raises:
            InvalidTypeError: `ParametersInvalid`: it is none, or text cannot become the type of a field.
        """
        self._parameters = parameters.declare(kind)
        return kind

    def query(self, *, uid: str) -> Callable[[QueryFunction], QueryFunction]:
        """Declare a query by decorating the function that builds it.

        Args:
            uid: Name under which the query's state is stored; unique in the job, and never changed afterwards.

        Raises:
            InvalidArgumentError: `UidInvalid` or `UidDuplicate`.
        """
        require_uid(uid, "a query")
        # In a notebook the cell of a query is run again after each change.
        if uid in self._queries and not launch.is_interactive():
            raise errors.InvalidArgumentError(
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

    def hook(self, hook: MasterHook, *, timeout: timedelta | str = DEFAULT_TIMEOUT) -> MasterHook:
        """Register a master hook: an external system that takes part in every checkpoint, and is restored from it.

        Args:
            hook: The hook.
            timeout: Longest duration of a call, for example `10s`; after that the checkpoint is declined.

        Returns:
            The hook.

        Raises:
            InvalidTypeError: `HookInvalid`: it is no hook.
            InvalidArgumentError: `HookInvalid`, `DurationInvalid`, `UidInvalid`, or `UidDuplicate` for its uid.
        """
        if not isinstance(hook, MasterHook):
            raise errors.InvalidTypeError(
                "HookInvalid",
                f"job.hook takes an instance of a class that extends ss.driver.MasterHook, not {hook!r:.100}.",
            )
        longest = durations.of(timeout, "timeout of a master hook")
        if not longest:
            raise errors.InvalidArgumentError(
                "HookInvalid", "A master hook cannot have no time to answer; give it a longer timeout than 0."
            )
        uid = require_uid(hook.uid, "a master hook")
        if uid in self._hooks:
            raise errors.InvalidArgumentError(
                "UidDuplicate",
                f"Two master hooks of the job {self.name} have the uid {uid!r}; give each its own.",
            )
        self._hooks[uid] = HookDefinition(uid, hook, longest)
        return hook

    def run(self) -> None:
        """Run the job in the foreground until it ends, say why it ended, and end the process with that exit code.

        Configuration comes from `statefulspark run`, or from the file named by `STATEFULSPARK_CONFIG`. Without either, as
        with `python job.py` or in a notebook, state is kept in `.statefulspark` beside the job file, for development.

        In a REPL and in a notebook the process goes on, and this returns. While the job file is imported, for example
        by a test, nothing is run, so that `if __name__ == "__main__":` before it is good style and no necessity.

        Raises:
            SystemExit: The job has ended; the code, one of `contract.exit_codes`, says how.
        """
        if not launch.is_guarded() and launch.is_being_imported():
            _log.warning("the job is not run, because its file is being imported", extra={"job": self.name})
            return
        from statefulspark.engine import session, settings
        from statefulspark.server import certificate, tokens

        def work() -> int:
            job_config = launch.current_config(self.name)
            report = launch.requested_report()
            definition = self.definition
            definition.context(job_config.name, job_config.namespace, job_config.parameters)
            settings.require_startable(job_config)
            if job_config.api_tls is not None:
                certificate.require_usable(job_config.api_tls)
            if job_config.api_token_file is not None:
                tokens.require_usable(job_config.api_token_file)
            if definition.queries:
                session.begin(job_config, settings.storage_options(job_config.storage))
            # This import takes about a second, during which Spark starts.
            from statefulspark.driver.starting import check, standby, start

            # Calls of this library in the files of the query functions that would raise once Spark is up.
            codes = (getattr(query.function, "__code__", None) for query in self.queries)
            for file in dict.fromkeys(Path(code.co_filename) for code in codes if code is not None):
                if file.is_file():
                    librarycalls.refuse_wrong(launch.parse(file), file, statefulspark)
            if report:
                return check.check(definition, job_config, check.ReportFormat(report))
            if launch.requested_role() is launch.Role.STANDBY:
                return standby.run(definition, job_config)
            return start.run(definition, job_config)

        if launch.is_guarded():
            raise launch.DriverEnded(launch.guard(work))
        exit_code = launch.run_alone(work)
        if not launch.is_interactive():
            raise launch.DriverEnded(exit_code)
