"""Streams the rows of a batch to a sink function on the driver, and makes its state durable before the commit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as sql
from pyspark.sql.types import BooleanType

from statefulspark import clock, errors
from statefulspark.checkpoint import batch_records
from statefulspark.contract import base
from statefulspark.contract.prepared import UnchangedRecord
from statefulspark.operators import spark_errors
from statefulspark.operatorstate.functions import FunctionSnapshotContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from statefulspark.declaration import Output
    from statefulspark.operatorstate.batches import SinkRun

Noting = Callable[[], contextlib.AbstractContextManager[None]]

_NO_ROWS = "false"
"""The broadcast condition of a function without a broadcast input."""


@dataclass(frozen=True, slots=True)
class BoundSink:
    """A sink function in its query.

    Attributes:
        run: The function.
        uid: Its uid.
        log: Storage of its state.
        epoch: The epoch of this driver.
        next_checkpoint_id: The number that the next checkpoint will have.
        noting: Creates the context that records errors of the function during a snapshot.
    """

    run: SinkRun
    uid: str
    log: batch_records.BatchRecordLog
    epoch: int
    next_checkpoint_id: Callable[[], int]
    noting: Noting = contextlib.nullcontext

    def write_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Pass a batch to the function, then make its state durable; Spark commits the batch after that.

        Rows arrive partition by partition, with one Spark job for each and one partition prefetched; the driver holds at
        most two partitions.

        Raises:
            StatefulSparkError: The function failed, or its state cannot be stored; the batch is not committed.
        """
        with spark_errors.ours(f"Writing a batch to the function of sink {self.uid!r}"):
            self.run.begin(batch_id)
            to_all = sql.coalesce(sql.expr(self.run.broadcast or _NO_ROWS), sql.lit(False))  # noqa: FBT003 - a SQL value
            marked = frame.select(sql.spark_partition_id(), to_all, sql.struct("*"))
            for partition, is_broadcast, row in marked.toLocalIterator(prefetchPartitions=True):
                if is_broadcast:
                    self.run.invoke_broadcast(row)
                else:
                    self.run.invoke(partition, row)
            self.keep(batch_id)

    def keep(self, batch_id: int) -> None:
        """Write the state after a batch, or a reference to the last state if the batch did not change it. Cost: one PUT.

        Every batch has a record, so a missing record means lost state.

        Raises:
            StatefulSparkError: See `write_batch`.
        """
        with self.noting():
            body = self.run.end(FunctionSnapshotContext(self.next_checkpoint_id(), clock.utc_now()))
            recorded = self.run.recorded_batch
            if body is not None:
                self.log.write(self._name(batch_records.RecordKind.OPERATOR_STATE, batch_id), base.seal(body))
            elif recorded is not None:
                state = self._name(batch_records.RecordKind.OPERATOR_STATE, recorded)
                unchanged = UnchangedRecord(record=state.key)
                self.log.write(self._name(batch_records.RecordKind.UNCHANGED, batch_id), unchanged.sealed())

    def _name(self, kind: batch_records.RecordKind, batch_id: int) -> batch_records.RecordName:
        return batch_records.RecordName(kind, self.uid, batch_id, self.epoch)


def check_condition(output: Output, condition: str | None) -> None:
    """Reject a broadcast condition that Spark cannot evaluate on the stream.

    Raises:
        SpecRejectedError: `FunctionInvalid`.
    """
    if condition is None:
        return
    try:
        kind = output.frame.select(sql.expr(condition)).schema[0].dataType
    except AnalysisException as error:
        raise errors.SpecRejectedError(
            "FunctionInvalid",
            f"The sink {output.uid!r} has broadcast={condition!r}, which is not a condition on its rows: {error}",
        ) from error
    if not isinstance(kind, BooleanType):
        raise errors.SpecRejectedError(
            "FunctionInvalid",
            f"The sink {output.uid!r} has broadcast={condition!r}, which is of type {kind.simpleString()}; use a condition.",
        )
