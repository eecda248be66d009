"""The running queries of a job: started on their roots, watched through the gate and Spark's progress."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from statefulspark import failures, usercode
from statefulspark.contract import api
from statefulspark.engine.jvm import Gate, GateFact

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

SLOW_START_PAUSES_S = (0.0, 1.0, 2.0, 4.0, 8.0)
"""Before each new start of a query whose Python worker was too slow: a node that is busy gets time. One that is too busy
this often without a batch in between has another problem."""

MAX_LOST_RACES = 2
"""A driver before this one can win one race for a batch before it is fenced; more would be something else."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueryPlace:
    """Where a query keeps its checkpoint root."""

    uid: str
    path: str
    """Below the job's root on storage, as manifests name it."""
    root: str
    """The same as a Hadoop URI, as Spark and the gate name it."""


@dataclass(slots=True)
class _Progress:
    batch_id: int = -1
    input_rows: int = 0
    rows_per_second: float = 0.0
    duration_ms: int = 0


@dataclass(frozen=True, slots=True)
class FurtherStarts:
    """Other ways to start a query than to run it for ever; see `draining`."""

    catching_up: Callable[[], StreamingQuery]
    """Reads what its sources have now, and ends."""
    held: Callable[[], StreamingQuery]
    """Runs a batch that is planned already, behind a gate that is closed from the beginning."""
    has_event_time: bool = True
    """Whether the query has a watermark."""


@dataclass(slots=True)
class RunningQuery:
    """One started query; `look` refreshes what is known of it."""

    place: QueryPlace
    start: Callable[[], StreamingQuery]
    handle: StreamingQuery
    fact: GateFact
    further: FurtherStarts | None = None
    is_held: bool = False
    """Whether it was started to run a batch that ends event time, which a driver before this one had planned."""
    active: bool = True
    error: str | None = None
    slow_starts: int = 0
    lost_races: int = 0
    begin: Callable[[], StreamingQuery] = field(init=False)
    """How it was started last, and is started again."""
    starts_at_s: float | None = None
    """When it is started again, on the monotonic clock; None while it runs or has ended."""
    _progress: _Progress = field(default_factory=_Progress)

    def __post_init__(self) -> None:
        self.begin = self.further.held if self.is_held and self.further else self.start

    @property
    def uid(self) -> str:
        """The query's uid."""
        return self.place.uid

    @property
    def committed_batch(self) -> int:
        """Last committed batch; -1 before the first."""
        return self.fact.last_committed

    @property
    def is_starting(self) -> bool:
        """Whether it waits for being started again."""
        return self.starts_at_s is not None

    @property
    def is_at_boundary(self) -> bool:
        """Whether no batch is under way and none can begin."""
        return (self.fact.at_boundary or not self.active) and not self.is_starting

    def look(self, fact: GateFact) -> bool:
        """Take in what the gate and Spark say now, and start the query again when it is time.

        Returns:
            Whether it was started again, behind an open gate.
        """
        if fact.last_committed > self.fact.last_committed:
            self.slow_starts = 0
        self.fact = fact
        if not self.is_starting:
            self._look_at_handle()
        return self._start_when_it_is_time()

    def _look_at_handle(self) -> None:
        self.active = self.handle.isActive
        if not self.active and self.error is None:
            self.error = _error_text(self.handle)
            self._start_again_if_that_helps(self.error or "")
            if self.error is not None:
                self._tell(self.error)

    def _start_again_if_that_helps(self, error: str) -> None:
        if failures.is_slow_start(error) and self.slow_starts < len(SLOW_START_PAUSES_S):
            pause_s = SLOW_START_PAUSES_S[self.slow_starts]
            self.slow_starts += 1
            self._start_again("a python worker was too slow, starting the query again", pause_s)
        elif failures.lost_a_race(error) and self.lost_races < MAX_LOST_RACES:
            self.lost_races += 1
            self._start_again("an older driver committed the batch first, going on after it", 0.0)

    def _start_again(self, why: str, pause_s: float) -> None:
        _log.warning(why, extra={"query": self.uid, "committed": self.committed_batch, "pause_s": pause_s})
        self.starts_at_s, self.active, self.error = time.monotonic() + pause_s, True, None

    def _start_when_it_is_time(self) -> bool:
        if self.starts_at_s is None or time.monotonic() < self.starts_at_s:
            return False
        self.start_as(self.begin)
        return True

    def _tell(self, error: str) -> None:
        """Log what ended the query: the user's own calls where there are any, else all that Spark says."""
        users = failures.calls_of_job(error)
        if users:
            called = f"{usercode.told(users)}\n{failures.essence(error)}"
            _log.error("the job's own code raised", extra={"query": self.uid, "stack": called})
        level = logging.DEBUG if users else logging.ERROR
        _log.log(level, "the query failed", extra={"query": self.uid, "stack": error})

    def start_as(self, begin: Callable[[], StreamingQuery]) -> None:
        """Start it, which does not run now, in another way than before."""
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

    def look_at_progress(self) -> None:
        """Take in the batches that ended since the last look; Spark keeps the last 200."""
        recent = self.handle._jsq.recentProgress()
        news = []
        for index in range(len(recent) - 1, -1, -1):
            if recent[index].batchId() <= self._progress.batch_id:
                break
            news.append(recent[index])
        for one in reversed(news):
            self._progress.batch_id = one.batchId()
            self._progress.input_rows += one.numInputRows()
            self._progress.rows_per_second = max(0.0, float(one.processedRowsPerSecond()))
            self._progress.duration_ms = int(one.batchDuration())

    def status(self) -> api.QueryStatus:
        """Return the query for people."""
        return api.QueryStatus(
            uid=self.uid,
            active=self.active,
            batch_id=self.committed_batch,
            last_commit_at=self.fact.last_commit_at,
            input_rows=self._progress.input_rows,
            rows_per_second=round(self._progress.rows_per_second, 1),
            batch_duration_ms=self._progress.duration_ms,
            error=self.error,
        )


def look_at_all(queries: tuple[RunningQuery, ...], gate: Gate) -> bool:
    """Refresh every query with one question to the gate.

    Returns:
        Whether one of them was started again, behind an open gate.
    """
    facts = gate.facts()
    was_started_again = [query.look(facts[query.place.root]) for query in queries]
    return any(was_started_again)


def _error_text(handle: StreamingQuery) -> str | None:
    """Return message and stack trace of what ended a query, or None if it ended by itself or on request."""
    exception = handle._jsq.exception()
    return None if exception.isEmpty() else str(exception.get().toString())
