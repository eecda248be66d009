"""What the HTTP API asks of a process that is no driver yet, and of the driver that it becomes.

One server serves a process for its whole life. Until the job loop takes over, the process answers what it can, and refuses
what only a driver does; from then on the loop answers every question. A driver that starts says which step it is at, so that
a long restore can be watched. A standby says how far it is prepared; the activation stays its own, so that a repeated
request gets the same operation.

The server's threads ask, the main thread reports, and the thread that works reports a step's progress: each attribute is
replaced whole, or under a lock. Nothing here decides what a process does next.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from statefulspark import clock, errors
from statefulspark.checkpoint import progress
from statefulspark.contract import api, config, observations, statistics
from statefulspark.contract.config import CheckpointConfig
from statefulspark.coordinator import stats
from statefulspark.driver.status import Operations
from statefulspark.server.control import Control

RENEWED_S = 5.0
"""The longest age of the count in a step's message: a change of the message costs a write to the resource's status."""
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(slots=True)
class _Step:
    name: str
    since: datetime
    counted: api.Progress | None = None

    def report(self, counted: api.Progress) -> None:
        self.counted = counted


@dataclass(frozen=True, slots=True)
class _Message:
    """The progress in the message, and when it was put there."""

    step: _Step
    counted: api.Progress | None
    at_s: float


class Steps:
    """The step that a start is at; `begin` is the `progress.BeginStep` of what works.

    A step that has ended changes nothing any more, whatever it still reports.
    """

    def __init__(self, started_at: datetime, *, elapsed_s: Callable[[], float] = time.monotonic) -> None:
        """Begin.

        Args:
            started_at: UTC.
            elapsed_s: A clock that only goes forward.
        """
        self._elapsed_s = elapsed_s
        self._step = _Step("Starting", started_at)
        self._shown = _Message(self._step, None, 0.0)

    def begin(self, step: str) -> progress.Report:
        """Begin a step.

        Args:
            step: What it does, as the beginning of a sentence.

        Returns:
            What receives its progress.
        """
        begun = _Step(step, clock.utc_now())
        self._step = begun
        return begun.report

    @property
    def progress(self) -> api.Progress | None:
        """How far the step is, as of now; None if that is not counted."""
        return self._step.counted

    @property
    def message(self) -> str:
        """The step as a sentence."""
        step, shown, now_s = self._step, self._shown, self._elapsed_s()
        if shown.step is not step or shown.counted is None or now_s - shown.at_s >= RENEWED_S:
            shown = self._shown = _Message(step, step.counted, now_s)
        return describe(step.name, step.since, shown.counted)


def describe(step: str, since: datetime, counted: api.Progress | None) -> str:
    """Return a step as a sentence.

    For example `Restoring checkpoint 41: 120 of 512 files (1.20 of 4.80 GiB), since 10:02:11 UTC.`

    Args:
        step: What it does, as the beginning of a sentence.
        since: UTC.
        counted: How far it is; None if that is not counted.
    """
    if counted is None or not counted.total:
        return f"{step}, since {since:%H:%M:%S} UTC."
    size = ""
    if counted.total_bytes:  # Both numbers are in the unit of the total, which has three digits.
        value, unit_bytes, units = float(counted.total_bytes), 1, iter(_UNITS)
        unit = next(units)
        while value >= 999.5 and unit != _UNITS[-1]:
            value, unit, unit_bytes = value / 1024, next(units), unit_bytes * 1024
        places = 0 if unit == "B" or value >= 99.95 else 1 if value >= 9.995 else 2
        size = f" ({(counted.done_bytes or 0) / unit_bytes:.{places}f} of {value:.{places}f} {unit})"
    return f"{step}: {counted.done} of {counted.total} {counted.unit}{size}, since {since:%H:%M:%S} UTC."


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
        return stats.answer(stats.begin(history_size=self._config.checkpoint.history_limit))

    def checkpoint(self, snapshot_id: int) -> statistics.SnapshotDetails | None:
        """Return a snapshot of the driver; none before there is one."""
        return self._driver.checkpoint(snapshot_id) if self._driver is not None else None

    def config(self) -> statistics.EffectiveConfig | None:
        """Return the configuration of the driver, and its own before there is one."""
        if self._driver is not None:
            return self._driver.config()
        return statistics.EffectiveConfig.describe(self._config)

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
        return self._require_driver("checkpoint").request_checkpoint(request)

    def request_savepoint(self, request: api.SavepointRequest) -> api.Operation:
        """Hand over to the driver; refuse before there is one."""
        return self._require_driver("savepoint").request_savepoint(request)

    def request_stop(self, request: api.StopRequest) -> api.Operation:
        """Hand over to the driver; refuse before there is one."""
        return self._require_driver("stop").request_stop(request)

    def request_activation(self, request: api.ActivateRequest) -> api.Operation:
        """Hand over to the driver, which refuses; refuse before there is one."""
        return self._require_driver("activation").request_activation(request)

    def configure(self, checkpoint: CheckpointConfig) -> statistics.EffectiveConfig:
        """Hand over to the driver; refuse before there is one."""
        return self._require_driver("new configuration").configure(checkpoint)

    def _require_driver(self, what: str) -> Control:
        """Return the driver for something that only it does.

        Raises:
            PreconditionFailedError: There is none yet.
        """
        driver = self._driver
        if driver is None:
            raise self._refusal(what)
        return driver


class StartControl(ForwardingControl):
    """Implements `server.control.Control` for a driver that starts."""

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
        self.steps = Steps(started_at, elapsed_s=elapsed_s)
        """The step that the start is at; reported by what works."""

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


class StandbyControl(ForwardingControl):
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
        self.steps = Steps(started_at)
        """The step that it is at, before it is ready and once it was activated; reported by what works."""

    # Asked by the API

    def _own_status(self) -> api.JobStatus:
        """Return the status of the standby, with its step until it is ready; `Starting`, once it was activated."""
        with self._lock:
            request, standby = self._request, self._standby
        is_at_work = request is not None or standby.state is api.StandbyState.WARMING
        return api.JobStatus(
            job=self._config.name,
            namespace=self._config.namespace,
            state=api.JobState.STARTING if request else api.JobState.STANDBY,
            epoch=request.epoch if request else 0,
            generation=0,
            revision=self._config.revision,
            started_at=self._started_at,
            message=self.steps.message if is_at_work else None,
            progress=self.steps.progress if is_at_work else None,
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
        operation, _ = self._operations.begin(request.request_id, api.OperationKind.ACTIVATION)
        self._activated.set()
        return operation

    # Reported by the main thread

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

    def report_warming(self) -> None:
        """Report that it prepares, or prepares again."""
        self._report(api.StandbyStatus(state=api.StandbyState.WARMING, warmed_queries=self._standby.warmed_queries))

    def report_warm(self, query_uid: str) -> None:
        """Report that a query has run on samples."""
        warmed = tuple(dict.fromkeys((*self._standby.warmed_queries, query_uid)))
        self._report(self._standby.model_copy(update={"warmed_queries": warmed}))

    def report_ready(self, compared_with: str | None, now: datetime) -> None:
        """Report that the job fits the newest state.

        Args:
            compared_with: The label of that state; None for empty state.
            now: UTC.
        """
        self._report(
            api.StandbyStatus(
                state=api.StandbyState.READY,
                compared_with=compared_with,
                ready_at=self._standby.ready_at or now,
                warmed_queries=self._standby.warmed_queries,
            )
        )

    def report_failure(self, error: errors.StatefulSparkError) -> None:
        """Report a failure that is tried again; what is prepared stays."""
        self._report(self._standby.model_copy(update={"reason": error.reason, "message": error.message}))

    def refuse(self, error: errors.StatefulSparkError) -> None:
        """Report that this version of the job cannot start from the newest state."""
        self._report(
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

    def _report(self, standby: api.StandbyStatus) -> None:
        with self._lock:
            self._standby = standby

    def _refusal(self, what: str) -> errors.PreconditionFailedError:
        return errors.PreconditionFailedError(
            "StandingBy", f"Only the driver takes a {what}, and this is its standby; ask the driver."
        )
