"""What is known of the job, kept for whoever asks: the latest snapshots and the statistics of all of them.

Changed by the job's loop only; other threads read frozen values: the status that it publishes, and the statistics.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from statefulspark import clock
from statefulspark.checkpoint import lineage_records
from statefulspark.contract import api, statistics
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.coordinator import model, stats


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
    descent: lineage_records.Descent | None = None
    """Where the state comes from that the driver writes."""
    restore_skipped: str | None = None


class Board:
    """The facts behind a job's status."""

    def __init__(
        self,
        identity: Identity,
        last_checkpoint: api.SnapshotSummary | None,
        *,
        config: statistics.EffectiveConfig | None = None,
    ) -> None:
        """Begin with what was restored, and how the driver was told to run."""
        self._identity = identity
        self.config = config
        self.last_checkpoint = last_checkpoint
        self._last_savepoint: api.SnapshotSummary | None = None
        self._last_failure: api.FailedCheckpoint | None = None
        self.state = api.JobState.RUNNING
        history = config.checkpoint.history if config is not None else stats.DEFAULT_HISTORY
        self.stats = stats.begin(history_size=history, restored=_restored(identity, last_checkpoint))

    def observe(self, event: model.Event, commands: tuple[model.Command, ...]) -> None:
        """Note one step of the coordinator."""
        self.stats = stats.observe(self.stats, event, commands, clock.utc_now())
        for command in commands:
            if isinstance(command, model.NotifyAborted):
                self._last_failure = api.FailedCheckpoint(
                    id=command.snapshot_id, reason=command.reason, message=command.message, failed_at=clock.utc_now()
                )

    def snapshot_written(self, summary: api.SnapshotSummary) -> None:
        """Note what was written, before the coordinator is told."""
        self.stats = stats.written(self.stats, summary)

    def snapshot_completed(self, summary: api.SnapshotSummary) -> None:
        """Note a completed snapshot."""
        if summary.kind is SnapshotKind.SAVEPOINT:
            self._last_savepoint = summary
        else:
            self.last_checkpoint = summary

    def status(
        self,
        queries: tuple[api.QueryStatus, ...],
        sinks: tuple[api.SinkStatus, ...] = (),
        *,
        message: str | None = None,
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
            restore_skipped=who.restore_skipped,
            queries=queries,
            sinks=sinks,
            checkpoints=self.stats.counts,
            last_checkpoint=self.last_checkpoint,
            last_savepoint=self._last_savepoint,
            last_failure=self._last_failure,
            message=message,
        )


def _restored(identity: Identity, last_checkpoint: api.SnapshotSummary | None) -> statistics.RestoredSnapshot | None:
    if identity.restored_from is None:
        return None
    return statistics.RestoredSnapshot(
        restored_from=identity.restored_from,
        restored_at=identity.started_at,
        id=last_checkpoint.id if last_checkpoint else None,
        size_bytes=last_checkpoint.size_bytes if last_checkpoint else None,
        fallback=identity.fallback,
    )
