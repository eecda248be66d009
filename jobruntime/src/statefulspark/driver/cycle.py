"""The snapshots of a running job, from top to bottom: trigger -> hooks -> close over -> fence -> manifest -> announce.

`Cycle` sends events to the coordinator, which decides, and performs its commands. Everything here runs on the loop's thread,
in order. Work on storage (`SnapshotWriter`: closes over the files, checks the fence, writes the manifest last) and
announcements run in the background and post their outcome to the inbox.
"""

from __future__ import annotations

import functools
import logging
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from statefulspark import clock, errors
from statefulspark.contract import api
from statefulspark.contract.config import CheckpointConfig
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.contract.manifest import MasterStateEntry, SnapshotKind, Trigger
from statefulspark.coordinator import machine, model
from statefulspark.driver.output.commit import SinkKey
from statefulspark.driver.running import hooks, quiesce
from statefulspark.driver.running.queries import RunningQuery
from statefulspark.driver.snapshots import notify
from statefulspark.driver.snapshots.background import Background, Deletions, Lane, Pace
from statefulspark.driver.snapshots.snapshot_writer import DeclinedError, SnapshotOrder, SnapshotWriter
from statefulspark.driver.status import Ending, JobStatusTracker, Operations
from statefulspark.retention import rules

StateRequest = api.CheckpointRequest | api.SavepointRequest | api.StopRequest

_LAST_DELETIONS_S = 5.0
"""So long the last pruning may delete: a job that is to end does not wait for what nobody needs."""

_log = logging.getLogger(__name__)


class Cycle:
    """Takes the snapshots of a job; used by the job loop only."""

    def __init__(
        self,
        *,
        coordinator: model.State,
        queries: quiesce.GatedQueries,
        participants: Mapping[str, str],
        master_hooks: hooks.JobHooks,
        writer: SnapshotWriter,
        announcer: notify.Announcer,
        tracker: JobStatusTracker,
        operations: Operations,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        """Take over started queries; nothing happens before `start`.

        Args:
            coordinator: Decides when snapshots begin, complete and abort.
            queries: Paused for a stop.
            participants: Everyone who acknowledges, each with the query whose batches make it durable.
            master_hooks: Called before the participants acknowledge.
            writer: Writes snapshots.
            announcer: Notifies others when a snapshot ends.
            tracker: Gets the statistics, the job's state and its ending.
            operations: The requests of the API.
            post: Runs a function on the loop's thread, soon.
        """
        self._coordinator = coordinator
        self._queries = queries
        self._participants = participants
        self._hooks = master_hooks
        self._writer = writer
        self._announcer = announcer
        self._tracker = tracker
        self._operations = operations
        self._post = post
        self._background = Background(post)
        self._requests: dict[str, StateRequest] = {}  # Until they begin.
        self._orders: dict[int, SnapshotOrder] = {}  # The pending snapshots.
        self._to_copy_ahead: SnapshotOrder | None = None  # The savepoint of a stop that waits for its turn.
        self._summaries: dict[int, api.SnapshotSummary] = {}  # Of snapshots that are written, until they complete.
        self._completed_stop: tuple[model.Request, api.SnapshotSummary] | None = None  # Until its sinks have committed.
        self._under_way = Counter[Lane | SinkKey]()  # Commits and announcements.
        self._pruning = Pace()
        self._deletions = Deletions()
        self._freed_bytes = 0  # Of the files that are being deleted.

    @property
    def is_stopping(self) -> bool:
        """Whether a stop has begun and has not failed."""
        pending = any(order.coordinator_request.is_stop for order in self._orders.values())
        return pending or self._completed_stop is not None

    # Trigger

    def start(self) -> None:
        """Schedule periodic checkpoints."""
        settings, participants = self._coordinator.settings, frozenset(self._participants)
        # Flink spreads first triggers, so that jobs started together do not all write at once (A.85).
        first_delay_s = random.uniform(settings.min_pause_s, settings.base_interval_s)  # noqa: S311 - not a secret
        self._step(model.Started(time.monotonic(), participants, first_delay_s, self._hooks.uids))

    def turn(self) -> None:
        """Trigger what is due, acknowledge what has begun, commit and prune meanwhile; once per turn of the loop."""
        self._commit()
        latest = self._tracker.last_checkpoint
        covered = latest.batches if latest else {}
        committed = self._committed_batches()
        news = frozenset(uid for uid, batch in committed.items() if batch != covered.get(uid, -1))
        begun = frozenset(query.uid for query in self._queries.queries if query.fact.last_commit_at is not None)
        self._step(model.Tick(time.monotonic(), news, begun))
        self._copy_ahead()
        for pending in self._coordinator.pending:
            if pending.is_awaited and self._may_take_its_cut(pending):
                self._step(
                    acknowledge(
                        pending.id,
                        time.monotonic(),
                        participants=self._participants,
                        running=self._queries.queries,
                        is_ending=self._tracker.ending is not None,
                    )
                )
        if not self._deletions.backlog and self._pruning.begin_if_due(time.monotonic()):
            self._prune()
        if keys := self._deletions.begin_if_due(time.monotonic()):
            self._delete(keys)

    def _may_take_its_cut(self, pending: model.Pending) -> bool:
        """Tell whether a stop has its queries at a boundary; whether it is a savepoint's turn.

        Meanwhile the files of earlier batches may go.
        """
        if pending.request.is_stop:
            return self._queries.is_at_boundary
        return pending.request.kind is SnapshotKind.CHECKPOINT or self._is_turn_of(pending.id)

    def _is_turn_of(self, snapshot_id: int) -> bool:
        """Tell whether a savepoint is the oldest one, and nothing of another is being written or removed."""
        savepoints = (order.snapshot_id for order in self._orders.values() if order.lane is Lane.SAVEPOINT)
        return snapshot_id == min(savepoints, default=None) and not self._background.is_busy(Lane.SAVEPOINT)

    def request(self, request: StateRequest) -> None:
        """Request a checkpoint, a savepoint or a stop for a caller of the API."""
        self._requests[request.request_id] = request
        is_stop, now_s = isinstance(request, api.StopRequest), time.monotonic()
        kind = requested_kind(request)
        self._step(model.Requested(now_s, model.Request(request.request_id, kind, request.trigger, now_s, is_stop)))

    def configure(self, checkpoint: CheckpointConfig) -> None:
        """Take, keep and show snapshots as a new configuration says."""
        self._writer.configure(checkpoint)
        self._tracker.configure(checkpoint)
        self._step(model.Configured(time.monotonic(), model.CoordinatorSettings.read(checkpoint)))

    def request_own_stop(self, key: str) -> None:
        """Request a stop of the driver itself."""
        now_s = time.monotonic()
        request = model.Request(key, SnapshotKind.CHECKPOINT, Trigger.STOP, now_s, is_stop=True)
        self._step(model.Requested(now_s, request))

    def _step(self, event: model.Event) -> None:
        self._coordinator, commands = machine.step(self._coordinator, event)
        self._tracker.observe(event, commands)
        for command in commands:
            match command:
                case model.Begin():
                    self._begin(command)
                case model.Finalize():
                    self._write(self._orders[command.snapshot_id], command.batches)
                case model.NotifyComplete():
                    self._complete(command)
                case model.NotifyAborted():
                    self._abort(command)
                case model.Refuse():
                    self._refuse(command.request, command.reason, command.message)
                case model.Subsume():
                    self._clean(Lane.CHECKPOINT, functools.partial(self._writer.drop, command.checkpoint_ids))
                case model.FailJob():
                    self._tracker.end_with(Ending(ExitCode.FAILED, "CheckpointsFailing", command.message))
                case _:
                    assert_never(command)

    # Hooks

    def _begin(self, command: model.Begin) -> None:
        request = self._requests.pop(command.request.key, None)
        order = SnapshotOrder(command.snapshot_id, command.request, clock.utc_now(), request)
        self._orders[order.snapshot_id] = order
        self._announcer.snapshot_begun(order.snapshot_id)
        if command.request.is_stop:
            self._tracker.state = api.JobState.STOPPING
        if not command.hooks:
            self._pause_for_stop(order)
            return

        def answered(hook: str, state: MasterStateEntry | None) -> None:
            self._post(lambda: self._take_hook_state(order.snapshot_id, hook, state))

        def refused(hook: str, error: errors.StatefulSparkError) -> None:
            self._post(lambda: self._decline(order.snapshot_id, f"{machine.HOOK_PREFIX}{hook}", error.message))

        self._hooks.trigger(order.snapshot_id, order.triggered_at, answered=answered, refused=refused)

    def _take_hook_state(self, snapshot_id: int, hook: str, state: MasterStateEntry | None) -> None:
        order = self._orders.get(snapshot_id)
        if order is None:
            return
        if state is not None:
            order = replace(order, master_states=(*order.master_states, state))
            self._orders[snapshot_id] = order
        self._step(model.HookAnswered(time.monotonic(), snapshot_id, hook))
        pending = self._coordinator.find(snapshot_id)
        if pending is not None and pending.is_awaited:
            self._pause_for_stop(order)

    # The barrier

    def _pause_for_stop(self, order: SnapshotOrder) -> None:
        """Hold the queries at their next boundary for a stop; any other snapshot takes what is committed already."""
        if not order.coordinator_request.is_stop:
            return
        if order.kind is SnapshotKind.CHECKPOINT:
            self._queries.close()
        else:
            self._to_copy_ahead = order

    def _copy_ahead(self) -> None:
        """Copy most files of a stop's savepoint while the job still runs, so that the pause does not grow with the state.

        It waits for its turn: the queries would be held while an earlier savepoint is copied.
        """
        order = self._to_copy_ahead
        if order is None or not self._is_turn_of(order.snapshot_id):
            return
        self._to_copy_ahead = None

        def report(done: api.Progress) -> None:
            self._report(order, done)

        def copied(_: None) -> None:
            if order.snapshot_id in self._orders:  # Otherwise the stop has failed meanwhile, and the job continues.
                self._queries.close()

        def failed(error: errors.StatefulSparkError) -> None:
            is_storage = isinstance(error, errors.TransientError | errors.StateUnknownError)
            reason = model.AbortReason.IO_EXCEPTION if is_storage else model.AbortReason.TRIGGER_CHECKPOINT_FAILURE
            self._fail(order, error, reason)

        self._background.submit(
            Lane.SAVEPOINT,
            lambda: self._writer.precopy(order, self._committed_batches(), on_progress=report),
            on_done=copied,
            on_failed=failed,
        )

    def _committed_batches(self) -> dict[str, int]:
        return {query.uid: query.committed_batch for query in self._queries.queries}

    def _decline(self, snapshot_id: int, participant: str, message: str) -> None:
        self._step(model.Declined(time.monotonic(), snapshot_id, participant, message))

    def decline_waiting(self, participant: str, message: str) -> None:
        """Abort the snapshots that wait for the participants, since one of them could not prepare its part."""
        for pending in self._coordinator.pending:
            if pending.batches is None:
                self._decline(pending.id, participant, message)

    def fail_waiting(self, query_uid: str, message: str) -> None:
        """Abort the snapshots that wait for the participants, since a query has failed."""
        for pending in self._coordinator.pending:
            if pending.batches is None:
                reason, text = model.AbortReason.TASK_FAILURE, f"{query_uid} failed: {message}"
                self._step(model.Failed(time.monotonic(), pending.id, reason, text))

    # Close over, fence, manifest

    def _write(self, order: SnapshotOrder, batches: Mapping[str, int]) -> None:
        def written(summary: api.SnapshotSummary) -> None:
            if order.snapshot_id in self._orders:  # Otherwise it has expired; `discard` follows in the same lane.
                self._summaries[order.snapshot_id] = summary
                self._tracker.snapshot_written(summary)
                self._step(model.Finalized(time.monotonic(), order.snapshot_id))

        self._background.submit(
            order.lane,
            lambda: self._writer.complete(order, batches, on_progress=lambda done: self._report(order, done)),
            on_done=written,
            on_failed=lambda error: self._fail(order, error, model.AbortReason.FINALIZE_CHECKPOINT_FAILURE),
        )

    def _report(self, order: SnapshotOrder, done: api.Progress) -> None:
        """Note the progress of a copy, in the writer's thread.

        Raises:
            StatefulSparkError: `SnapshotGivenUp`: the snapshot was aborted, so that its writer ends.
        """
        if order.snapshot_id not in self._orders:
            raise errors.StatefulSparkError(
                "SnapshotGivenUp", f"Snapshot {order.snapshot_id} was aborted while it was written; its writer ends."
            )
        self._operations.report(order.coordinator_request.key, done)

    def _fail(self, order: SnapshotOrder, error: errors.StatefulSparkError, reason: model.AbortReason) -> None:
        if isinstance(error, errors.FencedError):
            self._tracker.end_with(Ending(ExitCode.FENCED, error.reason, error.message))
        elif isinstance(error, DeclinedError):
            self._decline(order.snapshot_id, error.participant, str(error))
        else:
            self._step(model.Failed(time.monotonic(), order.snapshot_id, reason, str(error)))

    # Announce

    def _complete(self, command: model.NotifyComplete) -> None:
        request, summary = command.request, self._summaries.pop(command.snapshot_id)
        del self._orders[command.snapshot_id]
        self._tracker.snapshot_completed(summary)
        _log.info("snapshot completed", extra={"location": summary.location, "trigger": summary.trigger})
        if not request.is_stop:
            self._operations.complete(request.key, summary)
        if summary.kind is SnapshotKind.SAVEPOINT and not request.is_stop:
            self._announcer.forget(command.snapshot_id)  # It commits nothing (A.49, A.102).
            return
        if summary.kind is SnapshotKind.CHECKPOINT:
            self._pruning.request()  # Also if none is beyond the retained number: one may be too old.
        if request.is_stop:
            self._completed_stop = request, summary
            self._announcer.limit_waiting()
        self._announcer.snapshot_completed(command.snapshot_id)
        self._announce(Lane.ANNOUNCE, lambda: self._announcer.notify_complete(command.snapshot_id))
        self._commit()

    def _commit(self) -> None:
        """Let each sink commit what it may; what comes meanwhile waits until that sink is done."""
        if self._tracker.ending is not None:
            return
        batches = self._committed_batches()
        for sink in self._announcer.due_sinks(batches):
            if not self._under_way[sink]:
                self._announce(sink, functools.partial(self._announcer.commit, sink, batches))

    def _announce(self, lane: Lane | SinkKey, work: Callable[[], None]) -> None:
        def done(_: None) -> None:
            self._under_way[lane] -= 1
            self._end_stop()

        def failed(error: errors.StatefulSparkError) -> None:
            if isinstance(error, errors.FencedError):
                self._tracker.end_with(Ending(ExitCode.FENCED, error.reason, error.message))
                return
            message = error.message
            if self._completed_stop is not None:
                message = notify.uncommitted(self._completed_stop[1].location, error.message)
            self._tracker.end_with(Ending(ExitCode.FAILED, error.reason, message))

        self._under_way[lane] += 1
        self._background.submit(lane, work, on_done=done, on_failed=failed)

    def _end_stop(self) -> None:
        """End a stop whose snapshot is complete once its sinks have committed and everybody else has heard of it."""
        is_busy = self._under_way.total() or self._announcer.due_sinks(self._committed_batches())
        if self._completed_stop is None or is_busy or self._tracker.ending is not None:
            return
        request, summary = self._completed_stop
        self._operations.complete(request.key, summary)
        self._completed_stop = None
        self._tracker.end_with(Ending.after_stop(request.key, summary))

    # Abort

    def _abort(self, command: model.NotifyAborted) -> None:
        order = self._orders.pop(command.snapshot_id)
        if order == self._to_copy_ahead:
            self._to_copy_ahead = None
        why = f"{command.reason}: {command.message}"
        _log.warning("snapshot aborted", extra={"id": command.snapshot_id, "why": why})
        self._announce(Lane.ANNOUNCE, lambda: self._announcer.notify_aborted(command.snapshot_id))
        self._clean(
            order.lane,
            lambda: self._writer.discard(order),
            then=lambda: self._step(model.Cleaned(time.monotonic(), order.snapshot_id)),
        )
        self._refuse(command.request, command.reason, command.message)

    def _refuse(self, request: model.Request, reason: model.AbortReason, message: str) -> None:
        """Fail a request that gets no snapshot; the job continues if it was a stop."""
        self._requests.pop(request.key, None)
        if not request.is_periodic:
            self._operations.fail(request.key, reason, message)
        if not request.is_stop or self.is_stopping or self._tracker.ending is not None:
            return
        if self._queries.was_interrupted:  # They are at the end of event time; the next driver takes them back.
            message = "The driver received a signal to end while it drained the job."
            self._tracker.end_with(Ending(ExitCode.FAILED, "StopInterrupted", message))
            return
        self._tracker.state = api.JobState.RUNNING
        self._queries.open()

    def _clean(self, lane: Lane, work: Callable[[], None], then: Callable[[], None] = lambda: None) -> None:
        def failed(error: errors.StatefulSparkError) -> None:
            _log_failed_cleanup(error)
            then()

        self._background.submit(lane, work, on_done=lambda _: then(), on_failed=failed)

    def _prune(self) -> None:
        def search() -> tuple[rules.PrunePlan, float, int]:
            began_s = time.monotonic()
            planned = self._writer.prune()
            return planned, time.monotonic() - began_s, self._writer.size_of(planned.savepoints)

        def searched(result: tuple[rules.PrunePlan, float, int]) -> None:
            planned, took_s, savepoint_bytes = result
            self._pruning.end(time.monotonic())
            self._deletions.add(planned.delete_files)
            unused = len(planned.marks) + len(planned.delete_files)
            self._tracker.files = api.FileCounts(
                objects=unused + sum(planned.keep_reasons.values()),
                unused_objects=unused,
                search_ms=round(took_s * 1000),
                deletion_backlog=self._deletions.backlog,
                savepoints=len(planned.savepoints),
                savepoint_bytes=savepoint_bytes,
            )
            self._freed_bytes = planned.freed_bytes
            self._note_deletions()

        def failed(error: errors.StatefulSparkError) -> None:
            _log_failed_cleanup(error)
            self._pruning.end(time.monotonic())

        self._background.submit(Lane.CHECKPOINT, search, on_done=searched, on_failed=failed)

    def _delete(self, keys: Sequence[str]) -> None:
        def deleted(refused: int) -> None:
            self._deletions.end(time.monotonic(), refused=refused)
            self._note_deletions()

        def failed(error: errors.StatefulSparkError) -> None:
            _log_failed_cleanup(error)
            if isinstance(error, errors.TransientError):
                self._deletions.fail(time.monotonic())
            else:
                self._deletions.drop()  # The next search finds them again.
                self._freed_bytes = 0
            self._note_deletions()

        self._background.submit(Lane.DELETION, lambda: self._writer.delete(keys), on_done=deleted, on_failed=failed)

    # The end

    def close(self, ending: Ending) -> None:
        """Abort what is pending, end the background work, and prune once more after a clean end."""
        self._step(model.ShutDown(time.monotonic()))
        self._announcer.cancel_retries()
        if self._completed_stop is not None:  # Its snapshot is complete, and it did not end the job (A.164).
            request, summary = self._completed_stop
            is_named = summary.location in ending.message
            message = ending.message if is_named else notify.uncommitted(summary.location, ending.message)
            self._operations.fail(request.key, "StopFailed", message)
        self._background.close(wait=ending.code is not ExitCode.FENCED)
        if ending.is_clean and (self._pruning.is_requested or self._deletions.backlog):
            self._prune_at_end()

    def _prune_at_end(self) -> None:
        """Prune in the loop's thread, and delete for a limited time; the next search finds the rest."""
        until_s = time.monotonic() + _LAST_DELETIONS_S
        try:
            self._deletions.add(self._deletions.drop())  # The part that was under way is deleted.
            if self._pruning.is_requested:
                planned = self._writer.prune()
                self._deletions.add(planned.delete_files)
                self._freed_bytes += planned.freed_bytes
            while time.monotonic() < until_s and (keys := self._deletions.begin_if_due(math.inf)):
                self._deletions.end(-math.inf, refused=self._writer.delete(keys))
        except errors.StatefulSparkError as error:
            _log_failed_cleanup(error)
        else:
            self._note_deletions()

    def _note_deletions(self) -> None:
        """Note how many files wait to be deleted, and what was freed when there are none."""
        if self._tracker.files is not None:
            backlog = {"deletion_backlog": self._deletions.backlog}
            self._tracker.files = self._tracker.files.model_copy(update=backlog)
        if not self._deletions.backlog:
            self._tracker.pruned_bytes += self._freed_bytes
            self._freed_bytes = 0

    def abandon(self) -> None:
        """End the background work where it is. For tests of jobs."""
        self._background.close(wait=True)


def requested_kind(request: StateRequest) -> SnapshotKind:
    """Return what a request of the API asks for."""
    is_savepoint = isinstance(request, api.SavepointRequest) or (
        isinstance(request, api.StopRequest) and request.savepoint
    )
    return SnapshotKind.SAVEPOINT if is_savepoint else SnapshotKind.CHECKPOINT


def acknowledge(
    snapshot_id: int,
    now_s: float,
    *,
    participants: Mapping[str, str],
    running: Sequence[RunningQuery],
    is_ending: bool,
) -> model.Acknowledged | model.Declined:
    """Return the acknowledgement of all participants, or the decline of the first one that cannot take part.

    A participant is a query, or a function or sink whose part is durable with the query's batches. It acknowledges with the
    last batch that its query has committed, and declines when its query does not run.

    Args:
        snapshot_id: The snapshot.
        now_s: The monotonic time.
        participants: Their names, each with the query whose batches make it durable.
        running: The queries.
        is_ending: Whether the job is about to end, so that the snapshot could not be announced.
    """
    queries = {query.uid: query for query in running}
    for participant, uid in participants.items():
        if is_ending or queries[uid].error is not None:
            reason, why = model.AbortReason.CHECKPOINT_DECLINED_TASK_CLOSING, f"the query {uid!r} is ending"
            return model.Declined(now_s, snapshot_id, participant, why, reason)
        if queries[uid].is_starting:
            reason = model.AbortReason.CHECKPOINT_DECLINED_TASK_NOT_READY
            why = f"the query {uid!r} is being restarted and does not run yet"
            return model.Declined(now_s, snapshot_id, participant, why, reason)
    batches = {participant: queries[uid].committed_batch for participant, uid in participants.items()}
    return model.Acknowledged(now_s, snapshot_id, batches)


def _log_failed_cleanup(error: errors.StatefulSparkError) -> None:
    _log.warning("cleanup failed and is retried later", extra={"why": str(error)})
