"""The two-phase sinks of a job, and as whom they are called."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.contract.manifest import QueryEntry
from statefulspark.contract.prepared import PreparedRecord
from statefulspark.job import Output
from statefulspark.sinks.base import SinkContext, TwoPhaseSink
from statefulspark.snapshot import sidelog
from statefulspark.storage.options import StorageOptions
from statefulspark.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class Driver:
    """Who commits, and where the job's state is.

    Attributes:
        store: The job's root.
        options: How workers reach it.
        job: `namespace/name`.
        epoch: Of this driver.
        generation: In which it runs.
    """

    store: ObjectStore
    options: StorageOptions
    job: str
    epoch: int
    generation: int


@dataclass(frozen=True, slots=True)
class JobSink:
    """One sink of the job.

    Attributes:
        driver: The driver.
        query_uid: The query that writes to it.
        uid: Its uid.
        sink: The sink itself.
    """

    driver: Driver
    query_uid: str
    uid: str
    sink: TwoPhaseSink

    @property
    def key(self) -> tuple[str, str]:
        """What it is found by."""
        return self.query_uid, self.uid

    @property
    def kind(self) -> str:
        """Name of its class, as records have it."""
        return type(self.sink).__name__

    @property
    def log(self) -> sidelog.SideLog:
        """The records of its query."""
        return sidelog.SideLog(self.driver.store, layout.query_root(self.driver.generation, self.query_uid))

    def context(self, batch_id: int) -> SinkContext:
        """Return the context of a batch that this driver writes."""
        return self._context(batch_id, self.driver.generation, self.driver.epoch)

    def context_of(self, record: PreparedRecord) -> SinkContext:
        """Return the context of a batch that somebody has prepared."""
        return self._context(record.batch_id, record.generation, record.epoch)

    def _context(self, batch_id: int, generation: int, epoch: int) -> SinkContext:
        return SinkContext(
            job=self.driver.job,
            query_uid=self.query_uid,
            uid=self.uid,
            generation=generation,
            batch_id=batch_id,
            epoch=epoch,
            committing_epoch=self.driver.epoch,
            staging_uri=f"{self.driver.store.uri}/{layout.staging(self.query_uid, self.uid)}",
            options=self.driver.options,
        )


def keys_of(outputs: Mapping[str, object]) -> frozenset[tuple[str, str]]:
    """Return query and uid of every sink, from what the query functions returned by query uid."""
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
        if (query.uid, entry.uid) not in sinks
    }
    if lost:
        raise errors.SpecRejectedError(
            "NonRestoredState",
            f"The state on storage holds transactions of {', '.join(sorted(lost))}, which the job does not have, and their "
            "records may not be visible yet. Give the job back those uids, or set allowNonRestoredState to start without "
            "them.",
        )
