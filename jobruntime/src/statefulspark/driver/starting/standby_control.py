"""What the HTTP API asks of a standby: how far it is prepared, and the request that makes it the driver.

One server serves a process for its whole life: the standby answers until the job loop takes over, and from then on hands
every question to the loop. Only the activation stays its own, so that a repeated request finds what was done for it.

It is asked by the server's thread and told by the main thread; what both touch is replaced under a lock. It does not decide
what a standby does next.
"""

from __future__ import annotations

import threading
from datetime import datetime

from statefulspark import errors
from statefulspark.contract import api, config
from statefulspark.driver.api import forwarding
from statefulspark.driver.api.operations import Operations
from statefulspark.driver.starting import steps
from statefulspark.server.control import Control

_ACTIVATE = "activate"


class StandbyControl(forwarding.ForwardingControl):
    """Implements `server.control.Control` for a standby, and for the driver that it becomes."""

    def __init__(self, job_config: config.JobConfig, started_at: datetime) -> None:
        """Begin warming.

        Args:
            job_config: The job.
            started_at: UTC.
        """
        super().__init__(job_config, started_at)
        self._lock = threading.Lock()
        self._activated = threading.Event()
        self._operations = Operations()
        self._standby = api.StandbyStatus(state=api.StandbyState.WARMING)
        self._request: api.ActivateRequest | None = None
        self.steps = steps.Steps(started_at)
        """The step that the start is at, once it was activated; told by what works."""

    # What is asked

    def _own_status(self) -> api.JobStatus:
        """Return the status of the standby: `Starting` with the step, once it was activated."""
        with self._lock:
            request, standby = self._request, self._standby
        return api.JobStatus(
            job=self._config.name,
            namespace=self._config.namespace,
            state=api.JobState.STARTING if request else api.JobState.STANDBY,
            epoch=request.epoch if request else 0,
            generation=0,
            revision=self._config.revision,
            started_at=self._started_at,
            message=self.steps.message if request else None,
            progress=self.steps.progress if request else None,
            standby=None if request else standby,
        )

    def operation(self, request_id: str) -> api.Operation | None:
        """Return the activation, or an operation of the driver."""
        return self._operations.get(request_id) or super().operation(request_id)

    def request_activation(self, request: api.ActivateRequest) -> api.Operation:
        """Accept the first activation; a repeated one is the same.

        Raises:
            PreconditionFailedError: `AlreadyActivated`, by another request. `StandbyRefused`, with the reason.
        """
        with self._lock:
            first, standby = self._request, self._standby
            if first is not None and (first.request_id, first.epoch) != (request.request_id, request.epoch):
                raise errors.PreconditionFailedError(
                    "AlreadyActivated",
                    f"The request {first.request_id!r} made this the driver of epoch {first.epoch}; epoch {request.epoch} "
                    "needs another standby.",
                )
            if first is None and standby.state is api.StandbyState.REFUSED:
                raise errors.PreconditionFailedError("StandbyRefused", f"{standby.reason}: {standby.message}")
            self._request = first or request
        operation, _ = self._operations.begin(request.request_id, _ACTIVATE)
        self._activated.set()
        return operation

    # What is told

    @property
    def activation(self) -> api.ActivateRequest | None:
        """The accepted request; None while it stands by."""
        with self._lock:
            return self._request

    def is_activated(self) -> bool:
        """Tell whether an activation was accepted."""
        return self._activated.is_set()

    def wait(self, timeout_s: float) -> None:
        """Wait for an activation, at most this long."""
        self._activated.wait(timeout_s)

    def warming(self) -> None:
        """Tell that it prepares, or prepares again."""
        self._tell(api.StandbyStatus(state=api.StandbyState.WARMING, warmed_queries=self._standby.warmed_queries))

    def warmed(self, query_uid: str) -> None:
        """Tell that a query has run on samples."""
        warmed = tuple(dict.fromkeys((*self._standby.warmed_queries, query_uid)))
        self._tell(self._standby.model_copy(update={"warmed_queries": warmed}))

    def ready(self, compared_with: str | None, now: datetime) -> None:
        """Tell that the job fits the newest state.

        Args:
            compared_with: The label of that state; None for empty state.
            now: UTC.
        """
        self._tell(
            api.StandbyStatus(
                state=api.StandbyState.READY,
                compared_with=compared_with,
                ready_at=self._standby.ready_at or now,
                warmed_queries=self._standby.warmed_queries,
            )
        )

    def trouble(self, error: errors.StatefulSparkError) -> None:
        """Tell of a failure that is tried again; what is prepared stays."""
        self._tell(self._standby.model_copy(update={"reason": error.reason, "message": error.message}))

    def refuse(self, error: errors.StatefulSparkError) -> None:
        """Tell that this version of the job cannot start from the newest state."""
        self._tell(
            api.StandbyStatus(
                state=api.StandbyState.REFUSED,
                reason=error.reason,
                message=error.message,
                warmed_queries=self._standby.warmed_queries,
            )
        )

    def hand_over(self, driver: Control, request: api.ActivateRequest) -> None:
        """Let the driver answer from now on."""
        self._driver = driver
        self._operations.complete(request.request_id, None)

    def _tell(self, standby: api.StandbyStatus) -> None:
        with self._lock:
            self._standby = standby

    def _refusal(self, what: str) -> errors.PreconditionFailedError:
        return errors.PreconditionFailedError(
            "StandingBy", f"A {what} is what the driver does; this is its standby. Ask the driver."
        )
