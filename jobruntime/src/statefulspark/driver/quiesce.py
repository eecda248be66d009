"""How the queries of a job come to a standstill, and go on: gates, and what a stop that drains does before."""

from __future__ import annotations

import time
from collections.abc import Callable

from statefulspark.contract import api
from statefulspark.driver import queries
from statefulspark.driver.drain import Draining, Planner, Step
from statefulspark.engine.jvm import Gate

PROGRESS_S = 0.5
"""How often Spark is asked for its progress."""


class Standstill:
    """The queries and their gates. Used by the job's loop alone."""

    def __init__(self, running: tuple[queries.RunningQuery, ...], gate: Gate, planner: Planner | None) -> None:
        """Know started queries; those that were started held are brought to their end first.

        Args:
            running: The queries.
            gate: Holds them at batch boundaries.
            planner: Plans the batches that end event time; without one nothing can be drained.
        """
        self.queries = running
        self._gate = gate
        self._planner = planner
        self._progress_at_s = 0.0
        self.is_closed = False
        """Whether every gate was closed."""
        self._draining: Draining | None = None
        self._drained_for: api.StopRequest | None = None
        self._undo: Draining | None = None
        held = [query for query in running if query.is_held]
        if held and planner is not None:
            self._draining = Draining.finishing(held, gate, planner)

    @property
    def is_draining(self) -> bool:
        """Whether queries are on their way to the end of event time, now or for a driver before this one."""
        return self._draining is not None

    @property
    def is_at_boundary(self) -> bool:
        """Whether every gate is closed and no batch is under way."""
        return self.is_closed and all(query.is_at_boundary for query in self.queries)

    @property
    def has_finished(self) -> bool:
        """Whether every query has ended by itself."""
        return self._draining is None and self._undo is None and all(not query.active for query in self.queries)

    def look(self) -> None:
        """Take in what queries and gates say now."""
        if queries.look_at_all(self.queries, self._gate) and self.is_closed:
            self.close()
        if time.monotonic() - self._progress_at_s >= PROGRESS_S:
            self._progress_at_s = time.monotonic()
            for query in self.queries:
                query.look_at_progress()

    def close(self) -> None:
        """Let no further batch begin."""
        for query in self.queries:
            self._gate.close(query.place.root)
        self.is_closed = True

    def open(self) -> None:
        """Let batches begin again; queries that were drained are started again."""
        self.is_closed = False
        if self._undo is not None:
            self._undo.go_on()
            self._undo = None
        for query in self.queries:
            self._gate.open(query.place.root)

    def drain(self, request: api.StopRequest) -> None:
        """Begin to drain for a stop."""
        assert self._planner is not None  # noqa: S101 - a driver has one
        self._draining, self._drained_for = Draining.begin(self.queries, self._gate, self._planner), request

    def interrupt(self) -> api.StopRequest | None:
        """Give draining up where it is: the driver has to end. Return the stop that asked for it."""
        request, self._draining, self._drained_for = self._drained_for, None, None
        return request

    def advance(self, report: Callable[[str, api.Progress], None]) -> api.StopRequest | None:
        """Drain a bit further.

        Args:
            report: Hears of every query that has come to its end, with the id of the request.

        Returns:
            The stop that asked for it, once every query stands still at its end.

        Raises:
            StatefulSparkError: See `Draining.advance`.
        """
        if self._draining is None:
            return None
        self._draining.advance()
        request = self._drained_for
        if request is not None:
            steps = list(self._draining.steps.values())
            report(request.request_id, api.Progress(unit="queries", done=steps.count(Step.DONE), total=len(steps)))
        if not self._draining.is_done:
            return None
        if request is None:
            self._draining.go_on()
        else:
            self._undo = self._draining
        self._draining = self._drained_for = None
        return request
