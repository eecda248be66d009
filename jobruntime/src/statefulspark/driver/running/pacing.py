"""Limits how often work runs that is requested often, such as pruning after every checkpoint."""

from __future__ import annotations


class Pace:
    """Limits work to a share of the time; requested work may run late, but it is never forgotten.

    Searching for unused files costs as much as a checkpoint. At an interval of one second it would run every second,
    although the files wait for their grace time anyway.
    """

    def __init__(self, share: float = 0.05) -> None:
        """Limit the work to a share of the time, between 0 and 1."""
        self._rest = 1 / share - 1
        self._requested = False
        self._began_s: float | None = None
        self._not_before_s = 0.0

    @property
    def is_requested(self) -> bool:
        """Whether the work was requested and has not begun since."""
        return self._requested

    def request(self) -> None:
        """Request the work."""
        self._requested = True

    def begin_if_due(self, now_s: float) -> bool:
        """Begin the work if it is requested and due; return whether it begins."""
        if not self._requested or self._began_s is not None or now_s < self._not_before_s:
            return False
        self._requested, self._began_s = False, now_s
        return True

    def end(self, now_s: float) -> None:
        """Note that the work has ended; the longer it took, the longer the pause until the next."""
        if self._began_s is not None:
            self._not_before_s = now_s + (now_s - self._began_s) * self._rest
            self._began_s = None
