"""The schedule of a job's savepoints, in its spec and in its status. Pure."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field
from statefulspark.contract.base import UtcDatetime

from statefulspark_operator.api.base import ApiModel, Duration, StatusModel


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


class SavepointScheduleStatus(StatusModel):
    """How far the schedule has been carried out."""

    schedule: str
    """The cron expression and time zone that this is about."""
    handled_at: UtcDatetime
    """Every moment up to this one has been handled: its savepoint was created, or it was missed."""
    next_at: UtcDatetime
    """The next moment."""
    missed: int = 0
    """Number of moments without a savepoint, because the job did not run or nobody looked before startingDeadline."""
