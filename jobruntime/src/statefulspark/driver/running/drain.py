"""A stop that drains: it reads the sources to their current end, ends event time, and only then takes the last savepoint.

Each query is stopped at a batch boundary and started again so that it reads what its sources have now and ends by itself
(Spark's `availableNow`). Then it runs a batch that ends event time, and a batch that takes the watermark back; see
`checkpoint.watermarks` for why these happen once. A driver that dies in between leaves at most one planned batch: its
successor runs that batch (`resume`) and continues the job.

The loop calls `advance` once per iteration, after it has refreshed the queries; nothing in this module waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from statefulspark.checkpoint import epochs, watermarks
from statefulspark.driver.running.queries import AlternativeStarts, RunningQuery
from statefulspark.engine.jvm import Gate
from statefulspark.storage.port import ObjectStore

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
            return self._catch_up(query) if query.is_at_boundary else step
        if step is Step.CATCHING_UP and (not query.active or self._has_caught_up(query)):
            return self._end(query)
        if step is Step.FIRING and query.is_at_boundary:
            return self._plan(query, self._planner.plan_return, Step.RETURNING)
        if step is Step.RETURNING and query.is_at_boundary:
            query.handle.stop()
            return Step.DONE
        return step

    def _catch_up(self, query: RunningQuery) -> Step:
        if not query.active:
            return self._end(query)  # Its input was bounded, and is read.
        query.handle.stop()
        self._stopped.append(query)
        query.start_as(_alternatives(query).available_now)
        return Step.CATCHING_UP

    def _end(self, query: RunningQuery) -> Step:
        if _alternatives(query).has_event_time:
            return self._plan(query, self._planner.plan_end, Step.FIRING)
        query.handle.stop()
        return Step.DONE

    def _has_caught_up(self, query: RunningQuery) -> bool:
        """Tell whether a query that does not end by itself has read everything and is at a batch boundary.

        With timers in processing time, Spark plans empty batches without end.
        """
        if query.was_idle:
            self._gate.close(query.location.root)
        return query.was_idle and query.is_at_boundary

    def _plan(self, query: RunningQuery, plan: Callable[[str], bool], then: Step) -> Step:
        query.handle.stop()
        if not plan(query.location.path):
            return Step.DONE
        query.start_as(_alternatives(query).held)
        return then


def _alternatives(query: RunningQuery) -> AlternativeStarts:
    assert query.alternatives is not None  # noqa: S101 - every query of a job has them
    return query.alternatives
