"""Pauses and continues the queries of a job with their gates, and drains them before a stop that asks for it.

A stop that drains reads the sources to their current end, ends event time, and only then takes the last savepoint. Each
query is stopped at a batch boundary and started again so that it reads what its sources have now and ends by itself
(Spark's `availableNow`). Then it runs a batch that ends event time, and a batch that takes the watermark back; see
`checkpoint.watermarks` for why these happen once. A driver that dies in between leaves at most one planned batch: its
successor runs that batch (`Draining.resume`) and continues the job.

The loop calls `advance` once per turn, after it has refreshed the queries; nothing in this module waits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from statefulspark.checkpoint import epochs, watermarks
from statefulspark.contract import api
from statefulspark.driver.running import queries
from statefulspark.driver.running.queries import AlternativeStarts, RunningQuery
from statefulspark.engine.jvm import Gate
from statefulspark.storage.port import ObjectStore

PROGRESS_S = 0.5
"""Time between two reads of Spark's progress."""

_log = logging.getLogger(__name__)


class Step(Enum):
    """The steps of draining one query."""

    CLOSING = "waits for its running batch"
    CATCHING_UP = "reads what its sources have"
    FIRING = "runs the batch that ends event time"
    RETURNING = "runs the batch that takes the watermark back"
    DONE = "has stopped"


class Planner:
    """Plans batches for a driver, as long as no newer driver owns the job."""

    def __init__(self, store: ObjectStore, epoch: int, now_ms: Callable[[], int]) -> None:
        """Plan in the logs below a job's root, under one epoch."""
        self._store = store
        self._epoch = epoch
        self._now_ms = now_ms

    def plan_end(self, path: str) -> bool:
        """Plan the end of event time of a query; False if it has committed nothing yet. See `watermarks.plan_end`."""
        epochs.require_current(self._store, self._epoch)
        return watermarks.plan_end(self._store, path, now_ms=self._now_ms()) is not None

    def plan_return(self, path: str) -> bool:
        """Plan the batch that takes the watermark back; False if none is needed. See `watermarks.plan_return`."""
        epochs.require_current(self._store, self._epoch)
        return watermarks.plan_return(self._store, path, now_ms=self._now_ms()) is not None


class Draining:
    """Drains a set of queries."""

    def __init__(self, queries: Iterable[RunningQuery], gate: Gate, planner: Planner, *, first: Step) -> None:
        """Begin with a step; `begin` and `resume` choose it."""
        self._queries = {query.uid: query for query in queries}
        self._steps = dict.fromkeys(self._queries, first)
        self._gate = gate
        self._planner = planner
        self._stopped: list[RunningQuery] = []

    @classmethod
    def begin(cls, queries: Iterable[RunningQuery], gate: Gate, planner: Planner) -> Draining:
        """Drain running queries."""
        return cls(queries, gate, planner, first=Step.CLOSING)

    @classmethod
    def resume(cls, queries: Iterable[RunningQuery], gate: Gate, planner: Planner) -> Draining:
        """Finish the draining that an earlier driver had begun, for queries that were started held."""
        draining = cls(queries, gate, planner, first=Step.FIRING)
        draining._stopped = list(draining._queries.values())
        return draining

    @property
    def is_done(self) -> bool:
        """Whether every query is drained."""
        return all(step is Step.DONE for step in self._steps.values())

    @property
    def steps(self) -> Mapping[str, Step]:
        """The step of each query, by uid."""
        return dict(self._steps)

    def advance(self) -> None:
        """Move every query that is ready to its next step.

        Raises:
            FencedError: A newer driver runs.
            StatefulSparkError: A batch could not be planned.
        """
        for uid, query in self._queries.items():
            if not query.is_starting and query.error is None:
                step = self._next(query, self._steps[uid])
                if step is not self._steps[uid]:
                    _log.info("draining", extra={"query": uid, "now": step.value})
                self._steps[uid] = step

    def restart_queries(self) -> None:
        """Start the queries as before, after a stop that failed or after `resume` is done."""
        for query in self._stopped:
            query.start_as(query.start)
        self._stopped = []

    def _next(self, query: RunningQuery, step: Step) -> Step:
        if step is Step.CLOSING:
            self._gate.close(query.location.root)  # Close it again, in case the query was restarted meanwhile.
            if not query.is_at_boundary:
                return step
            if not query.active:
                return self._end(query)  # Its input was bounded, and is read.
            query.handle.stop()
            self._stopped.append(query)
            query.start_as(_alternatives(query).available_now)
            return Step.CATCHING_UP
        if step is Step.CATCHING_UP:
            # With timers in processing time, Spark plans empty batches without end.
            was_idle = query.active and query.was_idle
            if was_idle:
                self._gate.close(query.location.root)
            return self._end(query) if not query.active or (was_idle and query.is_at_boundary) else step
        if step is Step.FIRING and query.is_at_boundary:
            return self._plan(query, self._planner.plan_return, Step.RETURNING)
        if step is Step.RETURNING and query.is_at_boundary:
            query.handle.stop()
            return Step.DONE
        return step

    def _end(self, query: RunningQuery) -> Step:
        if _alternatives(query).has_event_time:
            return self._plan(query, self._planner.plan_end, Step.FIRING)
        query.handle.stop()
        return Step.DONE

    def _plan(self, query: RunningQuery, plan: Callable[[str], bool], then: Step) -> Step:
        query.handle.stop()
        if not plan(query.location.path):
            return Step.DONE
        query.start_as(_alternatives(query).held)
        return then


def _alternatives(query: RunningQuery) -> AlternativeStarts:
    assert query.alternatives is not None  # noqa: S101 - every query of a job has them
    return query.alternatives


class GatedQueries:
    """The queries and their gates. Used by the job loop only.

    Attributes:
        queries: The queries.
    """

    def __init__(self, running: tuple[queries.RunningQuery, ...], gate: Gate, planner: Planner | None) -> None:
        """Keep started queries; those that were started held are drained first.

        Args:
            running: The queries.
            gate: Holds them at batch boundaries.
            planner: Plans the batches that end event time; without one no query can be drained.
        """
        self.queries = running
        self._gate = gate
        self._planner = planner
        self._progress_at_s = 0.0
        self.is_closed = False
        """Whether every gate was closed."""
        self._draining: Draining | None = None
        self._drain_request: api.StopRequest | None = None
        self._undo: Draining | None = None
        self.was_interrupted = False
        """Whether a draining was interrupted: the queries are at the end of event time, and cannot go on."""
        held = [query for query in running if query.is_held]
        if held and planner is not None:
            self._draining = Draining.resume(held, gate, planner)

    @property
    def is_draining(self) -> bool:
        """Whether queries are being drained, for a stop of this driver or of an earlier one."""
        return self._draining is not None

    @property
    def is_at_boundary(self) -> bool:
        """Whether every gate is closed and no batch is under way."""
        return self.is_closed and all(query.is_at_boundary for query in self.queries)

    @property
    def has_finished(self) -> bool:
        """Whether every query has ended by itself."""
        return self._draining is None and self._undo is None and all(not query.active for query in self.queries)

    def refresh(self) -> None:
        """Update the queries from Spark and from the gates."""
        if queries.refresh_all(self.queries, self._gate) and self.is_closed:
            self.close()
        if time.monotonic() - self._progress_at_s >= PROGRESS_S:
            self._progress_at_s = time.monotonic()
            for query in self.queries:
                query.refresh_progress()

    def close(self) -> None:
        """Close every gate, so that no further batch begins."""
        for query in self.queries:
            self._gate.close(query.location.root)
        self.is_closed = True

    def open(self) -> None:
        """Open every gate, so that batches begin again; restart drained queries."""
        self.is_closed = False
        if self._undo is not None:
            self._undo.restart_queries()
            self._undo = None
        for query in self.queries:
            self._gate.open(query.location.root)

    def drain(self, request: api.StopRequest) -> None:
        """Begin to drain for a stop."""
        assert self._planner is not None  # noqa: S101 - every driver has one
        self._draining, self._drain_request = Draining.begin(self.queries, self._gate, self._planner), request

    def interrupt(self) -> api.StopRequest | None:
        """End the draining, because the driver has to end. Return the stop that requested it."""
        self.was_interrupted |= self.is_draining
        request, self._draining, self._drain_request = self._drain_request, None, None
        return request

    def advance(self, report: Callable[[str, api.Progress], None]) -> api.StopRequest | None:
        """Advance the draining by one step.

        Args:
            report: Called with the request id and the number of drained queries.

        Returns:
            The stop that requested it, once every query is drained.

        Raises:
            StatefulSparkError: See `Draining.advance`.
        """
        if self._draining is None:
            return None
        self._draining.advance()
        request = self._drain_request
        if request is not None:
            steps = list(self._draining.steps.values())
            report(request.request_id, api.Progress(unit="queries", done=steps.count(Step.DONE), total=len(steps)))
        if not self._draining.is_done:
            return None
        if request is None:
            self._draining.restart_queries()
        else:
            self._undo = self._draining
        self._draining = self._drain_request = None
        return request
