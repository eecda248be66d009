"""Deletions of files that nothing needs: how many at a time, so that the requests of the job itself find the store free.

A store counts each deleted object as a request, and refuses requests when it gets too many. So the rate grows slowly while
the store refuses nothing, and halves when it refuses anything, as TCP does with its window. A second's worth is deleted at a
time; the files wait in memory, and a driver that ends leaves them to the next search for unused files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice

FIRST_RATE = 500.0
"""Objects a second at the beginning."""
LEAST_RATE = 50.0
MOST_RATE = 20_000.0
_STEP = 100.0
_SECOND = 1.0
_PAUSE_AFTER_FAILURE_S = 10.0


class Deletions:
    """What waits to be deleted, and when the next part may be. Pure; used by one thread."""

    def __init__(self) -> None:
        """Start without anything to delete."""
        self._waiting: deque[str] = deque()
        self._under_way: tuple[str, ...] = ()
        self._began_s = 0.0
        self._not_before_s = 0.0
        self.rate = FIRST_RATE

    @property
    def backlog(self) -> int:
        """How many objects are not deleted yet."""
        return len(self._waiting) + len(self._under_way)

    def add(self, keys: Iterable[str]) -> None:
        """Let objects be deleted, after those that wait already."""
        self._waiting.extend(keys)

    def begin_if_due(self, now_s: float) -> tuple[str, ...]:
        """Return the objects to delete now, none if nothing is due; then `end` or `fail` has to follow."""
        if self._under_way or not self._waiting or now_s < self._not_before_s:
            return ()
        self._began_s = now_s
        self._under_way = tuple(islice(self._waiting, max(1, int(self.rate * _SECOND))))
        for _ in self._under_way:
            self._waiting.popleft()
        return self._under_way

    def end(self, now_s: float, *, refused: int) -> None:
        """Note that they are deleted.

        Args:
            now_s: Now.
            refused: How many requests, of whatever kind, the store has refused meanwhile because it got too many.
        """
        self._under_way = ()
        self._not_before_s = max(now_s, self._began_s + _SECOND)
        self.rate = max(self.rate / 2, LEAST_RATE) if refused else min(self.rate + _STEP, MOST_RATE)

    def fail(self, now_s: float) -> None:
        """Note that they may not be deleted: they are tried again, later and more slowly."""
        self._waiting.extendleft(reversed(self._under_way))
        self._under_way = ()
        self._not_before_s = now_s + _PAUSE_AFTER_FAILURE_S
        self.rate = max(self.rate / 2, LEAST_RATE)

    def drop(self) -> tuple[str, ...]:
        """Forget everything, and return what was waiting."""
        dropped = tuple(self._waiting)
        self._waiting.clear()
        self._under_way = ()
        return dropped
