"""Starts a streaming query from the result of a query function.

An `Output` goes through a two-phase sink: each partition is staged by the worker that holds it, and the driver records the
batch's transaction before Spark commits the batch. For a `DataStreamWriter` of the user, only the checkpoint
location is set.

A `BatchParticipant` makes everything durable that belongs to a batch: Spark calls it inside `foreachBatch`, and commits
the batch when it returns.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from statefulspark import errors
from statefulspark.declaration import Output, batch_writer
from statefulspark.driver.output import sink_calls
from statefulspark.engine import jvm
from statefulspark.operators import columns, spark_errors
from statefulspark.operatorstate.sink import DriverSink
from statefulspark.sinks import visibility
from statefulspark.sinks.base import ChecksSchema, SinkContext, TwoPhaseSink
from statefulspark.sparkinternals import arrowtypes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from statefulspark.driver.output.commit import Committer
    from statefulspark.driver.output.job_sinks import JobSink
    from statefulspark.operators.refusals import Refusals
    from statefulspark.storage import StorageOptions

_PART_SCHEMA = "part binary"


class BatchParticipant(Protocol):
    """Takes part in every batch of a query; it acknowledges a snapshot with the batch that its query has committed."""

    @property
    def participant(self) -> str:
        """Its name in the coordinator, for example `sink:out`."""
        ...

    def run(self, frame: DataFrame, batch_id: int) -> None:
        """Write the batch's rows, and make durable what a snapshot of it needs.

        A batch may run again, after a failure or in another driver; leftovers of earlier attempts must not count then.

        Raises:
            StatefulSparkError: The batch is not committed, and its query ends.
        """
        ...


class SinkParticipant:
    """Stages a batch's rows on the workers and records the transaction on the driver."""

    def __init__(self, sink: JobSink, committer: Committer, refusals: Refusals) -> None:
        """Write to one sink of the job."""
        self._sink = sink
        self._committer = committer
        self._refusals = refusals
        self._lock = threading.RLock()

    @property
    def participant(self) -> str:
        """See the protocol."""
        return f"sink:{self._sink.uid}"

    @property
    def lock(self) -> threading.RLock:
        """The checkpoint lock of the query: held while a batch is emitted, prepared and recorded."""
        return self._lock

    def run(self, frame: DataFrame, batch_id: int) -> None:
        """See the protocol."""
        with self._lock, spark_errors.ours(f"Writing a batch to the sink {self._sink.uid!r}"):
            sink, context = self._sink.sink, self._sink.context(batch_id)
            rows = columns.map_in_arrow(frame, _part_writer(sink, context.on_worker()), _PART_SCHEMA).collect()
            with self._refusals.noting(self._sink.query_uid, self.participant):
                parts = tuple(bytes(row.part) for row in rows)
                with sink_calls.calling(sink, self._sink.uid, "prepare"):
                    transaction = sink.prepare(parts, context)
                self._committer.record_prepared(self._sink, batch_id, transaction)


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


def check_schema(output: Output, options: StorageOptions) -> None:
    """Refuse a stream whose schema its sink does not accept, and a sink with an unknown setting, before any query starts.

    Raises:
        SpecRejectedError: `ColumnTypeUnsupported`, `ColumnsAmbiguous`, `SinkSchemaMismatch`, `SinkSettingRefused`.
    """
    visibility.sink_visibility(output.sink)
    if not isinstance(output.sink, DriverSink):  # It gets Spark's own rows.
        columns.require_usable(output.frame, f"The stream of the sink {output.uid!r}")
    if isinstance(output.sink, ChecksSchema):
        schema = arrowtypes.to_arrow_schema(output.frame.schema, timezone="UTC")
        with sink_calls.calling(output.sink, output.uid, "check_schema", reason="SinkInvalid"):
            output.sink.check_schema(schema, options)


def start(
    built: DataStreamWriter | Output,
    *,
    uid: str,
    checkpoint_root: str,
    participant: BatchParticipant | None,
    number_offset: int = 0,
) -> StreamingQuery:
    """Start a query on its checkpoint root.

    Args:
        built: The result of the query function.
        uid: The query's uid; it becomes Spark's query name.
        checkpoint_root: Hadoop URI of the query's checkpoint root.
        participant: Writes the batches of an `Output`.
        number_offset: What is added to a batch's number for the sink of a writer that the user made.

    Raises:
        SpecRejectedError: `QueryInvalid`: the function returned neither a writer nor an `Output`.
    """
    with spark_errors.refusing_start(uid):
        writer = _numbered(built, uid, participant, number_offset)
        return writer.queryName(uid).option("checkpointLocation", checkpoint_root).start()


def start_available_now(
    built: DataStreamWriter | Output,
    *,
    uid: str,
    checkpoint_root: str,
    participant: BatchParticipant | None,
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
    built: DataStreamWriter | Output, uid: str, participant: BatchParticipant | None, number_offset: int
) -> DataStreamWriter:
    """Return the writer of a query; the sink of one that the user made is told numbers that stand for one input each."""
    writer = as_writer(built, uid, participant)
    if writer is built:
        jvm.number_batches(writer, number_offset)
    return writer


def as_writer(built: object, uid: str, participant: BatchParticipant | None) -> DataStreamWriter:
    """Return the writer of a query, with the participant behind `foreachBatch` for an `Output`."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    if isinstance(built, DataStreamWriter):
        return built
    if not isinstance(built, Output):
        raise errors.SpecRejectedError(
            "QueryInvalid",
            f"The query {uid!r} returned {type(built).__name__}; return ss.write(...) or a DataStreamWriter that is not "
            "started yet.",
        )
    if participant is None:
        raise errors.InternalError(
            "SinkNotBound", f"The sink {built.uid!r} has no participant that writes its batches."
        )
    return batch_writer(built, participant.run)


def _part_writer(
    sink: TwoPhaseSink, context: SinkContext
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write_part(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with sink_calls.calling(sink, context.uid, "write_part"):
            part = sink.write_part(batches, context)
        if part is not None:
            yield pa.RecordBatch.from_pydict({"part": pa.array([part], pa.binary())})

    return write_part
