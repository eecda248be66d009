"""Background work on storage: it runs on a worker thread, and the job loop handles its outcome.

Checkpoints and the search for unused files share one worker, so that no checkpoint names a file that was just found to be
unused. The deletion of these files, savepoints, which may copy for minutes, announcements, which call the job's code, and
each sink, which waits for another system, have a worker each.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from enum import Enum
from itertools import islice
from typing import Any, TypeVar

from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.driver.output.commit import SinkKey

_T = TypeVar("_T")

FIRST_RATE = 500.0
"""Objects a second at the beginning."""
LEAST_RATE = 50.0
MOST_RATE = 20_000.0
_STEP = 100.0
_SECOND = 1.0
_PAUSE_AFTER_FAILURE_S = 10.0


class Lane(Enum):
    """The worker of a piece of work; each lane runs its work in order. Sinks have lanes by their keys."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    ANNOUNCE = "announce"
    DELETION = "deletion"


def lane_name(lane: Lane | SinkKey) -> str:
    """Return the name of a lane's thread."""
    return lane.value if isinstance(lane, Lane) else f"sink {layout.sink_name(*lane)}"


class Background:
    """Runs work and hands the outcome back to the loop."""

    def __init__(self, post: Callable[[Callable[[], None]], None]) -> None:
        """Start without a worker; each lane gets its own with its first work.

        Args:
            post: Runs a function on the loop's thread, soon.
        """
        self._post = post
        self._workers: dict[Lane | SinkKey, _Worker] = {}

    def submit(
        self,
        lane: Lane | SinkKey,
        work: Callable[[], _T],
        *,
        on_done: Callable[[_T], None],
        on_failed: Callable[[errors.StatefulSparkError], None],
    ) -> None:
        """Run work in a lane; called by the loop's thread only.

        Args:
            lane: The lane.
            work: The work; runs on a worker.
            on_done: Gets its result on the loop.
            on_failed: Gets its error on the loop. An error that is no StatefulSparkError is a bug and ends the loop.
        """

        def handle(future: Future[_T]) -> None:
            if future.cancelled():
                return
            error = future.exception()
            if error is None:
                self._post(lambda: on_done(future.result()))
            elif isinstance(error, errors.StatefulSparkError):
                self._post(lambda: on_failed(error))
            else:
                self._post(lambda: _raise(error))

        if lane not in self._workers:
            self._workers[lane] = _Worker(lane_name(lane))
        self._workers[lane].submit(work).add_done_callback(handle)

    def is_busy(self, lane: Lane | SinkKey) -> bool:
        """Tell whether a lane has work that is not done; asked by the loop's thread only."""
        return lane in self._workers and not self._workers[lane].is_idle

    def close(self, *, wait: bool) -> None:
        """End the workers; drop work that has not begun.

        Args:
            wait: Wait until all lanes except the savepoint lane have finished their current work.
        """
        for worker in self._workers.values():
            worker.close()
        for lane, worker in self._workers.items():
            if wait and lane is not Lane.SAVEPOINT:
                worker.join()


class Pace:
    """Limits work to a share of the time; requested work may run late, but it is never forgotten.

    Searching for unused files costs as much as a checkpoint. At an interval of one second it would run every second,
    although the files wait for their grace time anyway. If it rested too long, more files would come meanwhile than it
    finds, and each search would take longer than the one before.
    """

    def __init__(self, share: float = 0.05, longest_rest_s: float = 60.0) -> None:
        """Limit the work.

        Args:
            share: The share of the time that it takes, between 0 and 1.
            longest_rest_s: It rests no longer than this, or than it has taken, even if it takes a larger share then.
        """
        self._rest = 1 / share - 1
        self._longest_rest_s = longest_rest_s
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
            took_s = now_s - self._began_s
            self._not_before_s = now_s + min(took_s * self._rest, max(took_s, self._longest_rest_s))
            self._began_s = None


class Deletions:
    """What waits to be deleted, and when the next part may be. Pure; used by one thread.

    A store counts each deleted object as a request, and refuses requests when it gets too many: the requests of the job
    itself must find it free. So the rate grows slowly while the store refuses nothing, and halves when it refuses anything,
    as TCP does with its window. A second's worth is deleted at a time; the files wait in memory, and a driver that ends
    leaves them to the next search for unused files.
    """

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


class _Worker:
    """A thread that does work in order. The process does not wait for it, as it would for a `ThreadPoolExecutor`'s."""

    def __init__(self, name: str) -> None:
        self._due = queue.SimpleQueue[Callable[[], None] | None]()
        self._is_closed = threading.Event()
        self._newest: Future[Any] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], _T]) -> Future[_T]:
        future = Future[_T]()

        def run() -> None:
            if self._is_closed.is_set():
                future.cancel()
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - who handles the outcome raises it
                future.set_exception(error)

        self._due.put(run)
        self._newest = future
        return future

    @property
    def is_idle(self) -> bool:
        return self._newest is None or self._newest.done()

    def close(self) -> None:
        """Drop work that has not begun, and end after the current work."""
        self._is_closed.set()
        self._due.put(None)

    def join(self) -> None:
        """Wait until the current work is done."""
        self._thread.join()

    def _run(self) -> None:
        while (run := self._due.get()) is not None:
            run()


def _raise(error: BaseException) -> None:
    raise error
