"""Commits the prepared transactions of sinks: in batch order, and again after a failure.

A batch's transaction is recorded before Spark commits the batch. Every snapshot names the records that may not be committed
yet, and those that were committed since the snapshot before it. So every driver that completes or restores a snapshot can
commit everything up to it: the driver that completed it, or, if that one dies first, the next one before its queries start.
A sink that shows each batch does not wait for the snapshot: after Spark has committed the batch, the driver looks whether
it is still the newest one, so that whoever replaces it later finds that batch committed and continues after it.
Sinks know by generation and batch what they have committed, and the driver knows what they had: one that has lost some of
it gets it again from the transactions that the newest snapshot names, or the driver ends (`sink_commits`).
A transaction is aborted only when a completed checkpoint covers its batch without it, because until then a replaced driver
may still commit the batch; and only when no snapshot of an older generation names it. Nothing is aborted before the first
checkpoint of a driver, because until then a checkpoint of the replaced one may still arrive, which names what it had
prepared.
"""

from __future__ import annotations

import functools
import itertools
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from statefulspark import clock, errors, storage
from statefulspark.checkpoint import batch_records, epochs, progress, read_cache
from statefulspark.contract import api, layout
from statefulspark.contract.manifest import QueryEntry, SinkEntry
from statefulspark.contract.prepared import OpenedSink, OutputRecord, PreparedRecord
from statefulspark.driver.output import job_sinks, retries, sink_commits
from statefulspark.driver.output.job_sinks import DriverAttempt, JobSink
from statefulspark.driver.output.sink_progress import SinkProgress
from statefulspark.retention import named_transactions
from statefulspark.sinks.base import TellsMarker
from statefulspark.storage.port import ObjectStore

_log = logging.getLogger(__name__)


class Committer:
    """Commits for all two-phase sinks of a job. Spark's threads prepare batches; one other thread commits."""

    def __init__(self, driver: DriverAttempt, sinks: Iterable[JobSink]) -> None:
        """Keep the sinks; nothing is called before `start`."""
        self._driver = driver
        self._sinks = {sink.key: sink for sink in sinks}
        self._progress = {key: SinkProgress() for key in self._sinks}
        self._lingering: tuple[_UnrestoredRecord, ...] = ()
        self._lost: tuple[_UnrestoredRecord, ...] = ()  # Those of batches that this driver has lost.
        self._lock = threading.Lock()
        self._retries = retries.Retries()

    @property
    def retry_message(self) -> str | None:
        """Why a commit is being retried, for people; None while no commit fails."""
        return self._retries.message

    @property
    def sinks(self) -> tuple[JobSink, ...]:
        """Every sink."""
        return tuple(self._sinks.values())

    def sink(self, query_uid: str, uid: str) -> JobSink:
        """Return one sink."""
        return self._sinks[query_uid, uid]

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

        Cost: a LIST of the generations; per query with a sink a LIST, in a new generation one more per older generation; a
        GET per transaction.

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
        self.limit_waiting()
        restoring = f"Opening the sinks, and committing what {origin or 'the state'} had prepared for them"
        step = retries.RetriedStep(begin_step, restoring)
        self._retries.tell(step.tell)
        if self.sinks:
            self._retries.run(self._require_current)
        entries = {query.uid: query for query in restored}
        batches = {uid: query.batch_id for uid, query in entries.items()}
        for sink in self.sinks:
            restored_query, of_sink = entries.get(sink.query_uid), self._progress[sink.key]
            self._retries.run(functools.partial(sink_commits.open_sink, sink, restored_query, of_sink))
        self._lingering = _unrestored_records(self._driver, self.sinks, batches)
        self._record_outputs(restored, functions or {})
        self._commit_covered(restored, step.report)
        for key, of_sink in self._progress.items():
            of_sink.committed = max(batches.get(key[0], -1), -1 if of_sink.committed is None else of_sink.committed)
            of_sink.is_started = True
        self._retries.lift_limit()
        self._retries.tell(None)

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
                OpenedSink(uid=sink.uid, kind=sink.kind, target=sink.target) for sink in self._query_sinks(uid)
            )
            record = OutputRecord(sinks=opened, function=functions.get(uid), batch_id=first, epoch=epoch)
            log = batch_records.BatchRecordLog(self._driver.store, layout.query_root(self._driver.generation, uid))
            log.write(batch_records.RecordName(batch_records.RecordKind.OUTPUT, uid, first, epoch), record.sealed())

    # Batches

    def record_prepared(self, sink: JobSink, batch_id: int, transaction: bytes | None) -> None:
        """Record the transaction that a sink has prepared for a batch; Spark commits the batch afterwards. Cost: one PUT.

        A batch that runs again in this process replaces its earlier transaction and aborts it. A batch without a
        transaction has a record too, so that a missing record proves its loss.
        """
        with self._lock:
            before = self._progress[sink.key].prepared.get(batch_id)
        record = PreparedRecord(
            job=self._driver.job,
            query_uid=sink.query_uid,
            uid=sink.uid,
            sink=sink.kind,
            generation=self._driver.generation,
            batch_id=batch_id,
            epoch=self._driver.epoch,
            prepared_at=clock.utc_now(),
            lineage=self._driver.lineage,
            transaction=None if transaction is None else transaction.decode(),
        )
        sink.log.write(self._record_name(sink, batch_id), record.sealed())
        with self._lock:
            self._progress[sink.key].prepared[batch_id] = record
        if before is not None and before.transaction not in (None, record.transaction):
            sink_commits.abort(sink, before)

    def leave_lost(self, query_uid: str, committed_batch: int) -> None:
        """Commit nothing of a batch that a driver which was replaced has committed first: its record counts, not this one's.

        The next snapshot names that record. What this driver had prepared is aborted once a snapshot does.

        Args:
            query_uid: The query.
            committed_batch: The last batch that this driver has committed.
        """
        with self._lock:
            for sink in self._query_sinks(query_uid):
                lost = self._progress[sink.key].leave_after(committed_batch)
                names = (self._record_name(sink, batch) for batch in lost)
                root = self._driver.store.child(layout.query_root(self._driver.generation, query_uid))
                self._lost += tuple(_UnrestoredRecord(sink, root, name, is_past=False) for name in names)

    def _record_name(self, sink: JobSink, batch_id: int) -> batch_records.RecordName:
        return batch_records.RecordName(batch_records.RecordKind.PREPARED, sink.uid, batch_id, self._driver.epoch)

    # Snapshots

    def named_after(self, query_uid: str) -> Mapping[str, int]:
        """Return after which batch a snapshot names the transactions of each sink of a query, by uid."""
        with self._lock:
            return {sink.uid: self._progress[sink.key].named_after for sink in self._query_sinks(query_uid)}

    def sink_entries(self, query: QueryEntry) -> tuple[SinkEntry, ...]:
        """Return what a snapshot of a query says of its sinks: what they have committed at least."""
        with self._lock:
            return tuple(self._progress[sink.key].entry(sink, query) for sink in self._query_sinks(query.uid))

    def statuses(self) -> tuple[api.SinkStatus, ...]:
        """Return the progress of every sink, for the job's status."""
        with self._lock:
            return tuple(
                api.SinkStatus(
                    query=query,
                    uid=uid,
                    committed_batch=progress.committed,
                    pending_transactions=progress.pending,
                    sent_again=progress.sent_again,
                )
                for (query, uid), progress in self._progress.items()
            )

    def require_named(self, queries: Sequence[QueryEntry]) -> None:
        """Check that a snapshot names every transaction that this driver has prepared up to its batches.

        Raises:
            SnapshotCorruptError: `ClosureIncomplete`: a listing lacks one of them; the snapshot must not complete.
        """
        for query in queries:
            named = {(entry.uid, entry.batch_id) for entry in query.prepared}
            with self._lock:
                missing = [
                    (key[1], batch)
                    for key, progress in self._progress.items()
                    for batch in progress.prepared
                    if key[0] == query.uid
                    and batch <= query.batch_id
                    and (key[1], batch) not in named
                    and batch > (-1 if progress.committed is None else progress.committed)
                ]
            if missing:
                uid, batch = missing[0]
                raise errors.SnapshotCorruptError(
                    "ClosureIncomplete",
                    f"The transaction of sink {uid!r} for batch {batch} of query {query.uid!r} is not listed on "
                    f"{self._driver.store.uri}; the snapshot is tried again.",
                )

    def commit(self, queries: Sequence[QueryEntry]) -> None:
        """Commit every transaction that a completed snapshot covers, then abort those that it leaves out. Idempotent.

        Retries failures that may pass, without a time limit unless `limit_waiting` was called.

        Args:
            queries: The queries of the snapshot.

        Raises:
            FencedError: A newer driver runs, and commits instead.
            StatefulSparkError: A sink refuses, or is unavailable for too long; the other transactions stay prepared.
        """
        self._commit_covered(queries)
        with self._lock:
            self._lingering, self._lost = (*self._lingering, *self._lost), ()
        covered = {query.uid: query for query in queries}
        remaining = []  # What a snapshot can still name, and what failed; it is retried after the next snapshot.
        is_retained = _retained_by_others(self._driver, self._lingering)
        for record in self._lingering:
            query = covered.get(record.sink.query_uid)
            committed = self._progress[record.sink.key].committed
            is_over = record.is_past or (query is not None and record.name.batch <= query.batch_id)
            if query is None or committed is None or not is_over or (record.is_past and is_retained(record)):
                remaining.append(record)
            elif record.is_past or record.name.key not in {entry.path for entry in query.prepared}:
                remaining += [] if self._abort_and_remove(record) else [record]
        self._lingering = tuple(remaining)

    def _commit_covered(self, queries: Sequence[QueryEntry], on_progress: progress.Report = progress.ignore) -> None:
        pairs = ((query, sink) for query in queries for sink in self._query_sinks(query.uid))
        due = [(query, sink, self._uncommitted(query, sink)) for query, sink in pairs]
        total = sum(len(paths) for _, _, paths in due)
        is_committed = progress.count_units("transactions", total, on_progress)
        if total or self._lingering:
            self._retries.run(self._require_current)
        for query, sink, paths in due:
            committed_before = self._progress[sink.key].committed
            for path in paths:
                self._commit_one(sink, self._record(query, path))
                is_committed()
            with self._lock:
                self._progress[sink.key].advance(query.batch_id)
                named = [entry for entry in query.prepared if entry.uid == sink.uid]
                self._progress[sink.key].keep(named, query.batch_id, committed_before=committed_before)

    def _query_sinks(self, query_uid: str) -> tuple[JobSink, ...]:
        return tuple(sink for sink in self.sinks if sink.query_uid == query_uid)

    def has_batches_to_commit(self, batches: Mapping[str, int]) -> bool:
        """Tell whether a sink that shows each batch was not asked to commit the last committed batch of its query."""
        return any(
            batches.get(sink.query_uid, -1) > self._progress[sink.key].tried
            for sink in self.sinks
            if sink.shows_batches
        )

    def commit_batches(self, batches: Mapping[str, int]) -> None:
        """Commit the batches of sinks that show each one, without waiting for a checkpoint. Idempotent.

        Cost: one HEAD, and what the sinks' commits cost.

        Args:
            batches: The last committed batch of each query, by uid: its entry in Spark's commit log is durable.

        Raises:
            FencedError, StatefulSparkError: See `commit`.
        """
        due = [(sink, self._ready(sink, batches.get(sink.query_uid, -1))) for sink in self.sinks if sink.shows_batches]
        if any(records for _, records in due):
            self._retries.run(self._require_current)
        for sink, records in due:
            for record in records:
                self._commit_one(sink, record)
            self._progress[sink.key].tried = batches.get(sink.query_uid, -1)

    def _ready(self, sink: JobSink, batch_id: int) -> tuple[PreparedRecord, ...]:
        """Return the records after the last committed batch, in order and without a gap.

        Records of a driver that was replaced are left to the next checkpoint, which finds them or proves their loss.
        """
        with self._lock:
            prepared = dict(self._progress[sink.key].prepared)
            committed = self._progress[sink.key].committed
        following = range(batch_id + 1 if committed is None else committed + 1, batch_id + 1)
        return tuple(prepared[batch] for batch in itertools.takewhile(prepared.__contains__, following))

    def limit_waiting(self) -> None:
        """Retry for at most `retries.STOP_TIMEOUT_S` from now on, because the job stops or starts."""
        self._retries.limit()

    def cancel_retries(self) -> None:
        """Make a commit that waits for its next attempt fail now."""
        self._retries.cancel()

    def _uncommitted(self, query: QueryEntry, sink: JobSink) -> tuple[str, ...]:
        committed = self._progress[sink.key].committed
        return tuple(
            entry.path
            for entry in query.prepared
            if entry.uid == sink.uid and (committed is None or entry.batch_id > committed)
        )

    def _record(self, query: QueryEntry, path: str) -> PreparedRecord:
        name = batch_records.parse_key(path)
        if name is not None and name.epoch == self._driver.epoch:
            with self._lock:
                record = self._progress[query.uid, name.uid].prepared.get(name.batch)
            if record is not None:
                return record
        key = f"{query.path}/{path}"
        body = self._driver.store.read(key)
        return PreparedRecord.parse(body, f"{self._driver.store.uri}/{key}")

    def _commit_one(self, sink: JobSink, record: PreparedRecord) -> None:
        what = {"sink": sink.uid, "batch": record.batch_id, "generation": record.generation}
        committed = None
        if record.job != self._driver.job and not isinstance(sink.sink, TellsMarker):
            _log.warning("a transaction of another job is not committed", extra={**what, "job": record.job})
        elif record.sink != sink.kind:
            raise errors.SpecRejectedError(
                "NonRestoredState",
                f"The state on storage holds a transaction of the {record.sink} {sink.uid!r} for batch "
                f"{record.batch_id}, and the job has a {sink.kind} under that uid. Give the new sink a uid "
                f"of its own, and add {sink.uid!r} to restore.dropState once the old one has committed.",
            )
        elif record.transaction is not None:
            self._retries.run(functools.partial(self._commit_if_current, sink, record))
            _log.debug("batch committed to its sink", extra=what)
            committed = record
        with self._lock:
            self._progress[sink.key].advance(record.batch_id, committed)

    def _abort_and_remove(self, left: _UnrestoredRecord) -> bool:
        try:
            body = left.store.read(left.name.key)
            record = PreparedRecord.parse(body, f"{left.store.uri}/{left.name.key}")
        except errors.ObjectNotFoundError:
            return True  # Pruned meanwhile.
        except errors.StatefulSparkError as error:
            _log.warning("a record cannot be read; its transaction is not aborted", extra={"why": str(error)})
            return False
        is_done = sink_commits.abort(left.sink, record)
        if is_done:
            left.store.delete_many([left.name.key])
        return is_done

    def _commit_if_current(self, sink: JobSink, record: PreparedRecord) -> None:
        if self.retry_message is not None:
            self._require_current()  # Time has passed since the last check.
        sink_commits.commit(sink, record, self._progress[sink.key])

    def _require_current(self) -> None:
        epochs.require_current(self._driver.store, self._driver.epoch)


@dataclass(frozen=True, slots=True)
class _UnrestoredRecord:
    """A record of an earlier driver whose transaction this start does not restore."""

    sink: JobSink
    store: ObjectStore
    """The root of its query."""
    name: batch_records.RecordName
    is_past: bool
    """Whether it belongs to an older generation, which no batch will follow."""


def _unrestored_records(
    driver: DriverAttempt, sinks: Iterable[JobSink], batches: Mapping[str, int]
) -> tuple[_UnrestoredRecord, ...]:
    """List the records of batches after those that a start restores.

    Args:
        driver: The driver that starts.
        sinks: Its sinks.
        batches: The restored batch of each query, by uid.
    """
    seen, unrestored = read_cache.ReadCache(driver.store), list[_UnrestoredRecord]()
    for sink in sinks:
        names = (layout.parse_number(name) for name in seen.list_names(layout.GENERATIONS))
        generations = {number for number in names if number is not None and number < driver.generation}
        for generation in sorted(generations | {driver.generation}):
            root = layout.query_root(generation, sink.query_uid)
            unrestored += [
                _UnrestoredRecord(sink, driver.store.child(root), name, generation < driver.generation)
                for name in batch_records.BatchRecordLog(seen, root).list_all(batch_records.RecordKind.PREPARED)
                if name.uid == sink.uid and name.batch > batches.get(sink.query_uid, -1)
            ]
    return tuple(unrestored)


def _retained_by_others(
    driver: DriverAttempt, records: Sequence[_UnrestoredRecord]
) -> Callable[[_UnrestoredRecord], bool]:
    """Return a test whether a snapshot of an older generation names a record; a restore of it needs the transaction."""
    if not any(record.is_past for record in records):
        return lambda _: False
    store, options = driver.store, driver.options
    try:
        keys = named_transactions.transactions(store, open_store=lambda uri: storage.open_store(uri, options))
    except errors.StatefulSparkError as error:
        _log.warning("transactions of older generations are not aborted", extra={"why": str(error)})
        return lambda _: True
    return lambda record: f"{record.store.uri}/{record.name.key}".removeprefix(f"{store.uri}/") in keys
