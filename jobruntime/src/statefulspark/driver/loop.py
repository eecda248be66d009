"""The job loop: one thread that runs a job. It has an inbox, a cycle of snapshots, and a status that others read.

Everything that changes the job happens on this thread, in order. Requests of the API and signals are posted to the inbox;
so are the outcomes of work that runs in the background. A turn runs the messages, refreshes the queries, advances a stop
that drains, lets the cycle take its snapshots, and publishes the status.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Mapping

from statefulspark import errors, failures
from statefulspark.contract import api, observations, statistics
from statefulspark.contract.config import CheckpointConfig
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.coordinator import model, stats
from statefulspark.driver.cycle import Cycle, StateRequest
from statefulspark.driver.running import hooks, queries, quiesce
from statefulspark.driver.snapshots import notify
from statefulspark.driver.snapshots.snapshot_writer import SnapshotWriter
from statefulspark.driver.status import DRAIN_KEY, FINISHED_KEY, Ending, JobStatusTracker, Operations
from statefulspark.engine.jvm import Fence
from statefulspark.operators.refusals import Refusals

POLL_INTERVAL_S = 0.05
"""Longest time between two checks of the queries, and so the longest delay until a barrier is noticed."""

STOP_AFTER_FAILURE_S = 10.0
"""How long a job that has failed waits for its queries to stop; the next driver is safe from what they still write."""

STALE_S = 30.0
"""A loop that has not completed a turn for this long is reported as dead."""

_log = logging.getLogger(__name__)


class AbandonedError(Exception):
    """The loop was abandoned; `JobLoop.run` raises it."""


class JobLoop:
    """Runs a started job until it ends; implements `server.control.Control` for other threads."""

    def __init__(
        self,
        *,
        status_tracker: JobStatusTracker,
        gated_queries: quiesce.GatedQueries,
        fence: Fence,
        writer: SnapshotWriter,
        announcer: notify.Announcer,
        participants: Mapping[str, str],
        coordinator: model.State,
        note_damage: Callable[[str, int, str], None],
        master_hooks: hooks.JobHooks | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        """Take over started queries; nothing happens before `run`.

        Args:
            status_tracker: Keeps what the API reports.
            gated_queries: The queries.
            fence: Tells whether a newer driver runs.
            writer: Writes snapshots.
            announcer: Notifies others when a snapshot ends.
            participants: Functions and sinks that acknowledge too, each with the query whose batches make it durable.
            coordinator: Decides when snapshots begin, complete and abort.
            master_hooks: Called before the queries take part.
            note_damage: Notes for the next driver that the state of a query, as of a batch, cannot be loaded.
            refusals: Why participants could not prepare a batch.
        """
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._operations = Operations()
        self._tracker = status_tracker
        self._queries = gated_queries
        self._fence = fence
        self._writer = writer
        self._announcer = announcer
        self._note_damage = note_damage
        self._refusals = refusals or Refusals()
        self._cycle = Cycle(
            coordinator=coordinator,
            queries=gated_queries,
            participants={**{query.uid: query.uid for query in gated_queries.queries}, **participants},
            master_hooks=master_hooks or hooks.JobHooks(),
            writer=writer,
            announcer=announcer,
            tracker=status_tracker,
            operations=self._operations,
            post=self._inbox.put,
        )
        self._is_terminating = False
        self._publish()

    # The loop's thread

    def run(self) -> Ending:
        """Run until the job has ended; its queries are stopped when this returns."""
        self._cycle.start()
        while self._tracker.ending is None:
            self._run_messages()
            self._refresh_queries()
            self._advance_draining()
            self._stop_if_due()
            self._cycle.turn()
            self._publish()
        ending = self._tracker.ending
        self._queries.close()
        late = queries.stop_all(self._queries.queries, within_s=None if ending.is_clean else STOP_AFTER_FAILURE_S)
        if late:
            _log.warning(
                "queries have not stopped in time and end with the process", extra={"queries": ", ".join(late)}
            )
        self._interrupt_draining("StopFailed", ending.message)
        self._cycle.close(ending)
        self._tracker.state = ending.state
        self._publish(ending.message)
        return ending

    def _run_messages(self) -> None:
        try:
            self._inbox.get(timeout=POLL_INTERVAL_S)()
            while True:
                self._inbox.get_nowait()()
        except queue.Empty:
            return

    def _refresh_queries(self) -> None:
        self._queries.refresh()
        for query in self._queries.queries:
            if query.error is None:
                continue
            failure = failures.classify_query(query.uid, query.error, fenced=self._fence.fenced)
            if failure.reason == failures.STATE_DAMAGED:
                try:  # Without the note the next driver fails in the same way, once more.
                    self._note_damage(query.uid, query.committed_batch, failure.message)
                except errors.StatefulSparkError as note_error:
                    _log.warning("the damage could not be noted", extra={"why": str(note_error)})
            self._tracker.end_with(Ending(failure.code, failure.reason, failure.message))
            refusal = self._refusals.take(query.uid)
            if refusal is None:
                self._cycle.fail_waiting(query.uid, failure.message)
            else:
                self._cycle.decline_waiting(refusal.participant, refusal.message)

    def _advance_draining(self) -> None:
        try:
            drained = self._queries.advance(self._operations.report)
        except errors.FencedError as error:
            self._tracker.end_with(Ending(ExitCode.FENCED, error.reason, error.message))
        except errors.StatefulSparkError as error:
            message = f"The job could not be drained; it continues when it is started again: {error.message}"
            self._interrupt_draining(error.reason, message)
            self._tracker.end_with(Ending(ExitCode.FAILED, error.reason, message))
        else:
            if drained is not None:
                self._cycle.request(drained)

    def _stop_if_due(self) -> None:
        """Stop when the input has ended, or a signal came; tried again after a stop that failed meanwhile."""
        if self._cycle.is_stopping or self._tracker.ending is not None:
            return
        if self._is_terminating:
            self._cycle.request_own_stop(DRAIN_KEY)
        elif self._queries.has_finished:
            self._cycle.request_own_stop(FINISHED_KEY)

    def _on_request(self, request: StateRequest) -> None:
        if not isinstance(request, api.StopRequest):
            self._cycle.request(request)
        elif self._cycle.is_stopping or self._queries.is_draining:
            message = "The job is already stopping; wait until it has ended."
            self._operations.fail(request.request_id, "StopInProgress", message)
        elif request.drain:
            self._tracker.state = api.JobState.STOPPING
            self._queries.drain(request)
        else:
            self._cycle.request(request)

    def _on_termination(self) -> None:
        self._is_terminating = True
        self._interrupt_draining("StopInterrupted", "The driver received a signal to end before the job was drained.")

    def _interrupt_draining(self, reason: str, message: str) -> None:
        """Fail a stop that has not drained the job yet; the next driver finishes the batches that it had planned."""
        request = self._queries.interrupt()
        if request is not None:
            self._operations.fail(request.request_id, reason, message)

    def _publish(self, message: str | None = None) -> None:
        self._status = self._tracker.status(
            tuple(query.status() for query in self._queries.queries),
            self._announcer.sinks(),
            message=message or self._announcer.retry_message,
            last_error=queries.newest_error(self._queries.queries),
        )
        self._turned_at_s = time.monotonic()

    # Other threads: they read what was published, and post to the inbox.

    def status(self) -> api.JobStatus:
        """Return the status published last."""
        return self._status

    def checkpoints(self) -> statistics.Checkpoints:
        """Return the statistics of all snapshots and the latest of them."""
        return stats.answer(self._tracker.stats)

    def checkpoint(self, snapshot_id: int) -> statistics.SnapshotDetails | None:
        """Return one snapshot, if it is in progress or among the latest."""
        return stats.find(self._tracker.stats, snapshot_id)

    def config(self) -> statistics.EffectiveConfig | None:
        """Return the configuration of the driver."""
        return self._tracker.config

    def batches(self) -> observations.Batches:
        """Return the newest batches of each query."""
        return observations.Batches(queries=tuple(query.newest_batches for query in self._queries.queries))

    def state(self) -> observations.StateSizes:
        """Return the sizes of the state in the newest checkpoint."""
        return self._writer.state_sizes

    def operation(self, request_id: str) -> api.Operation | None:
        """Return a checkpoint, savepoint or stop by its request id."""
        return self._operations.get(request_id)

    def is_alive(self) -> bool:
        """Tell whether the loop has completed a turn within the last `STALE_S` seconds."""
        return time.monotonic() - self._turned_at_s < STALE_S

    def request_checkpoint(self, request: api.CheckpointRequest) -> api.Operation:
        """Queue a checkpoint, once per request id."""
        return self._post_request(request, api.OperationKind.CHECKPOINT)

    def request_savepoint(self, request: api.SavepointRequest) -> api.Operation:
        """Queue a savepoint, once per request id."""
        return self._post_request(request, api.OperationKind.SAVEPOINT)

    def request_stop(self, request: api.StopRequest) -> api.Operation:
        """Queue a stop, once per request id."""
        return self._post_request(request, api.OperationKind.STOP)

    def _post_request(self, request: StateRequest, kind: api.OperationKind) -> api.Operation:
        operation, is_new = self._operations.begin(request.request_id, kind)
        if is_new:
            self._inbox.put(lambda: self._on_request(request))
        return operation

    def request_activation(self, request: api.ActivateRequest) -> api.Operation:
        """Refuse: this process is the driver, and never was a standby.

        Raises:
            PreconditionFailedError: `NotAStandby`.
        """
        raise errors.PreconditionFailedError(
            "NotAStandby",
            f"The request {request.request_id!r} asks for epoch {request.epoch}, but this is the driver of epoch "
            f"{self._status.epoch} and never was a standby; start one with `statefulspark run --standby`.",
        )

    def configure(self, checkpoint: CheckpointConfig) -> statistics.EffectiveConfig:
        """Change how checkpoints are taken and kept, from the next turn on.

        Raises:
            PreconditionFailedError: `NotConfigured`: the job was started without a configuration.
        """
        current = self.config()
        if current is None:
            raise errors.PreconditionFailedError("NotConfigured", "This job was started without a configuration.")
        self._inbox.put(lambda: self._cycle.configure(checkpoint))
        return current.model_copy(update={"checkpoint": checkpoint})

    def drain(self) -> None:
        """Finish the batch, complete a checkpoint and end with DRAINED."""
        self._inbox.put(self._on_termination)

    def abandon(self) -> None:
        """End the loop where it is, as the death of its process does: nothing is stopped or written. For tests of jobs."""
        self._inbox.put(_die)
        self._cycle.abandon()


def _die() -> None:
    raise AbandonedError
