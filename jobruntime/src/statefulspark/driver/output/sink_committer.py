"""Commits the prepared transactions of one sink: in batch order, and again after a failure.

A batch's transaction is recorded before Spark commits the batch. Every snapshot names the records that may not be committed
yet, and those that were committed since the snapshot before it. So every driver that completes or restores a snapshot can
commit everything up to it: the driver that completed it, or, if that one dies first, the next one before its queries start.
A sink that shows each batch does not wait for the snapshot: after Spark has committed the batch, the driver checks that it
is still the newest one. A driver that replaces it later then finds that batch committed, and continues after it.
Sinks know by generation and batch what they have committed, and the driver knows what they had: one that has lost some of
it gets it again from the transactions that the newest snapshot names, or the driver ends (`sink_commits`).
"""

from __future__ import annotations

import functools
import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from statefulspark import clock, errors
from statefulspark.checkpoint import batch_records, epochs, read_cache
from statefulspark.contract import api, layout
from statefulspark.contract.manifest import QueryEntry, SinkEntry
from statefulspark.contract.prepared import PreparedRecord
from statefulspark.driver.output import retries, sink_commits, unrestored
from statefulspark.driver.output.job_sinks import JobSink
from statefulspark.driver.output.sink_progress import SinkProgress
from statefulspark.sinks.base import TellsMarker

_log = logging.getLogger(__name__)


class SinkCommitter:
    """Commits to one sink. Spark's thread prepares its batches; one other thread at a time commits them."""

    def __init__(self, sink: JobSink) -> None:
        """Keep the sink; nothing is called before `open`."""
        self.sink = sink
        self.retries = retries.Retries()
        self._driver = sink.driver
        self._progress = SinkProgress()
        self._lock = threading.Lock()
        self._unrestored: tuple[unrestored.UnrestoredRecord, ...] = ()
        self._covered: QueryEntry | None = None  # In the newest complete snapshot, until this is committed.

    # A start

    def require_current(self) -> None:
        """Check that no newer driver runs. Retries failures that may pass. Cost: one HEAD.

        Raises:
            FencedError: A newer driver runs.
            TransientError: Storage is unavailable for too long.
        """
        self.retries.run(self._require_current)

    def open(self, restored: QueryEntry | None) -> None:
        """Open the sink as its query is restored; None for a query that starts empty. Retries failures that may pass.

        Raises:
            FencedError: A newer driver has opened the sink.
            SpecRejectedError, StateUnknownError: The sink refuses.
            TransientError: It is unavailable for too long.
        """
        self.retries.run(functools.partial(sink_commits.open_sink, self.sink, restored, self._progress))

    def list_unrestored(self, restored_batch: int, seen: read_cache.ReadCache) -> None:
        """Note the records of earlier drivers that the start does not restore; see `unrestored.list_unrestored`."""
        self._unrestored = unrestored.list_unrestored(self.sink, restored_batch, seen)

    def begin(self, restored_batch: int) -> None:
        """Commit the batches after a restored one, whose transactions are committed, from now on."""
        self._progress.advance(restored_batch)
        self._progress.is_started = True

    # Batches

    def record_prepared(self, batch_id: int, transaction: bytes | None) -> None:
        """Record the transaction that the sink has prepared for a batch; Spark commits the batch afterwards. Cost: one PUT.

        A batch that runs again in this process replaces its earlier transaction and aborts it. A batch without a
        transaction has a record too, so that a missing record proves its loss.
        """
        with self._lock:
            before = self._progress.prepared.get(batch_id)
        record = PreparedRecord(
            job=self._driver.job,
            query_uid=self.sink.query_uid,
            uid=self.sink.uid,
            sink=self.sink.kind,
            generation=self._driver.generation,
            batch_id=batch_id,
            epoch=self._driver.epoch,
            prepared_at=clock.utc_now(),
            lineage=self._driver.lineage,
            transaction=None if transaction is None else transaction.decode(),
        )
        self.sink.log.write(self._record_name(batch_id), record.sealed())
        with self._lock:
            self._progress.prepared[batch_id] = record
        if before is not None and before.transaction not in (None, record.transaction):
            sink_commits.abort(self.sink, before)

    def leave_lost(self, committed_batch: int) -> None:
        """Leave the batches after the last one that this driver has committed; see `Committer.leave_lost`."""
        root = self._driver.store.child(layout.query_root(self._driver.generation, self.sink.query_uid))
        with self._lock:
            names = map(self._record_name, self._progress.leave_after(committed_batch))
            self._unrestored += tuple(unrestored.UnrestoredRecord(root, name, is_past=False) for name in names)

    def _record_name(self, batch_id: int) -> batch_records.RecordName:
        return batch_records.RecordName(batch_records.RecordKind.PREPARED, self.sink.uid, batch_id, self._driver.epoch)

    # Snapshots

    @property
    def named_after(self) -> int:
        """After which batch a snapshot names the transactions."""
        with self._lock:
            return self._progress.named_after

    def entry(self, query: QueryEntry) -> SinkEntry:
        """Return what a snapshot of its query says of the sink: what it has committed at least."""
        with self._lock:
            return self._progress.entry(self.sink, query)

    def status(self) -> api.SinkStatus:
        """Return the progress, for the job's status."""
        with self._lock:
            return api.SinkStatus(
                query=self.sink.query_uid,
                uid=self.sink.uid,
                committed_batch=self._progress.committed,
                pending_transactions=self._progress.pending,
                sent_again=self._progress.sent_again,
                retrying=self.retries.message,
            )

    def first_unnamed(self, query: QueryEntry) -> int | None:
        """Return the first batch that this driver has prepared and not committed, and that a snapshot covers and lacks."""
        named = {entry.batch_id for entry in self.sink.named_in(query)}
        with self._lock:
            committed = -1 if self._progress.committed is None else self._progress.committed
            missing = (batch for batch in self._progress.prepared if committed < batch <= query.batch_id)
            return min((batch for batch in missing if batch not in named), default=None)

    def cover(self, query: QueryEntry) -> None:
        """Let the next `commit` commit what a complete snapshot covers. The newest one stands for those before it."""
        with self._lock:
            self._covered = query

    # Commits

    def is_due(self, batch_id: int) -> bool:
        """Tell whether there is something to `commit`.

        Args:
            batch_id: The last committed batch of the query: its entry in Spark's commit log is durable.
        """
        return self._covered is not None or (self.sink.shows_batches and batch_id > self._progress.tried)

    def commit(self, batch_id: int) -> None:
        """Commit everything that may be committed, and abort what the newest complete snapshot leaves out. Idempotent.

        Retries failures that may pass, without a time limit unless `retries` has one. Cost: one HEAD for a snapshot and one
        for batches that are shown, and what the sink's commits cost.

        Args:
            batch_id: See `is_due`.

        Raises:
            FencedError: A newer driver runs, and commits instead.
            StatefulSparkError: The sink refuses, or is unavailable for too long; the other transactions stay prepared.
        """
        with self._lock:
            covered, self._covered = self._covered, None
        if covered is not None:
            self.commit_covered(covered)
            self._abort_uncovered(covered)
        if self.sink.shows_batches:
            ready = self._ready(batch_id)
            if ready:
                self.require_current()
            self._commit_all(ready)
            self._progress.tried = batch_id

    def uncommitted(self, query: QueryEntry) -> tuple[str, ...]:
        """Return the paths of the records in a snapshot that are not committed yet."""
        committed = self._progress.committed
        return tuple(
            entry.path for entry in self.sink.named_in(query) if committed is None or entry.batch_id > committed
        )

    def commit_covered(self, query: QueryEntry, on_commit: Callable[[], None] = lambda: None) -> None:
        """Commit every transaction that a snapshot covers.

        Args:
            query: The query of the snapshot.
            on_commit: Called after each.
        """
        paths, committed_before = self.uncommitted(query), self._progress.committed
        if paths or self._unrestored:
            self.require_current()
        self._commit_all((self._record(query, path) for path in paths), on_commit)
        with self._lock:
            self._progress.advance(query.batch_id)
            self._progress.keep(self.sink.named_in(query), query.batch_id, committed_before=committed_before)

    def _abort_uncovered(self, query: QueryEntry) -> None:
        with self._lock:
            records, self._unrestored = self._unrestored, ()
        remaining = unrestored.abort_uncovered(self.sink, records, query)
        with self._lock:
            self._unrestored = (*remaining, *self._unrestored)

    def _ready(self, batch_id: int) -> tuple[PreparedRecord, ...]:
        """Return the records after the last committed batch, in order and without a gap.

        Records of a driver that was replaced are left to the next checkpoint, which finds them or proves their loss.
        """
        with self._lock:
            prepared, committed = dict(self._progress.prepared), self._progress.committed
        following = range(batch_id + 1 if committed is None else committed + 1, batch_id + 1)
        return tuple(prepared[batch] for batch in itertools.takewhile(prepared.__contains__, following))

    def _record(self, query: QueryEntry, path: str) -> PreparedRecord:
        name = batch_records.parse_key(path)
        if name is not None and name.epoch == self._driver.epoch:
            with self._lock:
                record = self._progress.prepared.get(name.batch)
            if record is not None:
                return record
        key = f"{query.path}/{path}"
        body = self._driver.store.read(key)
        return PreparedRecord.parse(body, f"{self._driver.store.uri}/{key}")

    def _commit_all(self, records: Iterable[PreparedRecord], on_commit: Callable[[], None] = lambda: None) -> None:
        """Commit records in order, and those together that the sink can merge."""
        for record, members in self._merged(records):
            self._commit_one(record, members)
            for _ in members:
                on_commit()

    def _merged(self, records: Iterable[PreparedRecord]) -> Iterator[tuple[PreparedRecord, Sequence[PreparedRecord]]]:
        """Yield what is to be committed, each with the records that it stands for."""
        whole: PreparedRecord | None = None
        members = list[PreparedRecord]()
        for record in records:
            merged = None if whole is None else self._merge(whole, record)
            if whole is not None and merged is None:
                yield whole, members
                members = []
            whole = merged or record
            members.append(record)
        if whole is not None:
            yield whole, members

    def _merge(self, earlier: PreparedRecord, later: PreparedRecord) -> PreparedRecord | None:
        """Merge two records of this driver. No commit of them was tried, so the marker covers both or neither."""
        own = (self._driver.lineage, self._driver.epoch)
        is_own = all((record.lineage, record.epoch) == own for record in (earlier, later))
        return sink_commits.merge(self.sink, earlier, later) if is_own else None

    def _commit_one(self, record: PreparedRecord, members: Sequence[PreparedRecord]) -> None:
        sink = self.sink
        what = {"sink": sink.uid, "batch": record.batch_id, "generation": record.generation}
        is_committed = False
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
            merged_from = members[0].batch_id if len(members) > 1 else None
            self.retries.run(functools.partial(self._commit_if_current, record, merged_from))
            _log.debug("batch committed to its sink", extra=what)
            is_committed = True
        with self._lock:
            for member in members:
                self._progress.advance(member.batch_id, member if is_committed else None)

    def _commit_if_current(self, record: PreparedRecord, merged_from: int | None) -> None:
        if self.retries.message is not None:
            self._require_current()  # Time has passed since the last check.
        sink_commits.commit(self.sink, record, self._progress, merged_from=merged_from)

    def _require_current(self) -> None:
        epochs.require_current(self._driver.store, self._driver.epoch)
