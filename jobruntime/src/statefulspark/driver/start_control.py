"""What the HTTP API asks of a driver that starts: which step it is at; and of the driver that it is afterwards.

One server serves a driver for its whole life, so that a restore of any length can be watched, and is not taken for a process
that hangs. Until the job loop takes over, requests for snapshots are refused.

It is asked by the server's thread and told by the main thread; each attribute is replaced whole.
"""

from __future__ import annotations

from datetime import datetime
from typing import NoReturn

from statefulspark import clock, errors
from statefulspark.contract import api, config, statistics
from statefulspark.coordinator import stats
from statefulspark.server.control import Control


class StartControl:
    """Implements `server.control.Control` for a driver from its first moment."""

    def __init__(self, job_config: config.JobConfig, started_at: datetime, *, epoch: int) -> None:
        """Begin to start.

        Args:
            job_config: The job.
            started_at: UTC.
            epoch: The epoch that it claims; 0 if that is not known yet.
        """
        self._config = job_config
        self._started_at = started_at
        self._epoch = epoch
        self._step = _described("Starting", started_at)
        self._driver: Control | None = None

    def status(self) -> api.JobStatus:
        """Return `Starting` with the step, and then the driver's status."""
        if self._driver is not None:
            return self._driver.status()
        return api.JobStatus(
            job=self._config.name,
            namespace=self._config.namespace,
            state=api.JobState.STARTING,
            epoch=self._epoch,
            revision=self._config.revision,
            started_at=self._started_at,
            message=self._step,
        )

    def checkpoints(self) -> statistics.Checkpoints:
        """Return the statistics of the driver; none while it starts."""
        if self._driver is not None:
            return self._driver.checkpoints()
        return stats.answer(stats.begin(history_size=self._config.checkpoint.history))

    def checkpoint(self, snapshot_id: int) -> statistics.SnapshotDetails | None:
        """Return a snapshot of the driver; none while it starts."""
        return self._driver.checkpoint(snapshot_id) if self._driver is not None else None

    def config(self) -> statistics.EffectiveConfig | None:
        """Return the configuration."""
        return statistics.EffectiveConfig.of(self._config)

    def operation(self, request_id: str) -> api.Operation | None:
        """Return an operation of the driver; none while it starts."""
        return self._driver.operation(request_id) if self._driver is not None else None

    def is_alive(self) -> bool:
        """Tell whether the job loop runs; while the driver starts, its process ends if the start fails."""
        return self._driver is None or self._driver.is_alive()

    def request_checkpoint(self, request: api.CheckpointRequest) -> api.Operation:
        """Hand over to the driver; refuse while it starts."""
        return self._driver.request_checkpoint(request) if self._driver else self._refuse("checkpoint")

    def request_savepoint(self, request: api.SavepointRequest) -> api.Operation:
        """Hand over to the driver; refuse while it starts."""
        return self._driver.request_savepoint(request) if self._driver else self._refuse("savepoint")

    def request_stop(self, request: api.StopRequest) -> api.Operation:
        """Hand over to the driver; refuse while it starts."""
        return self._driver.request_stop(request) if self._driver else self._refuse("stop")

    def request_activation(self, request: api.ActivateRequest) -> api.Operation:
        """Hand over to the driver, which refuses; refuse while it starts."""
        return self._driver.request_activation(request) if self._driver else self._refuse("activation")

    def at(self, step: str, *, epoch: int | None = None) -> None:
        """Tell the step that the start is at.

        Args:
            step: What it does, as the beginning of a sentence.
            epoch: The epoch, once it is claimed.
        """
        self._epoch = epoch or self._epoch
        self._step = _described(step, clock.utc_now())

    def hand_over(self, driver: Control) -> None:
        """Let the driver answer from now on."""
        self._driver = driver

    def _refuse(self, what: str) -> NoReturn:
        raise errors.PreconditionFailedError(
            "StillStarting", f"A {what} needs a job that runs. {self._step} Ask again when its state is Running."
        )


def _described(step: str, since: datetime) -> str:
    return f"{step}, since {since:%H:%M:%S} UTC."
