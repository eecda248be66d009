"""Small streaming queries for tests, and the handles to what runs inside their JVM."""

from __future__ import annotations

import time
from collections.abc import Callable

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

ROWS_PER_BATCH = 20
KEYS = 10
_PATIENCE_S = 60.0
_POLL_S = 0.01


def start_count(spark: SparkSession, root: str, *, name: str, sink: str = "memory") -> StreamingQuery:
    """Start a count per key over an endless deterministic source: 20 rows a batch, ten keys, two partitions.

    Args:
        spark: The session.
        root: Checkpoint location.
        name: Query name; with the memory sink also the name of the result's view.
        sink: "memory", or "noop" to measure.
    """
    source = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", ROWS_PER_BATCH)
        .option("numPartitions", 2)
        .option("startTimestamp", 1000)
        .load()
    )
    counted = source.selectExpr(f"value % {KEYS} as k").groupBy("k").count()
    writer = counted.writeStream.format(sink).outputMode("complete" if sink == "memory" else "update")
    return writer.queryName(name).option("checkpointLocation", root).start()


def counted_rows(spark: SparkSession, name: str) -> int:
    """Return the number of input rows that the query's result accounts for."""
    total = spark.table(name).selectExpr("coalesce(sum(count), 0) as total").collect()[0]["total"]
    return int(total)


def last_batch(query: StreamingQuery) -> int:
    """Return the newest batch that the query has reported, -1 for none."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def wait_until(fact: Callable[[], bool], what: str, timeout_s: float = _PATIENCE_S) -> None:
    """Wait for something that happens in another thread of Spark; fail with `what` if it does not."""
    deadline_s = time.monotonic() + timeout_s
    while not fact():
        if time.monotonic() > deadline_s:
            raise AssertionError(f"did not happen within {timeout_s:g} s: {what}")
        time.sleep(_POLL_S)


def gate(spark: SparkSession) -> JavaClass:
    """Return the JVM's QueryGate."""
    return spark._jvm.io.statefulspark.checkpoint.QueryGate


def fence(spark: SparkSession) -> JavaClass:
    """Return the JVM's EpochFence."""
    return spark._jvm.io.statefulspark.checkpoint.EpochFence
