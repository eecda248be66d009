"""The standby driver in the status of a `StatefulSparkJob`: which one is recorded, and what became of it."""

from __future__ import annotations

from enum import StrEnum

from statefulspark.contract.base import UtcDatetime

from statefulspark_operator.api.base import ApiModel


class StandbyState(StrEnum):
    """The state of the standby driver."""

    CREATING = "Creating"
    """Its pod is being created, scheduled, or pulls its image."""
    WARMING = "Warming"
    """Its process loads the job and compares it with the state."""
    READY = "Ready"
    """It can take over."""
    REFUSED = "Refused"
    """The job does not load or does not fit the state, or the pod cannot start; the reason says why."""
    ENDED = "Ended"
    """It has ended, and is replaced at `retryAt`."""


class StandbyStatus(ApiModel):
    """The standby driver: a started process that reads the state and changes nothing until it takes over."""

    number: int
    """Its number, which is in the name of its pod."""
    pod: str
    """Name of its pod."""
    revision: str
    """Revision of the spec that it loads."""
    state: StandbyState
    """Its state."""
    since: UtcDatetime
    """When it reached this state."""
    uid: str | None = None
    """Identity of its pod, once that has been observed."""
    reason: str | None = None
    """Why it refused or ended, in PascalCase."""
    message: str | None = None
    """Why it refused or ended, in one sentence."""
    failures: int = 0
    """Number of standbys in a row that ended before they were ready."""
    retry_at: UtcDatetime | None = None
    """When the next one is created, after it has ended."""
