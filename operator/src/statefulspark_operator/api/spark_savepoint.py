"""The resource `SparkSavepoint`: one object for each savepoint, whoever asked for it.

The models and their rules (`lifecycle/savepoints`) come first; the CRD is published together with the operator that carries
them out (docs/adr/0022). Pure.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from pydantic import Field
from statefulspark.contract.base import UtcDatetime

from statefulspark_operator.api.base import ApiModel, Duration
from statefulspark_operator.api.spec import SavepointForm


class SavepointOrigin(StrEnum):
    """Who asked for a savepoint."""

    MANUAL = "Manual"
    """A person or a tool created the object."""
    SCHEDULED = "Scheduled"
    """`spec.savepoint.schedule` of the job; only these are pruned by its retention."""
    UPGRADE = "Upgrade"
    """The stop of a revision, before the next one starts."""
    DELETION = "Deletion"
    """The deletion of the job, with deletionPolicy Savepoint."""
    ADOPTED = "Adopted"
    """It was on storage already, and `from` names it."""


class SavepointDisposal(StrEnum):
    """What happens to the files when the object is deleted."""

    KEEP = "Keep"
    """They stay, and a later object may adopt them."""
    DISPOSE = "Dispose"
    """They are deleted, the manifest first."""


class SavepointPhase(StrEnum):
    """The state of a savepoint in one word."""

    PENDING = "Pending"
    """It waits for a driver, or for another savepoint of the job."""
    IN_PROGRESS = "InProgress"
    """The driver was asked for it."""
    COMPLETED = "Completed"
    """It is complete on storage."""
    FAILED = "Failed"
    """It will not be taken; the message says why."""


class SparkSavepointSpec(ApiModel):
    """A savepoint of a job."""

    job: str = Field(min_length=1, max_length=253)
    """Name of the job, in the same namespace."""
    location: str | None = Field(default=None, max_length=1024)
    """Folder for the savepoint; absent means that of the job."""
    format: SavepointForm = SavepointForm.NATIVE
    """`Native` (default) or `Canonical`."""
    disposal: SavepointDisposal = SavepointDisposal.KEEP
    """What happens to the files when this object is deleted: `Keep` (default) or `Dispose`."""
    from_: str | None = Field(default=None, alias="from", max_length=1024)
    """Folder of a savepoint that exists: it is adopted, and none is taken."""


class SparkSavepointStatus(ApiModel):
    """The observed state of a savepoint."""

    phase: SavepointPhase = SavepointPhase.PENDING
    """The state in one word."""
    message: str | None = None
    """The state in one sentence."""
    request_id: str | None = None
    """Id of the request to the driver; the same id starts nothing twice."""
    attempt: int = 0
    """Number of requests so far."""
    joined: str | None = None
    """Name of the object whose savepoint this is, too, because both waited for the same one."""
    location: str | None = None
    """Folder of the savepoint."""
    size_bytes: int | None = None
    """Size of its files in bytes."""
    completed_at: UtcDatetime | None = None
    """When it was complete."""


class SavepointRetention(ApiModel):
    """Which scheduled savepoints are kept; what is beyond any of the limits is pruned, but never the newest good one."""

    count: int | None = Field(default=None, ge=1, le=10_000)
    """At most so many."""
    max_age: Duration | None = None
    """None that is older."""
    max_bytes: int | None = Field(default=None, ge=1)
    """Not more bytes together."""


class SavepointSchedule(ApiModel):
    """When savepoints are taken by themselves."""

    cron: str = Field(min_length=9, max_length=128)
    """Five fields as in a CronJob, for example `0 3 * * *`."""
    time_zone: str = Field(default="Etc/UTC", max_length=64)
    """Name of a time zone, for example `Europe/Berlin`. Default Etc/UTC."""
    starting_deadline: Duration = timedelta(hours=1)
    """A moment that was missed by more than this, for example while the job was suspended, is left out. Default 1h."""
    retention: SavepointRetention = SavepointRetention(count=7)
    """Which of them are kept. Default: the 7 newest."""


def scheduled_name(job: str, at: UtcDatetime) -> str:
    """Return the name of the savepoint of a moment of the schedule; one moment has one name, so it is created once."""
    return f"{job}-scheduled-{at:%Y%m%d%H%M}"
