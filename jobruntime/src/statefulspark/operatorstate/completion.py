"""Selects the completions that a function is notified of: checkpoints that contain all its states taken under their id.

A function keeps its pending actions under the id that was passed to `snapshot_state`, as Flink's Kafka consumer does with
its offsets. State is taken with every batch, before it is known which checkpoint ends there; so a batch that runs when
checkpoint n begins has a state under the id n that is not in checkpoint n. The function is then notified of the newest id
that is complete for it, and of n with a later one: a completion may be skipped, but never be early (A.47, A.48). Pure.
"""

from __future__ import annotations

import threading


class Completions:
    """The states that one function took, by id, and the ids that it may be notified of. Thread-safe."""

    def __init__(self, heard: int = 0) -> None:
        """Start without states; ids up to `heard` were used before this driver and are never notified."""
        self._taken: list[tuple[int, int]] = []
        self._covered: dict[int, int] = {}
        self._notified = heard
        self._lock = threading.Lock()

    def taken(self, checkpoint_id: int, position: int) -> None:
        """Record that state was taken.

        Args:
            checkpoint_id: The id that was passed to the function.
            position: Its batch or segment; positions grow, or repeat when a batch runs again.
        """
        with self._lock:
            self._taken.append((checkpoint_id, position))

    def covers(self, checkpoint_id: int, position: int) -> None:
        """Record the last position of the function's state in a checkpoint."""
        with self._lock:
            self._covered[checkpoint_id] = position

    def complete(self, checkpoint_id: int) -> int | None:
        """Return the id that the function is notified of when a checkpoint is complete; None for no notification.

        A checkpoint without a recorded position contains no new state.
        """
        with self._lock:
            position = self._covered.get(checkpoint_id, -1)
            self._covered = {
                number: state_position for number, state_position in self._covered.items() if number > checkpoint_id
            }
            uncovered = [number for number, state_position in self._taken if state_position > position]
            notified_id = min(checkpoint_id, *(number - 1 for number in uncovered)) if uncovered else checkpoint_id
            if notified_id <= self._notified:
                return None
            self._notified = notified_id
            self._taken = [
                (number, state_position)
                for number, state_position in self._taken
                if number > notified_id or state_position > position
            ]
            return notified_id
