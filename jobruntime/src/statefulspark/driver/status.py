"""What the API reports: the job's status and how it ended, its operations by request id, and the sizes of its snapshots.

Only the job loop changes the status; other threads read frozen values: the published status and the statistics. The loop
also writes the operations, and the server's thread reads them: every change replaces a frozen value under a lock.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from statefulspark import clock
from statefulspark.checkpoint import lineage_records
from statefulspark.contract import api, observations, statistics
from statefulspark.contract.config import CheckpointConfig
from statefulspark.contract.exit_codes import ExitCode, PlannedEnd
from statefulspark.contract.manifest import QueryEntry, SnapshotKind
from statefulspark.coordinator import model, stats

DRAIN_KEY = "(drain)"
FINISHED_KEY = "(finished)"
"""Request keys of the driver's own stops; a caller cannot choose such request ids."""
OPERATOR_STATE = "operatorState"
"""Name of the state of a function, which no operator of Spark has."""
MAX_RETAINED = 200
"""Finished operations beyond this number are forgotten, oldest first."""
_Folder = tuple[int, int]
"""Operator id and partition."""


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


class Operations:
    """The savepoints and stops of this driver by request id, which makes a repeated request harmless."""

    def __init__(self) -> None:
        """Start without operations."""
        self._lock = threading.Lock()
        self._by_id: dict[str, api.Operation] = {}

    def begin(self, request_id: str, kind: api.OperationKind) -> tuple[api.Operation, bool]:
        """Return the operation of a request id, and whether it is new.

        Args:
            request_id: The request id of the caller.
            kind: What it asks for.
        """
        with self._lock:
            existing = self._by_id.get(request_id)
            if existing is not None:
                return existing, False
            operation = api.Operation(request_id=request_id, kind=kind, state=api.OperationState.IN_PROGRESS)
            self._by_id[request_id] = operation
            ended = [key for key, each in self._by_id.items() if each.state is not api.OperationState.IN_PROGRESS]
            for key in ended[: max(0, len(self._by_id) - MAX_RETAINED)]:
                del self._by_id[key]
            return operation, True

    def complete(self, request_id: str, snapshot: api.SnapshotSummary | None) -> None:
        """Mark an operation as completed."""
        self._update(request_id, {"state": api.OperationState.COMPLETED, "snapshot": snapshot, "progress": None})

    def fail(self, request_id: str, reason: str, message: str) -> None:
        """Mark an operation as failed, and why."""
        ended = {"state": api.OperationState.FAILED, "reason": reason, "message": message, "progress": None}
        self._update(request_id, ended)

    def report(self, request_id: str, progress: api.Progress) -> None:
        """Note the progress of an operation; ignored if it has ended meanwhile."""
        self._update(request_id, {"progress": progress})

    def get(self, request_id: str) -> api.Operation | None:
        """Return an operation; None if it is unknown."""
        with self._lock:
            return self._by_id.get(request_id)

    def _update(self, request_id: str, changes: Mapping[str, object]) -> None:
        with self._lock:
            operation = self._by_id.get(request_id)
            if operation is not None and operation.state is api.OperationState.IN_PROGRESS:
                self._by_id[request_id] = operation.model_copy(update=changes)


@dataclass(slots=True)
class _Sum:
    """Sizes and numbers of files by folder."""

    size_bytes: Counter[_Folder] = field(default_factory=Counter)
    files: Counter[_Folder] = field(default_factory=Counter)


class Stopwatch:
    """Times the phases of one snapshot.

    Attributes:
        phases_ms: Whole milliseconds by phase, in the order in which they ended; the times of a repeated phase are added.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with nothing measured."""
        self._clock = clock
        self.phases_ms: dict[str, int] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the block, also if it raises."""
        began_s = self._clock()
        try:
            yield
        finally:
            took_ms = round((self._clock() - began_s) * 1000)
            self.phases_ms[name] = self.phases_ms.get(name, 0) + took_ms


class Growth:
    """Remembers the files of the previous checkpoint, to find the new files of the next. Used by one thread."""

    def __init__(self, previous: Sequence[QueryEntry] = ()) -> None:
        """Begin with the files of the restored snapshot."""
        self._previous = _files(previous).keys()

    def new_bytes(self, entries: Sequence[QueryEntry]) -> int:
        """Return the size of the files that the previous checkpoint did not need, and remember the files."""
        files = _files(entries)
        new = sum(size for key, size in files.items() if key not in self._previous)
        self._previous = files.keys()
        return new


def measured(
    summary: api.SnapshotSummary, entries: Sequence[QueryEntry], new_bytes: int, watch: Stopwatch
) -> api.SnapshotSummary:
    """Return the summary of a snapshot with its measurements."""
    count = sum(len(entry.files) for entry in entries)
    changes = {"incremental_size_bytes": new_bytes, "files": count, "phases_ms": dict(watch.phases_ms)}
    return summary.model_copy(update=changes)


def _files(entries: Sequence[QueryEntry]) -> dict[str, int]:
    return {f"{entry.path}/{file.path}": file.size_bytes for entry in entries for file in entry.files}


def state_sizes(snapshot: str | None, entries: Sequence[QueryEntry]) -> observations.StateSizes:
    """Return the sizes of the state of a cut.

    Args:
        snapshot: Its label for people; None if there is none.
        entries: Its queries.
    """
    operators = tuple(operator for entry in entries for operator in _operator_sizes(entry))
    return observations.StateSizes(snapshot=snapshot, operators=operators)


def _operator_sizes(entry: QueryEntry) -> Iterator[observations.OperatorSize]:
    sums = _Sum()
    for file in entry.files:
        match file.path.split("/"):
            case "state", operator_id, partition, _, *_ if operator_id.isdigit() and partition.isdigit():
                folder = int(operator_id), int(partition)
                sums.size_bytes[folder] += file.size_bytes
                sums.files[folder] += 1
            case _:
                pass
    for operator in entry.operators:
        groups = None
        if operator.max_parallelism is not None and operator.partitions > 0:
            groups = Counter(group % operator.partitions for group in range(operator.max_parallelism))
        partitions = tuple(
            observations.PartitionSize(
                partition=number,
                size_bytes=sums.size_bytes[operator.operator_id, number],
                files=sums.files[operator.operator_id, number],
                key_groups=None if groups is None else groups.get(number, 0),
            )
            for number in range(operator.partitions)
        )
        total_bytes = sum(partition.size_bytes for partition in partitions)
        largest_bytes = max((partition.size_bytes for partition in partitions), default=0)
        yield observations.OperatorSize(
            query=entry.uid,
            uid=operator.uid,
            name=operator.name,
            size_bytes=total_bytes,
            files=sum(partition.files for partition in partitions),
            max_parallelism=operator.max_parallelism,
            partitions=partitions,
            skew=round(largest_bytes * len(partitions) / total_bytes, 2) if total_bytes else None,
        )
    sizes = {file.path: file.size_bytes for file in entry.files}
    for function in entry.operator_states:
        yield observations.OperatorSize(
            query=entry.uid, uid=function.uid, name=OPERATOR_STATE, size_bytes=sizes.get(function.path, 0), files=1
        )
