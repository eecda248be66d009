"""The schedule and the retention of a job's savepoints, in its spec and in its status. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field, field_validator
from statefulspark.contract.base import UtcDatetime

from statefulspark_operator.api import quantities
from statefulspark_operator.api.base import ApiModel, ChangeCost, Duration, Quantity, StatusModel
from statefulspark_operator.api.code import rules

SIZE_MESSAGE = "maxSize must be a quantity above 0, for example 500Gi"


class SavepointRetention(ApiModel):
    """Limits of the savepoints that the operator made by itself.

    What is beyond one of them is deleted with its files. The newest complete savepoint of the job stays. So does one that a
    start or a rollback may go back to.
    """

    count: Annotated[int, ChangeCost.RELOAD] = Field(default=10, ge=1, le=10_000)
    """Number of savepoints to keep. Default 10."""
    max_age: Annotated[Duration | None, ChangeCost.RELOAD] = None
    """Savepoints older than this are deleted, even if they are among the `count` newest. Default: no limit."""
    max_size: Annotated[Quantity | None, ChangeCost.RELOAD] = Field(
        default=None,
        json_schema_extra={
            "maxLength": 32,
            **rules(("isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))", SIZE_MESSAGE)),
        },
    )
    """Size of the savepoints that are kept, all together, for example `500Gi`; the oldest beyond it are deleted. Default: no
    limit."""

    @field_validator("max_size")
    @classmethod
    def _check_size(cls, size: str | None) -> str | None:
        if size is not None and quantities.amount(size) <= 0:
            raise ValueError(SIZE_MESSAGE)
        return size


class SavepointSchedule(ApiModel):
    """When savepoints are taken by themselves."""

    cron: str = Field(min_length=9, max_length=128)
    """Five fields as in a CronJob, for example `0 3 * * *`."""
    time_zone: str = Field(default="Etc/UTC", max_length=64)
    """Name of a time zone, for example `Europe/Berlin`. Default Etc/UTC."""
    starting_deadline: Duration = timedelta(hours=1)
    """A moment that was missed by more than this, for example while the job was suspended, is left out. Default 1h."""


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


class SavepointsStatus(StatusModel):
    """The savepoints that the operator made by itself, and keeps."""

    count: int
    """Number of complete ones."""
    size_bytes: int
    """Size of their files in bytes."""
