"""The two-phase sinks of a job, and the driver that calls them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace

from statefulspark import errors
from statefulspark.checkpoint import batch_records, lineage_records
from statefulspark.contract import layout
from statefulspark.contract.manifest import QueryEntry
from statefulspark.contract.prepared import PreparedRecord
from statefulspark.declaration import Output
from statefulspark.recovery import history
from statefulspark.sinks import visibility
from statefulspark.sinks.base import SinkContext, TwoPhaseSink
from statefulspark.sinks.standing import Position, SinkLineage
from statefulspark.storage.options import StorageOptions
from statefulspark.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class DriverAttempt:
    """The driver that writes and commits, and the location of its state.

    Attributes:
        store: The job's root.
        options: How workers reach it.
        job: `namespace/name`.
        epoch: The epoch of this driver.
        generation: The generation in which it runs.
        descent: Where its state comes from.
        takes_over_sinks: Whether it may write to sinks that another job has written to.
        history: What its generation descends from; None if no sink shows each batch.
    """

    store: ObjectStore
    options: StorageOptions
    job: str
    epoch: int
    generation: int
    descent: lineage_records.Descent | None = None
    takes_over_sinks: bool = False
    history: history.History | None = None

    def descent_of(self, query_uid: str) -> SinkLineage:
        """Return what a sink of a query needs to know of other lineages."""
        origin = self.descent
        if origin is None:
            return SinkLineage()
        return SinkLineage(
            lineage=origin.lineage,
            generation=self.generation,
            root=self.store.uri,
            cuts=tuple(
                Position(cut.lineage, cut.generation, cut.batches.get(query_uid, -1)) for cut in origin.ancestors
            ),
            unnamed=origin.unnamed,
            takes_over=self.takes_over_sinks,
        )


@dataclass(frozen=True, slots=True)
class JobSink:
    """One sink of the job.

    Attributes:
        driver: The driver.
        query_uid: The query that writes to it.
        uid: Its uid.
        sink: The sink itself.
    """

    driver: DriverAttempt
    query_uid: str
    uid: str
    sink: TwoPhaseSink

    @property
    def key(self) -> tuple[str, str]:
        """Its key: query uid and sink uid."""
        return self.query_uid, self.uid

    @property
    def descent(self) -> SinkLineage:
        """What it needs to know of other lineages, and of what the state descends from if it shows each batch."""
        driver, descent = self.driver, self.driver.descent_of(self.query_uid)
        if driver.history is None or not self.shows_batches:
            return descent
        line = tuple(
            Position(cut.lineage, cut.generation, cut.batches.get(self.query_uid, -1)) for cut in driver.history.cuts
        )
        return replace(descent, line=line, known_from=driver.history.known_from)

    @property
    def kind(self) -> str:
        """The name of its class, as in records."""
        return type(self.sink).__name__

    @property
    def shows_batches(self) -> bool:
        """Whether it commits each batch as soon as Spark has."""
        return visibility.of(self.sink) is visibility.Visibility.BATCH

    @property
    def log(self) -> batch_records.BatchRecordLog:
        """The records of its query."""
        return batch_records.BatchRecordLog(
            self.driver.store, layout.query_root(self.driver.generation, self.query_uid)
        )

    def context(self, batch_id: int) -> SinkContext:
        """Return the context of a batch that this driver writes."""
        driver = self.driver
        own = self.descent
        return SinkContext(
            job=driver.job,
            query_uid=self.query_uid,
            uid=self.uid,
            generation=driver.generation,
            batch_id=batch_id,
            epoch=driver.epoch,
            committing_epoch=driver.epoch,
            staging_uri=self._staging(driver.store.uri),
            options=driver.options,
            lineage=own.lineage,
            descent=own,
        )

    def context_of(self, record: PreparedRecord) -> SinkContext:
        """Return the context of a batch that has a prepared record, of this or of another driver."""
        elsewhere = record.root if record.root != self.driver.store.uri else None
        return replace(
            self.context(record.batch_id),
            generation=record.generation,
            epoch=record.epoch,
            lineage=record.lineage,
            prepared_at_uri=self._staging(elsewhere) if elsewhere else None,
        )

    def _staging(self, root: str) -> str:
        return f"{root}/{layout.staging(self.query_uid, self.uid)}"


def keys_of(outputs: Mapping[str, object]) -> frozenset[tuple[str, str]]:
    """Return query uid and sink uid of every sink, from the results of the query functions by query uid."""
    return frozenset((query_uid, output.uid) for query_uid, output in outputs.items() if isinstance(output, Output))


def require_place(restored: Iterable[QueryEntry], sinks: Container[tuple[str, str]]) -> None:
    """Refuse a job that lacks a sink whose transactions it would start from.

    Args:
        restored: The queries, as they are restored.
        sinks: Query and uid of every sink that the job has now.

    Raises:
        SpecRejectedError: `NonRestoredState`.
    """
    lost = {
        f"sink {entry.uid!r} of query {query.uid!r}"
        for query in restored
        for entry in query.prepared
        if not entry.is_empty and (query.uid, entry.uid) not in sinks
    }
    if lost:
        raise errors.SpecRejectedError(
            "NonRestoredState",
            f"The state on storage holds transactions of {', '.join(sorted(lost))}, which the job does not have, and their "
            "records may not be visible yet. Give the job back those uids, or set allowNonRestoredState to start without "
            "them.",
        )
