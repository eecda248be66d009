"""What `relaying.py` computes, as plain PySpark, checkpoints on S3; arguments: BROKERS FROM TO CHECKPOINTS ENDPOINT."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming import stateful_processor
from statefulspark.engine import gateway

BROKERS, SOURCE, TARGET, CHECKPOINTS, ENDPOINT = sys.argv[1:]
_OURS = "statefulspark-"


class Count(stateful_processor.StatefulProcessor):
    """Counts the rows of each key, and passes each on."""

    def init(self, handle: stateful_processor.StatefulProcessorHandle) -> None:
        """Declare the count."""
        self._seen = handle.getValueState("seen", "seen bigint")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: tuple[str],
        rows: Iterator[pd.DataFrame],
        timerValues: object,  # noqa: N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Yield the rows with their numbers."""
        seen = (self._seen.get() or (0,))[0]
        for frame in rows:
            numbers = range(seen + 1, seen + 1 + len(frame))
            seen += len(frame)
            values = [f"{number},{sent}" for number, sent in zip(numbers, frame["sent"], strict=True)]
            yield pd.DataFrame({"key": [key[0]] * len(frame), "value": values})
        self._seen.update((seen,))

    def close(self) -> None:
        """Nothing is held."""


own = [jar for folder in gateway.jar_folders() for jar in folder.glob("*.jar")]
jars = ",".join(str(jar) for jar in own if not jar.name.startswith(_OURS))
spark = (
    SparkSession.builder.master("local[*]")
    .config("spark.ui.enabled", "false")
    .config("spark.jars", jars)
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.hadoop.fs.s3a.endpoint", ENDPOINT)
    .config("spark.hadoop.fs.s3a.path.style.access", "true")
    .config("spark.hadoop.fs.s3a.endpoint.region", "us-east-1")
    .config(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    .getOrCreate()
)
reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", BROKERS)
events = reader.option("subscribe", SOURCE).option("startingOffsets", "earliest").load()
sent = events.selectExpr("CAST(key AS string) AS name", "CAST(value AS string) AS sent")
counted = sent.groupBy("name").transformWithStateInPandas(Count(), "key string, value string", "Append", "None")
writer = counted.writeStream.outputMode("append").format("kafka").option("kafka.bootstrap.servers", BROKERS)
writer.option("topic", TARGET).option("checkpointLocation", CHECKPOINTS).start().awaitTermination()
