"""Starts reconcile passes: at most one at a time per job, on events, after the delay of the last pass, and on retries.

Wake-ups carry no content. If any number of them arrive while a pass runs, one more pass follows, and reads everything
again; after a lost event the next pass starts when the last pass has requested it.

Passes of different jobs wait for each other's steps only, and the namespaces take turns (`turns`). What else is scarce is
limited where it is used: requests to the API server, connections to drivers, threads for storage; so a driver or a store
that hangs holds up its own jobs only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from statefulspark import errors

from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.engine import turns
from statefulspark_operator.lifecycle.decision import AT_ONCE

_LOG = logging.getLogger("statefulspark.queue")

RETRY_FIRST_S = 1.0
RETRY_LONGEST_S = 60.0
TRANSIENT_WAIT_S = 2.0
"""At least, after the failure of another system, such as the API server."""
CONFLICT_RETRY_S = 0.2
SHORTEST_WAIT_S = 0.02
"""Minimum time between two passes of one job, so that a rule that requeues forever cannot block the operator."""
MOST_IN_A_ROW = 20
"""Passes that may follow one another at once: no change of a job takes as many. What does is undone each time, by a webhook,
by another controller, or by a CRD that does not have a field yet."""
RESTLESS_WAIT_S = 2.0
"""The wait after each further one."""
LONGEST_PASS_S = 300.0
"""A pass that takes longer than this hangs: it is given up, and tried again later. The passes of other jobs go on meanwhile,
so it is no reason to restart the operator."""

Reconcile = Callable[[JobKey], Coroutine[Any, Any, timedelta | None]]


@dataclass(slots=True)
class _JobWorker:
    """The task that runs the passes of one job, and its state between passes."""

    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    failures: int = 0
    in_a_row: int = 0


class WorkQueue:
    """A worker per job."""

    def __init__(self, reconcile: Reconcile, *, longest_pass_s: float = LONGEST_PASS_S) -> None:
        """Create an empty queue.

        Args:
            reconcile: Runs one pass; returns the delay until the next one, None when the job is gone.
            longest_pass_s: After this time a pass is given up.
        """
        self._reconcile, self._longest_pass_s = reconcile, longest_pass_s
        self._workers: dict[JobKey, _JobWorker] = {}
        self._turns = turns.Turns()
        self._closed = False
        self.passes = 0
        self.failed_passes = 0
        self.hung_passes = 0

    @property
    def jobs(self) -> int:
        """Number of jobs in the queue."""
        return len(self._workers)

    def wake(self, key: JobKey) -> None:
        """Request a pass of a job soon; cheap, and may be called any number of times."""
        if self._closed:
            return
        worker = self._workers.setdefault(key, _JobWorker())
        worker.wake.set()
        if worker.task is None:
            worker.task = asyncio.create_task(self._run(key, worker), name=f"worker {key}")

    async def close(self) -> None:
        """Stop all workers; running passes are cancelled, which is safe at any point."""
        self._closed = True
        tasks = [worker.task for worker in self._workers.values() if worker.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, key: JobKey, worker: _JobWorker) -> None:
        while True:
            worker.wake.clear()
            wait_s = await self._pass(key, worker)
            if wait_s is None and not worker.wake.is_set():
                del self._workers[key]
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(worker.wake.wait(), wait_s)
            await asyncio.sleep(SHORTEST_WAIT_S)

    async def _pass(self, key: JobKey, worker: _JobWorker) -> float | None:
        """Run one pass and return the seconds until the next one; None if the job is gone."""
        self.passes += 1
        limit = asyncio.timeout(self._longest_pass_s)
        try:
            async with limit:
                after = await self._turns.run(key.namespace, self._reconcile(key))
        except errors.PreconditionFailedError as error:
            _LOG.debug("job changed during the pass", extra={"job": str(key), "error": str(error)})
            return self._at_once(worker, CONFLICT_RETRY_S)
        except errors.StatefulSparkError as error:
            return self._after_failure(key, worker, error)
        except Exception:  # noqa: BLE001 - the loop's edge: one job's bug must not stop the others
            if limit.expired():
                self.hung_passes += 1
                hung = errors.TransientError("PassHung", f"A pass did not end within {self._longest_pass_s:g} s.")
                return self._after_failure(key, worker, hung)
            _LOG.exception("pass failed because of a bug in the operator", extra={"job": str(key)})
            return self._after_failure(key, worker, None)
        worker.failures = 0
        if after == AT_ONCE:
            return self._at_once(worker, 0.0)
        worker.in_a_row = 0
        return after.total_seconds() if after is not None else None

    def _at_once(self, worker: _JobWorker, wait_s: float) -> float:
        """Return the wait before a pass that is to follow at once, unless too many have followed so."""
        worker.in_a_row += 1
        return wait_s if worker.in_a_row <= MOST_IN_A_ROW else RESTLESS_WAIT_S

    def _after_failure(self, key: JobKey, worker: _JobWorker, error: errors.StatefulSparkError | None) -> float:
        self.failed_passes += 1
        worker.failures += 1
        wait_s = min(RETRY_FIRST_S * (1 << min(worker.failures - 1, 10)), RETRY_LONGEST_S)
        if isinstance(error, errors.TransientError):
            wait_s = max(wait_s, TRANSIENT_WAIT_S)
        if error is not None:
            _LOG.warning(
                "pass failed",
                extra={"job": str(key), "reason": error.reason, "error": error.message, "retry_after_s": wait_s},
            )
        return wait_s
