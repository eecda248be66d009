"""Commits to the two-phase sinks of a job: each sink by itself, so that one that is away holds only its own output."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from statefulspark import errors
from statefulspark.checkpoint import batch_records, progress, read_cache
from statefulspark.contract import api, layout
from statefulspark.contract.manifest import QueryEntry, SinkEntry
from statefulspark.contract.prepared import OpenedSink, OutputRecord
from statefulspark.driver.output import job_sinks, retries
from statefulspark.driver.output.job_sinks import DriverAttempt, JobSink
from statefulspark.driver.output.sink_committer import SinkCommitter

SinkKey = tuple[str, str]
"""Query uid and sink uid."""


class Committer:
    """The committers of all two-phase sinks of a job, by sink."""

    def __init__(self, driver: DriverAttempt, sinks: Iterable[JobSink]) -> None:
        """Keep the sinks; nothing is called before `start`."""
        self._driver = driver
        self._sinks = {sink.key: SinkCommitter(sink) for sink in sinks}

    @property
    def retry_message(self) -> str | None:
        """Why commits are being retried, for people; None while no commit fails."""
        messages = (sink.retries.message for sink in self._sinks.values())
        return " ".join(dict.fromkeys(filter(None, messages))) or None

    @property
    def sinks(self) -> tuple[JobSink, ...]:
        """Every sink."""
        return tuple(committer.sink for committer in self._sinks.values())

    def sink(self, key: SinkKey) -> SinkCommitter:
        """Return what commits to one sink."""
        return self._sinks[key]

    # A start

    def start(
        self,
        restored: Sequence[QueryEntry],
        *,
        drop_state: Collection[str] = (),
        functions: Mapping[str, str] | None = None,
        origin: str | None = None,
        begin_step: progress.BeginStep = progress.ignore_steps,
    ) -> None:
        """Open every sink, commit the restored transactions, and list the prepared ones that the snapshot does not cover.

        Cost: a HEAD; a LIST of the generations; per query with a sink a LIST, in a new generation one more per older
        generation; a HEAD per sink that has to commit; a GET per transaction.

        Args:
            restored: The queries as restored, with paths inside the generation that runs.
            drop_state: Uids of sinks that left the job, whose transactions may be dropped.
            functions: The sink function by query uid, where each batch has a record of the function's state.
            origin: The snapshot that is restored, for people; None if there is none.
            begin_step: Begins the step, which counts the committed transactions and says what a repeated call waits for.

        Raises:
            SpecRejectedError: `NonRestoredState`, or a sink refuses.
            FencedError: A newer driver runs.
            StatefulSparkError: A sink cannot be opened, or a transaction cannot be committed.
        """
        job_sinks.require_place(restored, self._sinks, drop_state)
        restoring = f"Opening the sinks, and committing what {origin or 'the state'} had prepared for them"
        step = retries.RetriedStep(begin_step, restoring)
        committers = tuple(self._sinks.values())
        for committer in committers:
            committer.retries.limit()
            committer.retries.tell(step.tell)
        entries = {query.uid: query for query in restored}
        batches = {uid: query.batch_id for uid, query in entries.items()}
        if committers:
            committers[0].require_current()
        for committer in committers:
            committer.open(entries.get(committer.sink.query_uid))
        seen = read_cache.ReadCache(self._driver.store)
        for committer in committers:
            committer.list_unrestored(batches.get(committer.sink.query_uid, -1), seen)
        self._record_outputs(restored, functions or {})
        due = [(committer, query) for query in restored for committer in self._of_query(query.uid)]
        total = sum(len(committer.uncommitted(query)) for committer, query in due)
        is_committed = progress.count_units("transactions", total, step.report)
        for committer, query in due:
            committer.commit_covered(query, is_committed)
        for committer in committers:
            committer.begin(batches.get(committer.sink.query_uid, -1))
            committer.retries.lift_limit()
            committer.retries.tell(None)

    def _record_outputs(self, restored: Sequence[QueryEntry], functions: Mapping[str, str]) -> None:
        """Record which sinks or function have a record of each batch from now on, so that a missing one proves its loss.

        It also says where each sink was opened, until a snapshot does.

        Every start writes it under its own epoch, also for a query without a sink. It overrides what an earlier driver
        wrote, and what a replaced driver writes late. Cost: one PUT per query.
        """
        with_sinks = {sink.query_uid for sink in self.sinks}
        batches = {query.uid: query.batch_id for query in restored}
        for uid in sorted(batches.keys() | with_sinks | functions.keys()):
            first, epoch = batches.get(uid, -1) + 1, self._driver.epoch
            opened = tuple(
                OpenedSink(uid=sink.uid, kind=sink.kind, target=sink.target)
                for sink in (committer.sink for committer in self._of_query(uid))
            )
            record = OutputRecord(sinks=opened, function=functions.get(uid), batch_id=first, epoch=epoch)
            log = batch_records.BatchRecordLog(self._driver.store, layout.query_root(self._driver.generation, uid))
            log.write(batch_records.RecordName(batch_records.RecordKind.OUTPUT, uid, first, epoch), record.sealed())

    # Batches

    def leave_lost(self, query_uid: str, committed_batch: int) -> None:
        """Commit nothing of a batch that a driver which was replaced has committed first: its record counts, not this one's.

        The next snapshot names that record. What this driver had prepared is aborted once a snapshot does.

        Args:
            query_uid: The query.
            committed_batch: The last batch that this driver has committed.
        """
        for committer in self._of_query(query_uid):
            committer.leave_lost(committed_batch)

    # Snapshots

    def named_after(self, query_uid: str) -> Mapping[str, int]:
        """Return after which batch a snapshot names the transactions of each sink of a query, by uid."""
        return {committer.sink.uid: committer.named_after for committer in self._of_query(query_uid)}

    def sink_entries(self, query: QueryEntry) -> tuple[SinkEntry, ...]:
        """Return what a snapshot of a query says of its sinks: what they have committed at least."""
        return tuple(committer.entry(query) for committer in self._of_query(query.uid))

    def statuses(self) -> tuple[api.SinkStatus, ...]:
        """Return the progress of every sink, for the job's status."""
        return tuple(committer.status() for committer in self._sinks.values())

    def require_named(self, queries: Sequence[QueryEntry]) -> None:
        """Check that a snapshot names every transaction that this driver has prepared up to its batches.

        Raises:
            SnapshotCorruptError: `ClosureIncomplete`: a listing lacks one of them; the snapshot must not complete.
        """
        for query in queries:
            for committer in self._of_query(query.uid):
                batch = committer.first_unnamed(query)
                if batch is not None:
                    raise errors.SnapshotCorruptError(
                        "ClosureIncomplete",
                        f"The transaction of sink {committer.sink.uid!r} for batch {batch} of query {query.uid!r} is not "
                        f"listed on {self._driver.store.uri}; the snapshot is tried again.",
                    )

    def cover(self, queries: Sequence[QueryEntry]) -> None:
        """Let each sink commit what a complete snapshot covers.

        Args:
            queries: The queries of the snapshot.
        """
        for query in queries:
            for committer in self._of_query(query.uid):
                committer.cover(query)

    def due_sinks(self, batches: Mapping[str, int]) -> tuple[SinkKey, ...]:
        """Return the sinks that have something to commit.

        Args:
            batches: The last committed batch of each query, by uid; see `SinkCommitter.is_due`.
        """
        return tuple(key for key, committer in self._sinks.items() if committer.is_due(batches.get(key[0], -1)))

    def limit_waiting(self) -> None:
        """Retry for at most `retries.STOP_TIMEOUT_S` from now on, because the job stops."""
        for committer in self._sinks.values():
            committer.retries.limit()

    def cancel_retries(self) -> None:
        """Make every commit that waits for its next attempt fail now."""
        for committer in self._sinks.values():
            committer.retries.cancel()

    def _of_query(self, query_uid: str) -> tuple[SinkCommitter, ...]:
        return tuple(committer for key, committer in self._sinks.items() if key[0] == query_uid)
