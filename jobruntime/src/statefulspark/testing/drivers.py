"""A driver of a test: the product's start and loop, in this process and on a Spark session that others use after it.

Nothing is played: it claims an epoch, finds and verifies its state, puts up fence and gates, and writes checkpoints as
on a cluster. Only its store can die, and it has no HTTP API.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from statefulspark import clock
from statefulspark.checkpoint import catalog
from statefulspark.contract import api, layout
from statefulspark.driver import loop
from statefulspark.driver.starting import assemble, claim, start, start_parts
from statefulspark.engine import tested
from statefulspark.testing.failures import JobTestError
from statefulspark.testing.lives import KilledError, Life, MortalStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statefulspark.contract import config
    from statefulspark.declaration import JobDefinition
    from statefulspark.driver.status import Ending

PATIENCE_S = 60.0
"""Longest time that a job gets for one thing that a test asks of it."""
_LOOKS_EVERY_S = 0.01
_TIMERS_IN_PROCESSING_TIME = "ProcessingTime"
_running = threading.Lock()
"""Held while a job runs: fence, gates and workers belong to the process."""


class Driver:
    """One start of a job.

    Attributes:
        life: Ends when the test kills it.
        restored_from: The snapshot that it has gone on from; None after a first start.
    """

    def __init__(self, job: JobDefinition, job_config: config.JobConfig, spark: SparkSession) -> None:
        """Start it; its queries run when this returns.

        Raises:
            StatefulSparkError: The job could not start; it is what `statefulspark run` says.
            JobTestError: Another job is running.
        """
        if not _running.acquire(blocking=False):
            raise JobTestError(
                "Another job is running in this process; end it by `stop()` or `kill()` before this one."
            )
        self._is_held = True
        self.life = Life()
        self._spark, self._uids = spark, job.query_uids
        self._ending: Ending | None = None
        self._error: BaseException | None = None
        try:
            self._parts = self._prepared(job, job_config)
            self._loop = assemble.assemble(self._parts)
        except BaseException:
            self._release()
            raise
        self.restored_from = self._parts.plan.restored_from
        self._thread = threading.Thread(target=self._run, name="tested job", daemon=True)
        self._thread.start()

    def _prepared(self, job: JobDefinition, job_config: config.JobConfig) -> start_parts.Parts:
        started_at = clock.utc_now()

        def root() -> start_parts.JobRoot:
            claimed = claim.claim(job_config, started_at)
            return replace(claimed, store=MortalStore(claimed.store, self.life))

        compared = start.up_to_comparison(job, job_config, root, session_of=lambda *_: self._spark)
        return replace(start.prepare(job_config, compared, started_at), shows_first_batches=False)

    def _run(self) -> None:
        try:
            self._ending = self._loop.run()
        except (KilledError, loop.AbandonedError):
            pass
        except BaseException as error:  # noqa: BLE001 - the test gets it
            self._error = error

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive()

    def query(self, uid: str) -> tested.TestedQuery:
        """Return a query that runs."""
        self.require_running()
        return tested.TestedQuery(self._spark, uid)

    def require_running(self) -> None:
        """Raise why it has ended, if it has.

        Raises:
            JobTestError: It has ended.
        """
        if self.runs or self.life.over.is_set():
            return
        if self._error is not None:
            raise self._error
        why = f"{self._ending.reason}: {self._ending.message}" if self._ending else "it was stopped"
        raise JobTestError(f"The job has ended: {why}")

    def until(self, fact: Callable[[], bool], what: str) -> None:
        """Wait until something holds.

        Raises:
            JobTestError: The job has ended, or it takes too long.
        """
        ends_at_s = time.monotonic() + PATIENCE_S
        while not fact():
            self.require_running()
            if time.monotonic() > ends_at_s:
                raise JobTestError(f"After {PATIENCE_S:.0f} s it is not true that {what}.")
            time.sleep(_LOOKS_EVERY_S)

    def settle(self, uid: str, *, shown: Collection[str]) -> None:
        """Wait until a query has read what there is, and has run the batches that follow from it.

        Args:
            uid: The query.
            shown: The sinks whose readers see its newest batch afterwards.
        """
        query = self.query(uid)
        (built,) = (built for built in self._parts.built if built.uid == uid)
        if any(_TIMERS_IN_PROCESSING_TIME in (operator.mode or "") for operator in built.planned.operators):
            self.until(lambda: bool(query.newest_batch()), f"the query {uid!r} has run a batch")
            # The one after it may be planned already, with the rows and the clock of before.
            first = _number(query.newest_batch()) + 2
            self.until(lambda: _is_idle(query.newest_batch(), first), f"the query {uid!r} has read everything")
        elif not query.process_all():
            self.until(self.life.over.is_set, f"the driver says why the query {uid!r} has failed")
        self.require_running()
        newest = _number(query.newest_batch())
        self.until(
            lambda: max(query.batch_id for query in self._loop.status().queries if query.uid == uid) >= newest,
            f"the driver knows of batch {newest} of {uid!r}",
        )
        if shown and newest >= 0:
            self.until(lambda: self._committed(uid, shown) >= newest, f"batch {newest} of {uid!r} is visible")

    def _committed(self, uid: str, sinks: Collection[str] | None = None) -> int:
        """Return the batch that these sinks of a query have committed, all of its sinks if none are named."""
        of_query = (sink for sink in self._loop.status().sinks if sink.query == uid)
        batches = [sink.committed_batch for sink in of_query if sinks is None or sink.uid in sinks]
        return min((-1 if batch is None else batch for batch in batches), default=-1)

    def request_checkpoint(self) -> str:
        """Begin a checkpoint, and return its request."""
        self.require_running()
        request = api.CheckpointRequest(request_id=f"test-{uuid.uuid4().hex}")
        self._loop.request_checkpoint(request)
        return request.request_id

    def await_checkpoint(self, request: str) -> None:
        """Wait until a checkpoint is complete, and sinks have committed what it covers.

        Raises:
            JobTestError: It failed.
        """
        self.until(lambda: self._operation(request).state is not api.OperationState.IN_PROGRESS, "it is complete")
        operation = self._operation(request)
        if operation.state is api.OperationState.FAILED:
            raise JobTestError(f"The checkpoint failed: {operation.reason}: {operation.message}")
        assert operation.snapshot is not None  # noqa: S101 - it is complete
        manifest = catalog.read_manifest(self._parts.root.store, layout.checkpoint(operation.snapshot.id))
        sinks = {sink.query for sink in self._loop.status().sinks}
        covered = {query.uid: query.batch_id for query in manifest.queries if query.uid in sinks}
        self.until(lambda: all(self._committed(uid) >= batch for uid, batch in covered.items()), "sinks have committed")

    def _operation(self, request: str) -> api.Operation:
        operation = self._loop.operation(request)
        assert operation is not None  # noqa: S101 - it was requested
        return operation

    def drain(self) -> None:
        """End it as SIGTERM does: with a checkpoint of all that its queries have read.

        Raises:
            JobTestError: It has ended in another way.
        """
        self._loop.drain()
        self._thread.join(PATIENCE_S)
        self._parts.master_hooks.close()
        self._parts.declared.close()
        self._release()
        if self._ending is None or not self._ending.is_clean:
            self.require_running()

    def kill(self) -> None:
        """End it where it is: queries, loop and Python workers; what is on storage is all that is left. Idempotent."""
        if not self._is_held:
            return
        self._loop.abandon()
        self._thread.join(PATIENCE_S)
        self._release()
        self.life.end()
        tested.end_workers(self._spark)

    def _release(self) -> None:
        tested.stop_all(self._spark, self._uids)
        if self._is_held:
            self._is_held = False
            _running.release()


def _number(batch: dict[str, object]) -> int:
    return int(str(batch.get("batchId", -1)))


def _is_idle(batch: dict[str, object], first: int) -> bool:
    """Tell whether a batch from a number on found nothing to read."""
    sources = batch.get("sources")
    if not isinstance(sources, list) or _number(batch) < first:
        return False
    return all(source["startOffset"] == source["endOffset"] for source in sources)
