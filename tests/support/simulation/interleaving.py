"""Who runs next, as a seed decides: at random, mostly the same one again, or by priorities that change now and then.

Few switches at the right moments find what many switches do not: with priorities, an order of `d` decisive steps is met with
a known probability, however long the run is (Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of
Finding Bugs", 2010).
"""

from __future__ import annotations

import random

from faultrig import fibers

_STAYS = 0.9
_CHANGES = 0.04
STYLES = ("uniform", "sticky", "priorities")


class Interleaving(fibers.Scheduler):
    """Chooses in one of `STYLES`, which the seed chooses."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.style = chance.choice(STYLES)
        self._last: fibers.Fiber | None = None
        self._priorities: dict[fibers.Fiber, float] = {}

    def choose(self, runnable: list[fibers.Fiber]) -> fibers.Fiber:
        """Return who is next."""
        if self.style == "uniform":
            return self.random.choice(runnable)
        self._last = self._stays(runnable) if self.style == "sticky" else self._first(runnable)
        return self._last

    def _stays(self, runnable: list[fibers.Fiber]) -> fibers.Fiber:
        if self._last in runnable and self.random.random() < _STAYS:
            assert self._last is not None
            return self._last
        return self.random.choice(runnable)

    def _first(self, runnable: list[fibers.Fiber]) -> fibers.Fiber:
        for fiber in runnable:
            if fiber not in self._priorities:
                self._priorities[fiber] = self.random.random()
        first = max(runnable, key=lambda fiber: self._priorities[fiber])
        if self.random.random() < _CHANGES:
            self._priorities[first] = min(self._priorities.values()) - 1.0
            first = max(runnable, key=lambda fiber: self._priorities[fiber])
        return first
