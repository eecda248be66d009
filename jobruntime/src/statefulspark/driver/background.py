"""Work on storage beside the job's loop: done on a worker, its outcome handled on the loop.

Checkpoints and pruning share one worker, so that nothing is deleted while a checkpoint is being closed over; savepoints,
which may copy for minutes, have their own, and so have announcements, which wait for other systems.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from typing import TypeVar

from statefulspark import errors

_T = TypeVar("_T")


class Lane(Enum):
    """Which worker does it; work in one lane is done in order."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    ANNOUNCE = "announce"


class Background:
    """Runs work and hands the outcome back to the loop."""

    def __init__(self, post: Callable[[Callable[[], None]], None]) -> None:
        """Start the workers.

        Args:
            post: Runs a function on the loop's thread, soon.
        """
        self._post = post
        self._workers = {lane: ThreadPoolExecutor(1, thread_name_prefix=lane.value) for lane in Lane}

    def submit(
        self,
        lane: Lane,
        work: Callable[[], _T],
        *,
        on_done: Callable[[_T], None],
        on_failed: Callable[[errors.StatefulSparkError], None],
    ) -> None:
        """Do some work in a lane.

        Args:
            lane: Where.
            work: What; runs on a worker.
            on_done: Gets its result on the loop.
            on_failed: Gets its error on the loop; an error that is not one of ours is a bug and ends the loop.
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

        self._workers[lane].submit(work).add_done_callback(handle)

    def close(self, *, wait: bool) -> None:
        """End the workers; work that has not begun is dropped.

        Args:
            wait: Let all lanes but that of savepoints finish what they are doing; that one is never waited for.
        """
        for lane, worker in self._workers.items():
            worker.shutdown(wait=wait and lane is not Lane.SAVEPOINT, cancel_futures=True)


def _raise(error: BaseException) -> None:
    raise error
