"""How often something is done that is asked for often, such as pruning after every checkpoint."""

from __future__ import annotations


class Pace:
    """Spreads work so that it takes a share of the time at most; what was asked for is done late, never forgotten.

    Looking for unused files costs as much as a checkpoint does, and at an interval of a second it would be done every
    second although the files wait for their grace time anyway.
    """

    def __init__(self, share: float = 0.05) -> None:
        """Let the work take a share of the time, between 0 and 1."""
        self._rest = 1 / share - 1
        self._wanted = False
        self._began_s: float | None = None
        self._not_before_s = 0.0

    @property
    def is_wanted(self) -> bool:
        """Whether it was asked for and has not begun since."""
        return self._wanted

    def ask(self) -> None:
        """Want it done."""
        self._wanted = True

    def take(self, now_s: float) -> bool:
        """Tell whether it is to begin now; if so, it has."""
        if not self._wanted or self._began_s is not None or now_s < self._not_before_s:
            return False
        self._wanted, self._began_s = False, now_s
        return True

    def ended(self, now_s: float) -> None:
        """Note that what had begun has ended: the longer it took, the longer it rests."""
        if self._began_s is not None:
            self._not_before_s = now_s + (now_s - self._began_s) * self._rest
            self._began_s = None
