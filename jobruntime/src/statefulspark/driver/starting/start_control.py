"""What the HTTP API asks of a driver that starts: which step it is at, and how far; and of the driver that it is afterwards.

A restore of any length can be watched, and is not taken for a process that hangs. Until the job loop takes over, requests
for snapshots are refused.

It is asked by the server's thread and told by the main thread; each attribute is replaced whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from statefulspark import errors
from statefulspark.contract import api, config
from statefulspark.driver.api import forwarding
from statefulspark.driver.starting import steps
from statefulspark.server.control import Control


class StartControl(forwarding.ForwardingControl):
    """Implements `server.control.Control` for a driver from its first moment."""

    def __init__(
        self,
        job_config: config.JobConfig,
        started_at: datetime,
        *,
        epoch: int,
        elapsed_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin to start.

        Args:
            job_config: The job.
            started_at: UTC.
            epoch: The epoch that it claims; 0 if that is not known, and then nobody can ask.
            elapsed_s: A clock that only goes forward.
        """
        super().__init__(job_config, started_at)
        self._epoch = epoch
        self.steps = steps.Steps(started_at, elapsed_s=elapsed_s)
        """The step that the start is at; told by what works."""

    def _own_status(self) -> api.JobStatus:
        """Return `Starting` with the step."""
        return api.JobStatus(
            job=self._config.name,
            namespace=self._config.namespace,
            state=api.JobState.STARTING,
            epoch=self._epoch,
            revision=self._config.revision,
            started_at=self._started_at,
            message=self.steps.message,
            progress=self.steps.progress,
        )

    def hand_over(self, driver: Control) -> None:
        """Let the driver answer from now on."""
        self._driver = driver

    def _refusal(self, what: str) -> errors.PreconditionFailedError:
        return errors.PreconditionFailedError(
            "StillStarting",
            f"A {what} needs a job that runs. {self.steps.message} Ask again when its state is Running.",
        )
