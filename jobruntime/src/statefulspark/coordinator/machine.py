"""The coordinator's state machine: `step(state, event)` returns the next state and the commands to perform.

The life of a snapshot: requested, queued, triggered (it gets an id, and the master hooks are called, if any), begun (every
participant is triggered), acknowledged by all, finalized (manifest written), complete. Any other end is an abort with a
reason. Ids only grow and are never reused, also when a snapshot fails (A.109). The caller performs the commands in order
and never calls `step` from two threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from statefulspark.contract.manifest import SnapshotKind, Trigger
from statefulspark.coordinator import requests, retaining
from statefulspark.coordinator.model import (
    COUNTED_REASONS,
    REMEMBERED_IDS,
    AbortReason,
    Acknowledged,
    AckOutcome,
    AskHooks,
    Begin,
    Cleaned,
    Command,
    CoordinatorSettings,
    Declined,
    Event,
    FailJob,
    Finalize,
    Finalized,
    FinalizeFailed,
    HookAnswered,
    NotifyAborted,
    NotifyComplete,
    ParticipantFailed,
    Pending,
    Refuse,
    Request,
    Requested,
    ShutDown,
    Started,
    State,
    Stopped,
    Subsume,
    Tick,
    TriggerFailed,
)

HOOK_PREFIX = "hook:"
"""Prefix of a master hook's name among participants; its identifier follows."""

PERIODIC_KEY = "(periodic)"
"""Key of periodic requests; callers cannot use it as a request id."""

_STOPPED = (AbortReason.CHECKPOINT_COORDINATOR_SUSPEND, "The job stopped running.")

Step = tuple[State, tuple[Command, ...]]


def initial(
    settings: CoordinatorSettings,
    *,
    next_id: int,
    retained: tuple[int, ...] = (),
    untried: frozenset[int] = frozenset(),
    restored: Mapping[str, int] | None = None,
    first_commits: frozenset[str] = frozenset(),
) -> State:
    """Return the initial state of a coordinator, which schedules nothing yet.

    Args:
        settings: The coordinator's settings.
        next_id: First id to use: greater than every id that the job has ever used (A.144).
        retained: Ids of completed checkpoints found on storage, oldest first.
        untried: Those of them in which the state of a query had not been loaded since it was restored.
        restored: The batch at which each participant's state was restored, for those that have state.
        first_commits: Participants whose first commit after the start is checkpointed at once, so that their output is
            visible before the first slot; and at once what was committed before the start, and is in no checkpoint yet.
    """
    last = retained[-1] if retained else None
    return State(
        settings=settings,
        next_id=next_id,
        retained=retained,
        untried=untried,
        restored=restored or {},
        last_completed_id=last,
        last_success_id=last or 0,
        is_overdue=bool(first_commits),
        first_commits=first_commits,
    )


def step(state: State, event: Event) -> Step:
    """Process one event.

    Args:
        state: The current state.
        event: The event.

    Returns:
        The next state, and the commands to perform in this order. Never raises for a well-formed event; an event about
        a snapshot that is not pending changes nothing.
    """
    if state.shut_down:
        return _after_shutdown(state, event)
    match event:
        case Started():
            return _on_started(state, event), ()
        case Tick():
            return _on_tick(state, event)
        case Requested():
            return _on_request(state, event)
        case HookAnswered():
            return _on_hook_answered(state, event)
        case Acknowledged():
            return _on_acknowledged(state, event)
        case Finalized():
            return _on_finalized(state, event)
        case Cleaned():
            return _drain_queue(replace(state, cleaning=state.cleaning - {event.snapshot_id}), event.now_s)
        case Declined() | ParticipantFailed() | TriggerFailed() | FinalizeFailed():
            return _on_failure(state, event)
        case Stopped():
            return _abort_everything(state, *_STOPPED)
        case ShutDown():
            stopped, commands = _abort_everything(
                state, AbortReason.CHECKPOINT_COORDINATOR_SHUTDOWN, "The driver is shutting down."
            )
            return replace(stopped, shut_down=True), commands
        case _:
            assert_never(event)


def _on_started(state: State, event: Started) -> State:
    return replace(
        state,
        periodic=True,
        participants=event.participants,
        hooks=event.hooks,
        next_trigger_at_s=event.now_s + event.first_delay_s,
    )


def _on_failure(state: State, event: Declined | ParticipantFailed | TriggerFailed | FinalizeFailed) -> Step:
    match event:
        case Declined():
            message = f"{event.participant} declined: {event.message}"
            return _abort_one(state, event.snapshot_id, event.reason, message, event.now_s)
        case ParticipantFailed():
            return _on_participant_failed(state, event)
        case TriggerFailed():
            reason = AbortReason.IO_EXCEPTION if event.is_storage else AbortReason.TRIGGER_CHECKPOINT_FAILURE
            return _abort_one(state, event.snapshot_id, reason, event.message, event.now_s)
        case FinalizeFailed():
            reason = AbortReason.FINALIZE_CHECKPOINT_FAILURE
            return _abort_one(state, event.snapshot_id, reason, event.message, event.now_s)
        case _:
            assert_never(event)


def ack_outcome(state: State, event: Acknowledged) -> AckOutcome:
    """Classify an acknowledgement before it is applied (A.99).

    Returns:
        SUCCESS if it is expected; otherwise why it is ignored.
    """
    pending = state.find(event.snapshot_id)
    if pending is None:
        was_aborted = event.snapshot_id in state.recently_aborted
        return AckOutcome.DISCARDED if was_aborted else AckOutcome.UNKNOWN
    if event.participant in pending.acknowledged:
        return AckOutcome.DUPLICATE
    is_asked = not pending.hooks and event.participant in pending.waiting_for
    return AckOutcome.SUCCESS if is_asked else AckOutcome.UNKNOWN


def _after_shutdown(state: State, event: Event) -> Step:
    if isinstance(event, Requested):
        reason = AbortReason.CHECKPOINT_COORDINATOR_SHUTDOWN
        return state, (Refuse(event.request, reason, "The driver is shutting down."),)
    return state, ()


def _on_tick(state: State, event: Tick) -> Step:
    now_s = event.now_s
    state, expired = _expire(state, now_s)
    is_due = state.next_trigger_at_s is not None and now_s >= state.next_trigger_at_s
    is_awaited = bool(event.news) and (state.is_overdue or not state.first_commits.isdisjoint(event.begun))
    if not state.periodic or not (is_due or is_awaited):
        state, begun = _drain_queue(state, now_s)
        return state, (*expired, *begun)
    slot_s = _next_slot(state, now_s) if is_due else now_s + state.settings.base_interval_s
    state = replace(
        state,
        next_trigger_at_s=slot_s,
        is_overdue=not event.news,
        first_commits=state.first_commits - event.begun,
    )
    if not event.news:
        return state, expired
    periodic = Request(PERIODIC_KEY, SnapshotKind.CHECKPOINT, Trigger.PERIODIC, now_s)
    state, begun = _on_request(state, Requested(now_s, periodic))
    return state, (*expired, *begun)


def _next_slot(state: State, now_s: float) -> float:
    """Return the next slot at the fixed rate; missed slots are skipped, not repeated."""
    interval_s = state.settings.base_interval_s
    slot_s = (state.next_trigger_at_s or now_s) + interval_s
    return slot_s if slot_s > now_s else now_s + interval_s


def _on_request(state: State, event: Requested) -> Step:
    enqueued = requests.enqueue(state.queue, event.request)
    refused: tuple[Command, ...] = ()
    if enqueued.refused is not None:
        message = f"{len(state.queue)} requests are waiting already; try again when some have ended."
        refused = (Refuse(enqueued.refused, AbortReason.TOO_MANY_CHECKPOINT_REQUESTS, message),)
    state, commands = _drain_queue(replace(state, queue=enqueued.queue), event.now_s)
    return state, (*refused, *commands)


def _drain_queue(state: State, now_s: float) -> Step:
    commands: list[Command] = []
    while True:
        decision = requests.decide(state, now_s)
        match decision:
            case requests.Wait():
                return state, tuple(commands)
            case requests.Go():
                state, begin = _begin(replace(state, queue=state.queue[1:]), decision.request, now_s)
                commands.append(begin)
            case requests.Drop():
                state = replace(state, queue=state.queue[1:])
                if decision.retry_at_s is not None:
                    state = replace(state, next_trigger_at_s=decision.retry_at_s)
                commands.append(Refuse(decision.request, decision.reason, decision.message))
            case _:
                assert_never(decision)


def _begin(state: State, request: Request, now_s: float) -> tuple[State, AskHooks | Begin]:
    pending = Pending(state.next_id, request, now_s, waiting_for=state.participants, hooks=state.hooks)
    state = replace(state, next_id=state.next_id + 1, pending=(*state.pending, pending))
    if state.hooks:
        return state, AskHooks(pending.id, request, state.participants, state.hooks)
    return state, Begin(pending.id, request, state.participants)


def _on_hook_answered(state: State, event: HookAnswered) -> Step:
    pending = state.find(event.snapshot_id)
    if pending is None or event.hook not in pending.hooks:
        return state, ()
    updated = replace(pending, hooks=pending.hooks - {event.hook})
    state = _with(state, updated)
    return state, () if updated.hooks else (Begin(updated.id, updated.request, updated.waiting_for),)


def _with(state: State, updated: Pending) -> State:
    return replace(state, pending=tuple(updated if pending.id == updated.id else pending for pending in state.pending))


def _on_acknowledged(state: State, event: Acknowledged) -> Step:
    pending = state.find(event.snapshot_id)
    if pending is None or ack_outcome(state, event) is not AckOutcome.SUCCESS:
        return state, ()
    updated = replace(
        pending,
        waiting_for=pending.waiting_for - {event.participant},
        acknowledged={**pending.acknowledged, event.participant: event.batch_id},
    )
    state = _with(state, updated)
    if not updated.is_fully_acknowledged:
        return state, ()
    return state, (Finalize(updated.id, updated.request, updated.acknowledged),)


def _on_finalized(state: State, event: Finalized) -> Step:
    pending = state.find(event.snapshot_id)
    if pending is None:
        return state, ()
    state = replace(
        state,
        pending=tuple(other for other in state.pending if other.id != pending.id),
        last_completion_at_s=event.now_s,
        last_success_id=max(state.last_success_id, pending.id),
        consecutive_failures=0,
    )
    if pending.request.kind is SnapshotKind.SAVEPOINT and not pending.request.is_stop:
        # An intermediate savepoint is not used for recovery and commits nothing (A.102, A.137).
        state, begun = _drain_queue(state, event.now_s)
        return state, (NotifyComplete(pending.id, pending.request), *begun)
    state, dropped = _subsume_pending(state, pending.id)
    is_savepoint = pending.request.kind is SnapshotKind.SAVEPOINT
    state, excess = (state, ()) if is_savepoint else retaining.retain(state, pending)
    retired = (Subsume(excess),) if excess else ()
    # A stopped job begins no snapshot: it would be written while the driver ends, and be the newest one on storage.
    state, rest = _refuse_queued(state, *_STOPPED) if pending.request.is_stop else _drain_queue(state, event.now_s)
    return state, (NotifyComplete(pending.id, pending.request), *dropped, *retired, *rest)


def _subsume_pending(state: State, completed_id: int) -> Step:
    """Drop older pending checkpoints; forced ones (savepoints, stops) are never subsumed (A.103)."""
    commands: list[Command] = []
    for pending in state.pending:
        if pending.id < completed_id and not pending.request.is_forced:
            state, command = _remove(
                state, pending, AbortReason.CHECKPOINT_SUBSUMED, f"Checkpoint {completed_id} completed first."
            )
            commands.append(command)
    return state, tuple(commands)


def _expire(state: State, now_s: float) -> Step:
    commands: list[Command] = []
    for pending in state.pending:
        if now_s - pending.triggered_at_s < state.settings.timeout_s:
            continue
        hooks = [f"{HOOK_PREFIX}{hook}" for hook in sorted(pending.hooks)]
        waiting = ", ".join(hooks or sorted(pending.waiting_for)) or "the manifest"
        message = (
            f"Checkpoint expired before completing: it was triggered {state.settings.timeout_s:g} s ago and still waits "
            f"for {waiting}."
        )
        state, aborted = _abort_one(state, pending.id, AbortReason.CHECKPOINT_EXPIRED, message, now_s)
        commands.extend(aborted)
    return state, tuple(commands)


def _on_participant_failed(state: State, event: ParticipantFailed) -> Step:
    """Abort the snapshots that the participant has not acknowledged; the others can still complete (A.109)."""
    commands: list[Command] = []
    message = f"{event.participant} failed: {event.message}"
    for pending in state.pending:
        if event.participant in pending.waiting_for:
            state, aborted = _abort_one(state, pending.id, AbortReason.TASK_FAILURE, message, event.now_s)
            commands.extend(aborted)
    return state, tuple(commands)


def _abort_one(state: State, snapshot_id: int, reason: AbortReason, message: str, now_s: float) -> Step:
    pending = state.find(snapshot_id)
    if pending is None:
        return state, ()
    state, notify = _remove(state, pending, reason, message)
    state, failed = _count_failure(state, pending, reason, message)
    state, begun = _drain_queue(state, now_s)
    return state, (notify, *failed, *begun)


def _remove(state: State, pending: Pending, reason: AbortReason, message: str) -> tuple[State, NotifyAborted]:
    state = replace(
        state,
        pending=tuple(other for other in state.pending if other.id != pending.id),
        cleaning=state.cleaning | {pending.id},
        recently_aborted=(*state.recently_aborted, pending.id)[-REMEMBERED_IDS:],
    )
    return state, NotifyAborted(pending.id, pending.request, reason, message)


def _count_failure(state: State, pending: Pending, reason: AbortReason, message: str) -> Step:
    """Count consecutive failures of checkpoints; a failed savepoint never fails the job (A.110, A.112)."""
    superseded = pending.id <= state.last_success_id
    if reason not in COUNTED_REASONS or superseded or pending.request.kind is SnapshotKind.SAVEPOINT:
        return state, ()
    failures = state.consecutive_failures + 1
    if failures <= state.settings.tolerable_failures:
        return replace(state, consecutive_failures=failures), ()
    text = (
        f"Exceeded checkpoint tolerable failure threshold: {failures} consecutive checkpoints failed, "
        f"{state.settings.tolerable_failures} are tolerated. The latest, {pending.id}, failed with {reason}: {message}"
    )
    return replace(state, consecutive_failures=0), (FailJob(text),)


def _refuse_queued(state: State, reason: AbortReason, message: str) -> Step:
    refused = tuple(Refuse(request, reason, message) for request in state.queue)
    stopped = replace(
        state, queue=(), periodic=False, next_trigger_at_s=None, participants=frozenset(), is_overdue=False
    )
    return stopped, refused


def _abort_everything(state: State, reason: AbortReason, message: str) -> Step:
    state, refused = _refuse_queued(state, reason, message)
    commands: list[Command] = list(refused)
    for pending in state.pending:
        state, command = _remove(state, pending, reason, message)
        commands.append(command)
    return state, tuple(commands)
