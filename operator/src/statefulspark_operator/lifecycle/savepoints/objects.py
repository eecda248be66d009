"""A `SparkSavepoint` as the rules see it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from statefulspark.contract import layout

from statefulspark_operator.api.spark_savepoint import (
    SavepointDeletionPolicy,
    SavepointOrigin,
    SavepointPhase,
    SparkSavepointSpec,
    SparkSavepointStatus,
)


@dataclass(frozen=True, slots=True)
class SavepointObject:
    """A savepoint object.

    Attributes:
        name: Its name.
        uid: Its identity.
        spec: Its spec.
        created_at: When it was created.
        status: Its status as recorded.
        resource_version: Version of the object as it was read; writes are refused if it has changed.
        has_finalizer: Whether it has the operator's finalizer.
        other_finalizers: Finalizers of others.
        has_labels: Whether it has the labels by which its job's savepoints are listed.
        is_deleted: Whether it is being deleted.
        made_for: What the operator made it for; None if somebody else made it.
        generation: Version of its spec.
        folder: Folder of its savepoint, if there is one.
    """

    name: str
    uid: str
    spec: SparkSavepointSpec
    created_at: datetime
    status: SparkSavepointStatus = field(default_factory=SparkSavepointStatus)
    resource_version: str = ""
    has_finalizer: bool = False
    other_finalizers: tuple[str, ...] = ()
    has_labels: bool = True
    is_deleted: bool = False
    made_for: SavepointOrigin | None = None
    generation: int = 0
    folder: str | None = field(init=False)

    def __post_init__(self) -> None:
        """Name the folder once: every job of the namespace asks every object for it."""
        object.__setattr__(self, "folder", folder_of(self.status.location or self.source_uri))

    @property
    def source_uri(self) -> str | None:
        """Folder of the savepoint that it adopts."""
        return self.spec.source.uri if self.spec.source is not None else None

    @property
    def origin(self) -> SavepointOrigin:
        """Why it is taken."""
        if self.made_for is not None:
            return self.made_for
        return SavepointOrigin.ADOPTED if self.spec.source is not None else SavepointOrigin.MANUAL

    @property
    def is_over(self) -> bool:
        """Whether it is complete or has failed for good."""
        return self.status.phase in (SavepointPhase.COMPLETED, SavepointPhase.FAILED)

    @property
    def awaits_driver(self) -> bool:
        """Whether a driver is to be asked for it."""
        return not (self.is_over or self.is_deleted or self.spec.source is not None)

    @property
    def needs_finalizer(self) -> bool:
        """Whether there may be files to delete before the object goes."""
        is_deleting = self.spec.deletion_policy is SavepointDeletionPolicy.DELETE
        return is_deleting and self.status.phase is not SavepointPhase.FAILED

    @property
    def is_marked(self) -> bool:
        """Whether it has its labels, and the finalizer exactly if it needs it."""
        return self.has_labels and self.has_finalizer == self.needs_finalizer

    @property
    def is_unsearched(self) -> bool:
        """Whether storage may have its savepoint already: the object may have been restored without its status."""
        return self.awaits_driver and self.is_marked and not self.status.searched


def folder_of(location: str | None) -> str | None:
    """Return the folder that a location names, however it is written."""
    return layout.snapshot_folder(location) if location is not None else None
