"""The two-phase sink protocol: a sink prepares each batch, and commits it when a checkpoint covers the batch; idempotent.

A batch may run twice, in one driver or in two, and a commit may be repeated after a failure. A reader still sees each record
once, because a transaction is part of its snapshot, and a sink knows by generation and batch what it has committed (Flink's
two-phase commit, with a batch in place of the time between two barriers).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, runtime_checkable

from statefulspark.contract.manifest import Position
from statefulspark.sinks.standing import NOTHING_EXPECTED, ClaimOf, Expected, SinkLineage

if TYPE_CHECKING:
    import pyarrow as pa

    from statefulspark.sinks.marker import Marker
    from statefulspark.sinks.visibility import Visibility
    from statefulspark.storage import StorageOptions


@dataclass(frozen=True, slots=True)
class SinkContext:
    """The batch of a sink, and the storage for its staged rows.

    Attributes:
        job: `namespace/name`.
        query_uid: The query's uid.
        uid: The sink's uid.
        generation: Generation of the batch.
        batch_id: The batch; in `open` the batch after which the job continues, -1 for none. In the commit of a merged
            transaction the last batch.
        epoch: Epoch of the driver that wrote the batch.
        committing_epoch: Epoch of the driver that opens, commits or aborts now.
        staging_uri: The query's root in the generation that runs; `sinks.staging` keeps rows that wait for their commit
            below it.
        notes_uri: Folder on the job's object store for what the sink notes for itself: this sink's alone, and the same for
            every generation.
        options: Storage options of that store.
        lineage: Identity of the root in which the batch ran.
        descent: Lineage of the driver that opens, commits or aborts now, and the ancestors of its state.
        claim: The claim of that driver's epoch on storage.
        claim_of: Looks a claim of the driver's root up on storage.
        expected: What the driver knows to be in the sink before this call.
        continues: In `open` the marker that the sink has under the name of another job, which this one continues; None if
            it continues none.
        merged_from: In the commit of a merged transaction the first batch; else None.
    """

    job: str
    query_uid: str
    uid: str
    generation: int
    batch_id: int
    epoch: int
    committing_epoch: int
    staging_uri: str
    notes_uri: str
    options: StorageOptions
    lineage: str
    descent: SinkLineage
    claim: str
    claim_of: ClaimOf = field(compare=False, repr=False)
    expected: Expected = NOTHING_EXPECTED
    continues: Marker | None = None
    merged_from: int | None = None

    @property
    def position(self) -> Position:
        """The batch among all batches of all lineages."""
        return Position(lineage=self.lineage, generation=self.generation, batch_id=self.batch_id)

    @property
    def is_inherited(self) -> bool:
        """Whether the batch ran in another root, whose snapshot this root has restored."""
        return self.lineage != self.descent.lineage

    @property
    def transactional_id(self) -> str:
        """The sink's name in other systems: one per sink and job, the same for every epoch and generation."""
        return f"statefulspark/{self.job}/{self.query_uid}/{self.uid}"

    def on_worker(self) -> SinkContext:
        """Return the context for `write_part`, which is sent to workers: it looks nothing up on storage."""
        return replace(self, claim_of=_no_claim)

    def named(self, job: str) -> SinkContext:
        """Return the context in which this driver looks at the sink of another job, and fences that job.

        What is in the target under the driver's own name is another job's there: a job may be renamed back.
        """
        others = tuple(other for other in (self.job, *self.descent.other_jobs) if other != job)
        descent = replace(self.descent, other_jobs=others)
        notes_uri = f"{self.notes_uri}/of/{job}"
        return replace(self, job=job, notes_uri=notes_uri, expected=NOTHING_EXPECTED, descent=descent)


def _no_claim(_: int) -> None:
    """Know no claim of any epoch."""


@runtime_checkable
class TwoPhaseSink(Protocol):
    """Writes the rows of a batch durably, and makes them visible when a checkpoint covers the batch.

    A sink with an attribute `visible` that is `"batch"` makes them visible as soon as Spark has committed the batch. A sink
    with an attribute `takes_batches_again` that is True withdraws or replaces the rows of a batch that comes once more, so
    that the job may be rolled back behind it.

    Guaranteed by the runtime: a driver calls `open` before any other method; `prepare` gets the parts of exactly one attempt
    at a batch; `commit` is called in the order of batches, only for batches that a completed checkpoint covers, or that
    Spark has committed if the sink shows each batch, and again after a failure or a restart. A sink stores a marker in its
    target system, in the same transaction as the rows: what it has committed of each generation, and who opened it last. It
    ignores batches that the marker covers. `sinks.marker.open_marker` decides whether it may go on with what `open` finds
    there, and `sinks.marker.require_newest` does before each commit.
    """

    def write_part(self, batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
        """Write the rows of one partition durably but invisibly on a worker; return None if there are no rows."""
        ...

    def prepare(self, parts: tuple[bytes, ...], context: SinkContext) -> bytes | None:
        """Return the transaction of the batch on the driver, before Spark commits it: small JSON, without secrets.

        It names each file of `sinks.staging` by its path. A snapshot holds the files that the transactions in it name, and
        retention deletes the others.

        Returns:
            The argument for `commit` and `abort`; None if there is nothing to commit.
        """
        ...

    def open(self, context: SinkContext) -> None:
        """Fence drivers of older epochs and check that the target is reachable, once per start of a driver."""
        ...

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        """Make a batch visible; idempotent.

        Raises:
            TransientError: Call again.
        """
        ...

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        """Discard a batch that will never be committed; idempotent."""
        ...


@runtime_checkable
class MergesTransactions(Protocol):
    """A sink that commits several batches at once, so that small batches do not wait for each other's commits."""

    def merge(self, earlier: bytes, later: bytes) -> bytes | None:
        """Return the transaction that commits two transactions, the earlier one first; None to commit them apart.

        The runtime merges batches that follow one another, of the driver that runs, before it has tried to commit any of
        them. The marker after the commit covers them all. A driver that cannot know whether the commit has happened ends,
        and the next one commits each batch apart: the marker shows which it has.
        """
        ...


class Sink(ABC):
    """Base class of the sinks of this library: frozen settings, which a job gives to `ss.write`.

    The runtime makes its own object from them, which writes and commits. A sink of another author implements
    `ss.sinks.spi.TwoPhaseSink`.
    """

    __slots__ = ()
    visible: Visibility | str

    @abstractmethod
    def _machine(self) -> TwoPhaseSink:
        """Return the sink that these settings describe."""


SettingsT = TypeVar("SettingsT", bound=Sink)


class Machine(Generic[SettingsT]):
    """A two-phase sink made from settings; it is sent to workers.

    Attributes:
        settings: The settings.
    """

    def __init__(self, settings: SettingsT) -> None:
        self.settings = settings

    @property
    def visible(self) -> Visibility | str:
        """When readers see a batch."""
        return self.settings.visible


Given = TypeVar("Given")


def machine_of(sink: Sink | Given) -> TwoPhaseSink | Given:
    """Return the two-phase sink of settings; what is no settings is returned as it is."""
    return sink._machine() if isinstance(sink, Sink) else sink


def kind_of(sink: object) -> str:
    """Return the name of a sink's class as jobs and records have it: of a machine, that of its settings."""
    return type(sink.settings if isinstance(sink, Machine) else sink).__name__


@runtime_checkable
class ChecksSchema(Protocol):
    """A sink that can check the schema of a stream beforehand."""

    def check_schema(self, schema: pa.Schema, options: StorageOptions) -> None:
        """Reject a stream with an unsuitable schema, before its query starts.

        Args:
            schema: The stream's columns.
            options: Storage options of the job's object store.

        Raises:
            SpecRejectedError: `SinkSchemaMismatch`, naming the columns.
        """
        ...


@runtime_checkable
class TellsMarker(Protocol):
    """A sink that tells what it has committed before it is opened, so that a start is refused before it changes anything."""

    @property
    def target(self) -> str:
        """What it writes to, without credentials. A sink at another target begins anew; it is not looked up."""
        ...

    def stored_marker(self, context: SinkContext) -> Marker | None:
        """Return the marker in the target system, which is not changed; None if the sink was never opened.

        Raises:
            TransientError: The system is unavailable.
        """
        ...
