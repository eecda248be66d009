"""Commits what sinks have prepared, once a checkpoint covers it: in the order of batches, and again after a failure.

A batch's transaction is recorded before Spark commits the batch, and every snapshot names the records that may not be
committed yet. So whoever completes or restores a snapshot can commit everything up to it: the driver that completed it,
or, should that one die first, the next one before its queries start. Sinks know by generation and batch what they have
committed. A transaction is given up only when a checkpoint is complete that covers its batch without it: until then a
driver that was replaced may still win the batch; and only when no snapshot of a future that was left names it.
"""

from __future__ import annotations

import functools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from statefulspark import clock, errors, storage
from statefulspark.checkpoint import batch_records, epochs, read_cache
from statefulspark.contract import api, layout
from statefulspark.contract.manifest import QueryEntry
from statefulspark.contract.prepared import OutputRecord, PreparedRecord
from statefulspark.driver import job_sinks, sink_calls
from statefulspark.driver.job_sinks import Driver, JobSink
from statefulspark.retention import named_transactions
from statefulspark.sinks.base import SinkContext
from statefulspark.storage.port import ObjectStore

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 15.0
"""Between two tries; the wait doubles."""
STOP_PATIENCE_S = 60.0
"""How long a job that stops tries to commit, and one that starts tries to open its sinks and commit."""
FOREVER_S = math.inf

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Stray:
    """A record of another driver that this start does not restore."""

    sink: JobSink
    store: ObjectStore
    """The root of the query it was found below."""
    name: batch_records.RecordName
    is_past: bool
    """It is of an older generation: nothing will ever follow it."""


@dataclass(slots=True)
class _Progress:
    """How far one sink is."""

    committed: int | None = None
    """Through this batch; None until the restored transactions are committed."""
    prepared: dict[int, PreparedRecord] = field(default_factory=dict)
    """Of this driver, by batch, until they are committed."""

    @property
    def pending(self) -> int:
        """How many of them have something to commit."""
        return sum(1 for record in self.prepared.values() if record.transaction is not None)


class Committer:
    """All two-phase sinks of a job. Batches prepare on Spark's threads, one other thread commits."""

    def __init__(self, driver: Driver, sinks: Iterable[JobSink]) -> None:
        """Know the sinks; nothing happens before `start`."""
        self._driver = driver
        self._sinks = {sink.key: sink for sink in sinks}
        self._progress = {key: _Progress() for key in self._sinks}
        self._strays: tuple[_Stray, ...] = ()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._deadline_s = FOREVER_S
        self.trouble: str | None = None
        """Why a commit is being tried again, for people; None if all is well."""

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
        allow_non_restored: bool = False,
        functions: Mapping[str, str] | None = None,
    ) -> None:
        """Open every sink, commit what the restored cut had prepared, and find what it does not cover.

        Cost: a LIST of the generations; per query with a sink a LIST, in a new generation one more per older generation; a
        GET per transaction.

        Args:
            restored: The queries as restored, with paths inside the generation that runs.
            allow_non_restored: The explicit word that transactions of sinks that left the job may be dropped.
            functions: By uid of a query its sink function, if each batch has a record of what the function holds.

        Raises:
            SpecRejectedError: `NonRestoredState`, or a sink refuses.
            FencedError: A newer driver runs.
            StatefulSparkError: A sink cannot be opened, or a transaction not be committed.
        """
        if not allow_non_restored:
            job_sinks.require_place(restored, self._sinks)
        self.hurry()
        if self.sinks:
            self._patiently(self._require_current)
        batches = {query.uid: query.batch_id for query in restored}
        for sink in self.sinks:
            context = sink.context(batches.get(sink.query_uid, -1))
            self._patiently(functools.partial(_open, sink, context))
        seen = read_cache.Look(self._driver.store)
        self._strays = tuple(stray for sink in self.sinks for stray in self._find_strays(seen, sink, batches))
        self._announce_outputs(restored, functions or {})
        self.commit(restored)
        for key, progress in self._progress.items():
            progress.committed = max(batches.get(key[0], -1), -1 if progress.committed is None else progress.committed)
        self._deadline_s = FOREVER_S

    def _find_strays(self, seen: read_cache.Look, sink: JobSink, batches: Mapping[str, int]) -> Iterable[_Stray]:
        here, after = self._driver.generation, batches.get(sink.query_uid, -1)
        names = (layout.parse_number(name) for name in seen.list_names(layout.GENERATIONS))
        generations = {number for number in names if number is not None and number < here} | {here}
        for generation in sorted(generations):
            root = layout.query_root(generation, sink.query_uid)
            for name in batch_records.SideLog(seen, root).all_of(batch_records.RecordKind.PREPARED):
                if name.uid == sink.uid and name.batch > after:
                    yield _Stray(sink, self._driver.store.child(root), name, generation < here)

    def _announce_outputs(self, restored: Sequence[QueryEntry], functions: Mapping[str, str]) -> None:
        """Say which sink or function has a record of each batch from now on, so that a record's absence proves its loss.

        Every start says it, under its own epoch, also of a query without a sink: what an earlier driver said, or one that
        was replaced says late, does not count then. Cost: one PUT per query.
        """
        sinks = {sink.query_uid: sink.uid for sink in self.sinks}
        batches = {query.uid: query.batch_id for query in restored}
        for uid in sorted(batches.keys() | sinks.keys() | functions.keys()):
            first, epoch = batches.get(uid, -1) + 1, self._driver.epoch
            record = OutputRecord(sink=sinks.get(uid), function=functions.get(uid), batch_id=first, epoch=epoch)
            log = batch_records.SideLog(self._driver.store, layout.query_root(self._driver.generation, uid))
            log.write(batch_records.RecordName(batch_records.RecordKind.OUTPUT, uid, first, epoch), record.sealed())

    # Batches

    def prepared(self, sink: JobSink, batch_id: int, transaction: bytes | None) -> None:
        """Record what a sink has prepared for a batch; Spark commits the batch after this. Cost: one PUT.

        A batch that runs again in this process replaces what it had prepared, and gives it up. A batch without a
        transaction has a record too, so that one that is not there is known to be lost.
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
            lineage=self._driver.descent.lineage if self._driver.descent else None,
            root=self._driver.store.uri,
            transaction=None if transaction is None else transaction.decode(),
        )
        name = batch_records.RecordName(batch_records.RecordKind.PREPARED, sink.uid, batch_id, self._driver.epoch)
        sink.log.write(name, record.sealed())
        with self._lock:
            self._progress[sink.key].prepared[batch_id] = record
        if before is not None and before.transaction not in (None, record.transaction):
            self._abort(sink, before)

    # Snapshots

    def committed(self, query_uid: str) -> Mapping[str, int]:
        """Return through which batch the sinks of a query are committed, by uid; without those that are not known."""
        with self._lock:
            progress = {key[1]: one.committed for key, one in self._progress.items() if key[0] == query_uid}
        return {uid: batch for uid, batch in progress.items() if batch is not None}

    def statuses(self) -> tuple[api.SinkStatus, ...]:
        """Return how far every sink is, for the job's status."""
        with self._lock:
            return tuple(
                api.SinkStatus(query=query, uid=uid, committed_batch=one.committed, pending_transactions=one.pending)
                for (query, uid), one in self._progress.items()
            )

    def require_named(self, queries: Sequence[QueryEntry]) -> None:
        """Make sure that a cut names every transaction that this driver has prepared up to it.

        Raises:
            SnapshotCorruptError: `ClosureIncomplete`: a listing does not show one; the snapshot must not complete.
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
        """Commit everything that a completed snapshot covers, then give up what it leaves out. Idempotent.

        Failures that may pass are waited out, for ever unless somebody is in a hurry.

        Args:
            queries: As the snapshot has them.

        Raises:
            FencedError: A newer driver runs; it commits.
            StatefulSparkError: A sink refuses, or has been unavailable for too long; the rest stays prepared.
        """
        due = [(query, sink) for query in queries for sink in self.sinks if sink.query_uid == query.uid]
        if any(self._uncommitted(query, sink) for query, sink in due) or self._strays:
            self._patiently(self._require_current)
        for query, sink in due:
            for path in self._uncommitted(query, sink):
                self._commit_one(sink, self._record(query, path))
            self._advance(sink, query.batch_id)
        self._give_up(queries)

    def hurry(self) -> None:
        """Wait no longer than `STOP_PATIENCE_S` from now on: the job stops, or starts."""
        self._deadline_s = time.monotonic() + STOP_PATIENCE_S

    def stop_trying(self) -> None:
        """Let a commit that waits for another try fail now."""
        self._closing.set()

    def _uncommitted(self, query: QueryEntry, sink: JobSink) -> tuple[str, ...]:
        committed = self._progress[sink.key].committed
        return tuple(
            entry.path
            for entry in query.prepared
            if entry.uid == sink.uid and (committed is None or entry.batch_id > committed)
        )

    def _record(self, query: QueryEntry, path: str) -> PreparedRecord:
        name = batch_records.of_key(path)
        if name is not None and name.epoch == self._driver.epoch:
            with self._lock:
                known = self._progress[query.uid, name.uid].prepared.get(name.batch)
            if known is not None:
                return known
        key = f"{query.path}/{path}"
        body = self._driver.store.read(key)
        return PreparedRecord.parse(body, f"{self._driver.store.uri}/{key}")

    def _commit_one(self, sink: JobSink, record: PreparedRecord) -> None:
        what = {"sink": sink.uid, "batch": record.batch_id, "generation": record.generation}
        if record.job != self._driver.job:
            _log.warning("a transaction of another job is left to that job", extra={**what, "job": record.job})
        elif record.sink != sink.kind:
            raise errors.SpecRejectedError(
                "NonRestoredState",
                f"The state on storage holds a transaction of the {record.sink} {sink.uid!r} for batch "
                f"{record.batch_id}, and the job has a {sink.kind} under that uid. Give the new sink a uid "
                "of its own, and start with allowNonRestoredState once the old one has committed.",
            )
        elif record.transaction is not None:
            body, context = record.transaction.encode(), sink.context_of(record)
            self._patiently(functools.partial(self._commit_if_current, sink, body, context))
            _log.info("batch committed to its sink", extra=what)
        self._advance(sink, record.batch_id)

    def _advance(self, sink: JobSink, batch_id: int) -> None:
        progress = self._progress[sink.key]
        with self._lock:
            progress.committed = max(batch_id, -1 if progress.committed is None else progress.committed)
            progress.prepared = {batch: one for batch, one in progress.prepared.items() if batch > progress.committed}

    def _give_up(self, queries: Sequence[QueryEntry]) -> None:
        """Abort transactions that a completed snapshot leaves out for ever; what fails is tried after the next one."""
        covered = {query.uid: query for query in queries}
        left = []
        is_named = self._named_elsewhere()
        for stray in self._strays:
            query = covered.get(stray.sink.query_uid)
            progress = self._progress[stray.sink.key].committed
            is_over = stray.is_past or (query is not None and stray.name.batch <= query.batch_id)
            if query is None or progress is None or not is_over or (stray.is_past and is_named(stray)):
                left.append(stray)
            elif stray.is_past or stray.name.key not in {entry.path for entry in query.prepared}:
                left += [] if self._given_up(stray) else [stray]
        self._strays = tuple(left)

    def _named_elsewhere(self) -> Callable[[_Stray], bool]:
        """Return what tells whether a snapshot of a future that was left names a record: going there must stay possible."""
        if not any(stray.is_past for stray in self._strays):
            return lambda _: False
        store, options = self._driver.store, self._driver.options
        try:
            keys = named_transactions.transactions(store, open_store=lambda uri: storage.open_store(uri, options))
        except errors.StatefulSparkError as error:
            _log.warning("transactions of older generations are left alone", extra={"why": str(error)})
            return lambda _: True
        return lambda stray: f"{stray.store.uri}/{stray.name.key}".removeprefix(f"{store.uri}/") in keys

    def _given_up(self, stray: _Stray) -> bool:
        try:
            body = stray.store.read(stray.name.key)
            record = PreparedRecord.parse(body, f"{stray.store.uri}/{stray.name.key}")
        except errors.ObjectNotFoundError:
            return True  # Pruned meanwhile.
        except errors.StatefulSparkError as error:
            _log.warning("a record cannot be read and is left alone", extra={"why": str(error)})
            return False
        is_done = self._abort(stray.sink, record)
        if is_done:
            stray.store.delete_many([stray.name.key])
        return is_done

    def _abort(self, sink: JobSink, record: PreparedRecord) -> bool:
        context = sink.context_of(record)
        if record.job != self._driver.job or record.sink != sink.kind or record.transaction is None:
            return True
        if context.is_inherited:
            return True  # Another root prepared it, and may commit it.
        try:
            with sink_calls.calling(sink.sink, sink.uid, "abort"):
                sink.sink.abort(record.transaction.encode(), context)
        except errors.FencedError:
            raise
        except errors.StatefulSparkError as error:
            _log.warning(
                "giving up a transaction failed", extra={"sink": sink.uid, "batch": record.batch_id, "why": str(error)}
            )
            return False
        _log.info("transaction given up", extra={"sink": sink.uid, "batch": record.batch_id, "epoch": record.epoch})
        return True

    def _commit_if_current(self, sink: JobSink, body: bytes, context: SinkContext) -> None:
        if self.trouble is not None:
            self._require_current()  # Time has passed since the last look.
        with sink_calls.calling(sink.sink, sink.uid, "commit"):
            sink.sink.commit(body, context)

    def _require_current(self) -> None:
        epochs.require_current(self._driver.store, self._driver.epoch)

    def _patiently(self, act: Callable[[], None]) -> None:
        """Do something, again with growing waits while it fails for reasons that may pass."""
        wait_s = FIRST_WAIT_S
        while True:
            try:
                act()
            except errors.TransientError as error:
                self.trouble = f"Committing is tried again: {error.message}"
                _log.warning("committing failed and is tried again", extra={"why": str(error), "wait_s": wait_s})
                if time.monotonic() >= self._deadline_s or self._closing.wait(wait_s):
                    raise
                wait_s = min(wait_s * 2, LONGEST_WAIT_S)
            else:
                self.trouble = None
                return


def _open(sink: JobSink, context: SinkContext) -> None:
    with sink_calls.calling(sink.sink, sink.uid, "open"):
        sink.sink.open(context)
