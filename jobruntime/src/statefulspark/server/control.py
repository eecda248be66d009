"""The port between the HTTP API and the running job.

Calls come from the server's thread; they answer at once with what is known, and leave work to the job's own loop.
"""

from __future__ import annotations

from typing import Protocol

from statefulspark.contract import api, statistics


class Control(Protocol):
    """What can be asked of a running job."""

    def status(self) -> api.JobStatus:
        """Return what the job is doing, as of its last look (a fraction of a second ago)."""
        ...

    def checkpoints(self) -> statistics.Checkpoints:
        """Return statistics of the snapshots since this driver started, with the latest of them, newest first."""
        ...

    def checkpoint(self, snapshot_id: int) -> statistics.SnapshotDetails | None:
        """Return one snapshot that is in progress or among the latest, or None."""
        ...

    def config(self) -> statistics.EffectiveConfig | None:
        """Return how the driver was told to run; None if it was told nothing."""
        ...

    def request_checkpoint(self, request: api.CheckpointRequest) -> api.Operation:
        """Start a checkpoint, or return the one that this request id started earlier."""
        ...

    def request_savepoint(self, request: api.SavepointRequest) -> api.Operation:
        """Start a savepoint, or return the one that this request id started earlier."""
        ...

    def request_stop(self, request: api.StopRequest) -> api.Operation:
        """Start a stop, or return the one that this request id started earlier."""
        ...

    def operation(self, request_id: str) -> api.Operation | None:
        """Return a checkpoint, savepoint or stop by its request id, or None if this driver knows none."""
        ...

    def is_alive(self) -> bool:
        """Whether the job's loop has turned recently."""
        ...
