"""The two-phase sinks of a job, and the driver that calls them."""

from __future__ import annotations

import functools
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

from statefulspark import errors
from statefulspark.checkpoint import batch_records, epochs, lineage_records
from statefulspark.contract import layout, lost_state
from statefulspark.contract.manifest import Ancestor, Manifest, Position, PreparedEntry, QueryEntry, SinkEntry
from statefulspark.contract.prepared import OutputRecord, PreparedRecord
from statefulspark.declaration import outputs_of
from statefulspark.driver.output.sink_rights import SinkRights
from statefulspark.recovery import history
from statefulspark.sinks import base, visibility
from statefulspark.sinks.base import SinkContext, TellsMarker, TwoPhaseSink
from statefulspark.sinks.standing import NOTHING_EXPECTED, Expected, SinkLineage
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
        claim_id: The id of its claim of the epoch.
        rights: What it may do to the output of sinks that have anything else than the state knows.
        history: What its generation descends from.
        restored: The snapshot that it goes on from; None if it goes on from the beginning of a generation.
    """

    store: ObjectStore
    options: StorageOptions
    job: str
    epoch: int
    generation: int
    descent: lineage_records.Descent
    claim_id: str = ""
    rights: SinkRights = field(default_factory=SinkRights)
    history: history.History = field(default_factory=history.History)
    restored: Manifest | None = None

    @property
    def lineage(self) -> str:
        """The lineage of its root."""
        return self.descent.lineage or ""

    @property
    def predecessor(self) -> epochs.KnownDriver:
        """The newest driver before it that is known to have written this state: a sink's opener is of the same life.

        Epochs of two lives have the same numbers, so the claim in a checkpoint counts for more than the number in the record
        of its generation.
        """
        begun, taken = self.history.begun_before(self.epoch), self.restored
        if taken is None or taken.lineage != self.lineage or not begun <= taken.epoch < self.epoch:
            return epochs.KnownDriver(begun)
        return epochs.KnownDriver(taken.epoch, taken.claim) if taken.claim else epochs.KnownDriver(begun)


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
    def name(self) -> str:
        """Its name for people, as `query/sink`."""
        return layout.sink_name(self.query_uid, self.uid)

    @property
    def participant(self) -> str:
        """Its name in the coordinator."""
        return f"sink:{self.name}"

    @property
    def descent(self) -> SinkLineage:
        """What it needs to know of other lineages, and of older generations of this one."""
        driver, past = self.driver, self.driver.history
        jobs = (cut.job for cut in reversed(driver.descent.ancestors))
        return SinkLineage(
            lineage=driver.lineage,
            generation=driver.generation,
            root=driver.store.uri,
            cuts=tuple(map(self._position, driver.descent.ancestors)),
            line=tuple(map(self._position, past.cuts)),
            known_from=past.known_from,
            went_back=0 if self.shows_batches else past.went_back,
            rights=driver.rights.of(self.name),
            other_jobs=tuple(dict.fromkeys(job for job in jobs if job not in (None, driver.job))),
        )

    def job_of(self, lineage: str) -> str | None:
        """Return the job whose state a lineage was, as `namespace/name`; None if it is not known."""
        if lineage == self.driver.lineage:
            return self.driver.job
        return next((cut.job for cut in self.driver.descent.ancestors if cut.lineage == lineage), None)

    def _position(self, cut: Ancestor) -> Position:
        batch = cut.batches.get(self.query_uid, -1)
        return Position(lineage=cut.lineage or "", generation=cut.generation, batch_id=batch)

    @property
    def target(self) -> str | None:
        """What it writes to; None if the sink does not tell."""
        return self.sink.target if isinstance(self.sink, TellsMarker) else None

    def named_in(self, query: QueryEntry) -> tuple[PreparedEntry, ...]:
        """Return its transactions that a snapshot of its query names."""
        return tuple(entry for entry in query.prepared if entry.uid == self.uid)

    def expected(self, restored: QueryEntry | None) -> Expected:
        """Return what a restored cut knows to be in it. Cost: a GET if batches were committed and no snapshot names it."""
        entries = restored.sinks if restored is not None else ()
        entry = next((entry for entry in entries if entry.uid == self.uid), None)
        if restored is None or self._may_be_of_other_job(entry):
            return NOTHING_EXPECTED
        records = (batch_records.parse_key(entry.path) for entry in self.named_in(restored))
        written = tuple((record.batch, record.epoch) for record in records if record is not None)
        if entry is None:
            is_opened = self._was_opened_before(restored)
            return Expected(was_opened=True, written=written) if is_opened else NOTHING_EXPECTED
        if not self._is_at(entry.kind, entry.target):
            return Expected(elsewhere=entry.committed)
        own = tuple(opening for opening in entry.openings if opening.after.lineage == self.driver.lineage)
        return Expected(
            entry.committed, entry.kept_after, was_opened=True, origin=entry.origin, written=written, openings=own
        )

    def _was_opened_before(self, restored: QueryEntry) -> bool:
        """Tell whether a driver had opened it at its target before the last batch of a cut, which no snapshot covers yet."""
        keys = (file.path for file in restored.files)
        names = batch_records.covering(keys, after_batch=restored.batch_id, to_batch=restored.batch_id)
        if not names:
            return False
        key = f"{restored.path}/{names[-1].key}"
        try:
            record = OutputRecord.parse(self.driver.store.read(key), f"{self.driver.store.uri}/{key}")
        except errors.ObjectNotFoundError:
            return False  # A savepoint, which names its sinks itself.
        return any(sink.uid == self.uid and self._is_at(sink.kind, sink.target) for sink in record.sinks)

    def _is_at(self, kind: str | None, target: str | None) -> bool:
        """Tell whether a sink that was opened is this one. One that tells no target counts as at the same one."""
        return kind == self.kind and (target == self.target or None in (target, self.target))

    def _may_be_of_other_job(self, entry: SinkEntry | None) -> bool:
        """Tell whether an entry may be of the sink of another job, which cannot be looked up in the target."""
        if self.target is not None or not self.descent.other_jobs:
            return False
        return entry is None or entry.origin is None or self.job_of(entry.origin) != self.driver.job

    @property
    def kind(self) -> str:
        """The name of its class, as in records."""
        return base.kind_of(self.sink)

    @property
    def shows_batches(self) -> bool:
        """Whether it commits each batch as soon as Spark has."""
        return visibility.sink_visibility(self.sink) is visibility.Visibility.BATCH

    @property
    def withdraws(self) -> bool:
        """Whether it takes back what the restored state does not contain; a sink says so by an attribute of that name."""
        return getattr(self.sink, "withdraws", False) is True

    @property
    def log(self) -> batch_records.BatchRecordLog:
        """The records of its query."""
        return batch_records.BatchRecordLog(
            self.driver.store, layout.query_root(self.driver.generation, self.query_uid)
        )

    def context(self, batch_id: int, expected: Expected = NOTHING_EXPECTED) -> SinkContext:
        """Return the context of a batch that this driver writes.

        Args:
            batch_id: The batch; for the opening of the sink the restored one.
            expected: What this driver knows to be in the sink.
        """
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
            staging_uri=f"{driver.store.uri}/{layout.query_root(driver.generation, self.query_uid)}",
            notes_uri=f"{driver.store.uri}/{layout.sink(self.query_uid, self.uid)}",
            options=driver.options,
            lineage=own.lineage,
            descent=own,
            claim=driver.claim_id,
            claim_of=functools.partial(epochs.claim_in_life, driver.store, known=driver.predecessor),
            expected=expected,
        )

    def context_of(
        self, record: PreparedRecord, expected: Expected = NOTHING_EXPECTED, *, has_rights: bool = False
    ) -> SinkContext:
        """Return the context of a batch that has a prepared record, of this or of another driver; see `context`.

        Args:
            record: The record.
            expected: What this driver knows to be in the sink.
            has_rights: Whether rights count. They are about what was there when the driver started.
        """
        context = self.context(record.batch_id, expected)
        return replace(
            context,
            generation=record.generation,
            epoch=record.epoch,
            lineage=record.lineage,
            descent=context.descent if has_rights else replace(context.descent, rights=frozenset()),
        )


def keys_of(outputs: Mapping[str, object]) -> frozenset[tuple[str, str]]:
    """Return query uid and sink uid of every sink, from what each query writes, by query uid."""
    return frozenset((query_uid, output.uid) for query_uid, output in outputs_of(outputs))


def require_place(
    restored: Iterable[QueryEntry], sinks: Container[tuple[str, str]], drop_state: Collection[str]
) -> None:
    """Refuse a job that lacks a sink whose transactions it would start from.

    Args:
        restored: The queries, as they are restored.
        sinks: Query and uid of every sink that the job has now.
        drop_state: Uids of state that may be dropped.

    Raises:
        SpecRejectedError: `NonRestoredState`.
    """
    lost = {
        lost_state.LostState(entry.uid, f"sink {entry.uid!r} of query {query.uid!r}")
        for query in restored
        for entry in query.prepared
        if not entry.is_empty and (query.uid, entry.uid) not in sinks
    }
    lost_state.require_permission(
        sorted(lost),
        drop_state,
        holds="The state on storage holds transactions of",
        remedy="Their rows may not be visible yet. Give the job back those uids",
    )
