"""The running queries of a job: their start, their state at the gate and their progress in Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from statefulspark import clock, failures, threads, usercode
from statefulspark.contract import api, faults, observations
from statefulspark.driver.running import source_lag
from statefulspark.engine.jvm import Gate, GateFact
from statefulspark.operators.keyed import counting

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

SLOW_START_PAUSES_S = (0.0, 1.0, 2.0, 4.0, 8.0)
"""Pauses before each restart of a query whose Python worker was too slow, which give a busy node time. A node that is too
busy this often without a batch in between has another problem."""

MAX_LOST_RACES = 2
"""An older driver can win one race for a batch before it is fenced; more losses have another cause."""

MAX_REPEATED_STAGES = 3
"""How often a batch runs again because an executor was lost in it; a driver that loses one each time has another problem."""

LONG_BATCH_S = 10.0
"""A batch that has been running for longer is looked into."""

LOST_INPUT_PAUSE_S = 5.0
"""Pause before the one restart of a query whose rows Kafka does not have; a broker that has just started may not know."""

_log = logging.getLogger(__name__)

_NO_BATCH = observations.BatchReport(batch_id=-1, duration_ms=0, input_rows=0, rows_per_second=0.0)


@dataclass(frozen=True, slots=True)
class CheckpointLocation:
    """The checkpoint location of a query."""

    uid: str
    path: str
    """The path below the job's root on storage, as manifests name it."""
    root: str
    """The same location as a Hadoop URI, as Spark and the gate name it."""


class _BatchProgress(Protocol):
    """Spark's progress of a batch (`StreamingQueryProgress`)."""

    def batchId(self) -> int: ...  # noqa: N802 - Spark's names
    def timestamp(self) -> str: ...
    def batchDuration(self) -> int: ...  # noqa: N802
    def numInputRows(self) -> int: ...  # noqa: N802
    def processedRowsPerSecond(self) -> float: ...  # noqa: N802


@dataclass(slots=True)
class _Progress:
    input_rows: int = 0
    batches: tuple[observations.BatchReport, ...] = ()
    """The newest ones, oldest first; replaced whole, because another thread reads it."""
    sources: tuple[api.SourceStatus, ...] = ()
    """Those of the newest batch."""

    @property
    def newest(self) -> observations.BatchReport:
        return self.batches[-1] if self.batches else _NO_BATCH

    def add(self, batch: observations.BatchReport, sources: tuple[api.SourceStatus, ...]) -> None:
        self.input_rows += batch.input_rows
        self.sources = sources
        self.batches = (*self.batches, batch)[-observations.RETAINED_BATCHES :]


@dataclass(frozen=True, slots=True)
class AlternativeStarts:
    """Other ways to start a query than to run it without end; see `quiesce`."""

    available_now: Callable[[], StreamingQuery]
    """Reads what its sources have now, and ends."""
    held: Callable[[], StreamingQuery]
    """Runs a batch that is already planned, behind a gate that is closed from the beginning."""
    has_event_time: bool = True
    """Whether the query has a watermark."""


@dataclass(slots=True)
class RunningQuery:
    """One started query; `refresh` updates its state."""

    location: CheckpointLocation
    start: Callable[[], StreamingQuery]
    handle: StreamingQuery
    fact: GateFact
    alternatives: AlternativeStarts | None = None
    is_held: bool = False
    """Whether it was started to run a batch that ends event time, which an earlier driver had planned."""
    on_lost: Callable[[int], None] = lambda committed: None
    """Called when an older driver has committed the batch first, with the last batch that this one has committed."""
    survives_lost_races: bool = True
    """Whether it may go on after a batch that an older driver has committed first: no function remembers that batch."""
    active: bool = True
    error: str | None = None
    slow_starts: int = 0
    lost_races: int = 0
    lost_inputs: int = 0
    repeated_stages: int = 0
    missing_files: int = 0
    """Input files that were gone before they were read, since this driver started."""
    begin: Callable[[], StreamingQuery] = field(init=False)
    """How it was started last, and how it is restarted."""
    restarts: int = 0
    """How often it was started again after a failure that passes."""
    last_error: api.JobError | None = None
    """Its newest failure, also if it runs again."""
    starts_at_s: float | None = None
    """When it is restarted, on the monotonic clock; None while it runs or has ended."""
    _progress: _Progress = field(default_factory=_Progress)
    _batch_since: datetime | None = None
    _stage: str | None = None

    def __post_init__(self) -> None:
        self.begin = self.alternatives.held if self.is_held and self.alternatives else self.start

    @property
    def uid(self) -> str:
        """The query's uid."""
        return self.location.uid

    @property
    def committed_batch(self) -> int:
        """Last committed batch; -1 before the first."""
        return self.fact.last_committed

    @property
    def is_starting(self) -> bool:
        """Whether it waits for its restart."""
        return self.starts_at_s is not None

    @property
    def is_at_boundary(self) -> bool:
        """Whether no batch is under way and none can begin."""
        return (self.fact.at_boundary or not self.active) and not self.is_starting

    def refresh(self, fact: GateFact) -> bool:
        """Update the state from the gate and Spark, and restart the query when it is due.

        Returns:
            Whether it was restarted, behind an open gate.
        """
        if fact.last_committed > self.fact.last_committed:
            self.slow_starts = self.lost_inputs = self.repeated_stages = 0
        if fact.last_offsets <= fact.last_committed:
            self._batch_since = None
        elif self._batch_since is None or fact.last_committed > self.fact.last_committed:
            self._batch_since = clock.utc_now()
        self._note_missing_files(fact)
        self.fact = fact
        if not self.is_starting:
            self._refresh_handle()
        if self.starts_at_s is None or time.monotonic() < self.starts_at_s:
            return False
        self.start_as(self.begin)
        return True

    def _note_missing_files(self, fact: GateFact) -> None:
        """Add what was missing since the last look; the gate counts anew after a restart of the query."""
        counted = self.fact.missing_files
        new = fact.missing_files - (counted if counted <= fact.missing_files else 0)
        if new:
            self.missing_files += new
            _log.warning(
                "input files were gone before they were read, and the job goes on without their rows",
                extra={"query": self.uid, "files": new, "last": fact.missing_file, "since_start": self.missing_files},
            )

    def _refresh_handle(self) -> None:
        self.active = self.handle.isActive
        if not self.active and self.error is None:
            exception = self.handle._jsq.exception()
            self.error = text = None if exception.isEmpty() else str(exception.get().toString())
            self._restart_if_transient(self.error or "")
            if text is not None:
                failure = failures.classify_query(self.uid, text, fenced=False)
                frames = tuple(
                    api.CodeFrame(file=call.file, line=call.line, function=call.name, source=call.source or None)
                    for call in failures.calls_of_job(text)
                )
                self.last_error = api.JobError(
                    query=self.uid,
                    reason=failure.reason,
                    message=failure.message,
                    failed_at=clock.utc_now(),
                    frames=frames,
                    is_repeated=self.is_starting,
                    fault=faults.of_exit(failure.code, failure.reason),
                )
            if self.error is not None:
                calls = failures.calls_of_job(self.error)
                if calls:
                    stack = f"{usercode.format_frames(calls)}\n{failures.essence(self.error)}"
                    _log.error("the job's own code raised", extra={"query": self.uid, "stack": stack})
                level = logging.DEBUG if calls else logging.ERROR
                _log.log(level, "the query failed", extra={"query": self.uid, "stack": self.error})

    def _restart_if_transient(self, error: str) -> None:
        if failures.is_slow_start(error) and self.slow_starts < len(SLOW_START_PAUSES_S):
            pause_s = SLOW_START_PAUSES_S[self.slow_starts]
            self.slow_starts += 1
            self._schedule_restart("a python worker was too slow, restarting the query", pause_s)
        elif failures.lost_a_race(error) and self.survives_lost_races and self.lost_races < MAX_LOST_RACES:
            self.lost_races += 1
            self.on_lost(self.committed_batch)
            self._schedule_restart("an older driver committed the batch first, continuing after it", 0.0)
        elif failures.is_stage_repeated(error) and self.repeated_stages < MAX_REPEATED_STAGES:
            self.repeated_stages += 1
            self._schedule_restart("an executor was lost between two stages, running the batch again", 0.0)
        elif failures.is_input_lost(error) and not self.lost_inputs:
            self.lost_inputs += 1
            self._schedule_restart("rows are no longer in kafka, restarting the query to be sure", LOST_INPUT_PAUSE_S)

    def _schedule_restart(self, why: str, pause_s: float) -> None:
        _log.warning(why, extra={"query": self.uid, "committed": self.committed_batch, "pause_s": pause_s})
        self.starts_at_s, self.active, self.error = time.monotonic() + pause_s, True, None
        self.restarts += 1

    def start_as(self, begin: Callable[[], StreamingQuery]) -> None:
        """Start the query, which does not run now, in the given way; restarts use it too."""
        self.begin, self.starts_at_s = begin, None
        self.handle, self.active, self.error = begin(), True, None
        self.fact = replace(self.fact, at_boundary=False)

    @property
    def was_idle(self) -> bool:
        """Whether the newest batch of this start had nothing to read."""
        recent = self.handle._jsq.recentProgress()
        if not len(recent):
            return False
        return all(source.startOffset() == source.endOffset() for source in recent[len(recent) - 1].sources())

    def refresh_progress(self) -> None:
        """Add the batches that ended since the last refresh, and look into one that takes long; Spark keeps the last 200."""
        recent = self.handle._jsq.recentProgress()
        batches = []
        for index in range(len(recent) - 1, -1, -1):
            if recent[index].batchId() <= self._progress.newest.batch_id:
                break
            batches.append(recent[index])
        for batch in reversed(batches):
            sources = tuple(map(source_lag.describe, batch.sources()))
            self._progress.add(
                observations.BatchReport(
                    batch_id=batch.batchId(),
                    began_at=datetime.fromisoformat(batch.timestamp()),
                    duration_ms=int(batch.batchDuration()),
                    input_rows=batch.numInputRows(),
                    rows_per_second=round(max(0.0, float(batch.processedRowsPerSecond())), 1),
                    lag_rows=source_lag.total(sources),
                ),
                sources,
            )
        is_looked_into = self.handle.isActive and takes_long(self._batch_since, clock.utc_now())
        self._stage = running_stage(self.handle) if is_looked_into else None

    @property
    def newest_batches(self) -> observations.QueryBatches:
        """The newest batches that Spark has reported."""
        return observations.QueryBatches(uid=self.uid, batches=self._progress.batches)

    def status(self) -> api.QueryStatus:
        """Return the status of the query."""
        return api.QueryStatus(
            uid=self.uid,
            active=self.active,
            batch_id=self.committed_batch,
            last_commit_at=self.fact.last_commit_at,
            input_rows=self._progress.input_rows,
            missing_files=self.missing_files,
            rows_per_second=self._progress.newest.rows_per_second,
            batch_duration_ms=self._progress.newest.duration_ms,
            batch_since=self._batch_since,
            stage=self._stage if self._batch_since is not None else None,
            error=self.error,
            restarts=self.restarts,
            sources=self._progress.sources,
            metrics=tuple(
                api.FunctionMetric(
                    operator=series.operator,
                    name=series.name,
                    kind=series.kind.value,
                    partition=series.partition,
                    value=value,
                )
                for series, value in counting.series_of(self.uid)
            ),
        )


def takes_long(since: datetime | None, now: datetime) -> bool:
    """Tell whether a batch has been running for so long that it is worth a look."""
    return since is not None and (now - since).total_seconds() > LONG_BATCH_S


def refresh_all(queries: tuple[RunningQuery, ...], gate: Gate) -> bool:
    """Refresh every query with one call to the gate.

    Returns:
        Whether one of them was restarted, behind an open gate.
    """
    facts = gate.facts()
    was_restarted = [query.refresh(facts[query.location.root]) for query in queries]
    return any(was_restarted)


def stop_all(queries: Sequence[RunningQuery], *, within_s: float | None) -> tuple[str, ...]:
    """Stop every query, all at the same time, since each stop waits for what the query's thread does now.

    Args:
        queries: The queries.
        within_s: Longest time to wait, None for no limit; a thread that a silent store keeps waiting takes long.

    Returns:
        The queries that have not stopped in time; they end with this process.
    """
    stops = {query.uid: threads.beside(query.handle.stop, name=f"stop-{query.uid}") for query in queries}
    done, _ = wait(stops.values(), within_s)
    for stop in done:
        stop.result()
    return tuple(uid for uid, stop in stops.items() if stop not in done)


def newest_error(queries: tuple[RunningQuery, ...]) -> api.JobError | None:
    """Return the newest failure of the queries; None if none has failed."""
    failures_so_far = [query.last_error for query in queries if query.last_error is not None]
    return max(failures_so_far, key=lambda error: error.failed_at, default=None)


def running_stage(handle: StreamingQuery) -> str | None:
    """Return what a query does now, as the end of a sentence; None if Spark does not tell.

    A batch that runs no stage waits in the driver: for a source, for a sink, for the state's schemas. Cost: some calls of
    the JVM.
    """
    tracker = handle._jsq.sparkSession().sparkContext().statusTracker()
    active = set(tracker.getActiveStageIds())
    jobs = set(tracker.getActiveJobIds()) & set(tracker.getJobIdsForGroup(handle.runId))
    details = (tracker.getJobInfo(job) for job in sorted(jobs))
    stages = {stage for job in details if job.isDefined() for stage in job.get().stageIds()}
    for stage in sorted(stages & active):
        info = tracker.getStageInfo(stage)
        if info.isDefined():
            tasks = f"{info.get().numCompletedTasks()} of {info.get().numTasks()} tasks have ended"
            return f"stage {stage} ({info.get().name()}), {tasks}"
    return handle._jsq.status().message() or None
