"""Records of earlier drivers whose transactions a start does not restore, and when they may be aborted.

A transaction is aborted only when a completed checkpoint covers its batch without it, because until then a replaced driver
may still commit the batch; and only when no snapshot of an older generation names it. Nothing is aborted before the first
checkpoint of a driver, because until then a checkpoint of the replaced one may still arrive, which names what it had
prepared.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from statefulspark import errors, storage
from statefulspark.checkpoint import batch_records, read_cache
from statefulspark.contract import layout
from statefulspark.contract.manifest import QueryEntry
from statefulspark.contract.prepared import PreparedRecord
from statefulspark.driver.output import sink_commits
from statefulspark.driver.output.job_sinks import DriverAttempt, JobSink
from statefulspark.retention import named_transactions
from statefulspark.storage.port import ObjectStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UnrestoredRecord:
    """A record whose transaction no snapshot of this driver has named so far."""

    store: ObjectStore
    """The root of its query."""
    name: batch_records.RecordName
    is_past: bool
    """Whether it belongs to an older generation, which no batch will follow."""


def list_unrestored(sink: JobSink, restored_batch: int, seen: read_cache.ReadCache) -> tuple[UnrestoredRecord, ...]:
    """List the records of a sink's batches after the one that a start restores.

    Args:
        sink: The sink.
        restored_batch: The restored batch of its query.
        seen: The job's root.
    """
    driver = sink.driver
    names = (layout.parse_number(name) for name in seen.list_names(layout.GENERATIONS))
    generations = {number for number in names if number is not None and number < driver.generation}
    unrestored = list[UnrestoredRecord]()
    for generation in sorted(generations | {driver.generation}):
        root = layout.query_root(generation, sink.query_uid)
        unrestored += [
            UnrestoredRecord(driver.store.child(root), name, generation < driver.generation)
            for name in batch_records.BatchRecordLog(seen, root).list_all(batch_records.RecordKind.PREPARED)
            if name.uid == sink.uid and name.batch > restored_batch
        ]
    return tuple(unrestored)


def abort_uncovered(
    sink: JobSink, records: Iterable[UnrestoredRecord], query: QueryEntry
) -> tuple[UnrestoredRecord, ...]:
    """Abort the transactions that a completed snapshot leaves out, and remove their records.

    Args:
        sink: The sink; everything that the snapshot names is committed to it.
        records: Its unrestored records.
        query: Its query in the snapshot.

    Returns:
        What a snapshot can still name, and what failed: to be tried again after the next snapshot.

    Raises:
        FencedError: A newer driver runs.
    """
    records = tuple(records)
    named = {entry.path for entry in query.prepared}
    is_retained = _retained_by_others(sink.driver, records)
    remaining = []
    for record in records:
        is_over = not is_retained(record) if record.is_past else record.name.batch <= query.batch_id
        is_restored = not record.is_past and record.name.key in named
        if not is_over or (not is_restored and not _abort_and_remove(sink, record)):
            remaining.append(record)
    return tuple(remaining)


def _abort_and_remove(sink: JobSink, unrestored: UnrestoredRecord) -> bool:
    try:
        body = unrestored.store.read(unrestored.name.key)
        record = PreparedRecord.parse(body, f"{unrestored.store.uri}/{unrestored.name.key}")
    except errors.ObjectNotFoundError:
        return True  # Pruned meanwhile.
    except errors.StatefulSparkError as error:
        _log.warning("a record cannot be read; its transaction is not aborted", extra={"why": str(error)})
        return False
    if not sink_commits.abort(sink, record):
        return False
    try:
        unrestored.store.delete_many([unrestored.name.key])
    except errors.StatefulSparkError as error:
        _log.warning("a record is not removed; its transaction is aborted", extra={"why": str(error)})
        return False
    return True


def _retained_by_others(
    driver: DriverAttempt, records: tuple[UnrestoredRecord, ...]
) -> Callable[[UnrestoredRecord], bool]:
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
