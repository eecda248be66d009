"""Decides which request is triggered next, and which waits or is dropped: Flink's request decider (A.88 to A.90).

Pure functions of the state; `machine` applies their results.
"""

from __future__ import annotations

from dataclasses import dataclass

from statefulspark.contract.manifest import SnapshotKind
from statefulspark.coordinator.model import MAX_QUEUED_REQUESTS, AbortReason, Request, State


def priority(request: Request) -> tuple[bool, bool, bool, float]:
    """Return the sort key of a request: savepoints first, then forced ones, then those of users, then by age (A.89)."""
    return (
        request.kind is not SnapshotKind.SAVEPOINT,
        not request.is_forced,
        request.is_periodic,
        request.requested_at_s,
    )


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The queue after a new request, and the request that was refused for it, if any."""

    queue: tuple[Request, ...]
    refused: Request | None = None


def enqueue(queue: tuple[Request, ...], request: Request) -> Enqueued:
    """Insert a request by its priority.

    A second periodic request is dropped silently while one is waiting. When the queue is full and holds only users'
    requests, the new request is refused; otherwise the least important one is refused.
    """
    if request.is_periodic and any(waiting.is_periodic for waiting in queue):
        return Enqueued(queue)
    if len(queue) >= MAX_QUEUED_REQUESTS and not any(waiting.is_periodic for waiting in queue):
        return Enqueued(queue, refused=request)
    ordered = tuple(sorted((*queue, request), key=priority))
    if len(ordered) > MAX_QUEUED_REQUESTS:
        return Enqueued(ordered[:-1], refused=ordered[-1])
    return Enqueued(ordered)


@dataclass(frozen=True, slots=True)
class Wait:
    """No request may be triggered now."""


@dataclass(frozen=True, slots=True)
class Go:
    """Trigger this request."""

    request: Request


@dataclass(frozen=True, slots=True)
class Drop:
    """Refuse this request, then decide about the next one."""

    request: Request
    reason: AbortReason
    message: str
    retry_at_s: float | None = None
    """When the periodic trigger may come again, if it was too early."""


def decide(state: State, now_s: float) -> Wait | Go | Drop:
    """Decide what to do with the head of the queue.

    Args:
        state: The coordinator's state.
        now_s: The time on the caller's monotonic clock.

    Returns:
        Go with the head; Drop with the head and the reason; Wait when the queue is empty or the head has to wait.
    """
    if not state.queue:
        return Wait()
    head = state.queue[0]
    if not state.participants:
        return Drop(head, AbortReason.NOT_ALL_REQUIRED_TASKS_RUNNING, "Not all queries of the job are running.")
    if not head.is_forced and _has_to_wait(state):
        return Wait()
    if not head.is_periodic:
        return Go(head)
    if not state.periodic:
        return Drop(head, AbortReason.PERIODIC_SCHEDULER_SHUTDOWN, "Periodic checkpoints are not scheduled now.")
    allowed_at_s = earliest_periodic_s(state)
    if now_s < allowed_at_s:
        message = f"The minimum pause after the last completion has {allowed_at_s - now_s:.1f} s to go."
        return Drop(head, AbortReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS, message, retry_at_s=allowed_at_s)
    return Go(head)


def _has_to_wait(state: State) -> bool:
    """Tell whether a request that is not forced must wait: for a free slot (A.88), or for the end of a stop (A.162)."""
    is_full = len(state.pending) >= state.settings.max_concurrent
    is_stopping = any(pending.request.is_stop for pending in state.pending)
    return is_full or is_stopping or len(state.cleaning) > state.settings.max_concurrent


def earliest_periodic_s(state: State) -> float:
    """Return the time before which no periodic checkpoint may be triggered (A.73)."""
    if state.last_completion_at_s is None:
        return float("-inf")
    return state.last_completion_at_s + state.settings.min_pause_s
