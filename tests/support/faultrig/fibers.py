"""Threads that run one at a time, in an order that a seed decides: the processes of the fault rig and what runs in them.

A fiber is a thread that holds the only baton while it runs, and gives it back at every request to storage. So whatever
several drivers, their queries and their background workers do at once is one sequence of steps, chosen by the
scheduler's random numbers, and the same seed gives the same sequence. A process is a group of fibers that dies, freezes
and wakes together.
"""

from __future__ import annotations

import random
import threading
import traceback
from collections.abc import Callable
from typing import ClassVar

from statefulspark.testing.stores import CrashPoint

_local = threading.local()
_STEPS = 200_000
"""More than any wait takes; beyond that something goes round in circles."""


def _always() -> bool:
    return True


def _never() -> bool:
    return False


def _held() -> threading.Lock:
    """Return a lock that is released by who hands the baton over."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class Fiber:
    """One thread of a process."""

    def __init__(self, scheduler: Scheduler, process: Process, name: str, work: Callable[[], None]) -> None:
        self.process = process
        self.name = name
        self.ready: Callable[[], bool] = _always
        self.is_done = False
        self.interruption: BaseException | None = None
        self.has_looked = False
        """Whether it has asked for a newer epoch, and found none, in its present piece of work."""
        self.baton = _held()
        self._scheduler = scheduler
        self._work = work
        self._thread = _Thread.of(self)

    @property
    def is_runnable(self) -> bool:
        if self.process.is_dead:
            return True
        return not self.process.is_frozen and (self.interruption is not None or self.ready())

    def pause(self, ready: Callable[[], bool] = _always) -> None:
        """Give the baton away until it is this fiber's turn again, and something holds."""
        self.ready = ready
        if self._scheduler.hand_over() is not self:
            self.baton.acquire()
        self.ready = _always
        if self.process.is_dead:
            raise CrashPoint
        if self.interruption is not None:
            interruption, self.interruption = self.interruption, None
            raise interruption

    def run(self) -> None:
        """Do the work, from the first turn to the last; called by the thread that lends itself."""
        _local.fiber = self
        self.baton.acquire()
        try:
            if not self.process.is_dead:
                self._work()
        except CrashPoint:
            pass
        except BaseException:  # noqa: BLE001 - whatever ends a fiber is a bug of the product or of the rig
            self.process.bugs.append(f"{self.process.name}/{self.name}: {traceback.format_exc()}")
        finally:
            self.is_done = True
            self._scheduler.fibers.remove(self)
            self._thread.is_free_again()
            self._scheduler.hand_over()


class _Thread:
    """A thread that runs one fiber after the other: to start one takes as long as many steps of a fiber."""

    _free: ClassVar[list[_Thread]] = []

    def __init__(self) -> None:
        self._wake = _held()
        self._fiber: Fiber | None = None
        threading.Thread(target=self._run, daemon=True).start()

    @classmethod
    def of(cls, fiber: Fiber) -> _Thread:
        """Return a thread that runs a fiber."""
        thread = cls._free.pop() if cls._free else cls()
        thread._fiber = fiber
        thread._wake.release()
        return thread

    def is_free_again(self) -> None:
        """Let the next fiber have it, once the present one has given the baton away."""
        self._free.append(self)

    def _run(self) -> None:
        while True:
            self._wake.acquire()
            fiber, self._fiber = self._fiber, None
            assert fiber is not None
            fiber.run()


class Process:
    """A group of fibers that dies, freezes and wakes together."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_frozen = False
        self.bugs: list[str] = []
        self._scheduler = scheduler

    def spawn(self, name: str, work: Callable[[], None]) -> Fiber:
        """Start a fiber; it runs when the scheduler lets it."""
        fiber = Fiber(self._scheduler, self, name, work)
        self._scheduler.fibers.append(fiber)
        return fiber

    def require_alive(self) -> None:
        """End whoever asks, if the process is dead."""
        if self.is_dead:
            raise CrashPoint


class Scheduler:
    """Lets one fiber run at a time.

    Who gives the baton away hands it to the next one itself, so that a step costs one switch of threads, and none if it
    goes on itself.

    Args:
        random: Decides who is next.
    """

    def __init__(self, random: random.Random) -> None:
        self.random = random
        self.fibers: list[Fiber] = []
        self.steps = 0
        self._control = _held()
        self._until: Callable[[], bool] = _never
        self._last_step = 0
        self._is_reaping = False
        self._broken: BaseException | None = None

    def run(self, until: Callable[[], bool] = lambda: False) -> bool:
        """Run until something holds, or until nobody can go on.

        Returns:
            Whether it holds.
        """
        self._until, self._last_step = until, self.steps + _STEPS
        self._let_run()
        return until()

    def reap(self) -> None:
        """Let the fibers of dead processes unwind."""
        self._is_reaping = True
        self._let_run()
        self._is_reaping = False

    def choose(self, runnable: list[Fiber]) -> Fiber:
        """Return who is next."""
        return self.random.choice(runnable)

    def hand_over(self) -> Fiber | None:
        """Wake who is next, unless it is the one that asks; None ends the run. Called by who has the baton."""
        try:
            following = self._following()
        except BaseException as error:  # noqa: BLE001 - it is raised again where the run began
            self._broken, following = error, None
        if following is None:
            self._control.release()
        elif following is not current():
            following.baton.release()
        return following

    def _let_run(self) -> None:
        self.hand_over()
        self._control.acquire()
        if self._broken is not None:
            broken, self._broken = self._broken, None
            raise broken

    def _following(self) -> Fiber | None:
        if self._is_reaping:
            return next((fiber for fiber in self.fibers if fiber.process.is_dead), None)
        if self._until():
            return None
        runnable = [fiber for fiber in self.fibers if fiber.is_runnable]
        if not runnable:
            return None
        if self.steps == self._last_step:
            raise AssertionError(f"{_STEPS} steps led nowhere; running: {[fiber.name for fiber in self.fibers]}")
        self.steps += 1
        return self.choose(runnable)


def current() -> Fiber | None:
    """Return the fiber that runs now; None on any other thread."""
    return getattr(_local, "fiber", None)


def here() -> Fiber:
    """Return the fiber that runs now."""
    fiber = current()
    assert fiber is not None, "only fibers wait"
    return fiber
