"""Sinks that note what they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from statefulspark import errors
from statefulspark.sinks import marker, staging
from statefulspark.sinks.base import SinkContext
from statefulspark.sinks.marker import Marker


@dataclass
class FakeSink:
    """A sink that notes what it is told, and fails as the test says."""

    told: list[str] = field(default_factory=list)
    before_commit: Callable[[], None] = lambda: None
    before_open: Callable[[], None] = lambda: None
    transaction: bytes | None = b"{}"
    failures: list[errors.StatefulSparkError] = field(default_factory=list)
    visible: str = "checkpoint"

    def write_part(self, batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
        return None

    def prepare(self, parts: tuple[bytes, ...], context: SinkContext) -> bytes | None:
        return self.transaction

    def open(self, context: SinkContext) -> None:
        self.before_open()
        self.told.append(f"open {context.generation}/{context.batch_id} by {context.committing_epoch}")

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        self.before_commit()
        if self.failures:
            raise self.failures.pop()
        where = f"{context.generation}/{context.batch_id} of {context.epoch}"
        self.told.append(f"commit {where} by {context.committing_epoch}")

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        self.told.append(f"abort {context.generation}/{context.batch_id} of {context.epoch}: {transaction.decode()}")

    def news(self) -> list[str]:
        """Return what was told since the last call."""
        told, self.told[:] = list(self.told), []
        return told


@dataclass
class MergingSink(FakeSink):
    """One that commits several batches at once."""

    most: int = 100
    """How many characters a transaction has at most."""

    def merge(self, earlier: bytes, later: bytes) -> bytes | None:
        merged = earlier + later
        return merged if len(merged) <= self.most else None

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        super().commit(transaction, context)
        first = "" if context.merged_from is None else f" from {context.merged_from}"
        self.told[-1] += f"{first}: {transaction.decode()}"


@dataclass
class SilentSink(FakeSink):
    """One with a marker, as the page for authors of sinks shows it: the runtime knows neither the target nor the marker.

    It shows a batch once, withdraws nothing, and says what is shown.
    """

    visible: str = "batch"
    marker: Marker | None = None
    shown: list[str] = field(default_factory=list)

    def open(self, context: SinkContext) -> None:
        self.marker = marker.open_marker(self.marker, context, "the target")

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        reached = marker.require_newest(self.marker, context, "the target")
        if not reached.covers(context):
            self.marker = reached.after(context)
            self.shown.append(f"{context.generation}/{context.batch_id}")


@dataclass
class MarkedSink(SilentSink):
    """One that tells its target and its marker, as sinks of the library do."""

    target: str = "memory://target"

    def stored_marker(self, context: SinkContext) -> Marker | None:
        return self.marker


@dataclass
class StagedSink(MarkedSink):
    """One whose rows wait on the job's storage, as those of Kafka and PostgreSQL do."""

    visible: str = "checkpoint"
    values: list[int] = field(default_factory=list)

    def write_part(self, batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
        return staging.stage(batches, context)

    def prepare(self, parts: tuple[bytes, ...], context: SinkContext) -> bytes | None:
        staged = staging.merge(parts)
        return None if staged is None else staged.to_json().encode()

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        known = len(self.shown)
        super().commit(transaction, context)
        if len(self.shown) > known:
            for batch in staging.read(staging.parse(transaction, context), context):
                self.values += batch.column("value").to_pylist()

    def backup(self) -> StagedSink:
        """Return the target as it is now."""
        return StagedSink(marker=self.marker, shown=list(self.shown), values=list(self.values))
