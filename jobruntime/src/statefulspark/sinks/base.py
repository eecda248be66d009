"""What a sink is: it prepares with each batch, and commits when a checkpoint covers the batch; again is fine.

A batch may run twice, in one driver or in two, and a commit may be repeated after a failure. What a reader sees of a sink is
each record once all the same, since a transaction is part of the cut that it belongs to, and a sink knows by generation and
batch what it has committed (Flink's two-phase commit, with a batch for the time between two barriers).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from statefulspark.sinks.standing import Descent, Position

if TYPE_CHECKING:
    import pyarrow as pa

    from statefulspark.storage import StorageOptions


@dataclass(frozen=True, slots=True)
class SinkContext:
    """Which batch of which sink is meant, and where its rows may wait.

    Attributes:
        job: `namespace/name`.
        query_uid: The query's uid.
        uid: The sink's uid.
        generation: Of the batch's records.
        batch_id: The batch; when the sink is opened the batch after which the job goes on, -1 for none.
        epoch: Of the driver that wrote the batch.
        committing_epoch: Of the driver that opens, commits or aborts now.
        staging_uri: Folder on the job's object store for rows that wait for their commit: this sink's alone, and the same
            for every generation.
        options: How to reach that store.
        lineage: Identity of the root in which the batch ran.
        descent: Who opens, commits or aborts now, and what its state descends from.
        prepared_at_uri: The staging folder of that root, if it is another one: where rows of an inherited batch may be.
    """

    job: str
    query_uid: str
    uid: str
    generation: int
    batch_id: int
    epoch: int
    committing_epoch: int
    staging_uri: str
    options: StorageOptions
    lineage: str | None = None
    descent: Descent = field(default_factory=Descent)
    prepared_at_uri: str | None = None

    @property
    def position(self) -> Position:
        """The batch among all batches of all lineages."""
        return Position(self.lineage, self.generation, self.batch_id)

    @property
    def is_inherited(self) -> bool:
        """Whether the batch ran in another root, whose cut this one has restored."""
        return not self.descent.is_own(self.lineage)

    @property
    def transactional_id(self) -> str:
        """The sink's name in other systems: one per sink and job, the same for every epoch and generation."""
        return f"statefulspark/{self.job}/{self.query_uid}/{self.uid}"


@runtime_checkable
class TwoPhaseSink(Protocol):
    """Writes a batch's rows durably with the batch, and makes them visible when a checkpoint covers it.

    Guaranteed by the runtime: `open` comes before everything else of a driver; `prepare` gets the parts of exactly one
    attempt at a batch; `commit` is called in the order of batches, for batches only that a completed checkpoint covers, and
    again after a failure or a restart. A sink remembers the last position (lineage, generation, batch) in the system that it
    writes to, in the same transaction as the rows, and does nothing for one up to that. What it does when it remembers
    another lineage at `open` is `sinks.marker.admitted`: it goes on, takes over, or refuses.
    """

    def write_part(self, batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
        """Write one partition's rows durably on a worker, so that nobody sees them yet; None if there were no rows."""
        ...

    def prepare(self, parts: tuple[bytes, ...], context: SinkContext) -> bytes | None:
        """Return the batch's transaction on the driver, before Spark commits the batch: small JSON, without secrets.

        Returns:
            What `commit` and `abort` need; None if there is nothing to commit.
        """
        ...

    def open(self, context: SinkContext) -> None:
        """Fence drivers of older epochs and check that the target can be reached, once per start of a driver."""
        ...

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        """Make a batch visible; again is fine.

        Raises:
            TransientError: Call again.
        """
        ...

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        """Forget a batch that will never be committed; again is fine."""
        ...


@runtime_checkable
class ChecksSchema(Protocol):
    """A sink that can tell beforehand whether it takes rows of a stream."""

    def check_schema(self, schema: pa.Schema, options: StorageOptions) -> None:
        """Refuse a stream that does not fit, before its query starts.

        Args:
            schema: The stream's columns.
            options: How the job's object store is reached.

        Raises:
            SpecRejectedError: `SinkSchemaMismatch`, naming the columns.
        """
        ...
