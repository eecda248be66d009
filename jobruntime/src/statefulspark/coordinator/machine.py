"""The coordinator's state machine: `step(state, event)` returns the next state and the commands to perform.

The life of a snapshot: requested, queued, triggered (it gets an id, and the master hooks are called, if any), acknowledged
by all participants, finalized (manifest written), complete. Any other end is an abort with a reason. Ids only grow and are
never reused, also when a snapshot fails (A.109). The caller performs the commands in order and never calls `step` from two
threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from statefulspark.contract import manifest as manifests
from statefulspark.contract.manifest import SnapshotKind, Trigger
from statefulspark.coordinator.model import (
    COUNTED_REASONS,
    MAX_QUEUED_REQUESTS,
    AbortReason,
    Acknowledged,
    Begin,
    Cleaned,
    Command,
    Configured,
    CoordinatorSettings,
    Declined,
    Event,
    Failed,
    FailJob,
    Finalize,
    Finalized,
    HookAnswered,
    NotifyAborted,
    NotifyComplete,
    Pending,
    Refuse,
    Request,
    Requested,
    ShutDown,
    Started,
    State,
    Subsume,
    Tick,
)

HOOK_PREFIX = "hook:"
"""Prefix of a master hook's name among participants; its uid follows."""

PERIODIC_KEY = "(periodic)"
"""Key of periodic requests; callers cannot use it as a request id."""

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
    return State(
        settings=settings,
        next_id=next_id,
        retained=retained,
        untried=untried,
        restored=restored or {},
        last_success_id=retained[-1] if retained else 0,
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
    match event:
        case Started():
            first_s = event.now_s + event.first_delay_s
            return replace(state, participants=event.participants, hooks=event.hooks, next_trigger_at_s=first_s), ()
        case Tick():
            return _on_tick(state, event)
        case Requested():
            return _on_request(state, event.request, event.now_s)
        case HookAnswered():
            pending = state.find(event.snapshot_id)
            if pending is not None:
                state = _update(state, replace(pending, hooks=pending.hooks - {event.hook}))
            return state, ()
        case Acknowledged():
            return _on_acknowledged(state, event)
        case Declined() | Failed():
            who = f"{event.participant} declined: " if isinstance(event, Declined) else ""
            return _abort_one(state, event.snapshot_id, event.reason, f"{who}{event.message}", event.now_s)
        case Finalized():
            return _on_finalized(state, event)
        case Cleaned():
            return _drain_queue(replace(state, cleaning=state.cleaning - {event.snapshot_id}), event.now_s)
        case Configured():
            slot_s = event.now_s + event.settings.base_interval_s
            due_s = None if state.next_trigger_at_s is None else min(state.next_trigger_at_s, slot_s)
            return _drain_queue(replace(state, settings=event.settings, next_trigger_at_s=due_s), event.now_s)
        case ShutDown():
            return _end(state, AbortReason.CHECKPOINT_COORDINATOR_SHUTDOWN, "The driver is shutting down.")
        case _:
            assert_never(event)


# Triggers and requests


def _on_tick(state: State, event: Tick) -> Step:
    state, expired = _expire(state, event.now_s)
    if state.next_trigger_at_s is None:
        return state, expired
    is_due = event.now_s >= state.next_trigger_at_s
    is_awaited = bool(event.news) and (state.is_overdue or not state.first_commits.isdisjoint(event.begun))
    if not (is_due or is_awaited):
        return state, expired
    slot_s = (state.next_trigger_at_s if is_due else event.now_s) + state.settings.base_interval_s
    state = replace(
        state,
        next_trigger_at_s=slot_s if slot_s > event.now_s else event.now_s + state.settings.base_interval_s,
        is_overdue=not event.news,
        first_commits=state.first_commits - event.begun,
    )
    if not event.news:
        return state, expired
    periodic = Request(PERIODIC_KEY, SnapshotKind.CHECKPOINT, Trigger.PERIODIC, event.now_s)
    state, commands = _on_request(state, periodic, event.now_s)
    return state, (*expired, *commands)


def _on_request(state: State, request: Request, now_s: float) -> Step:
    queue, refused = enqueue(state.queue, request)
    state, commands = _drain_queue(replace(state, queue=queue), now_s)
    if refused is None:
        return state, commands
    message = f"{MAX_QUEUED_REQUESTS} requests are waiting already; try again when some have ended."
    return state, (Refuse(refused, AbortReason.TOO_MANY_CHECKPOINT_REQUESTS, message), *commands)


def enqueue(queue: tuple[Request, ...], request: Request) -> tuple[tuple[Request, ...], Request | None]:
    """Insert a request by its priority; return the queue, and the request that was refused for it, if any.

    Savepoints go first, then forced requests, then those of users, then the oldest (A.89). A second periodic request is
    dropped silently while one is waiting. When the queue is full and holds only users' requests, the new request is
    refused; otherwise the least important one is refused.
    """
    waits_for_slot = any(waiting.is_periodic for waiting in queue)
    if request.is_periodic and waits_for_slot:
        return queue, None
    if len(queue) >= MAX_QUEUED_REQUESTS and not waits_for_slot:
        return queue, request
    ordered = tuple(sorted((*queue, request), key=_priority))
    if len(ordered) > MAX_QUEUED_REQUESTS:
        return ordered[:-1], ordered[-1]
    return ordered, None


def _priority(request: Request) -> tuple[bool, bool, bool, float]:
    is_savepoint = request.kind is SnapshotKind.SAVEPOINT
    return not is_savepoint, not request.is_forced, request.is_periodic, request.requested_at_s


def _drain_queue(state: State, now_s: float) -> Step:
    """Trigger or refuse requests from the head of the queue until the next one has to wait (A.88)."""
    commands: list[Command] = []
    while state.queue:
        head = state.queue[0]
        if not state.participants:
            reason = AbortReason.NOT_ALL_REQUIRED_TASKS_RUNNING
            commands.append(Refuse(head, reason, "Not all queries of the job are running."))
        elif not head.is_forced and _has_to_wait(state):
            break
        elif head.is_periodic and now_s < _earliest_periodic_s(state):
            allowed_at_s = _earliest_periodic_s(state)
            message = f"The minimum pause after the last completion has {allowed_at_s - now_s:.1f} s to go."
            commands.append(Refuse(head, AbortReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS, message))
            state = replace(state, next_trigger_at_s=allowed_at_s)
        else:
            pending = Pending(state.next_id, head, now_s, state.participants, state.hooks)
            commands.append(Begin(pending.id, head, state.participants, state.hooks))
            state = replace(state, next_id=state.next_id + 1, pending=(*state.pending, pending))
        state = replace(state, queue=state.queue[1:])
    return state, tuple(commands)


def _has_to_wait(state: State) -> bool:
    """Tell whether a request that is not forced must wait: for a free slot (A.88), or for the end of a stop (A.162)."""
    is_full = len(state.pending) >= state.settings.max_concurrent
    is_stopping = any(pending.request.is_stop for pending in state.pending)
    return is_full or is_stopping or len(state.cleaning) > state.settings.max_concurrent


def _earliest_periodic_s(state: State) -> float:
    """Return the time before which no periodic checkpoint may be triggered (A.73)."""
    if state.last_completion_at_s is None:
        return float("-inf")
    return state.last_completion_at_s + state.settings.min_pause_s


# Answers


def _on_acknowledged(state: State, event: Acknowledged) -> Step:
    pending = state.find(event.snapshot_id)
    if pending is None or not pending.is_awaited:
        return state, ()
    state = _update(state, replace(pending, batches=event.batches))
    return state, (Finalize(pending.id, pending.request, event.batches),)


def _update(state: State, updated: Pending) -> State:
    return replace(state, pending=tuple(updated if pending.id == updated.id else pending for pending in state.pending))


# Ends


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
    complete = NotifyComplete(pending.id, pending.request)
    is_savepoint = pending.request.kind is SnapshotKind.SAVEPOINT
    if is_savepoint and not pending.request.is_stop:
        # An intermediate savepoint is not used for recovery and commits nothing (A.102, A.137).
        state, begun = _drain_queue(state, event.now_s)
        return state, (complete, *begun)
    dropped: list[Command] = []
    for older in state.pending:
        # Forced ones, which are savepoints and stops, are never subsumed (A.103).
        if older.id < pending.id and not older.request.is_forced:
            message = f"Checkpoint {pending.id} completed first."
            state, command = _remove(state, older, AbortReason.CHECKPOINT_SUBSUMED, message)
            dropped.append(command)
    state, excess = (state, ()) if is_savepoint else _retain(state, pending)
    retired = (Subsume(excess),) if excess else ()
    # A stopped job begins no snapshot: it would be written while the driver ends, and be the newest one on storage.
    state, rest = (
        _end(state, AbortReason.CHECKPOINT_COORDINATOR_SUSPEND, "The job stopped running.")
        if pending.request.is_stop
        else _drain_queue(state, event.now_s)
    )
    return state, (complete, *dropped, *retired, *rest)


def _retain(state: State, completed: Pending) -> tuple[State, tuple[int, ...]]:
    """Retain a checkpoint that is complete, and return the ids of those that are not needed any more, oldest first."""
    is_untried = bool(manifests.untried(state.restored, completed.batches or {}))
    untried = state.untried | ({completed.id} if is_untried else frozenset())
    completed_ids = sorted((*state.retained, completed.id))
    kept = frozenset(manifests.retained(completed_ids, untried, state.settings.retained))
    state = replace(state, retained=tuple(sorted(kept)), untried=untried & kept)
    return state, tuple(number for number in completed_ids if number not in kept)


def _expire(state: State, now_s: float) -> Step:
    """Abort what has taken too long. One savepoint is written at a time, so a later one takes none while it waits."""
    commands: list[Command] = []
    is_first_savepoint = True
    for pending in state.pending:
        if pending.request.kind is SnapshotKind.SAVEPOINT and not is_first_savepoint:
            state = _update(state, replace(pending, timed_from_s=now_s))
            continue
        is_first_savepoint &= pending.request.kind is not SnapshotKind.SAVEPOINT
        if now_s - pending.timed_from_s < state.settings.timeout_s:
            continue
        hooks = [f"{HOOK_PREFIX}{hook}" for hook in sorted(pending.hooks)]
        participants = sorted(pending.participants) if pending.batches is None else []
        message = (
            f"Checkpoint expired before completing: it began {state.settings.timeout_s:g} s ago and still waits for "
            f"{', '.join(hooks or participants) or 'the manifest'}."
        )
        state, aborted = _abort_one(state, pending.id, AbortReason.CHECKPOINT_EXPIRED, message, now_s)
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
    others = tuple(other for other in state.pending if other.id != pending.id)
    state = replace(state, pending=others, cleaning=state.cleaning | {pending.id})
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


def _end(state: State, reason: AbortReason, message: str) -> Step:
    """Refuse what is queued, abort what is pending, and begin nothing from now on (A.86)."""
    commands: list[Command] = [Refuse(request, reason, message) for request in state.queue]
    state = replace(state, queue=(), next_trigger_at_s=None, participants=frozenset())
    for pending in state.pending:
        state, command = _remove(state, pending, reason, message)
        commands.append(command)
    return state, tuple(commands)
