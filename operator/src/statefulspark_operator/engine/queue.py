"""Starts passes: at most one at a time per job, woken by events, by the wait that a pass asked for, and by retries.

Wake-ups carry no content. However many arrive while a pass runs, one more pass follows it, and it looks at everything
anew; an event that is lost only means that the next look comes when the last pass asked for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

from statefulspark import errors

from statefulspark_operator.cluster.gateway import JobKey

_LOG = logging.getLogger("statefulspark.queue")

RETRY_FIRST_S = 1.0
RETRY_LONGEST_S = 60.0
CONFLICT_RETRY_S = 0.2
SHORTEST_WAIT_S = 0.02
"""Between two passes over one job, so that a rule that never comes to rest cannot occupy the operator."""
STUCK_AFTER_S = 600.0
"""A pass that takes longer than this hangs; the kubelet is told, and restarts us."""

Reconcile = Callable[[JobKey], Awaitable[timedelta | None]]


@dataclass(slots=True)
class _Lane:
    """What is known of one job between passes."""

    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    failures: int = 0
    started_at_s: float | None = None


class WorkQueue:
    """A lane per job and a bound on how many passes run at once."""

    def __init__(self, reconcile: Reconcile, *, max_concurrent: int = 16) -> None:
        """Start empty.

        Args:
            reconcile: One pass; its result is when to look again, None when the job is gone.
            max_concurrent: Passes that may run at the same time, over all jobs.
        """
        self._reconcile = reconcile
        self._slots = asyncio.Semaphore(max_concurrent)
        self._lanes: dict[JobKey, _Lane] = {}
        self._closed = False
        self.passes = 0
        self.failed_passes = 0

    @property
    def jobs(self) -> int:
        """Number of jobs that are looked after."""
        return len(self._lanes)

    def is_stuck(self) -> bool:
        """Tell whether a pass has been running for much too long."""
        now_s = time.monotonic()
        starts = (lane.started_at_s for lane in self._lanes.values())
        return any(start is not None and now_s - start > STUCK_AFTER_S for start in starts)

    def wake(self, key: JobKey) -> None:
        """Ask for a pass over a job soon; cheap, and may be called any number of times."""
        if self._closed:
            return
        lane = self._lanes.setdefault(key, _Lane())
        lane.wake.set()
        if lane.task is None:
            lane.task = asyncio.create_task(self._run(key, lane), name=f"lane {key}")

    async def close(self) -> None:
        """Stop all lanes; a pass that runs is cancelled, which every pass survives."""
        self._closed = True
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, key: JobKey, lane: _Lane) -> None:
        while True:
            lane.wake.clear()
            wait_s = await self._pass(key, lane)
            if wait_s is None and not lane.wake.is_set():
                del self._lanes[key]
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(lane.wake.wait(), wait_s)
            await asyncio.sleep(SHORTEST_WAIT_S)

    async def _pass(self, key: JobKey, lane: _Lane) -> float | None:
        """Run one pass and return how long to wait, None if the job is gone."""
        async with self._slots:
            self.passes += 1
            lane.started_at_s = time.monotonic()
            try:
                after = await self._reconcile(key)
            except errors.PreconditionFailedError as error:
                _LOG.debug("job changed meanwhile", extra={"job": str(key), "error": str(error)})
                return CONFLICT_RETRY_S
            except errors.StatefulSparkError as error:
                return self._after_failure(key, lane, error)
            except Exception:  # noqa: BLE001 - the loop's edge: one job's bug must not stop the others
                _LOG.exception("pass failed by a bug of ours", extra={"job": str(key)})
                return self._after_failure(key, lane, None)
            finally:
                lane.started_at_s = None
        lane.failures = 0
        return after.total_seconds() if after is not None else None

    def _after_failure(self, key: JobKey, lane: _Lane, error: errors.StatefulSparkError | None) -> float:
        self.failed_passes += 1
        lane.failures += 1
        wait_s = min(RETRY_FIRST_S * (1 << min(lane.failures - 1, 10)), RETRY_LONGEST_S)
        if isinstance(error, errors.TransientError):
            wait_s = max(wait_s, error.retry_after_s)
        if error is not None:
            _LOG.warning(
                "pass failed",
                extra={"job": str(key), "reason": error.reason, "error": error.message, "retry_after_s": wait_s},
            )
        return wait_s
