"""What the HTTP API asks of a driver that starts: which step it is at; and of the driver that it is afterwards.

A restore of any length can be watched, and is not taken for a process that hangs. Until the job loop takes over, requests
for snapshots are refused.

It is asked by the server's thread and told by the main thread; each attribute is replaced whole.
"""

from __future__ import annotations

from datetime import datetime

from statefulspark import clock, errors
from statefulspark.contract import api, config
from statefulspark.driver.api import forwarding
from statefulspark.server.control import Control


class StartControl(forwarding.ForwardingControl):
    """Implements `server.control.Control` for a driver from its first moment."""

    def __init__(self, job_config: config.JobConfig, started_at: datetime, *, epoch: int) -> None:
        """Begin to start.

        Args:
            job_config: The job.
            started_at: UTC.
            epoch: The epoch that it claims; 0 if that is not known yet.
        """
        super().__init__(job_config, started_at)
        self._epoch = epoch
        self._step = _described("Starting", started_at)

    def _own_status(self) -> api.JobStatus:
        """Return `Starting` with the step."""
        return api.JobStatus(
            job=self._config.name,
            namespace=self._config.namespace,
            state=api.JobState.STARTING,
            epoch=self._epoch,
            revision=self._config.revision,
            started_at=self._started_at,
            message=self._step,
        )

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

    def _refusal(self, what: str) -> errors.PreconditionFailedError:
        return errors.PreconditionFailedError(
            "StillStarting", f"A {what} needs a job that runs. {self._step} Ask again when its state is Running."
        )


def _described(step: str, since: datetime) -> str:
    return f"{step}, since {since:%H:%M:%S} UTC."
