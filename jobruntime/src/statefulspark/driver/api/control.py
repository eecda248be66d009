"""The thread-safe part of the job loop: it answers questions, and queues requests that the loop executes."""

from __future__ import annotations

import queue
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from statefulspark import errors
from statefulspark.contract import api, observations, statistics
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.coordinator import stats
from statefulspark.driver.api.operations import Operations
from statefulspark.driver.api.status import JobStatusTracker

STALE_S = 30.0
"""A loop that has not completed an iteration for this long is reported as dead."""

StateRequest = api.CheckpointRequest | api.SavepointRequest | api.StopRequest


class ControlEndpoint(ABC):
    """Implements `server.control.Control`; the loop extends it and runs the messages of the inbox."""

    def __init__(self, status_tracker: JobStatusTracker) -> None:
        """Answer from a status tracker; `_publish` must be called before the first question."""
        self._status_tracker = status_tracker
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._operations = Operations()
        self._turned_at_s = time.monotonic()
        self._status = status_tracker.status(())

    def status(self) -> api.JobStatus:
        """Return the status published last."""
        return self._status

    def checkpoints(self) -> statistics.Checkpoints:
        """Return the statistics of all snapshots and the latest of them."""
        return stats.answer(self._status_tracker.stats)

    def checkpoint(self, snapshot_id: int) -> statistics.SnapshotDetails | None:
        """Return one snapshot, if it is in progress or among the latest."""
        return stats.find(self._status_tracker.stats, snapshot_id)

    def config(self) -> statistics.EffectiveConfig | None:
        """Return the configuration of the driver."""
        return self._status_tracker.config

    @abstractmethod
    def batches(self) -> observations.Batches:
        """Return the newest batches of each query."""

    @abstractmethod
    def state(self) -> observations.StateSizes:
        """Return the sizes of the state in the newest checkpoint."""

    def operation(self, request_id: str) -> api.Operation | None:
        """Return a checkpoint, savepoint or stop by its request id."""
        return self._operations.get(request_id)

    def is_alive(self) -> bool:
        """Tell whether the loop has completed an iteration within the last `STALE_S` seconds."""
        return time.monotonic() - self._turned_at_s < STALE_S

    def request_checkpoint(self, request: api.CheckpointRequest) -> api.Operation:
        """Queue a checkpoint, once per request id."""
        operation, is_new = self._operations.begin(request.request_id, "checkpoint")
        if is_new:
            self._inbox.put(lambda: self._on_request(request, SnapshotKind.CHECKPOINT))
        return operation

    def request_savepoint(self, request: api.SavepointRequest) -> api.Operation:
        """Queue a savepoint, once per request id."""
        operation, is_new = self._operations.begin(request.request_id, "savepoint")
        if is_new:
            self._inbox.put(lambda: self._on_request(request, SnapshotKind.SAVEPOINT))
        return operation

    def request_stop(self, request: api.StopRequest) -> api.Operation:
        """Queue a stop, once per request id."""
        operation, is_new = self._operations.begin(request.request_id, "stop")
        if is_new:
            kind = SnapshotKind.SAVEPOINT if request.savepoint else SnapshotKind.CHECKPOINT
            self._inbox.put(lambda: self._on_request(request, kind))
        return operation

    def request_activation(self, request: api.ActivateRequest) -> api.Operation:
        """Refuse: this process is the driver, and never was a standby.

        Raises:
            PreconditionFailedError: `NotAStandby`.
        """
        raise errors.PreconditionFailedError(
            "NotAStandby",
            f"The request {request.request_id!r} asks for epoch {request.epoch}, but this is the driver of epoch "
            f"{self._status.epoch} and never was a standby; start one with `statefulspark run --standby`.",
        )

    def drain(self) -> None:
        """Finish the batch, complete a checkpoint and end with DRAINED."""
        self._inbox.put(self._on_drain)

    # The loop's side

    def _publish(self, status: api.JobStatus) -> None:
        self._status = status
        self._turned_at_s = time.monotonic()

    @abstractmethod
    def _on_request(self, request: StateRequest, kind: SnapshotKind) -> None: ...

    @abstractmethod
    def _on_drain(self) -> None: ...
