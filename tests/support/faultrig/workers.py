"""The loop's surroundings as fibers: an inbox that waits without a clock, and lanes that are fibers of the process."""

from __future__ import annotations

import collections
import math
import queue
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from faultrig import engine, fibers
from statefulspark import errors
from statefulspark.driver.output import commit
from statefulspark.driver.snapshots import background

if TYPE_CHECKING:
    from statefulspark.driver.loop import JobLoop

_T = TypeVar("_T")


def install(loop: JobLoop, process: engine.EngineProcess) -> None:
    """Give a loop that has not begun an inbox and workers of the rig, and let it prune whenever it is asked to."""
    inbox, cycle = Inbox(process), loop._cycle
    cycle._background.close(wait=False)
    loop._inbox = inbox  # type: ignore[assignment]
    cycle._post, cycle._background = inbox.put, Lanes(process, inbox.put)  # type: ignore[assignment]
    cycle._pruning, cycle._deletions = background.Pace(share=1.0), _Deletions()


class _Deletions(background.Deletions):
    """Deletions that are always due, since the rig has a clock of its own."""

    def begin_if_due(self, now_s: float) -> tuple[str, ...]:
        del now_s
        return super().begin_if_due(math.inf)


class Inbox:
    """A queue whose reader waits until there is something to look at, instead of for a time."""

    def __init__(self, process: engine.EngineProcess) -> None:
        self._process = process
        self._items: list[Callable[[], None]] = []
        self._seen = -1

    def put(self, item: Callable[[], None]) -> None:
        self._items.append(item)

    def get(self, timeout: float) -> Callable[[], None]:
        del timeout
        fibers.here().pause(lambda: bool(self._items) or self._process.changes != self._seen)
        self._seen = self._process.changes
        return self.get_nowait()

    def get_nowait(self) -> Callable[[], None]:
        if not self._items:
            raise queue.Empty
        self._process.note_change()  # What a message does is looked at in the turn after it.
        return self._items.pop(0)


def at_once(work: Callable[[], _T], *, name: str = "") -> Future[_T]:
    """Do what another thread does in a driver; here the scheduler decides what happens meanwhile."""
    del name
    future = Future[_T]()
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - who asks for the result gets it
        future.set_exception(error)
    return future


class Lanes:
    """`driver.background.Background` with fibers for threads."""

    def __init__(self, process: engine.EngineProcess, post: Callable[[Callable[[], None]], None]) -> None:
        self._process = process
        self._post = post
        self._waiting: dict[background.Lane | commit.SinkKey, list[Callable[[], None]]] = {}
        self._is_closed = False
        self._fibers: dict[background.Lane | commit.SinkKey, fibers.Fiber] = {}
        self._undone = collections.Counter[background.Lane | commit.SinkKey]()

    def submit(
        self,
        lane: background.Lane | commit.SinkKey,
        work: Callable[[], _T],
        *,
        on_done: Callable[[_T], None],
        on_failed: Callable[[errors.StatefulSparkError], None],
    ) -> None:
        def perform() -> None:
            try:
                result = work()
            except errors.StatefulSparkError as error:
                failure = error
                self._post(lambda: on_failed(failure))
            else:
                self._post(lambda: on_done(result))
            finally:
                self._undone[lane] -= 1

        self._undone[lane] += 1
        waiting = self._waiting.setdefault(lane, [])
        waiting.append(perform)
        if lane not in self._fibers:
            self._fibers[lane] = self._process.spawn(background.lane_name(lane), lambda: self._work(waiting))

    def is_busy(self, lane: background.Lane | commit.SinkKey) -> bool:
        return self._undone[lane] > 0

    def close(self, *, wait: bool) -> None:
        self._is_closed = True
        for waiting in self._waiting.values():
            waiting.clear()
        awaited = [fiber for lane, fiber in self._fibers.items() if lane is not background.Lane.SAVEPOINT]
        if wait:
            fibers.here().pause(lambda: all(fiber.is_done for fiber in awaited))

    def _work(self, waiting: list[Callable[[], None]]) -> None:
        fiber = fibers.here()
        while True:
            fiber.pause(lambda: bool(waiting) or self._is_closed)
            if not waiting:
                return
            fiber.has_looked = False
            waiting.pop(0)()
