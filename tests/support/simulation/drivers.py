"""A driver of the simulation: the rig's, all the product's own but for Spark, with one query and a sink of few requests.

What a run costs is mostly storage requests and documents, so there is one query with one partition, and the rows of a batch
are part of its transaction instead of a staged file. Everything that decides is the product's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from faultrig import drivers, ledger, truth
from statefulspark.checkpoint import plans
from statefulspark.contract import config
from statefulspark.declaration import Output, QueryOutputs
from statefulspark.driver.starting import start_parts
from statefulspark.planning import carry
from statefulspark.sinks import marker
from statefulspark.sinks.base import SinkContext, TwoPhaseSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from statefulspark.driver.loop import JobLoop

QUERY, SINK = "totals", "book"
NAMED = (f"{QUERY}/{SINK}",)
"""The right to repeat the output of the sink."""
_TOTAL = plans.PlannedOperator(0, "transformWithStateInPandasExec", uid="total")


@dataclass
class Target(ledger.Ledger):
    """What everybody sees; tells a watcher of each commit at the moment when its rows become visible.

    Attributes:
        shown: Called with the rows, and the context of their batch.
    """

    shown: Callable[[list[truth.Row], SinkContext], None] = field(default=lambda rows, context: None)


@dataclass(frozen=True)
class InlineSink(ledger.LedgerSink):
    """A transactional sink that keeps the rows in the transaction; the rest is the rig's ledger, with the real markers."""

    def write_part(self, batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
        return json.dumps([row for batch in batches for row in ledger.rows_of(batch)]).encode()

    def prepare(self, parts: tuple[bytes, ...], context: SinkContext) -> bytes | None:
        return json.dumps(sorted(tuple(row) for part in parts for row in json.loads(part))).encode()

    def merge(self, earlier: bytes, later: bytes) -> None:
        """Commit apart: what is shown is compared batch by batch."""

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        rows = [(int(number), str(place)) for number, place in json.loads(transaction)]
        ledger.transact("commit", lambda: self._show(rows, context))

    def _show(self, rows: list[truth.Row], context: SinkContext) -> None:
        marker.require_newest(self.reached(context), context, "the target")
        if self.reached(context).covers(context):
            return
        self._append(rows, context)
        assert isinstance(self.ledger, Target)
        self.ledger.shown(rows, context)

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        """Nothing is staged, so nothing is left behind."""


@dataclass(frozen=True)
class Wish(drivers.Wish):
    """How a driver of the simulation is started; see the rig's.

    Attributes:
        retained: How many checkpoints the job retains.
    """

    retained: int = 2

    @property
    def sink(self) -> TwoPhaseSink:
        """The sink of its query."""
        return InlineSink(self.ledger, self.visible)

    @property
    def job_config(self) -> config.JobConfig:
        checkpoint = super().job_config.checkpoint.model_copy(
            update={"retention": config.RetentionConfig(count=self.retained)}
        )
        return super().job_config.model_copy(update={"checkpoint": checkpoint})


class SimulatedDriver(drivers.Driver):
    """A driver, or a standby, of one query."""

    wish: Wish
    queries = (QUERY,)
    head_at_claim: int | None = None
    """How many records were committed in the generation in use when it claimed its epoch."""
    must_begin_at: int | None = None
    """The record at which it has to begin, since a snapshot was asked for."""

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing of it runs, as between two looks of a standby."""
        return not any(fiber.process is self for fiber in self._scheduler.fibers)

    def _assembled(self, parts: start_parts.Parts) -> JobLoop:
        """See the rig's; no two drivers write the same rows, as user code does that looks at a clock, or at chance."""
        loop = super()._assembled(parts)
        self.place += f"/{self.name}"
        return loop

    def _built(self, uid: str, frame: DataFrame) -> start_parts.BuiltQuery:
        stream = cast("DataFrame", frame)
        output = QueryOutputs(stream, (Output(stream, self.wish.sink, SINK, "update", None),), (None,))
        planned = plans.PlannedQuery(uid, (_TOTAL,), tuple(map(plans.PlannedSource, self.wish.sources)))
        return start_parts.BuiltQuery(uid, output, carry.Stream(frame, "update"), planned)
