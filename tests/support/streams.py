"""Small streaming queries for tests, and the handles to what runs inside their JVM."""

from __future__ import annotations

import time
from collections.abc import Callable

from py4j.java_gateway import JavaClass, JavaObject, JVMView
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

ROWS_PER_BATCH = 20
KEYS = 10
_PATIENCE_S = 240.0  # a shared machine with other JVMs may take a minute to start one more
_POLL_S = 0.01


def start_count(
    spark: SparkSession, root: str, *, name: str, sink: str = "memory", row_pause_ms: int = 0
) -> StreamingQuery:
    """Start a count per key over an endless deterministic source: 20 rows a batch, ten keys, two partitions.

    Args:
        spark: The session.
        root: Checkpoint location.
        name: Query name; with the memory sink also the name of the result's view.
        sink: "memory", or "noop" to measure.
        row_pause_ms: Sleep in the task for each input row, to make a batch last; it has ten rows per task.
    """
    source = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", ROWS_PER_BATCH)
        .option("numPartitions", 2)
        .option("startTimestamp", 1000)
        .load()
    )
    if row_pause_ms:
        pause = f"reflect('java.lang.Thread', 'sleep', {row_pause_ms}L) is not null"
        source = source.where(f"{pause} or value >= 0")
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
    return _jvm(spark).io.statefulspark.checkpoint.QueryGate


def fence(spark: SparkSession) -> JavaClass:
    """Return the JVM's EpochFence."""
    return _jvm(spark).io.statefulspark.checkpoint.EpochFence


def checkpoint_manager(spark: SparkSession, location: str, settings: dict[str, str]) -> JavaObject:
    """Make a checkpoint file manager in the JVM with Hadoop settings of its own, sharing no connection.

    Args:
        spark: The session whose JVM is used.
        location: The folder that it is made for.
        settings: Hadoop settings over those of the session.
    """
    jvm = _jvm(spark)
    configuration = jvm.org.apache.hadoop.conf.Configuration(spark._jsc.hadoopConfiguration())
    for name, value in {**settings, "fs.s3a.impl.disable.cache": "true"}.items():
        configuration.set(name, value)
    path = jvm.org.apache.hadoop.fs.Path(location)
    return jvm.io.statefulspark.checkpoint.ConditionalCheckpointFileManager(path, configuration)


def _jvm(spark: SparkSession) -> JVMView:
    assert spark._jvm is not None
    return spark._jvm
