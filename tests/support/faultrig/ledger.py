"""A transactional target in memory, and the sink that writes to it as the PostgreSQL sink does.

Rows wait on the job's object store (the real `sinks.staging`), and go into the ledger in one transaction with the sink's
marker (the real `sinks.marker`). Rows are appended and never withdrawn, so a row that came twice stays twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from faultrig import faults, fibers, truth
from statefulspark.sinks import marker, marker_errors, staging
from statefulspark.sinks.base import SinkContext


@dataclass
class Ledger:
    """One database.

    Attributes:
        name: Its name.
        rows: Every row that was ever committed.
        markers: How far each sink is, by its transactional id.
    """

    name: str = "ledger"
    rows: list[truth.Row] = field(default_factory=list)
    markers: dict[str, marker.Marker] = field(default_factory=dict)


@dataclass(frozen=True)
class LedgerSink:
    """Appends each batch to a ledger in one transaction; implements `sinks.base.TwoPhaseSink`."""

    ledger: Ledger
    visible: str = "checkpoint"

    @property
    def target(self) -> str:
        return f"memory://ledger/{self.ledger.name}"

    def write_part(self, batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
        return staging.stage((batch for batch in batches if batch.num_rows), context)

    def prepare(self, parts: tuple[bytes, ...], context: SinkContext) -> bytes | None:
        staged = staging.merge(parts)
        return None if staged is None else staged.to_json().encode()

    def merge(self, earlier: bytes, later: bytes) -> bytes | None:
        return staging.merge_batches(earlier, later)

    def stored_marker(self, context: SinkContext) -> marker.Marker | None:
        return self.ledger.markers.get(context.transactional_id)

    def open(self, context: SinkContext) -> None:
        def raise_epoch() -> None:
            found = self.ledger.markers.get(context.transactional_id)
            opened = marker.open_marker(found, context, "the ledger")
            if self.ledger.markers.get(context.transactional_id) is found:
                self.ledger.markers[context.transactional_id] = opened
            else:  # Another driver came while this one asked storage; a database has a lock for that.
                raise_epoch()

        transact("open", raise_epoch)

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        staged = staging.parse(transaction, context)
        rows: list[truth.Row] = []
        if not self.reached(context).covers(context):
            rows = [row for batch in staging.read(staged, context) for row in rows_of(batch)]
        transact("commit", lambda: self._append(rows, context))

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        """Nothing was written."""

    def reached(self, context: SinkContext) -> marker.Marker:
        reached = self.ledger.markers.get(context.transactional_id)
        if reached is None:
            raise marker_errors.missing_error(context, "the ledger", is_running=True)
        return reached

    def _append(self, rows: list[truth.Row], context: SinkContext) -> None:
        reached = self.reached(context)
        marker.require_newest(reached, context, "the ledger")
        if self.reached(context) is not reached:
            self._append(rows, context)
        elif not reached.covers(context):
            self.ledger.rows += rows
            self.ledger.markers[context.transactional_id] = reached.after(context)


def transact(name: str, act: Callable[[], None]) -> None:
    process = fibers.here().process
    assert isinstance(process, faults.FaultyProcess)
    process.change(name, "ledger", act)


def rows_of(batch: pa.RecordBatch) -> Iterator[truth.Row]:
    return zip(batch.column("number").to_pylist(), batch.column("place").to_pylist(), strict=True)
