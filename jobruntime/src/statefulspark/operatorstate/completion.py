"""Which completions a function is told of: only those of checkpoints that hold every state it took under their number.

A function remembers what it does on completion under the number that `snapshot_state` was given, as Flink's Kafka consumer
does with its offsets. State is taken with every batch, before it is known which checkpoint ends there; so a batch that is
under way when checkpoint n begins has a state under the number n that n does not hold. Then the function is told of the
newest number that is true for it, and of n with a later one: a completion may be skipped, never be early (A.47, A.48). Pure.
"""

from __future__ import annotations

import threading


class Completions:
    """What one function took under which number, and what it may be told. Safe from any thread."""

    def __init__(self, heard: int = 0) -> None:
        """Know of no state; numbers up to `heard` were given before this driver, and are told to nobody."""
        self._taken: list[tuple[int, int]] = []
        self._covered: dict[int, int] = {}
        self._told = heard
        self._lock = threading.Lock()

    def taken(self, checkpoint_id: int, position: int) -> None:
        """Note that state was taken.

        Args:
            checkpoint_id: The number that the function was given.
            position: Where it was then: a batch, or a segment; they only grow, or repeat when a batch runs again.
        """
        with self._lock:
            self._taken.append((checkpoint_id, position))

    def covers(self, checkpoint_id: int, position: int) -> None:
        """Note up to which position a checkpoint holds the function's state."""
        with self._lock:
            self._covered[checkpoint_id] = position

    def complete(self, checkpoint_id: int) -> int | None:
        """Return the number that the function is told of when a checkpoint is complete; None for none.

        A checkpoint of which nobody said what it covers is taken to cover nothing new.
        """
        with self._lock:
            position = self._covered.get(checkpoint_id, -1)
            self._covered = {number: at for number, at in self._covered.items() if number > checkpoint_id}
            missed = [number for number, at in self._taken if at > position]
            told = min(checkpoint_id, *(number - 1 for number in missed)) if missed else checkpoint_id
            if told <= self._told:
                return None
            self._told = told
            self._taken = [(number, at) for number, at in self._taken if number > told or at > position]
            return told
