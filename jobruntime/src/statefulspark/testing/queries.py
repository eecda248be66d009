"""Tests a query: a function from streams to a stream, on real Spark, with the state and the checkpoints of a job."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Self

from statefulspark.engine import tested
from statefulspark.job import Job
from statefulspark.planning import source_names
from statefulspark.testing.failures import JobTestError
from statefulspark.testing.jobs import JobHarness
from statefulspark.testing.lives import KillPoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from statefulspark.declaration import OutputMode, QueryContext

_UID = "query"


class QueryHarness:
    """A query with its state, for one test; it is used as a `KeyedHarness` is, and needs Spark.

    Example:
        ```python
        alerts = query_harness(alerts_of, "card string, country string, time timestamp")
        assert alerts.feed({"card": "c", "country": "AT", "time": noon}) == []
        alerts.restart()
        ```
    """

    def __init__(
        self,
        function: Callable[..., DataFrame],
        *schemas: str,
        spark: SparkSession,
        folder: Path,
        output_mode: OutputMode = "append",
    ) -> None:
        """Start a query with empty state.

        Args:
            function: Takes one streaming DataFrame for each schema, and returns what is written.
            schemas: Their columns, as Spark writes them: `card string, time timestamp`. Each is a source, under the name of
                the function's parameter.
            spark: The session; `sessions.shared` has the settings of the runtime.
            folder: Empty folder, for state and output.
            output_mode: As for `write`.

        Raises:
            StatefulSparkError: The query cannot start.
        """
        self._schemas, self._output_mode, self._folder = schemas, output_mode, folder
        self._seen = 0
        self._job = JobHarness(self._job_of(function), spark=spark, folder=folder)

    def feed(self, *rows: Mapping[str, object], source: str | None = None) -> list[dict[str, object]]:
        """Run one batch with these rows, and fire the timers that are due.

        Args:
            rows: By column name, in the types of the schema; a column that is left out is null.
            source: Which source gets them, by the name of the function's parameter; may be omitted if there is only one.

        Returns:
            The rows that the query writes, by column name. Those of one key are in order.

        Raises:
            JobTestError: The query has ended, for example because a function raised; the message is the driver's.
        """
        self._job.add(*rows, source=source)
        return self.run()

    def add(self, *rows: Mapping[str, object], source: str | None = None) -> None:
        """Put rows into a source; they wait for `run`, so that a batch has rows of several sources."""
        self._job.add(*rows, source=source)

    def run(self, *, kill: KillPoint | str | None = None) -> list[dict[str, object]]:
        """Read what was added, and return what is written; see `JobHarness.run`."""
        self._job.run(kill=kill)
        return self._new_rows()

    def advance_time(self, by: timedelta | str) -> list[dict[str, object]]:
        """Let processing time pass; returns what due timers write."""
        self._job.advance_time(by)
        return self._new_rows()

    def advance_watermark(self, to: datetime) -> list[dict[str, object]]:
        """Move the watermark, as rows with later times do; returns what due timers and windows write."""
        self._job.advance_watermark(to)
        return self._new_rows()

    def restart(self, function: Callable[..., DataFrame] | None = None) -> None:
        """Kill the query if it runs, and start it from what is stored.

        Args:
            function: A changed version; the same one when omitted.
        """
        self._job.restart(None if function is None else self._job_of(function))

    def checkpoint(self, *, kill: KillPoint | str | None = None) -> None:
        """Complete a checkpoint; see `JobHarness.checkpoint`."""
        self._job.checkpoint(kill=kill)

    def state(self, uid: str, state: str | None = None, *, key: object = None) -> list[dict[str, object]]:
        """Return state as of the newest checkpoint; see `JobHarness.state`."""
        return self._job.state(uid, state, key=key)

    def timers(self, uid: str) -> list[tuple[object, datetime]]:
        """Return timers as of the newest checkpoint; see `JobHarness.timers`."""
        return self._job.timers(uid)

    def __enter__(self) -> Self:
        """Return the harness; the end of the block closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """End the query if it runs."""
        self._job.close()

    def _new_rows(self) -> list[dict[str, object]]:
        rows = self._job.output()
        new, self._seen = rows[self._seen :], len(rows)
        return new

    def _job_of(self, function: Callable[..., DataFrame]) -> Job:
        names = list(inspect.signature(function).parameters)[: len(self._schemas)]
        if not names or len(names) != len(self._schemas):
            raise JobTestError(
                f"{function!r} takes {len(names)} streams, and {len(self._schemas)} schemas were given; give one for each."
            )
        tested.send_by_value(function.__module__)
        job, output_mode, inputs = Job("tested-query"), self._output_mode, dict(zip(names, self._schemas, strict=True))

        @job.query(uid=_UID)
        def query(spark: SparkSession, ctx: QueryContext) -> DataStreamWriter:
            streams = []
            for name, schema in inputs.items():
                folder = self._folder / "inputs" / name  # never read: the source is replaced
                folder.mkdir(parents=True, exist_ok=True)
                stream = spark.readStream.schema(schema).parquet(folder.as_uri())
                streams.append(source_names.named_source(stream, uid=name))
            return function(*streams).writeStream.outputMode(output_mode).format("noop")

        return job
