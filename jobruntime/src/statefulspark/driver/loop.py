"""The job loop: one thread that sends events to the coordinator and executes its commands.

Everything that changes the job happens here, in order. Requests from the API and signals are posted to the inbox; work on
storage runs in the background and posts its outcome back. An iteration runs the messages, refreshes the queries, ticks
the coordinator, checks whether a stop has reached its batch boundary, and publishes a status that other threads read.
"""

from __future__ import annotations

import logging
import queue
import random
import time

from statefulspark import errors, failures
from statefulspark.contract import api
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.contract.manifest import SnapshotKind, Trigger
from statefulspark.coordinator import model
from statefulspark.driver import commands
from statefulspark.driver.api import control
from statefulspark.driver.running import queries
from statefulspark.driver.snapshots import notify
from statefulspark.driver.snapshots.snapshot_writer import DRAIN_KEY, FINISHED_KEY, Ending

POLL_INTERVAL_S = 0.05
"""Longest time between two checks of the queries, and so the longest delay until a barrier is noticed."""

STOP_AFTER_FAILURE_S = 10.0
"""How long a job that has failed waits for its queries to stop; the next driver is safe from what they still write."""

_log = logging.getLogger(__name__)


class AbandonedError(Exception):
    """The loop was abandoned; `JobLoop.run` raises it."""


class JobLoop(commands.CommandExecutor):
    """Runs a started job until it ends; implements `server.control.Control`."""

    def run(self) -> Ending:
        """Run until the job has ended; its queries are stopped when this returns."""
        settings = self._coordinator.settings
        # Flink spreads first triggers, so that jobs started together do not all write at once (A.85).
        first_delay_s = random.uniform(settings.min_pause_s, settings.base_interval_s)  # noqa: S311 - not a secret
        participants = frozenset(self._participants)
        self._step(model.Started(time.monotonic(), participants, first_delay_s, self._hooks.identifiers))
        while self._ending is None:
            self._run_messages()
            self._refresh_queries()
            self._advance_draining()
            self._show_batches()
            self._step(model.Tick(time.monotonic(), self._news(), self._begun()))
            self._acknowledge_stop_at_boundary()
            if self._pruning.begin_if_due(time.monotonic()):
                self._prune()
            self._publish(self._build_status())
        return self._end(self._ending)

    def abandon(self) -> None:
        """End the loop where it is, as the death of its process does: nothing is stopped or written. For tests of jobs."""
        self._inbox.put(_die)
        self._background.close(wait=True)

    def _run_messages(self) -> None:
        try:
            self._inbox.get(timeout=POLL_INTERVAL_S)()
            while True:
                self._inbox.get_nowait()()
        except queue.Empty:
            return

    def _refresh_queries(self) -> None:
        self._gated_queries.refresh()
        for query in self._queries:
            if query.error is not None:
                self._on_query_failed(query, query.error)
        if self._gated_queries.has_finished:
            self._request_own_stop(FINISHED_KEY)

    def _advance_draining(self) -> None:
        try:
            drained = self._gated_queries.advance(self._operations.report)
        except errors.FencedError as error:
            self._end_with(Ending(ExitCode.FENCED, error.reason, error.message))
        except errors.StatefulSparkError as error:
            message = f"The job could not be drained; it continues when it is started again: {error.message}"
            self._fail_interrupted(error.reason, message)
            self._end_with(Ending(ExitCode.FAILED, error.reason, message))
        else:
            if drained is not None:
                self._request_snapshot(drained, SnapshotKind.SAVEPOINT)

    def _on_query_failed(self, query: queries.RunningQuery, error: str) -> None:
        failure = failures.of_query(query.uid, error, fenced=self._fence.fenced)
        if failure.reason == failures.STATE_DAMAGED:
            self._note_damage(query, failure.message)
        self._end_with(Ending(failure.code, failure.reason, failure.message))
        refusal = self._refusals.take(query.uid)
        if refusal is not None:
            for pending in self._coordinator.pending:
                if refusal.participant in pending.waiting_for:
                    self._decline(pending.id, refusal.participant, refusal.message)
        self._step(model.ParticipantFailed(time.monotonic(), query.uid, failure.message))

    def _note_damage(self, query: queries.RunningQuery, message: str) -> None:
        """Write a note for the next driver, which would otherwise fail in the same way again and again."""
        try:
            self._writer.note_damage(query.uid, query.committed_batch, message)
        except errors.StatefulSparkError as error:
            _log.warning("the damage could not be noted", extra={"why": str(error)})

    def _acknowledge_stop_at_boundary(self) -> None:
        if self._stopping_id is None or self._stopped_at is not None:
            return
        if self._gated_queries.is_at_boundary:
            self._acknowledge_all(self._stopping_id)

    # Requests

    def _on_request(self, request: control.StateRequest, kind: SnapshotKind) -> None:
        is_stop = isinstance(request, api.StopRequest)
        if is_stop and (self._stopping_id is not None or self._gated_queries.is_draining):
            self._operations.fail(
                request.request_id, "StopInProgress", "The job is already stopping; wait until it has ended."
            )
        elif isinstance(request, api.StopRequest) and request.drain:
            self._status_tracker.state = api.JobState.STOPPING
            self._gated_queries.drain(request)
        else:
            self._request_snapshot(request, kind)

    def _request_snapshot(self, request: control.StateRequest, kind: SnapshotKind) -> None:
        self._requests[request.request_id] = request
        is_stop, now_s = isinstance(request, api.StopRequest), time.monotonic()
        self._step(model.Requested(now_s, model.Request(request.request_id, kind, request.trigger, now_s, is_stop)))

    def _on_drain(self) -> None:
        self._is_drain_requested = True
        self._fail_interrupted("StopInterrupted", "The driver was told to end before the job was drained.")
        self._request_own_stop(DRAIN_KEY)

    def _request_own_stop(self, key: str) -> None:
        if self._stopping_id is None and self._ending is None:
            now_s = time.monotonic()
            request = model.Request(key, SnapshotKind.CHECKPOINT, Trigger.STOP, now_s, is_stop=True)
            self._step(model.Requested(now_s, request))

    def _fail_interrupted(self, reason: str, message: str) -> None:
        """Fail a stop that has not drained the job yet; the next driver finishes the batches that it had planned."""
        self._was_interrupted |= self._gated_queries.is_draining
        request = self._gated_queries.interrupt()
        if request is not None:
            self._operations.fail(request.request_id, reason, message)

    # The end

    def _resume(self) -> None:
        """Continue after a stop that failed: the job was only paused."""
        self._stopping_id = None
        if self._was_interrupted:  # Queries are at the end of event time; the next driver takes them back.
            self._end_with(Ending(ExitCode.FAILED, "StopInterrupted", "The driver was told to end while it drained."))
            return
        self._status_tracker.state = api.JobState.RUNNING
        self._gated_queries.open()
        if self._is_drain_requested:
            self._request_own_stop(DRAIN_KEY)  # The signal arrived during the stop that failed.

    def _end(self, ending: Ending) -> Ending:
        self._gated_queries.close()
        late = queries.stop_all(self._queries, within_s=None if ending.is_clean else STOP_AFTER_FAILURE_S)
        if late:
            _log.warning(
                "queries have not stopped in time and end with the process", extra={"queries": ", ".join(late)}
            )
        self._step(model.ShutDown(time.monotonic()))
        self._announcer.cancel_retries()
        self._fail_interrupted("StopFailed", ending.message)
        self._fail_stop_operation(ending)
        self._background.close(wait=ending.code is not ExitCode.FENCED)
        if self._pruning.is_requested and ending.is_clean:
            self._prune_now()
        self._status_tracker.state = ending.state
        self._publish(self._build_status(ending.message))
        return ending

    def _fail_stop_operation(self, ending: Ending) -> None:
        """Fail the operation of a stop whose snapshot is complete but which did not end the job (A.164)."""
        if self._stopped_at is not None:
            request, summary = self._stopped_at
            is_named = summary.location in ending.message
            message = ending.message if is_named else notify.uncommitted(summary.location, ending.message)
            self._operations.fail(request.key, "StopFailed", message)


def _die() -> None:
    raise AbandonedError
