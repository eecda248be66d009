"""Fair shares of a limited number of places, on storage and at the API server: the namespace with the fewest places is next.

Work on storage that hangs keeps its place for minutes, so fairness among waiting namespaces is not enough. A namespace gets
at most half of the places that the others leave, and at most half of those at one store. One place is always left for the
next namespace. A request to the API server ends within seconds, so a namespace gets all places that no other one wants.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose work it is, and where.

    Attributes:
        namespace: The namespace.
        store: The store; one name where there is only one.
    """

    namespace: str
    store: str


@dataclass(frozen=True, slots=True)
class Limits:
    """How many may work at a time.

    Attributes:
        most: In all.
        most_at_store: At one store.
        leaves_half: Whether nobody gets more than half of what the others leave.
    """

    most: int
    most_at_store: int
    leaves_half: bool = True


def next_to_begin(waiting: Iterable[Holder], held: Mapping[Holder, int], limits: Limits) -> Holder | None:
    """Return who begins next: of those who may, the one whose namespace holds the least; None if nobody may. Pure.

    Args:
        waiting: Who waits, in the order in which they came.
        held: How many places each holds.
        limits: How many there are.
    """
    of_namespace: Counter[str] = Counter()
    at_store: Counter[str] = Counter()
    for holder, count in held.items():
        of_namespace[holder.namespace] += count
        at_store[holder.store] += count

    def may_begin(holder: Holder) -> bool:
        own, own_there = of_namespace[holder.namespace], held.get(holder, 0)
        free, free_there = limits.most - of_namespace.total(), limits.most_at_store - at_store[holder.store]
        if free <= 0 or free_there <= 0 or not limits.leaves_half:
            return free > 0 and free_there > 0
        half, half_there = (free + own) // 2, (free_there + own_there) // 2
        return own < max(1, half) and own_there < max(1, half_there)

    allowed = (holder for holder in waiting if may_begin(holder))
    return min(allowed, key=lambda holder: (of_namespace[holder.namespace], held.get(holder, 0)), default=None)


class Places:
    """Places for work on the loop of the operator."""

    def __init__(self, limits: Limits) -> None:
        """Begin with all places free."""
        self._limits = limits
        self._held: Counter[Holder] = Counter()
        self._waiting: dict[Holder, deque[asyncio.Future[None]]] = {}

    @contextlib.asynccontextmanager
    async def held(self, holder: Holder) -> AsyncIterator[None]:
        """Wait for a place, and hold it while the block runs."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(holder, deque()).append(turn)
        self._begin()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._held[holder] -= 1
                self._held += Counter()  # Forgets who holds nothing.
            self._begin()

    def _begin(self) -> None:
        while (holder := next_to_begin(self._waiting, self._held, self._limits)) is not None:
            turns = self._waiting[holder]
            turn = turns.popleft()
            if not turns:
                del self._waiting[holder]
            if not turn.cancelled():
                self._held[holder] += 1
                turn.set_result(None)
