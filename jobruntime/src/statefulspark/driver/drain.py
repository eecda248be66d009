"""A stop that drains: sources are read to where they are now, event time ends, and only then comes the last savepoint.

Each query is stopped at a batch boundary, started again so that it reads what its sources have now and ends by itself
(Spark's `availableNow`), run through a batch that ends event time, and through one that takes the watermark back; see
`checkpoint.watermarks` for why these happen once. A driver that dies in between leaves at most a batch that is planned: its
successor runs it (`finishing`) and goes on with the job.

The loop calls `advance` once a turn, after it has looked at the queries; nothing here waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from statefulspark.checkpoint import epochs, watermarks
from statefulspark.driver.queries import FurtherStarts, RunningQuery
from statefulspark.engine.jvm import Gate
from statefulspark.storage.port import ObjectStore

_log = logging.getLogger(__name__)


class Step(Enum):
    """Where a query is on its way to the end."""

    CLOSING = "the batch that runs ends"
    CATCHING_UP = "reads what its sources have"
    FIRING = "runs the batch that ends event time"
    RETURNING = "runs the batch that takes the watermark back"
    DONE = "stands still"


class Planner:
    """Plans batches for a driver, as long as no newer one owns the job."""

    def __init__(self, store: ObjectStore, epoch: int, now_ms: Callable[[], int]) -> None:
        """Plan in the logs below a job's root, as one epoch."""
        self._store = store
        self._epoch = epoch
        self._now_ms = now_ms

    def plan_end(self, path: str) -> bool:
        """Plan the end of event time of a query; False if it has committed nothing yet. See `watermarks.plan_end`."""
        epochs.require_current(self._store, self._epoch)
        return watermarks.plan_end(self._store, path, now_ms=self._now_ms()) is not None

    def plan_return(self, path: str) -> bool:
        """Plan the way back of a query; False if there is none to go. See `watermarks.plan_return`."""
        epochs.require_current(self._store, self._epoch)
        return watermarks.plan_return(self._store, path, now_ms=self._now_ms()) is not None


class Draining:
    """Brings every query to its end."""

    def __init__(self, queries: Iterable[RunningQuery], gate: Gate, planner: Planner, *, first: Step) -> None:
        """Begin with a step; see `begin` and `finishing`."""
        self._queries = {query.uid: query for query in queries}
        self._steps = dict.fromkeys(self._queries, first)
        self._gate = gate
        self._planner = planner
        self._stopped: list[RunningQuery] = []

    @classmethod
    def begin(cls, queries: Iterable[RunningQuery], gate: Gate, planner: Planner) -> Draining:
        """Bring running queries to their end."""
        return cls(queries, gate, planner, first=Step.CLOSING)

    @classmethod
    def finishing(cls, queries: Iterable[RunningQuery], gate: Gate, planner: Planner) -> Draining:
        """Finish what a driver before this one had planned, for queries that were started held."""
        draining = cls(queries, gate, planner, first=Step.FIRING)
        draining._stopped = list(draining._queries.values())
        return draining

    @property
    def is_done(self) -> bool:
        """Whether every query stands still at its end."""
        return all(step is Step.DONE for step in self._steps.values())

    @property
    def steps(self) -> Mapping[str, Step]:
        """Where each query is, by uid."""
        return dict(self._steps)

    def advance(self) -> None:
        """Take every query one step further if it is ready for it.

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

    def go_on(self) -> None:
        """Let the queries run as before: the stop has failed, or there was something to finish only."""
        for query in self._stopped:
            query.start_as(query.start)
        self._stopped = []

    def _next(self, query: RunningQuery, step: Step) -> Step:
        if step is Step.CLOSING:
            self._gate.close(query.place.root)  # Again, should it have been started again meanwhile.
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
            return self._end(query)  # Its input was bounded, and it has read it.
        query.handle.stop()
        self._stopped.append(query)
        query.start_as(_further(query).catching_up)
        return Step.CATCHING_UP

    def _end(self, query: RunningQuery) -> Step:
        if _further(query).has_event_time:
            return self._plan(query, self._planner.plan_end, Step.FIRING)
        query.handle.stop()
        return Step.DONE

    def _has_caught_up(self, query: RunningQuery) -> bool:
        """Tell whether a query that does not end by itself has read everything and stands still.

        Where there are timers in processing time, Spark plans empty batches for ever.
        """
        if query.was_idle:
            self._gate.close(query.place.root)
        return query.was_idle and query.is_at_boundary

    def _plan(self, query: RunningQuery, plan: Callable[[str], bool], then: Step) -> Step:
        query.handle.stop()
        if not plan(query.place.path):
            return Step.DONE
        query.start_as(_further(query).held)
        return then


def _further(query: RunningQuery) -> FurtherStarts:
    assert query.further is not None  # noqa: S101 - every query of a job has it
    return query.further
