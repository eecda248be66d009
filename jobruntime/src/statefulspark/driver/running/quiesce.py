"""Pauses and continues the queries of a job with their gates, and drains them before a stop that asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable

from statefulspark.contract import api
from statefulspark.driver.running import queries
from statefulspark.driver.running.drain import Draining, Planner, Step
from statefulspark.engine.jvm import Gate

PROGRESS_S = 0.5
"""Time between two reads of Spark's progress."""


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
