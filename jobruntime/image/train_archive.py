"""Makes the class-data-sharing archive of the image: `python jobruntime/image/train_archive.py FILE`.

Most of a start is the JVM reading, checking and linking the same ten thousand classes. A short streaming job with what jobs
use loads them once: RocksDB state, its checkpoint on S3, a Python state function, windows, a join, duplicates, Kafka's
client, Parquet. The JVM writes the classes to a file that later JVMs map into memory. The archive fits this very class path
and JVM; a file beside it says of which PySpark it is, and with another it is not used.

It is a part of the image's build and not of the product. Of the product it imports `gateway` and what that imports, which
jobruntime/Dockerfile names, so that the layer with the archive changes with the jars only.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa
import training_store
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions
from pyspark.sql.streaming import stateful_processor
from statefulspark.engine import gateway
from statefulspark.sparkinternals import releases

STARTS = 3
MAINTENANCE_S = 3
LIMIT_S = 180
_STREAMING = "spark.sql.streaming"
CONF = {
    "spark.master": "local[2]",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    f"{_STREAMING}.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    f"{_STREAMING}.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STREAMING}.stateStore.checkpointFormatVersion": "2",
    f"{_STREAMING}.checkpointFileManagerClass": "io.statefulspark.checkpoint.ConditionalCheckpointFileManager",
    # Snapshots of the state are made at once, for the next start to read them.
    f"{_STREAMING}.stateStore.minDeltasForSnapshot": "1",
    f"{_STREAMING}.stateStore.maintenanceInterval": "1s",
    "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
    "spark.hadoop.fs.s3a.path.style.access": "true",
    "spark.hadoop.fs.s3a.access.key": "nobody",
    "spark.hadoop.fs.s3a.secret.key": "nothing",
    "spark.hadoop.fs.s3a.attempts.maximum": "1",
    "spark.hadoop.fs.s3a.retry.limit": "0",
}
BUCKET = "s3a://training"


class Counter(stateful_processor.StatefulProcessor):
    """Counts the rows of each key, in the way that calls most of Spark's own machinery."""

    def init(self, handle: stateful_processor.StatefulProcessorHandle) -> None:
        """Declare one value and one map."""
        self._count = handle.getValueState("count", "n bigint")
        self._chunks = handle.getMapState("chunks", "version bigint", "body binary")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: tuple[int],
        rows: Iterator[pd.DataFrame],
        timerValues: object,  # noqa: N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Add the rows to the count."""
        seen = sum(len(frame) for frame in rows) + (self._count.get() or (0,))[0]
        self._count.update((seen,))
        self._chunks.updateValue((seen,), (b"chunk",))
        yield pd.DataFrame({"key": [key[0]], "n": [seen]})

    def close(self) -> None:
        """Nothing is held."""


def train(conf: Mapping[str, str]) -> None:
    """Run a few batches of a job like any other."""
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 200).option("numPartitions", 2).load()
    counted = (
        rows.selectExpr("value % 20 AS key")
        .groupBy("key")
        .transformWithStateInPandas(Counter(), "key bigint, n bigint", "Update", "None")
    )

    def write(frame: object, batch_id: int) -> None:
        assert hasattr(frame, "write")  # noqa: S101 - Spark hands a DataFrame over
        frame.write.mode("overwrite").parquet(f"{BUCKET}/out")

    timed = rows.withWatermark("timestamp", "1 minute")
    aggregated = {
        "counted": rows.groupBy("value").count(),
        "windows": timed.groupBy(functions.window("timestamp", "1 minute"), "value").agg(functions.sum("value")),
        "distinct": timed.dropDuplicates(["value", "timestamp"]),
        "joined": timed.alias("one").join(
            timed.alias("other"), functions.expr("one.value = other.value AND one.timestamp = other.timestamp")
        ),
    }
    writers = [
        counted.writeStream.outputMode("update").foreachBatch(write).option("checkpointLocation", f"{BUCKET}/keyed"),
        *(
            frame.writeStream.outputMode("append" if name == "joined" else "update")
            .format("noop")
            .option("checkpointLocation", f"{BUCKET}/{name}")
            for name, frame in aggregated.items()
        ),
    ]
    for _ in range(STARTS):  # From the second one on, state is restored.
        queries = [writer.trigger(availableNow=True).start() for writer in writers]
        if not all(query.awaitTermination(LIMIT_S) for query in queries):
            raise SystemExit(f"The training job did not end within {LIMIT_S:.0f} s.")
        time.sleep(MAINTENANCE_S)
    _load_kafka(spark)
    spark.read.parquet(f"{BUCKET}/out").mapInArrow(_as_they_are, "key bigint, n bigint").collect()
    spark.stop()


def _load_kafka(spark: SparkSession) -> None:
    """Let Kafka's client look for a broker where none is; without the connector there is nothing to load."""
    kafka = spark.read.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1").option("subscribe", "topic")
    for setting in ("request.timeout.ms", "default.api.timeout.ms"):
        kafka = kafka.option(f"kafka.{setting}", "1000")
    with contextlib.suppress(PySparkException, Py4JError):
        kafka.option("fetchOffset.numRetries", "1").option("fetchOffset.retryIntervalMs", "0").load().collect()


def _as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def main() -> int:
    """Make the archive; the exit code is 0 if the file was written."""
    parser = argparse.ArgumentParser(prog="train_archive.py", description=__doc__)
    parser.add_argument("file", type=Path, help="the archive to write")
    file = parser.parse_args().file.resolve()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with training_store.running() as endpoint:
        return _make(file, CONF | {"spark.hadoop.fs.s3a.endpoint": endpoint})


def _make(file: Path, conf: Mapping[str, str]) -> int:
    log = Path(gateway.__file__).with_name("log4j2-pods.properties")
    options = [
        f"-XX:ArchiveClassesAtExit={file}",
        "-Xlog:cds=error,cds+dynamic=error",
        f"-Dlog4j2.configurationFile={log}",
    ]
    launched = gateway.launch(conf, options)
    with gateway.named(*gateway.wait(launched)):
        train(conf)
    assert launched.process.stdin is not None  # noqa: S101 - the gateway opened it
    launched.process.stdin.close()  # The JVM ends by itself, and writes the archive then.
    launched.process.wait(LIMIT_S)
    if not file.is_file():
        print(f"The JVM ended with code {launched.process.returncode} and wrote no archive.", file=sys.stderr)
        return 1
    gateway.archive_release(file).write_text(releases.version(), "utf-8")
    print(f"{file}: {file.stat().st_size / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
