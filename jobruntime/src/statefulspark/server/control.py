"""The port between the HTTP API and the running job.

Calls come from the server's thread; they answer at once with the current state, and queue work for the job loop.
"""

from __future__ import annotations

from typing import Protocol

from statefulspark.contract import api, observations, statistics
from statefulspark.contract.config import CheckpointConfig


class Control(Protocol):
    """The operations of a running job that the API offers."""

    def status(self) -> api.JobStatus:
        """Return the status of the job, which is at most a fraction of a second old."""
        ...

    def checkpoints(self) -> statistics.Checkpoints:
        """Return statistics of the snapshots since this driver started, with the latest of them, newest first."""
        ...

    def checkpoint(self, snapshot_id: int) -> statistics.SnapshotDetails | None:
        """Return one snapshot that is in progress or among the latest, or None."""
        ...

    def config(self) -> statistics.EffectiveConfig | None:
        """Return the configuration of the driver; None if it was started without one."""
        ...

    def batches(self) -> observations.Batches:
        """Return the newest batches of each query; none before the queries run."""
        ...

    def state(self) -> observations.StateSizes:
        """Return the sizes of the state in the newest checkpoint; none before the queries run."""
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

    def request_activation(self, request: api.ActivateRequest) -> api.Operation:
        """Make a standby the driver, or return the activation that this request id started earlier."""
        ...

    def configure(self, checkpoint: CheckpointConfig) -> statistics.EffectiveConfig:
        """Change how checkpoints are taken and kept, and return the configuration with that change."""
        ...

    def operation(self, request_id: str) -> api.Operation | None:
        """Return a checkpoint, savepoint or stop by its request id, or None if it is unknown to this driver."""
        ...

    def is_alive(self) -> bool:
        """Tell whether the job loop has completed an iteration recently."""
        ...
