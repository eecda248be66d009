"""Tests a whole job: its sources are fed, its output is read, and it is killed and started again, on real Spark.

The runtime is the product's, from the claim to the sink's second phase. Replaced are the two ends of each query: what a
source reads, and where its rows go.
"""

from __future__ import annotations

import functools
import runpy
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Self

from statefulspark import clock, durations, errors, launch, rowvalues, state_reading
from statefulspark.checkpoint import catalog
from statefulspark.contract import config
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.declaration import JobDefinition, Output, QueryContext, QueryDefinition, QueryFunction
from statefulspark.driver.starting import claim
from statefulspark.engine import tested
from statefulspark.job import Job
from statefulspark.operatorstate.sink import DriverSink
from statefulspark.planning import describe, fed_sources
from statefulspark.state import timers
from statefulspark.testing import drivers, feeding, outputs, sessions
from statefulspark.testing.failures import JobTestError
from statefulspark.testing.lives import KillPoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEVER = timedelta(days=365)
"""A checkpoint comes when the test asks for one."""
_TIMER_STATES = tuple(timers.meta_of(domain).name for domain in timers.TimeDomain)
_MS = timedelta(milliseconds=1)


class JobHarness:
    """A job with its storage, for one test; it runs from the beginning.

    Example:
        ```python
        job = job_harness("job.py")
        job.add({"customer": "ada", "amount": 2})
        job.run()
        job.kill()
        job.restart()
        assert job.output("totals") == [{"customer": "ada", "total": 2}]
        ```
    """

    def __init__(
        self,
        job: str | Path | Job,
        *,
        spark: SparkSession,
        folder: Path,
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        """Start a job with empty state.

        Args:
            job: A job file, which is run anew by each start; or a `Job`.
            spark: The session; `sessions.shared` has the settings of the runtime.
            folder: Empty folder, for state and output.
            parameters: The job's parameters, as text.

        Raises:
            StatefulSparkError: The job cannot start; what `statefulspark run` says.
            JobTestError: The file declares no job, or several; another job is running; or a query reads `ss.read_function`.
        """
        self._job, self._spark, self._folder = job, spark, folder
        self._parameters = dict(parameters or {})
        self._feed = feeding.Feed(folder / "sources")
        self._outputs: dict[str, tuple[Output, ...]] = {}
        self._driver: drivers.Driver | None = None
        self._now_ms: int | None = None
        self._start()

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources that can be fed."""
        return self._feed.names

    @property
    def restored_from(self) -> str | None:
        """The snapshot that the newest start has gone on from, in words; None after a first start."""
        return self._driver.restored_from if self._driver else None

    def add(self, *rows: Mapping[str, object], source: str | None = None) -> None:
        """Put rows into a source. They are one batch of each query that reads it, and wait for `run`.

        Args:
            rows: By column name, in the types of the source's columns; a column that is left out is null.
            source: Its name, one of `sources`; may be omitted if there is only one.

        Raises:
            JobTestError: There is no such source, or a row does not fit it.
        """
        self._feed.add(source, rows)

    def run(self, *, kill: KillPoint | str | None = None) -> None:
        """Let each query read what was added, a batch for each `add`, and commit.

        Args:
            kill: `before-commit` kills the job in the first batch that writes something.

        Raises:
            JobTestError: The job has ended, for example because a function raised; the message is the driver's.
        """
        driver = self._running()
        if kill is not None:
            driver.life.end_at(_point(kill, KillPoint.BEFORE_COMMIT))
            if not self._feed.has_waiting:
                raise JobTestError("No batch runs that could be killed; add rows before.")
        self._feed.release()
        if kill is not None:
            self._die(driver)
            return
        for uid, written in self._outputs.items():
            driver.settle(uid, shown=[output.uid for output in written if outputs.shows_batches(output)])

    def checkpoint(self, *, kill: KillPoint | str | None = None) -> None:
        """Complete a checkpoint; rows that it covers are visible when this returns.

        Args:
            kill: `before-checkpoint` kills the job before the manifest is written, `after-checkpoint` right after it.

        Raises:
            JobTestError: It failed, or the job has ended.
        """
        driver = self._running()
        if kill is not None:
            driver.life.end_at(_point(kill, KillPoint.BEFORE_CHECKPOINT, KillPoint.AFTER_CHECKPOINT))
        request = driver.request_checkpoint()
        if kill is None:
            driver.await_checkpoint(request)
        else:
            self._die(driver)

    def kill(self) -> None:
        """Kill the job where it is; what is on storage is all that is left."""
        self._running().kill()

    def stop(self) -> None:
        """End the job as Kubernetes does: it completes a checkpoint first."""
        self._running().drain()

    def restart(self, job: str | Path | Job | None = None) -> None:
        """Start the job again, from its newest state; it is killed before if it runs.

        Args:
            job: A changed version of it; the same one when omitted.

        Raises:
            StatefulSparkError: It cannot start, for example because it does not fit its state.
        """
        self.close()
        self._job = job or self._job
        self._start()

    def advance_time(self, by: timedelta | str) -> None:
        """Let processing time pass, for example `1h`, and run the timers that are due.

        From then on, the clock stands still between calls.
        """
        self._running()
        passed = durations.of(by, "time to pass")
        self._now_ms = (self._now_ms or timers.milliseconds(clock.utc_now())) + passed // _MS
        self._set_clocks()
        self.run()

    def advance_watermark(self, to: datetime, *, query: str | None = None) -> None:
        """Move the watermark, as rows with later times do, and run the timers and windows that are due.

        Args:
            to: Event time: a datetime with a time zone. A watermark never goes back.
            query: Uid of the query; may be omitted if there is only one.

        Raises:
            JobTestError: The query has no watermark, or has not run a batch yet.
        """
        uid = self._query(query)
        tested_query = self._running().query(uid)
        if not describe.has_watermark(self._outputs[uid][0].frame):
            raise JobTestError(f"The query {uid!r} has no watermark; it has none without withWatermark(...).")
        if "batchId" not in tested_query.newest_batch():
            raise JobTestError(f"The query {uid!r} has not run a batch since its start; add rows and run before.")
        tested_query.set_watermark(max(tested_query.watermark_ms, timers.milliseconds(to)))
        self.run()

    def output(self, query: str | None = None, *, sink: str | None = None) -> list[dict[str, object]]:
        """Return the rows that readers see: of a sink of `ss.write` when a checkpoint covers them, or as its `visible` says.

        Args:
            query: Uid of the query; may be omitted if there is only one.
            sink: Uid of the sink; may be omitted if the query has only one.

        Returns:
            Rows by column name, in the order of batches; within a batch, those of one key are in order.

        Raises:
            JobTestError: There is no such query or sink, or the sink is a function of the job.
        """
        uid = self._query(query)
        written = {output.uid: output for output in self._outputs[uid]}
        if sink is None and len(written) == 1:
            (sink,) = written
        if sink is None or sink not in written:
            raise JobTestError(
                f"The query {uid!r} has no sink {sink!r}; it has {', '.join(written)}. Name one of them."
            )
        if isinstance(written[sink].sink, DriverSink):
            raise JobTestError(
                f"The sink of {uid!r} is a function of the job (ss.sinks.DriverSink); look at what it has done."
            )
        return outputs.read(self._output_folder(uid) / sink)

    def state(self, uid: str, state: str | None = None, *, key: object = None) -> list[dict[str, object]]:
        """Return state as of the newest checkpoint; see `ss.read_state`.

        Args:
            uid: Uid of the operator or function.
            state: Name of the state; may be omitted if there is only one.
            key: Only this key.

        Raises:
            JobTestError: There is no checkpoint.
            InvalidArgumentError: `StateNotFound`.
        """
        store = claim.open_root(self._config(_job_of(self._job).name)).store
        taken = (ref for ref in catalog.list_snapshots(store) if ref.kind is SnapshotKind.CHECKPOINT)
        newest = next(taken, None)
        if newest is None:
            raise JobTestError("There is no checkpoint to read state from; call `checkpoint()` before.")
        chosen = None if key is None else str(key)
        table = state_reading.read_state(f"{store.uri}/{newest.folder}", uid=uid, state=state, key=chosen)
        return rowvalues.dicts(table)

    def timers(self, uid: str) -> list[tuple[object, datetime]]:
        """Return the timers of an operator as of the newest checkpoint: keys and moments, the next one first.

        Raises:
            JobTestError: There is no checkpoint, or the operator has no timers.
        """
        refused = []
        pending: list[tuple[object, datetime]] = []
        for name in _TIMER_STATES:
            try:
                rows = self.state(uid, name)
            except errors.SpecRejectedError as error:
                refused.append(error.message)
            else:
                for row in rows:
                    columns = tuple(value for name, value in row.items() if name.startswith("key_"))
                    pending.append((row.get("key", columns), timers.moment(int(str(row["entry"])))))
        if len(refused) == len(_TIMER_STATES):
            raise JobTestError(f"{uid!r} has no timers: {refused[0]}")
        return sorted(pending, key=lambda timer: (timer[1], str(timer[0])))

    def __enter__(self) -> Self:
        """Return the harness; the end of the block closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Kill the job if it runs."""
        if self._driver is not None:
            self._driver.kill()

    # A start

    def _running(self) -> drivers.Driver:
        if self._driver is None or self._driver.life.over.is_set():
            raise JobTestError("The job does not run; start it again with `restart()`.")
        self._driver.require_running()
        return self._driver

    def _start(self) -> None:
        job = _job_of(self._job)
        self._outputs = {}
        for query in job.queries:
            tested.send_by_value(query.function.__module__)
        queries = tuple(QueryDefinition(query.uid, self._replaced(query)) for query in job.queries)
        definition = JobDefinition(queries, job.hooks, job.definition.parameters)
        try:
            self._driver = drivers.Driver(definition, self._config(job.name), self._spark)
        except errors.UserCodeError as error:
            if isinstance(error.raised, fed_sources.UnfeedableError):
                raise JobTestError(str(error.raised)) from error
            raise
        self._set_clocks()

    def _set_clocks(self) -> None:
        if self._driver is not None and self._now_ms is not None:
            for uid in self._outputs:
                self._driver.query(uid).set_clock(self._now_ms)

    def _replaced(self, query: QueryDefinition) -> QueryFunction:
        """Return the function of a query with other ends."""

        def function(spark: SparkSession, ctx: QueryContext) -> tuple[Output, ...]:
            written = outputs.replaced(query.function(spark, ctx), query.uid, self._output_folder(query.uid))
            folder_of = functools.partial(self._feed.folder_of, query.uid)
            frame, sources = fed_sources.replace(written[0].frame, query.uid, folder_of)
            self._feed.use(query.uid, sources)
            self._outputs[query.uid] = tuple(replace(output, frame=frame) for output in written)
            return self._outputs[query.uid]

        return function

    def _config(self, name: str) -> config.JobConfig:
        return config.JobConfig(
            name=name,
            storage=config.StorageConfig(uri=(self._folder / "storage").as_uri(), allow_local_files=True),
            checkpoint=config.CheckpointConfig(interval=_NEVER, min_pause=_NEVER),
            engine=config.EngineConfig(conf=sessions.CONF),
            parameters=self._parameters,
        )

    # A death

    def _die(self, driver: drivers.Driver) -> None:
        """Wait until the life of the driver has ended, and let everything end with it."""
        driver.until(driver.life.over.is_set, "the job got to the point where it is killed")
        driver.kill()

    # Places

    def _query(self, uid: str | None) -> str:
        if uid is None and len(self._outputs) == 1:
            return next(iter(self._outputs))
        if uid is None or uid not in self._outputs:
            raise JobTestError(f"The job has no query {uid!r}; it has {', '.join(self._outputs)}. Name one of them.")
        return uid

    def _output_folder(self, query: str) -> Path:
        return self._folder / "output" / query


def _point(kill: KillPoint | str, *allowed: KillPoint) -> KillPoint:
    if kill in tuple(allowed):
        return KillPoint(kill)
    raise JobTestError(
        f"kill={str(kill)!r} is no moment of this call; use {' or '.join(repr(str(at)) for at in allowed)}."
    )


def _job_of(given: str | Path | Job) -> Job:
    """Return the job that is given, or the one that a file declares; the file runs as when it is imported.

    Raises:
        JobTestError: The file declares no job, or several.
    """
    if isinstance(given, Job):
        return given
    file = Path(given).absolute()
    launch.parse(file)
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    declared = runpy.run_path(str(file), run_name=file.stem)
    jobs = list({id(value): value for value in declared.values() if isinstance(value, Job)}.values())
    if len(jobs) != 1:
        raise JobTestError(f"The file {file} declares {len(jobs)} jobs; give `ss.Job` a name in it, once.")
    return jobs[0]
