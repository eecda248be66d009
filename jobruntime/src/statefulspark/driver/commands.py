"""Executes the coordinator's commands: calls hooks, acknowledges for participants, writes snapshots, notifies listeners.

The half of the job loop that handles snapshots. Work on storage runs in the background and posts its outcome back;
everything else runs on the loop's thread, in order.
"""

from __future__ import annotations

import functools
import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import assert_never

from statefulspark import clock, errors
from statefulspark.checkpoint import progress
from statefulspark.contract import api, observations
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.contract.manifest import MasterStateEntry, SnapshotKind
from statefulspark.coordinator import machine, model
from statefulspark.driver.api import control
from statefulspark.driver.api.status import JobStatusTracker
from statefulspark.driver.running import drain, hooks, pacing, participation, queries, quiesce
from statefulspark.driver.snapshots import notify
from statefulspark.driver.snapshots.background import Background, Lane
from statefulspark.driver.snapshots.snapshot_writer import Ending, SnapshotOrder, SnapshotWriter
from statefulspark.engine.jvm import Fence, Gate
from statefulspark.operators import declines

_log = logging.getLogger(__name__)


class CommandExecutor(control.ControlEndpoint):
    """Sends events to the coordinator and executes its commands."""

    def __init__(
        self,
        *,
        status_tracker: JobStatusTracker,
        running: tuple[queries.RunningQuery, ...],
        gate: Gate,
        fence: Fence,
        writer: SnapshotWriter,
        announcer: notify.Announcer,
        participants: Mapping[str, str],
        coordinator: model.State,
        master_hooks: hooks.JobHooks | None = None,
        refusals: declines.Refusals | None = None,
        planner: drain.Planner | None = None,
    ) -> None:
        """Take over started queries; nothing happens before `run`.

        Args:
            status_tracker: Keeps what the API reports.
            running: The queries.
            gate: Holds them at batch boundaries.
            fence: Tells whether a newer driver runs.
            writer: Writes snapshots.
            announcer: Notifies others when a snapshot ends.
            participants: Functions and sinks that acknowledge too, each with the query whose batches make it durable.
            coordinator: Decides when snapshots begin, complete and abort.
            master_hooks: Called before the queries take part.
            refusals: Why participants could not prepare a batch.
            planner: Plans the batches of a stop that drains.
        """
        super().__init__(status_tracker)
        self._queries = running
        self._gated_queries = quiesce.GatedQueries(running, gate, planner)
        self._fence = fence
        self._writer = writer
        self._announcer = announcer
        self._participants = {**{query.uid: query.uid for query in running}, **participants}
        self._coordinator = coordinator
        self._hooks = master_hooks or hooks.JobHooks()
        self._refusals = refusals or declines.Refusals()
        self._background = Background(self._inbox.put)
        self._requests: dict[str, control.StateRequest] = {}
        self._orders: dict[int, SnapshotOrder] = {}
        self._summaries: dict[int, api.SnapshotSummary] = {}
        self._stopping_id: int | None = None
        self._stopped_at: tuple[model.Request, api.SnapshotSummary] | None = None
        self._is_drain_requested = False
        self._was_interrupted = False
        self._is_showing = False
        self._ending: Ending | None = None
        self._pruning = pacing.Pace()
        self._publish(self._build_status())

    def batches(self) -> observations.Batches:
        """Return the newest batches of each query."""
        return observations.Batches(queries=tuple(query.newest_batches for query in self._queries))

    def state(self) -> observations.StateSizes:
        """Return the sizes of the state in the newest checkpoint."""
        return self._writer.state_sizes

    def _step(self, event: model.Event) -> None:
        self._coordinator, commands = machine.step(self._coordinator, event)
        self._status_tracker.observe(event, commands)
        for command in commands:
            self._perform(command)

    def _perform(self, command: model.Command) -> None:
        match command:
            case model.AskHooks():
                self._on_ask_hooks(command)
            case model.Begin():
                self._on_begin(command)
            case model.Finalize():
                self._on_finalize(command)
            case model.NotifyComplete():
                self._on_complete(command)
            case model.NotifyAborted():
                self._on_aborted(command)
            case model.Refuse():
                self._on_refused(command)
            case model.Subsume():
                self._clean(Lane.CHECKPOINT, functools.partial(self._writer.drop, command.checkpoint_ids))
                self._pruning.request()
            case model.FailJob():
                self._end_with(Ending(ExitCode.FAILED, "CheckpointsFailing", command.message))
            case _:
                assert_never(command)

    def _open_order(self, command: model.AskHooks | model.Begin) -> SnapshotOrder:
        request = self._requests.pop(command.request.key, None)
        order = SnapshotOrder(command.snapshot_id, command.request, clock.utc_now(), request)
        self._orders[command.snapshot_id] = order
        self._announcer.snapshot_begun(command.snapshot_id)
        if command.request.is_stop:
            self._status_tracker.state = api.JobState.STOPPING
            self._stopping_id = command.snapshot_id
        return order

    def _on_ask_hooks(self, command: model.AskHooks) -> None:
        order = self._open_order(command)

        def answered(hook: str, state: MasterStateEntry | None) -> None:
            self._inbox.put(lambda: self._on_hook_answered(order.snapshot_id, hook, state))

        def refused(hook: str, error: errors.StatefulSparkError) -> None:
            self._inbox.put(lambda: self._decline(order.snapshot_id, f"{machine.HOOK_PREFIX}{hook}", error.message))

        triggered_ms = int(order.triggered_at.timestamp() * 1000)
        self._hooks.trigger(order.snapshot_id, triggered_ms, answered=answered, refused=refused)

    def _on_hook_answered(self, snapshot_id: int, hook: str, state: MasterStateEntry | None) -> None:
        order = self._orders.get(snapshot_id)
        if order is not None and state is not None:
            self._orders[snapshot_id] = replace(order, master_states=(*order.master_states, state))
        self._step(model.HookAnswered(time.monotonic(), snapshot_id, hook))

    def _decline(self, snapshot_id: int, participant: str, why: str) -> None:
        self._step(model.Declined(time.monotonic(), snapshot_id, participant, why))

    def _on_begin(self, command: model.Begin) -> None:
        order = self._orders.get(command.snapshot_id) or self._open_order(command)
        if not command.request.is_stop:
            self._acknowledge_all(command.snapshot_id)
            return
        if order.kind is SnapshotKind.CHECKPOINT:
            self._gated_queries.close()
            return
        # Copy most files while the job still runs, so that the pause does not grow with the state.
        self._background.submit(
            Lane.SAVEPOINT,
            lambda: self._writer.precopy(order, self._committed(), on_progress=self._report(order)),
            on_done=lambda _: self._on_copied_ahead(order),
            on_failed=lambda error: self._on_trigger_failed(order, error),
        )

    def _on_copied_ahead(self, order: SnapshotOrder) -> None:
        if order.snapshot_id == self._stopping_id:  # Otherwise the stop has failed meanwhile, and the job continues.
            self._gated_queries.close()

    def _committed(self) -> dict[str, int]:
        return {query.uid: query.committed_batch for query in self._queries}

    def _news(self) -> frozenset[str]:
        """Return the queries whose newest committed batch is not that of the latest completed checkpoint."""
        latest = self._status_tracker.last_checkpoint
        covered = latest.batches if latest else {}
        return frozenset(uid for uid, batch in self._committed().items() if batch != covered.get(uid, -1))

    def _begun(self) -> frozenset[str]:
        """Return the queries that have committed a batch of this driver."""
        return frozenset(query.uid for query in self._queries if query.fact.last_commit_at is not None)

    def _acknowledge_all(self, snapshot_id: int) -> None:
        is_ending = self._ending is not None
        for event in participation.answers(
            snapshot_id, time.monotonic(), participants=self._participants, running=self._queries, is_ending=is_ending
        ):
            self._step(event)

    def _on_finalize(self, command: model.Finalize) -> None:
        order = self._orders[command.snapshot_id]
        self._background.submit(
            order.lane,
            lambda: self._writer.complete(order, command.batches, on_progress=self._report(order)),
            on_done=lambda summary: self._on_written(order, summary),
            on_failed=lambda error: self._on_write_failed(order, error),
        )

    def _report(self, order: SnapshotOrder) -> progress.Report:
        """Return a callback for each copied file; it raises if the snapshot was aborted, which ends its writer."""

        def on_copied(done: api.Progress) -> None:
            if order.snapshot_id not in self._orders:
                raise errors.StatefulSparkError(
                    "SnapshotGivenUp",
                    f"Snapshot {order.snapshot_id} was aborted while it was written; its writer ends.",
                )
            self._operations.report(order.coordinator_request.key, done)

        return on_copied

    def _on_written(self, order: SnapshotOrder, summary: api.SnapshotSummary) -> None:
        if self._coordinator.find(order.snapshot_id) is None:
            return  # It expired after its files were written; `discard` follows in the same lane.
        self._summaries[order.snapshot_id] = summary
        self._status_tracker.snapshot_written(summary)
        self._step(model.Finalized(time.monotonic(), order.snapshot_id))

    def _on_write_failed(self, order: SnapshotOrder, error: errors.StatefulSparkError) -> None:
        if isinstance(error, errors.FencedError):
            self._end_with(Ending(ExitCode.FENCED, error.reason, error.message))
            return
        if isinstance(error, declines.DeclinedError):
            self._decline(order.snapshot_id, error.participant, str(error))
            return
        self._step(model.FinalizeFailed(time.monotonic(), order.snapshot_id, str(error)))

    def _on_trigger_failed(self, order: SnapshotOrder, error: errors.StatefulSparkError) -> None:
        if isinstance(error, errors.FencedError | declines.DeclinedError):
            self._on_write_failed(order, error)
            return
        is_storage = isinstance(error, errors.TransientError | errors.StateUnknownError)
        self._step(model.TriggerFailed(time.monotonic(), order.snapshot_id, str(error), is_storage))

    def _on_complete(self, command: model.NotifyComplete) -> None:
        summary = self._summaries.pop(command.snapshot_id)
        del self._orders[command.snapshot_id]
        self._status_tracker.snapshot_completed(summary)
        _log.info("snapshot completed", extra={"location": summary.location, "trigger": summary.trigger})
        if summary.kind is SnapshotKind.SAVEPOINT and not command.request.is_stop:
            self._announcer.forget(command.snapshot_id)  # It commits nothing (A.49, A.102).
            self._operations.complete(command.request.key, summary)
            return
        if command.request.is_stop:
            self._stopped_at = command.request, summary
            self._announcer.limit_waiting()
            self._inbox.put(lambda: self._step(model.Stopped(time.monotonic())))
        else:
            self._operations.complete(command.request.key, summary)
        self._announce(
            lambda: self._announcer.notify_complete(command.snapshot_id),
            lambda: self._on_announced(command.request, summary),
        )

    def _show_batches(self) -> None:
        """Let sinks that show each batch commit what Spark has committed; later batches wait until this is done."""
        batches = self._committed()
        if self._is_showing or self._ending is not None or not self._announcer.has_batches_to_show(batches):
            return
        self._is_showing = True
        self._announce(lambda: self._announcer.show_batches(batches), self._on_shown)

    def _on_shown(self) -> None:
        self._is_showing = False

    def _announce(self, work: Callable[[], None], then: Callable[[], None] = lambda: None) -> None:
        self._background.submit(Lane.ANNOUNCE, work, on_done=lambda _: then(), on_failed=self._on_announcing_failed)

    def _on_announced(self, request: model.Request, summary: api.SnapshotSummary) -> None:
        if request.is_stop:  # Its sinks have committed, so there is nothing left to do.
            self._operations.complete(request.key, summary)
            self._stopped_at = None
            self._end_with(Ending.of_stop(request, summary))

    def _on_announcing_failed(self, error: errors.StatefulSparkError) -> None:
        if isinstance(error, errors.FencedError):
            self._end_with(Ending(ExitCode.FENCED, error.reason, error.message))
            return
        location = self._stopped_at[1].location if self._stopped_at else None
        message = notify.uncommitted(location, error.message) if location else error.message
        self._end_with(Ending(ExitCode.FAILED, error.reason, message))

    def _on_aborted(self, command: model.NotifyAborted) -> None:
        order = self._orders.pop(command.snapshot_id)
        self._announce(lambda: self._announcer.notify_aborted(command.snapshot_id))
        self._operations.fail(command.request.key, command.reason, command.message)
        _log.warning(
            "snapshot aborted", extra={"id": command.snapshot_id, "why": f"{command.reason}: {command.message}"}
        )
        self._clean(
            order.lane,
            lambda: self._writer.discard(order),
            then=lambda: self._step(model.Cleaned(time.monotonic(), order.snapshot_id)),
        )
        if command.snapshot_id == self._stopping_id and self._ending is None:
            self._resume()

    def _on_refused(self, command: model.Refuse) -> None:
        self._requests.pop(command.request.key, None)
        if not command.request.is_periodic:
            self._operations.fail(command.request.key, command.reason, command.message)
        if command.request.is_stop and self._stopping_id is None and self._ending is None:
            self._resume()  # The refused stop had already drained the job.

    def _clean(self, lane: Lane, work: Callable[[], None], then: Callable[[], None] = lambda: None) -> None:
        def failed(error: errors.StatefulSparkError) -> None:
            log_failed_cleanup(error)
            then()

        self._background.submit(lane, work, on_done=lambda _: then(), on_failed=failed)

    def _prune(self) -> None:
        def ended(freed_bytes: int = 0) -> None:
            self._status_tracker.pruned_bytes += freed_bytes
            self._pruning.end(time.monotonic())

        def failed(error: errors.StatefulSparkError) -> None:
            log_failed_cleanup(error)
            ended()

        self._background.submit(Lane.CHECKPOINT, self._writer.prune, on_done=ended, on_failed=failed)

    def _prune_now(self) -> None:
        try:
            self._status_tracker.pruned_bytes += self._writer.prune()
        except errors.StatefulSparkError as error:
            log_failed_cleanup(error)

    def _end_with(self, ending: Ending) -> None:
        self._ending = self._ending or ending

    def _build_status(self, message: str | None = None) -> api.JobStatus:
        statuses = tuple(query.status() for query in self._queries)
        shown = message or self._announcer.retry_message
        return self._status_tracker.status(
            statuses, self._announcer.sinks(), message=shown, last_error=queries.newest_error(self._queries)
        )

    @abstractmethod
    def _resume(self) -> None: ...


def log_failed_cleanup(error: errors.StatefulSparkError) -> None:
    """Log that files could not be removed."""
    _log.warning("cleanup failed and is retried later", extra={"why": str(error)})
