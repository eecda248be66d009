"""Turns what a query function returned into a started streaming query.

An `Output` goes through a sink of ours: each partition is written by the worker that holds it, and one commit on the
driver makes the batch visible. A `DataStreamWriter` is the user's own; only its checkpoint location is set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from statefulspark import errors
from statefulspark.job import Output
from statefulspark.opstate.sink import FunctionSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from statefulspark.sinks.base import Sink
    from statefulspark.storage import StorageOptions

_PART_SCHEMA = "part binary"


def start(
    built: DataStreamWriter | Output, *, uid: str, checkpoint_root: str, epoch: int, options: StorageOptions
) -> StreamingQuery:
    """Start a query on its checkpoint root.

    Args:
        built: What the query function returned.
        uid: The query's uid; it becomes Spark's query name.
        checkpoint_root: Hadoop URI of the query's checkpoint root.
        epoch: This driver's epoch, passed on to sinks.
        options: How sinks reach the object store.

    Raises:
        SpecRejectedError: `QueryInvalid`: the function returned something else.
    """
    return as_writer(built, uid, epoch, options).queryName(uid).option("checkpointLocation", checkpoint_root).start()


def as_writer(built: object, uid: str, epoch: int, options: StorageOptions) -> DataStreamWriter:
    """Return the writer of a query, with the sink's two steps behind `foreachBatch` for an `Output`."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    if isinstance(built, DataStreamWriter):
        return built
    if not isinstance(built, Output):
        raise errors.SpecRejectedError(
            "QueryInvalid",
            f"The query {uid!r} returned {type(built).__name__}; return ss.write(...) or a DataStreamWriter that is not "
            "started yet.",
        )
    if isinstance(built.sink, FunctionSink):
        raise errors.InternalError("SinkNotBound", f"The function of sink {built.uid!r} has not been restored.")
    writer = built.frame.writeStream.outputMode(built.mode).foreachBatch(_batch_writer(built.sink, epoch, options))
    return writer.trigger(processingTime=built.trigger) if built.trigger else writer


def _batch_writer(sink: Sink, epoch: int, options: StorageOptions) -> Callable[[DataFrame, int], None]:
    def write_batch(frame: DataFrame, batch_id: int) -> None:
        rows = frame.mapInArrow(_part_writer(sink, batch_id, options), _PART_SCHEMA).collect()
        sink.commit(tuple(bytes(row.part) for row in rows), batch_id, epoch, options)

    return write_batch


def _part_writer(
    sink: Sink, batch_id: int, options: StorageOptions
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write_part(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = sink.write_part(batches, batch_id, options)
        if part is not None:
            yield pa.RecordBatch.from_pydict({"part": pa.array([part], pa.binary())})

    return write_part
