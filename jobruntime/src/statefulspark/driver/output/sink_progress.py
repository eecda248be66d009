"""The progress of one sink: the requested commits, and those that can be repeated if the sink loses them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from statefulspark.contract.manifest import Position, PreparedEntry, QueryEntry, SinkEntry, SinkOpening
from statefulspark.contract.prepared import PreparedRecord
from statefulspark.driver.output.job_sinks import JobSink
from statefulspark.sinks.marker import Marker
from statefulspark.sinks.standing import Expected


@dataclass(slots=True)
class SinkProgress:
    """The progress of one sink; not thread-safe."""

    committed: int | None = None
    """The last committed batch; None until the restored transactions are committed."""
    named_after: int = -1
    """Snapshots name the transactions after this batch: the last one committed before the newest snapshot was committed."""
    tried: int = -1
    """The last batch of Spark's that was looked at by `SinkCommitter.commit`."""
    prepared: dict[int, PreparedRecord] = field(default_factory=dict)
    """Records of this driver that are not committed yet, by batch."""
    kept: dict[int, PreparedRecord] = field(default_factory=dict)
    """Committed records with a transaction, by batch: those that the newest snapshot names, and all since the one before."""
    kept_after: Position | None = None
    """The last batch that the sink got before these; None for none."""
    origin: str | None = None
    """The lineage in which the sink began, or a later one; set when it is opened."""
    openings: tuple[SinkOpening, ...] = ()
    """The last drivers of this root that opened it, this one included; set when it is opened."""
    covered: int = -1
    """Batch of the newest snapshot that is complete."""
    is_started: bool = False
    """Whether the restored transactions are committed. Rights do not count for what the sink loses from then on."""
    sent_again: str | None = None
    """What the sink had lost and got once more, for people."""

    @property
    def pending(self) -> int:
        """How many prepared batches have a transaction to commit."""
        return sum(1 for record in self.prepared.values() if record.transaction is not None)

    @property
    def expected(self) -> Expected:
        """What is known to be in the sink."""
        newest = max(self.kept, default=None)
        committed = self.kept_after if newest is None else position_of(self.kept[newest])
        return Expected(committed, self.kept_after, was_opened=True, origin=self.origin, openings=self.openings)

    def advance(self, batch_id: int, record: PreparedRecord | None = None) -> None:
        """Note that a batch is committed; with its record if the sink has committed a transaction of it."""
        self.committed = max(batch_id, -1 if self.committed is None else self.committed)
        self.prepared = {batch: waiting for batch, waiting in self.prepared.items() if batch > self.committed}
        if record is not None:
            self.kept[batch_id] = record

    def leave_after(self, batch_id: int) -> tuple[int, ...]:
        """Forget the records of batches after one, which another driver has committed; return the batches."""
        left = tuple(batch for batch in self.prepared if batch > batch_id)
        self.prepared = {batch: record for batch, record in self.prepared.items() if batch <= batch_id}
        return left

    def keep(self, named: Sequence[PreparedEntry], batch_id: int, *, committed_before: int | None) -> None:
        """Forget committed records that neither the newest snapshot names nor came after the one before it.

        Args:
            named: The transactions of this sink in it.
            batch_id: Its batch.
            committed_before: The last batch that was committed before these; None for a snapshot that was restored, of which
                the next one names all.
        """
        self.named_after = _first(named, batch_id) - 1 if committed_before is None else committed_before
        first = min(_first(named, batch_id), self.covered + 1)
        self.covered = batch_id
        self.kept_after = self._last_before(first)
        self.kept = {batch: record for batch, record in self.kept.items() if batch >= first}

    def lost(self, reached: Marker, sink: JobSink) -> tuple[PreparedRecord, ...]:
        """Return the kept records that a sink does not have any more, in order."""
        records = (self.kept[batch] for batch in sorted(self.kept))
        return tuple(record for record in records if not reached.has(position_of(record), sink.descent))

    def entry(self, sink: JobSink, query: QueryEntry) -> SinkEntry:
        """Return what a snapshot says of the sink.

        Args:
            sink: The sink.
            query: Its query in the snapshot.
        """
        named = sink.named_in(query)
        return SinkEntry(
            uid=sink.uid,
            kind=sink.kind,
            target=sink.target,
            committed=self._last_before(query.batch_id + 1),
            kept_after=self._last_before(_first(named, query.batch_id)),
            origin=self.origin,
            openings=self.openings,
        )

    def _last_before(self, batch_id: int) -> Position | None:
        before = max((batch for batch in self.kept if batch < batch_id), default=None)
        return self.kept_after if before is None else position_of(self.kept[before])


def position_of(record: PreparedRecord) -> Position:
    """Return the batch of a record among all batches."""
    return Position(lineage=record.lineage, generation=record.generation, batch_id=record.batch_id)


def _first(named: Sequence[PreparedEntry], batch_id: int) -> int:
    return min((entry.batch_id for entry in named), default=batch_id + 1)
