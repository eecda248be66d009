"""The resource `SparkSavepoint`: one object for each savepoint, whoever asked for it.

It outlives its job: what is on storage stays named, and can be deleted, after the job is gone (docs/adr/0022). Pure.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import ConfigDict, Field
from statefulspark.contract.base import UtcDatetime

from statefulspark_operator.api.base import ApiModel, StatusModel
from statefulspark_operator.api.code import rules
from statefulspark_operator.api.conditions import Conditions
from statefulspark_operator.api.spec import SavepointForm, Storage

FIXED_MESSAGE = "only deletionPolicy and storage can be changed: create another SparkSavepoint for another savepoint"
_FIXED_RULES = (
    ("self.jobName == oldSelf.jobName", FIXED_MESSAGE),
    *(
        (
            f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})",
            FIXED_MESSAGE,
        )
        for field in ("location", "format", "source")
    ),
    ("!(has(self.source) && has(self.location))", "source adopts a savepoint where it is: leave location out"),
)


class SavepointOrigin(StrEnum):
    """Why a savepoint is taken."""

    MANUAL = "Manual"
    """A person or a tool created the object."""
    SCHEDULED = "Scheduled"
    """`spec.savepoint.schedule` of the job."""
    STOP = "Stop"
    """The stop of the job by `spec.suspend`."""
    UPGRADE = "Upgrade"
    """The stop of a revision, before the next one starts."""
    DELETION = "Deletion"
    """The deletion of the job, with deletionPolicy Savepoint."""
    ADOPTED = "Adopted"
    """It was on storage already, and `source` names it."""


AUTOMATIC = frozenset(
    {SavepointOrigin.SCHEDULED, SavepointOrigin.STOP, SavepointOrigin.UPGRADE, SavepointOrigin.DELETION}
)
"""Why the operator takes savepoints by itself: `spec.savepoint.retention` of the job limits these."""


class SavepointDeletionPolicy(StrEnum):
    """What happens to the files when the object is deleted."""

    RETAIN = "Retain"
    """They stay, and a later object may adopt them."""
    DELETE = "Delete"
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


class SavepointSource(ApiModel):
    """A savepoint that exists."""

    uri: str = Field(
        max_length=1024,
        json_schema_extra=rules(
            (
                "self.matches('^s3://[^/]+/.+')",
                "source.uri must be the s3:// folder of a savepoint, for example "
                "s3://bucket/jobs/demo/flights/savepoints/00000043-nightly",
            )
        ),
    )
    """Folder of the savepoint, in the job's folder or elsewhere."""


class SparkSavepointSpec(ApiModel):
    """A savepoint of a job: one to take, or one that exists."""

    model_config = ConfigDict(json_schema_extra=rules(*_FIXED_RULES))

    job_name: str = Field(min_length=1, max_length=253)
    """Name of the job, in the same namespace."""
    location: str | None = Field(
        default=None,
        max_length=1024,
        json_schema_extra=rules(("self.startsWith('s3://')", "location must be an s3:// location")),
    )
    """Folder for the savepoint. Default: `spec.savepoint.location` of the job, or `savepoints/` in its own folder."""
    format: SavepointForm = SavepointForm.NATIVE
    """Form of the savepoint. Default `Native`."""
    source: SavepointSource | None = None
    """A savepoint that exists: the object adopts it, and none is taken."""
    storage: Storage | None = None
    """Connection to the storage while the job does not exist, by which the object adopts a savepoint and deletes its files.
    Default: the job's, as the object's status recorded it."""
    deletion_policy: SavepointDeletionPolicy = SavepointDeletionPolicy.RETAIN
    """What happens to the files when this object is deleted. Default `Retain`."""


class SparkSavepointStatus(StatusModel):
    """The observed state of a savepoint."""

    observed_generation: int | None = None
    """Generation of the spec that this status is about."""
    phase: SavepointPhase = SavepointPhase.PENDING
    """The state in one word, for printing only: tools use the conditions."""
    origin: SavepointOrigin | None = None
    """Why it is taken."""
    message: str | None = None
    """The state in one sentence."""
    request_id: str | None = None
    """Id of the request to the driver; the same id starts nothing twice."""
    attempt: int = 0
    """Number of requests so far."""
    searched: bool = False
    """Whether the operator has looked on storage for a savepoint of this name, which it adopts instead of taking one."""
    joined: str | None = None
    """Name of the object whose savepoint this is, too, because both waited for the same one."""
    location: str | None = None
    """Folder of the savepoint."""
    size_bytes: int | None = None
    """Size of its files in bytes."""
    size: str | None = None
    """Size of its files as a rounded quantity, for printing only."""
    completed_at: UtcDatetime | None = None
    """When it was complete."""
    storage: Storage | None = None
    """The connection by which it was read or taken, and its files can be deleted after the job is gone."""
    conditions: Conditions = Field(
        default=(),
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Answers for tools that wait: Complete and Failed, and for kstatus Ready (complete), Reconciling (waits, or is being
    taken) and Stalled (failed)."""


def scheduled_name(job: str, at: UtcDatetime) -> str:
    """Return the name of the savepoint of a moment of the schedule; one moment has one name, so it is created once."""
    return f"{job}-scheduled-{at:%Y%m%d%H%M}"
