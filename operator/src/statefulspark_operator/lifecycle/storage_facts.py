"""What is on storage, as far as a decision depends on it; what cannot be read is unknown, never absent. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from statefulspark.retention import ownership
from statefulspark.retention.ownership import Ownership

from statefulspark_operator.api.status import SnapshotStatus


@dataclass(frozen=True, slots=True)
class CheckpointFact:
    """A completed checkpoint on storage.

    Attributes:
        snapshot: The checkpoint in the form of the status.
        epoch: Epoch of the driver that wrote it.
        is_recovery: It completes a predecessor's batch, and so is no progress of the epoch that wrote it.
    """

    snapshot: SnapshotStatus
    epoch: int
    is_recovery: bool = False


class SavepointFact(StrEnum):
    """Whether the savepoint that the next start needs is complete on storage."""

    NOT_LOOKED = "NotLooked"
    FOUND = "Found"
    MISSING = "Missing"


@dataclass(frozen=True, slots=True)
class StorageFacts:
    """The content of the job's folder on storage.

    Attributes:
        newest_epoch: Highest epoch ever claimed; 0 when there is none.
        latest_checkpoint: The newest completed checkpoint.
        savepoint: Whether `status.restore.snapshot` is complete.
        is_empty: There is no object in the folder, or only the proof that its state was deleted; markers of folders, which
            some tools and stores keep, are none.
        found_savepoint: The savepoint, if it is complete.
        requested: The savepoint of `status.operation`, if it was looked for and is complete.
        standing: Whose the state is; None if it was not looked at.
    """

    newest_epoch: int = 0
    latest_checkpoint: CheckpointFact | None = None
    savepoint: SavepointFact = SavepointFact.NOT_LOOKED
    is_empty: bool = False
    found_savepoint: SnapshotStatus | None = None
    requested: SnapshotStatus | None = None
    standing: Ownership | None = None

    @property
    def may_be_purged(self) -> bool:
        """Whether nothing is known against deleting the state with its job."""
        return self.standing is None or ownership.may_delete(self.standing.whose, ownership.Deletion.JOB)


@dataclass(frozen=True, slots=True)
class StorageUnreadable:
    """Storage was read, but its content could not be determined.

    Attributes:
        reason: PascalCase, for example `StorageUnreachable` or `AccessDenied`.
        message: One sentence.
        may_pass: Whether waiting can help; false if a person must change something.
    """

    reason: str
    message: str
    may_pass: bool = True
