"""The status of the job: its latest snapshots, the statistics of all snapshots, and how it ended.

Only the job loop changes it; other threads read frozen values: the published status and the statistics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from statefulspark import clock
from statefulspark.checkpoint import lineage_records
from statefulspark.contract import api, statistics
from statefulspark.contract.config import CheckpointConfig
from statefulspark.contract.exit_codes import ExitCode, PlannedEnd
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.coordinator import model, stats

DRAIN_KEY = "(drain)"
FINISHED_KEY = "(finished)"
"""Request keys of the driver's own stops; a caller cannot choose such request ids."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of this driver; it does not change while the driver runs."""

    job: str
    namespace: str
    epoch: int
    generation: int
    revision: str | None
    started_at: datetime
    restored_from: str | None
    fallback: str | None
    descent: lineage_records.Descent | None = None
    """The origin of the state that the driver writes."""
    restore_skipped: str | None = None
    kept_aside: str | None = None
    other_spark: str | None = None
    claim: str | None = None
    """The id of its claim of the epoch."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How the job ended."""

    code: ExitCode
    reason: str
    message: str
    snapshot: api.SnapshotSummary | None = None

    @classmethod
    def after_stop(cls, key: str, summary: api.SnapshotSummary) -> Ending:
        """Return the ending of a completed stop, by the key of its request."""
        reason = {DRAIN_KEY: PlannedEnd.DRAINED, FINISHED_KEY: PlannedEnd.FINISHED}.get(key, PlannedEnd.STOPPED)
        return cls(ExitCode.SUCCESS, reason, f"All queries ended at {summary.kind} {summary.id}.", summary)

    @property
    def is_clean(self) -> bool:
        """Whether everything was committed."""
        return self.code is ExitCode.SUCCESS

    @property
    def state(self) -> api.JobState:
        """The job's last state."""
        if self.code is ExitCode.FENCED:
            return api.JobState.FENCED
        return api.JobState.STOPPED if self.is_clean else api.JobState.FAILED


class JobStatusTracker:
    """Collects the facts of a job's status."""

    def __init__(
        self,
        identity: Identity,
        last_checkpoint: api.SnapshotSummary | None,
        *,
        config: statistics.EffectiveConfig | None = None,
    ) -> None:
        """Begin with the restored checkpoint and the configuration of the driver."""
        self._identity = identity
        self.config = config
        self.last_checkpoint = last_checkpoint
        self._last_savepoint: api.SnapshotSummary | None = None
        self._last_failure: api.FailedCheckpoint | None = None
        self.pruned_bytes = 0
        self.files: api.FileCounts | None = None
        self.state = api.JobState.RUNNING
        self.ending: Ending | None = None
        """How the job ends, once that is certain."""
        history = config.checkpoint.history_limit if config is not None else stats.DEFAULT_HISTORY
        restored = None
        if identity.restored_from is not None:
            restored = statistics.RestoredSnapshot(
                restored_from=identity.restored_from,
                restored_at=identity.started_at,
                id=last_checkpoint.id if last_checkpoint else None,
                size_bytes=last_checkpoint.size_bytes if last_checkpoint else None,
                fallback=identity.fallback,
            )
        self.stats = stats.begin(history_size=history, restored=restored)

    def configure(self, checkpoint: CheckpointConfig) -> None:
        """Note a new configuration of checkpoints."""
        if self.config is not None:
            self.config = self.config.model_copy(update={"checkpoint": checkpoint})
        self.stats = replace(self.stats, history_size=checkpoint.history_limit)

    def observe(self, event: model.Event, commands: tuple[model.Command, ...]) -> None:
        """Note one step of the coordinator."""
        self.stats = stats.observe(self.stats, event, commands, clock.utc_now())
        for command in commands:
            if isinstance(command, model.NotifyAborted):
                self._last_failure = api.FailedCheckpoint(
                    id=command.snapshot_id, reason=command.reason, message=command.message, failed_at=clock.utc_now()
                )

    def end_with(self, ending: Ending) -> None:
        """End the job; the first ending stays."""
        self.ending = self.ending or ending

    def snapshot_written(self, summary: api.SnapshotSummary) -> None:
        """Note a written snapshot, before the coordinator is notified."""
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
        last_error: api.JobError | None = None,
    ) -> api.JobStatus:
        """Return the status as one frozen value."""
        identity = self._identity
        return api.JobStatus(
            job=identity.job,
            namespace=identity.namespace,
            state=self.state,
            epoch=identity.epoch,
            generation=identity.generation,
            revision=identity.revision,
            started_at=identity.started_at,
            restored_from=identity.restored_from,
            fallback=identity.fallback,
            other_spark=identity.other_spark,
            kept_aside=identity.kept_aside,
            restore_skipped=identity.restore_skipped,
            queries=queries,
            sinks=sinks,
            checkpoints=self.stats.counts,
            last_checkpoint=self.last_checkpoint,
            last_savepoint=self._last_savepoint,
            last_failure=self._last_failure,
            pruned_bytes=self.pruned_bytes,
            files=self.files,
            last_error=last_error,
            message=message,
            checkpoint_config=self.config.checkpoint if self.config is not None else None,
        )
