"""Brings a batch's rows to a sink function on the driver, streamed, and makes its state durable before the commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from statefulspark import clock
from statefulspark.opstate.functions import FunctionSnapshotContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from statefulspark.opstate.batches import SinkRun

_PARTITION, _ROW = "partition", "row"


def run_batch(
    run: SinkRun,
    frame: DataFrame,
    batch_id: int,
    *,
    next_checkpoint_id: Callable[[], int],
    keep: Callable[[bytes], None],
) -> None:
    """Give a batch to a function.

    Rows come partition by partition, one Spark job each, with the next one running ahead; the driver holds two
    partitions at most.

    Args:
        run: The function.
        frame: The batch.
        batch_id: Its number.
        next_checkpoint_id: The number that the next checkpoint will have.
        keep: Makes the function's state durable; called last, and only if there is something new to keep.

    Raises:
        StatefulSparkError: The function failed, or its state cannot be kept; the batch must not be committed.
    """
    run.begin(batch_id)
    marked = frame.select(sql.spark_partition_id().alias(_PARTITION), sql.struct("*").alias(_ROW))
    for partition, row in marked.toLocalIterator(prefetchPartitions=True):
        run.invoke(partition, row)
    now_ms = int(clock.utc_now().timestamp() * 1000)
    body = run.end(FunctionSnapshotContext(next_checkpoint_id(), now_ms))
    if body is not None:
        keep(body)
