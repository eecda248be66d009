"""What is known of the job, kept for whoever asks: counts, the latest snapshots, the history.

Changed by the job's loop only; other threads read the frozen status that it publishes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from statefulspark import clock
from statefulspark.contract import api
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.coordinator.model import NotifyAborted

HISTORY = 100


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this driver is; it does not change while it runs."""

    job: str
    namespace: str
    epoch: int
    generation: int
    revision: str | None
    started_at: datetime
    restored_from: str | None
    fallback: str | None


class Board:
    """The facts behind a job's status."""

    def __init__(self, identity: Identity, last_checkpoint: api.SnapshotSummary | None) -> None:
        """Begin with what was restored."""
        self._identity = identity
        self._counts = api.CheckpointCounts(restored=int(identity.restored_from is not None))
        self.last_checkpoint = last_checkpoint
        self._last_savepoint: api.SnapshotSummary | None = None
        self._last_failure: api.FailedCheckpoint | None = None
        self.state = api.JobState.RUNNING
        self.history: tuple[api.SnapshotSummary, ...] = ()

    def snapshot_begun(self) -> None:
        """Count a trigger."""
        self._counts = self._counts.model_copy(update={"triggered": self._counts.triggered + 1})

    def snapshot_completed(self, summary: api.SnapshotSummary) -> None:
        """Note a completed snapshot."""
        self._counts = self._counts.model_copy(update={"completed": self._counts.completed + 1})
        self.history = (summary, *self.history)[:HISTORY]
        if summary.kind is SnapshotKind.SAVEPOINT:
            self._last_savepoint = summary
        else:
            self.last_checkpoint = summary

    def snapshot_aborted(self, aborted: NotifyAborted) -> None:
        """Note a snapshot that will never complete."""
        self._counts = self._counts.model_copy(update={"failed": self._counts.failed + 1})
        self._last_failure = api.FailedCheckpoint(
            id=aborted.snapshot_id, reason=aborted.reason, message=aborted.message, failed_at=clock.utc_now()
        )

    def status(
        self, queries: tuple[api.QueryStatus, ...], *, in_progress: int, message: str | None = None
    ) -> api.JobStatus:
        """Return everything as one frozen value."""
        who = self._identity
        return api.JobStatus(
            job=who.job,
            namespace=who.namespace,
            state=self.state,
            epoch=who.epoch,
            generation=who.generation,
            revision=who.revision,
            started_at=who.started_at,
            restored_from=who.restored_from,
            fallback=who.fallback,
            queries=queries,
            checkpoints=self._counts.model_copy(update={"in_progress": in_progress}),
            last_checkpoint=self.last_checkpoint,
            last_savepoint=self._last_savepoint,
            last_failure=self._last_failure,
            message=message,
        )
