"""What the HTTP API asks of a process that is no driver yet, and of the driver that it becomes.

One server serves a process for its whole life. Until the job loop takes over, the process answers itself what it can and
refuses what only a driver does; from then on every question is the loop's.

It is asked by the server's thread and told by the main thread; the driver is set once, whole. It does not know what the
process does until then: that is its subclasses' (`start_control`, `standby_control`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime

from statefulspark import errors
from statefulspark.contract import api, config, observations, statistics
from statefulspark.coordinator import stats
from statefulspark.server.control import Control


class ForwardingControl(ABC):
    """Implements `server.control.Control` for a process that becomes a driver."""

    def __init__(self, job_config: config.JobConfig, started_at: datetime) -> None:
        """Answer without a driver.

        Args:
            job_config: The job.
            started_at: UTC.
        """
        self._config = job_config
        self._started_at = started_at
        self._driver: Control | None = None

    @abstractmethod
    def _own_status(self) -> api.JobStatus:
        """Return the status as long as there is no driver."""

    @abstractmethod
    def _refusal(self, what: str) -> errors.PreconditionFailedError:
        """Return why something that only a driver does is refused, and what to do.

        Args:
            what: What was requested, as a noun.
        """

    def status(self) -> api.JobStatus:
        """Return the driver's status, and its own before there is a driver."""
        driver = self._driver
        return driver.status() if driver is not None else self._own_status()

    def checkpoints(self) -> statistics.Checkpoints:
        """Return the statistics of the driver; none before there is one."""
        if self._driver is not None:
            return self._driver.checkpoints()
        return stats.answer(stats.begin(history_size=self._config.checkpoint.history))

    def checkpoint(self, snapshot_id: int) -> statistics.SnapshotDetails | None:
        """Return a snapshot of the driver; none before there is one."""
        return self._driver.checkpoint(snapshot_id) if self._driver is not None else None

    def config(self) -> statistics.EffectiveConfig | None:
        """Return the configuration."""
        return statistics.EffectiveConfig.of(self._config)

    def batches(self) -> observations.Batches:
        """Return the newest batches of the driver; none before there is one."""
        return self._driver.batches() if self._driver is not None else observations.Batches()

    def state(self) -> observations.StateSizes:
        """Return the sizes of the driver's state; none before there is one."""
        return self._driver.state() if self._driver is not None else observations.StateSizes()

    def operation(self, request_id: str) -> api.Operation | None:
        """Return an operation of the driver; none before there is one."""
        return self._driver.operation(request_id) if self._driver is not None else None

    def is_alive(self) -> bool:
        """Tell whether the job loop runs; before there is one, the process ends when it is not well."""
        return self._driver is None or self._driver.is_alive()

    def request_checkpoint(self, request: api.CheckpointRequest) -> api.Operation:
        """Hand over to the driver; refuse before there is one."""
        return self._asked("checkpoint").request_checkpoint(request)

    def request_savepoint(self, request: api.SavepointRequest) -> api.Operation:
        """Hand over to the driver; refuse before there is one."""
        return self._asked("savepoint").request_savepoint(request)

    def request_stop(self, request: api.StopRequest) -> api.Operation:
        """Hand over to the driver; refuse before there is one."""
        return self._asked("stop").request_stop(request)

    def request_activation(self, request: api.ActivateRequest) -> api.Operation:
        """Hand over to the driver, which refuses; refuse before there is one."""
        return self._asked("activation").request_activation(request)

    def _asked(self, what: str) -> Control:
        """Return the driver for something that only it does.

        Raises:
            PreconditionFailedError: There is none yet.
        """
        driver = self._driver
        if driver is None:
            raise self._refusal(what)
        return driver
