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
from dataclasses import dataclass, field

from statefulspark.testing.stores import CrashPoint

_local = threading.local()
_STEPS = 200_000
"""More than any wait takes; beyond that something goes round in circles."""


def _always() -> bool:
    return True


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
        self._scheduler = scheduler
        self._work = work
        self._baton = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name=f"{process.name}/{name}", daemon=True)
        self._thread.start()

    @property
    def is_runnable(self) -> bool:
        if self.process.is_dead:
            return True
        return not self.process.is_frozen and (self.interruption is not None or self.ready())

    def pause(self, ready: Callable[[], bool] = _always) -> None:
        """Give the baton back until it is this fiber's turn again, and something holds."""
        self.ready = ready
        self._scheduler.control.release()
        self._baton.acquire()
        self.ready = _always
        if self.process.is_dead:
            raise CrashPoint
        if self.interruption is not None:
            interruption, self.interruption = self.interruption, None
            raise interruption

    def resume(self) -> None:
        """Hand the baton over and wait for it to come back; called by the scheduler."""
        self._baton.release()
        self._scheduler.control.acquire()

    def _run(self) -> None:
        _local.fiber = self
        self._baton.acquire()
        try:
            if not self.process.is_dead:
                self._work()
        except CrashPoint:
            pass
        except BaseException:  # noqa: BLE001 - whatever ends a fiber is a bug of the product or of the rig
            self.process.bugs.append(f"{self.process.name}/{self.name}: {traceback.format_exc()}")
        finally:
            self.is_done = True
            self._scheduler.control.release()


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


@dataclass
class Scheduler:
    """Lets one fiber run at a time."""

    random: random.Random
    fibers: list[Fiber] = field(default_factory=list)
    control: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def run(self, until: Callable[[], bool] = lambda: False) -> bool:
        """Run until something holds, or until nobody can go on.

        Returns:
            Whether it holds.
        """
        for _ in range(_STEPS):
            if until():
                return True
            runnable = [fiber for fiber in self.fibers if fiber.is_runnable]
            if not runnable:
                return until()
            fiber = self.random.choice(runnable)
            fiber.resume()
            if fiber.is_done:
                self.fibers.remove(fiber)
        raise AssertionError(f"{_STEPS} steps led nowhere; running: {[fiber.name for fiber in self.fibers]}")

    def reap(self) -> None:
        """Let the fibers of dead processes unwind."""
        while dead := [fiber for fiber in self.fibers if fiber.process.is_dead]:
            dead[0].resume()
            if dead[0].is_done:
                self.fibers.remove(dead[0])


def current() -> Fiber | None:
    """Return the fiber that runs now; None on any other thread."""
    return getattr(_local, "fiber", None)


def here() -> Fiber:
    """Return the fiber that runs now."""
    fiber = current()
    assert fiber is not None, "only fibers wait"
    return fiber
