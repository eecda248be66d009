"""The savepoints and stops of this driver by request id, which makes a repeated request harmless.

Written by the job's loop, read by the server's thread; every change replaces a frozen value under a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from statefulspark.contract import api

MAX_RETAINED = 200
"""Finished operations beyond this number are forgotten, oldest first."""


class Operations:
    """All operations of this driver."""

    def __init__(self) -> None:
        """Start without operations."""
        self._lock = threading.Lock()
        self._by_id: dict[str, api.Operation] = {}

    def begin(self, request_id: str, kind: api.OperationKind) -> tuple[api.Operation, bool]:
        """Return the operation of a request id, and whether it is new.

        Args:
            request_id: The request id of the caller.
            kind: What it asks for.
        """
        with self._lock:
            existing = self._by_id.get(request_id)
            if existing is not None:
                return existing, False
            operation = api.Operation(request_id=request_id, kind=kind, state=api.OperationState.IN_PROGRESS)
            self._by_id[request_id] = operation
            ended = [key for key, each in self._by_id.items() if each.state is not api.OperationState.IN_PROGRESS]
            for key in ended[: max(0, len(self._by_id) - MAX_RETAINED)]:
                del self._by_id[key]
            return operation, True

    def complete(self, request_id: str, snapshot: api.SnapshotSummary | None) -> None:
        """Mark an operation as completed."""
        self._update(request_id, {"state": api.OperationState.COMPLETED, "snapshot": snapshot, "progress": None})

    def fail(self, request_id: str, reason: str, message: str) -> None:
        """Mark an operation as failed, and why."""
        ended = {"state": api.OperationState.FAILED, "reason": reason, "message": message, "progress": None}
        self._update(request_id, ended)

    def report(self, request_id: str, progress: api.Progress) -> None:
        """Note the progress of an operation; ignored if it has ended meanwhile."""
        self._update(request_id, {"progress": progress})

    def get(self, request_id: str) -> api.Operation | None:
        """Return an operation; None if it is unknown."""
        with self._lock:
            return self._by_id.get(request_id)

    def _update(self, request_id: str, changes: Mapping[str, object]) -> None:
        with self._lock:
            operation = self._by_id.get(request_id)
            if operation is not None and operation.state is api.OperationState.IN_PROGRESS:
                self._by_id[request_id] = operation.model_copy(update=changes)
