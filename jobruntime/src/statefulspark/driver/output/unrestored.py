"""Prepared transactions of earlier drivers that a start does not restore. Their drivers may still commit their batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from statefulspark import errors, storage
from statefulspark.checkpoint import batch_records, read_cache
from statefulspark.contract import layout
from statefulspark.driver.output.job_sinks import DriverAttempt, JobSink
from statefulspark.retention import named_transactions
from statefulspark.storage.port import ObjectStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UnrestoredRecord:
    """A record of an earlier driver whose transaction this start does not restore."""

    sink: JobSink
    store: ObjectStore
    """The root of its query."""
    name: batch_records.RecordName
    is_past: bool
    """Whether it belongs to an older generation, which no batch will follow."""


def find(driver: DriverAttempt, sinks: Iterable[JobSink], batches: Mapping[str, int]) -> tuple[UnrestoredRecord, ...]:
    """List the records of batches after those that a start restores.

    Args:
        driver: The driver that starts.
        sinks: Its sinks.
        batches: The restored batch of each query, by uid.
    """
    seen, unrestored = read_cache.ReadCache(driver.store), list[UnrestoredRecord]()
    for sink in sinks:
        names = (layout.parse_number(name) for name in seen.list_names(layout.GENERATIONS))
        generations = {number for number in names if number is not None and number < driver.generation}
        for generation in sorted(generations | {driver.generation}):
            root = layout.query_root(generation, sink.query_uid)
            unrestored += [
                UnrestoredRecord(sink, driver.store.child(root), name, generation < driver.generation)
                for name in batch_records.BatchRecordLog(seen, root).list_all(batch_records.RecordKind.PREPARED)
                if name.uid == sink.uid and name.batch > batches.get(sink.query_uid, -1)
            ]
    return tuple(unrestored)


def retained_by_others(
    driver: DriverAttempt, records: Sequence[UnrestoredRecord]
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
