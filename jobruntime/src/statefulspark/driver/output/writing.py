"""Starts a streaming query from the result of a query function.

The outputs of a query go through two-phase sinks: each partition is staged by the worker that holds it, and the driver
records the transaction of each sink before Spark commits the batch. For a `DataStreamWriter` of the user, only the
checkpoint location is set.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from statefulspark import errors
from statefulspark.declaration import Output, QueryOutputs, Selection
from statefulspark.driver.output import parts, sink_calls
from statefulspark.engine import jvm
from statefulspark.operators import columns, spark_errors
from statefulspark.operatorstate.sink import DriverSink
from statefulspark.sinks import visibility
from statefulspark.sinks.base import ChecksSchema, TwoPhaseSink
from statefulspark.sparkinternals import arrowtypes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from statefulspark.driver.output.sink_committer import SinkCommitter
    from statefulspark.operators.refusals import Refusals
    from statefulspark.storage import StorageOptions


class BatchWriter:
    """Stages a batch's rows on the workers, and records a transaction of each sink on the driver.

    Spark calls it inside `foreachBatch`, and commits the batch when it returns.
    """

    def __init__(
        self, committers: Sequence[SinkCommitter], selections: Sequence[Selection | None], refusals: Refusals
    ) -> None:
        """Write the batches of one query.

        Args:
            committers: Keep the transactions of the query's sinks.
            selections: What each sink gets of the batches; None for all.
            refusals: Gets what declines a snapshot.
        """
        self._committers = committers
        self._sinks = [committer.sink for committer in committers]
        self._selections = selections
        self._refusals = refusals
        self._lock = threading.RLock()

    @property
    def lock(self) -> threading.RLock:
        """The checkpoint lock of the query: held while a batch is emitted, prepared and recorded."""
        return self._lock

    def run(self, frame: DataFrame, batch_id: int) -> None:
        """Write the batch's rows, and make durable what a snapshot of it needs.

        A batch may run again, after a failure or in another driver; leftovers of earlier attempts do not count then. If a
        sink cannot prepare its part, the batch is not committed for any of them.

        Raises:
            StatefulSparkError: The batch is not committed, and its query ends.
        """
        names = ", ".join(repr(sink.uid) for sink in self._sinks)
        with self._lock, spark_errors.ours(f"Writing a batch to the sink{'s'[: len(self._sinks) - 1]} {names}"):
            contexts = [sink.context(batch_id) for sink in self._sinks]
            writers = [
                parts.PartWriter(sink.sink, context.on_worker(), selection)
                for sink, context, selection in zip(self._sinks, contexts, self._selections, strict=True)
            ]
            write = functools.partial(parts.write_parts, writers=writers)
            rows = columns.map_in_arrow(frame, write, parts.SCHEMA).collect()
            for number, (committer, context) in enumerate(zip(self._committers, contexts, strict=True)):
                sink = committer.sink
                staged = tuple(bytes(row.part) for row in rows if row.sink == number)
                with self._refusals.noting(sink.query_uid, sink.participant):
                    with sink_calls.calling(sink.sink, sink.uid, "prepare"):
                        transaction = sink.sink.prepare(staged, context)
                        sink_calls.require_transaction(transaction)
                    committer.record_prepared(batch_id, transaction)


def two_phase(output: Output) -> TwoPhaseSink:
    """Return the two-phase sink of an output.

    Raises:
        SpecRejectedError: `SinkInvalid`: the sink is no two-phase sink.
    """
    if isinstance(output.sink, DriverSink):
        raise errors.InternalError("SinkNotBound", f"The function of sink {output.uid!r} has not been restored.")
    if not isinstance(output.sink, TwoPhaseSink):
        raise errors.SpecRejectedError(
            "SinkInvalid",
            f"The sink {output.uid!r} is a {type(output.sink).__name__}, which lacks one of write_part, prepare, open, "
            "commit and abort; use a sink of statefulspark, or implement ss.sinks.spi.TwoPhaseSink.",
        )
    return output.sink


def check_schemas(written: QueryOutputs, options: StorageOptions) -> None:
    """Refuse rows whose schema a sink does not accept, and a sink with an unknown setting, before any query starts.

    Raises:
        SpecRejectedError: `ColumnTypeUnsupported`, `ColumnsAmbiguous`, `SinkSchemaMismatch`, `SinkSettingRefused`.
    """
    for number, output in enumerate(written.outputs):
        visibility.sink_visibility(output.sink)
        if not isinstance(output.sink, DriverSink):  # It gets Spark's own rows.
            columns.require_usable(written.frame, f"The stream of the sink {output.uid!r}")
        if isinstance(output.sink, ChecksSchema):
            schema = arrowtypes.to_arrow_schema(written.schema_of(number), timezone="UTC")
            with sink_calls.calling(output.sink, output.uid, "check_schema", reason="SinkInvalid"):
                output.sink.check_schema(schema, options)


def start(
    built: DataStreamWriter | QueryOutputs,
    *,
    uid: str,
    checkpoint_root: str,
    participant: BatchWriter | None,
    number_offset: int = 0,
) -> StreamingQuery:
    """Start a query on its checkpoint root.

    Args:
        built: What the query writes.
        uid: The query's uid; it becomes Spark's query name.
        checkpoint_root: Hadoop URI of the query's checkpoint root.
        participant: Writes the batches of outputs.
        number_offset: What is added to a batch's number for the sink of a writer that the user made.

    Raises:
        SpecRejectedError: `QueryInvalid`: Spark cannot run the query.
    """
    with spark_errors.refusing_start(uid):
        writer = _numbered(built, uid, participant, number_offset)
        return writer.queryName(uid).option("checkpointLocation", checkpoint_root).start()


def start_available_now(
    built: DataStreamWriter | QueryOutputs,
    *,
    uid: str,
    checkpoint_root: str,
    participant: BatchWriter | None,
    number_offset: int = 0,
) -> StreamingQuery:
    """Start a query that reads what its sources have now, in as many batches as its limits need, and ends.

    The trigger of the writer is unchanged afterwards. See `start`.
    """
    writer = _numbered(built, uid, participant, number_offset)
    writer = writer.queryName(uid).option("checkpointLocation", checkpoint_root)
    with _restoring_trigger(writer), spark_errors.refusing_start(uid):
        return writer.trigger(availableNow=True).start()


@contextlib.contextmanager
def _restoring_trigger(writer: DataStreamWriter) -> Iterator[None]:
    """Restore the trigger of a writer after the block; Spark has no method that returns it."""
    java = writer._jwrite
    field = java.getClass().getDeclaredField("trigger")
    field.setAccessible(True)
    before = field.get(java)
    try:
        yield
    finally:
        field.set(java, before)


def _numbered(
    built: DataStreamWriter | QueryOutputs, uid: str, participant: BatchWriter | None, number_offset: int
) -> DataStreamWriter:
    """Return the writer of a query; the sink of one that the user made is told numbers that stand for one input each."""
    if isinstance(built, QueryOutputs):
        if participant is None:
            raise errors.InternalError("SinkNotBound", f"The query {uid!r} has no writer for its sinks.")
        return built.writer(participant.run)
    jvm.number_batches(built, number_offset)
    return built
